# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One run of the demo: server, arm and robot as processes, a number of episodes, a bag."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from remote_inference.base.clients.operator_client import OperatorClient, OperatorError
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE
from remote_inference.base.documents.yaml_text import dump_yaml
from remote_inference.base.errors import UserError
from remote_inference.base.paths import share_path
from remote_inference.learn.environments.belt_arm import EPISODE_LIMIT_S
from remote_inference.learn.environments.belt_arm.strategies import STRATEGIES
from remote_inference.learn.nodes.episode_operator import EpisodeOperator
from remote_inference.tools.deployment import bringup
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


class DemoError(UserError):
    """The demo cannot be started; the message says why."""


@dataclass(frozen=True)
class Episode:
    """One attempt. Times are simulated seconds since its start; `success_s` is None after a miss."""

    seed: int
    episode_id: int  # of the robot
    success: bool
    success_s: float | None
    elapsed_s: float


@dataclass(frozen=True)
class Progress:
    """The progress of a run, reported about ten times a second."""

    episodes: tuple[Episode, ...]
    state: str  # of the robot, or the awaited condition


def refuse_second_demo() -> None:
    """Raise DemoError when nodes of the demo's names are in the graph.

    The arms of two demos would publish on the same topics and follow the same commands. Raises OperatorError
    when the middleware does not start.
    """
    with OperatorClient("demo_lookout") as client:

        def found() -> list[str]:
            return sorted(NODES & set(client.find_nodes()))

        client.spin(DISCOVERY_S)
        if client.spin_until(lambda: not found(), LEAVE_S):
            return
        raise DemoError(
            f"{', '.join(found())} of another demo: running in ROS_DOMAIN_ID {client.domain_id}; end that "
            f"demo, or set another domain for this one, such as ROS_DOMAIN_ID={client.domain_id + 1}"
        )


def run_episodes(
    options: DemoOptions, folder: Path, episodes: list[Episode], report: Callable[[Progress], None]
) -> None:
    """Run the demo with its logs, manifest and bag in `folder`.

    episodes: receives each episode when it ends, so that the episodes are known even when this raises.
    Raises ProcessError when a process ends, OperatorError when something does not answer.
    """
    report(Progress((), "starting"))
    with running(options, folder) as (group, operator):

        def show(state: str) -> None:
            report(Progress(tuple(episodes), state))

        for index in range(options.episodes):
            episodes.append(run_episode(operator, group, first_seed(options) + index, show))
            show(_state_name(operator))


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


def run_episode(
    operator: EpisodeOperator, group: ProcessGroup, seed: int, show: Callable[[str], None]
) -> Episode:
    """Run one episode. show: takes the robot's state. Raises ProcessError and OperatorError."""
    episode_id = operator.begin_episode(seed)
    while True:
        operator.spin(OUTCOME_PERIOD_S)
        group.check()
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
    manifest = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    manifest["model"]["path"] = str(shipped.parent / "models" / options.policy)
    manifest["inject_latency_ms"] = options.latency_ms
    manifest["inject_jitter_ms"] = options.jitter_ms
    manifest["inject_loss"] = options.loss
    manifest |= sections
    path = folder / "manifest.yaml"
    path.write_text(dump_yaml(manifest), encoding="utf-8")
    return path
