# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One run of the demo: server, arm and robot as processes, a number of episodes, a bag.

Or the arm goes on picking while a trainer beside it changes the served policy.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from remote_inference.base.clients.operator_client import OperatorClient, OperatorError
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE
from remote_inference.base.documents.document import read_yaml
from remote_inference.base.documents.yaml_text import dump_yaml
from remote_inference.base.errors import UserError
from remote_inference.base.paths import share_path
from remote_inference.learn.environments.belt_arm import EPISODE_LIMIT_S
from remote_inference.learn.environments.belt_arm.strategies import STRATEGIES
from remote_inference.learn.nodes.episode_operator import EpisodeOperator
from remote_inference.tools.demo.trainer_log import POLICY_FOLDER, read_updates
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.bringup import Process
from remote_inference.tools.deployment.process_group import ProcessGroup

NAMESPACE = "/belt_arm_1"
CONTRACT = share_path("config", "belt_arm.contract.yaml")
CAMERA_TOPICS = {f"{camera}/image_raw/compressed": COMPRESSED_IMAGE for camera in ("front", "wrist")}
NODES = {"/policy_server", f"{NAMESPACE}/belt_arm", f"{NAMESPACE}/remote_inference"}
DISCOVERY_S = 3.0  # for nodes of these names: a busy machine takes a while to show them
LEAVE_S = 3.0  # in which those of an earlier demo may still leave the graph
STARTUP_TIMEOUT_S = 60.0
OUTCOME_PERIOD_S = 0.1
FIRST_SEED = 1_000_000  # seeds below are for training
# Of the run that learns.
LEARNING_LATENCY_MS = 600.0
BEGINNER = "belt_arm_beginner"
EPISODES_BEFORE = 8
LATENCIES_AFTER_MS = (0.0, 300.0)
EPISODES_AFTER = 10


@dataclass(frozen=True)
class DemoOptions:
    """What to run. Episode k has seed `FIRST_SEED + seed * 10_000 + k`."""

    episodes: int
    latency_ms: float
    strategy: str
    seed: int
    policy: str  # folder of config/models, or any folder's absolute path
    record: bool = True
    jitter_ms: float = 0.0  # largest deviation of the latency, either way
    loss: float = 0.0  # fraction of the chunks

    @property
    def path_text(self) -> str:
        """What the network path does to chunks, in words."""
        jitter = f" ± {self.jitter_ms:g}" if self.jitter_ms else ""
        loss = f", {self.loss:.0%} lost" if self.loss else ""
        return f"{self.latency_ms:g}{jitter} ms{loss}"


@dataclass(frozen=True)
class Episode:
    """One attempt. Times are simulated seconds since its start; `success_s` is None after a miss."""

    seed: int
    episode_id: int  # of the robot
    success: bool
    success_s: float | None
    elapsed_s: float


Report = Callable[[Sequence[Episode], str], None]  # takes the episodes so far and the robot's state


def refuse_second_demo() -> None:
    """Raise UserError when nodes of the demo's names are in the graph.

    The arms of two demos would publish on the same topics and follow the same commands. Raises OperatorError
    when the middleware does not start.
    """
    with OperatorClient("demo_lookout") as client:
        client.spin(DISCOVERY_S)
        if not client.spin_until(lambda: NODES.isdisjoint(client.find_nodes()), LEAVE_S):
            found = ", ".join(sorted(NODES.intersection(client.find_nodes())))
            raise UserError(
                f"{found} of another demo: running in ROS_DOMAIN_ID {client.domain_id}; end that demo, or "
                f"set another domain for this one, such as ROS_DOMAIN_ID={client.domain_id + 1}"
            )


def run_episodes(options: DemoOptions, folder: Path, episodes: list[Episode], report: Report) -> None:
    """Run the demo with its logs, manifest and bag in `folder`.

    episodes: receives each episode when it ends, so that the episodes are known even when this raises.
    report: is called about ten times a second. Raises ProcessError when a process ends, OperatorError when
    something does not answer.
    """
    report(episodes, "starting")
    with running(options, folder) as (_, operator):
        for index in range(options.episodes):
            seed = first_seed(options) + index
            episodes.append(run_episode(operator, seed, partial(report, episodes)))
            report(episodes, _state_name(operator))


@contextmanager
def running(
    options: DemoOptions, folder: Path, manifest: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[tuple[ProcessGroup, EpisodeOperator]]:
    """Start recorder, server, arm and robot; yield them with an operator when the robot has its session.

    manifest: sections beside those of the shipped one. Raises ProcessError and OperatorError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        ProcessGroup(folder / "logs") as group,
        EpisodeOperator("demo_operator", NAMESPACE, "belt_arm", group.check) as operator,
    ):
        if options.record:
            recorder = bringup.recorder(
                folder / "bag", CONTRACT, namespace=NAMESPACE, extra_topics=CAMERA_TOPICS
            )
            group.start(replace(recorder, required=True))  # without the bag there are no results
        group.start(bringup.server(_write_manifest(options, folder, manifest)))
        group.start(bringup.belt_arm(namespace=NAMESPACE))
        robot = bringup.robot(
            CONTRACT,
            namespace=NAMESPACE,
            parameter_files=[share_path("config", "belt_arm.params.yaml")],
            parameters=STRATEGIES[options.strategy].parameters,
        )
        group.start(robot)
        operator.wait_for_robot(STARTUP_TIMEOUT_S)
        yield group, operator


def first_seed(options: DemoOptions) -> int:
    """Return the seed of the run's first episode; the others follow."""
    return FIRST_SEED + options.seed * 10_000


def run_episode(operator: EpisodeOperator, seed: int, show: Callable[[str], None]) -> Episode:
    """Run one episode. show: takes the robot's state. Raises ProcessError and OperatorError."""
    episode_id = operator.begin_episode(seed)
    while True:
        operator.spin(OUTCOME_PERIOD_S)
        operator.watch()
        show(_state_name(operator))
        outcome = operator.outcome()
        if outcome.message:  # the arm stands still, and so does its clock
            raise OperatorError(f"belt_arm: {outcome.message}")
        if outcome.success or outcome.elapsed_s >= EPISODE_LIMIT_S:
            metrics = dict(zip(outcome.metric_names, outcome.metric_values, strict=True))
            success_s = metrics.get("success_s")
            return Episode(seed, episode_id, outcome.success, success_s, outcome.elapsed_s)


def _state_name(operator: EpisodeOperator) -> str:
    return operator.state.state_name if operator.state else "unknown"


def _write_manifest(options: DemoOptions, folder: Path, sections: Mapping[str, Any]) -> Path:
    """Write the shipped manifest with the policy to serve, the latency to inject and more sections."""
    shipped = share_path("config", "belt_arm.manifest.yaml")
    manifest = read_yaml(shipped)
    manifest["model"]["path"] = str(shipped.parent / "models" / options.policy)
    manifest |= {f"inject_{key}": getattr(options, key) for key in ("latency_ms", "jitter_ms", "loss")}
    manifest |= sections
    path = folder / "manifest.yaml"
    path.write_text(dump_yaml(manifest), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Attempt:
    """An episode of a run that learns. begin_s: since the trainer was started, negative before [s]."""

    begin_s: float
    end_s: float
    episode: Episode


# Takes the time since the trainer was started [s], the attempts, the version that the server serves, None
# before the first update, and the robot's state.
LearningReport = Callable[[float, Sequence[Attempt], int | None, str], None]


def run_learning(
    options: DemoOptions, duration_s: float, folder: Path, attempts: list[Attempt], report: LearningReport
) -> float:
    """Run episodes with the beginner, then for `duration_s` while it learns; return when that began.

    That is in Unix time [s]. attempts: receives each when it ends. The last policy is in `folder`. Raises
    ProcessError when a process ends, OperatorError when something does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="remote_inference_") as home:
        socket = Path(home) / "weights.socket"  # a socket's path must be short
        section = {"weights": {"accept": True, "socket": str(socket)}}
        with running(options, folder, section) as (group, operator):
            zero_s, is_learning = time.monotonic(), False

            def since_s() -> float:
                return time.monotonic() - zero_s  # nobody sets this clock while it learns

            def show(state: str) -> None:
                updates = read_updates(folder)
                version = updates[-1].version if updates else None
                report(since_s() if is_learning else 0.0, attempts, version, state)

            def run_one() -> None:
                begin_s = since_s()
                episode = run_episode(operator, first_seed(options) + len(attempts), show)
                attempts.append(Attempt(begin_s, since_s(), episode))
                show("")

            for _ in range(EPISODES_BEFORE):
                run_one()
            passed_s, is_learning = since_s(), True
            began_s, zero_s = time.time(), time.monotonic()  # the trainer's log has Unix times
            attempts[:] = [
                replace(attempt, begin_s=attempt.begin_s - passed_s, end_s=attempt.end_s - passed_s)
                for attempt in attempts
            ]
            group.start(_trainer(socket, folder, options))
            while since_s() < duration_s:
                run_one()
            return began_s


def after_learning(options: DemoOptions, latency_ms: float, folder: Path) -> DemoOptions:
    """Return the options of a run with the learned policy. Raises UserError when nothing was learned."""
    policy = (folder / POLICY_FOLDER).absolute()
    if not policy.is_dir():
        raise UserError(f"{policy}: there is none: the trainer sent no weights")
    return DemoOptions(EPISODES_AFTER, latency_ms, options.strategy, options.seed, str(policy), record=False)


def _trainer(socket: Path, folder: Path, options: DemoOptions) -> Process:
    """Describe the trainer, which is an example and no part of what robots and servers need."""
    words = [sys.executable, "-m", "belt_arm.trainer"]
    words += ["--policy", str(share_path("config", "models", BEGINNER)), "--socket", str(socket)]
    words += ["--out", str(folder), "--seed", str(options.seed)]
    found = os.pathsep.join([str(share_path("examples")), *filter(None, [os.environ.get("PYTHONPATH")])])
    return Process("trainer", "trainer", words=words, environment={"PYTHONPATH": found})
