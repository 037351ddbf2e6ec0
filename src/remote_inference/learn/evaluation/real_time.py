# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Episodes in real time: the environment runs on its own clock, and a robot's own node drives it.

One after another: two at once would share the machine, and each would be late because of the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from remote_inference.base.documents.registry import Registry
from remote_inference.base.policy import PolicySpec
from remote_inference.learn.environment import EnvError, EnvironmentSpec
from remote_inference.learn.evaluation import episode_ledger
from remote_inference.learn.evaluation.document import EpisodeKey, Evaluation
from remote_inference.learn.evaluation.episode_ledger import EpisodeLedger, Played, RobotLostError
from remote_inference.learn.evaluation.policies import PolicyPlace
from remote_inference.learn.evaluation.results import EpisodeResult, LostEpisode, check_versions

LOGS = "logs"  # folder of the nodes' logs, in that of the results


@dataclass(frozen=True)
class RobotPlan:
    """How a robot in real time is started.

    latency_ms: added to each chunk. logs: folder of its nodes' logs. check: called while the robot is waited
    for; may raise.
    """

    evaluation: Evaluation
    place: PolicyPlace
    environment: EnvironmentSpec
    latency_ms: float
    logs: Path
    check: Callable[[], None]


class RealTimeRobot(Protocol):
    """An environment with a robot's node and a policy server."""

    spec: PolicySpec

    def play(self, key: EpisodeKey) -> EpisodeResult:
        """Play an episode. Raises EnvError or RobotLostError."""


# Starts all nodes of a robot with a policy of one kind, and waits for them. Raises RobotLostError when they
# do not come up; PolicyError or DocumentError for what never will.
OpenRobot = Callable[[RobotPlan], AbstractContextManager[RealTimeRobot]]

ROBOTS = Registry[OpenRobot]("kind of policy in real time")
ROBOTS.add("manifest", "remote_inference.tools.deployment.evaluated_robot:open_with_own_server")
ROBOTS.add("server", "remote_inference.tools.deployment.evaluated_robot:open_with_running_server")


def play_in_real_time(
    keys: Iterable[EpisodeKey],
    evaluation: Evaluation,
    home: Path,
    environment: EnvironmentSpec,
    ledger: EpisodeLedger,
) -> None:
    """Play episodes, those of one policy and latency with one robot.

    home: folder of the document. Raises PolicyError or DocumentError for a policy that cannot drive the
    environment.
    """

    def check() -> None:
        if ledger.stop.is_set():
            raise RobotLostError("the evaluation has ended")

    groups: dict[tuple[str, float], list[EpisodeKey]] = {}
    for key in keys:
        groups.setdefault((key.condition.policy, key.condition.latency_ms), []).append(key)
    for (policy, latency_ms), group in groups.items():
        place = evaluation.place_of(policy, home)
        logs = ledger.folder.folder / LOGS / f"{policy}_{latency_ms:g}_ms"
        plan = RobotPlan(evaluation, place, environment, latency_ms, logs, check)
        with closing(_Slot(policy, plan, ledger)) as slot:
            slot.play(group)


class _Slot:
    """A robot that is restarted when it was lost."""

    def __init__(self, policy: str, plan: RobotPlan, ledger: EpisodeLedger) -> None:
        self._policy, self._plan, self._ledger = policy, plan, ledger
        self._stack = ExitStack()
        self._robot: RealTimeRobot | None = None
        self._lost: RobotLostError | None = None  # why it did not come up when it was started last

    def close(self) -> None:
        self._stack.close()

    def play(self, keys: Iterable[EpisodeKey]) -> None:
        """Play episodes with a robot that is started as often as an episode may be tried."""
        if self._ledger.stop.is_set():
            return
        with suppress(RobotLostError):  # it is kept as `_lost`
            self._ledger.retry(self._open, RobotLostError, Counter())
        for key in keys:
            if self._ledger.stop.is_set():
                return
            if self._lost is not None:
                kind = episode_ledger.find_failure(self._lost).kind
                lost = LostEpisode.of(key, kind, {kind: 1})
                self._ledger.give_up(lost, episode_ledger.describe(self._lost))
            else:
                self._ledger.play(key, partial(self._attempt, key))

    def _attempt(self, key: EpisodeKey, _: Counter[str]) -> Played:
        """Play an episode once, with a new robot if the last one was lost."""
        robot = self._robot or self._open()
        try:
            return Played(robot.play(key))
        except (EnvError, RobotLostError):
            self._robot = None
            self.close()
            raise

    def _open(self) -> RealTimeRobot:
        kind = self._plan.evaluation.policies[self._policy].kind
        try:
            with episode_ledger.naming(f"policies.{self._policy} at {self._plan.latency_ms:g} ms"):
                robot = self._stack.enter_context(ROBOTS.get(kind)(self._plan))
            check_versions({self._policy: robot.spec.fingerprint}, self._ledger.folder)
        except BaseException as error:
            self.close()
            if isinstance(error, RobotLostError):
                self._lost = error
            raise
        self._robot, self._lost = robot, None
        return robot
