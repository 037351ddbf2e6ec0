# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""EVALUATION.yaml: which policies play which episodes of which tasks, and the latencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from remote_inference.base.documents.document import Document, NameIn, load_document
from remote_inference.learn.environment import EnvironmentSpec
from remote_inference.learn.environments.emulated_robot import NetworkPath
from remote_inference.learn.evaluation.policies import POLICIES, PolicyPlace
from remote_inference.robot.config import RobotConfig

Mode = Literal["stepped", "charged", "real_time"]
STEPPED: Final = "stepped"
REAL_TIME: Final = "real_time"
REAL_TIME_KINDS = ("manifest", "server")  # of policies that a robot's node can ask
Latency = Annotated[float, Field(ge=0.0, le=60_000.0)]
PolicyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]  # also of a folder of logs
MAX_EPISODES = 1_000_000


@dataclass(frozen=True, order=True)
class Condition:
    """What the episodes of one row of a report share. latency_ms: 0 where the simulator waits."""

    task: str
    policy: str
    mode: Mode
    latency_ms: float

    def __str__(self) -> str:
        how = f"{self.mode} {self.latency}".rstrip()
        return f"{self.policy}, {how}, {self.task!r}"

    @property
    def has_latency(self) -> bool:
        """Whether the simulator goes on while a chunk is on its way."""
        return self.mode != STEPPED

    @property
    def latency(self) -> str:
        """The latency for people; empty where the simulator waits."""
        return f"{self.latency_ms:g} ms" if self.has_latency else ""


@dataclass(frozen=True, order=True)
class EpisodeKey:
    """One episode of an evaluation: no other has the same condition and seed."""

    condition: Condition
    seed: int

    def __str__(self) -> str:
        return f"{self.condition}, seed {self.seed}"


class EnvironmentSource(Document):
    """The environment, in as many processes as episodes are played at once."""

    name: Annotated[str, Field(min_length=1)]
    """built-in name, `gymnasium:ID`, `package.module:attribute` or entry point"""
    options: Mapping[str, Any] = {}
    """options of the environment"""


class PolicySource(Document):
    """One policy of the comparison."""

    kind: Annotated[str, NameIn(POLICIES)] = "manifest"
    """what the policy is"""
    path: str = ""
    """of the manifest, or of the trajectory's .npz or data set, relative to this file; none for others"""
    server: str = ""
    """full name of a running policy_server's node, for the kind server"""


class Evaluation(Document):
    """What is evaluated. Every policy plays the same seeds of every task, in every mode and latency."""

    environment: EnvironmentSource
    """where the episodes are played"""
    policies: Annotated[Mapping[PolicyName, PolicySource], Field(min_length=1)]
    """policies to compare, by the names that the report gives them"""
    tasks: tuple[str, ...] = ()
    """instructions; left out: the environment's first"""
    episodes: Annotated[int, Field(ge=1, le=MAX_EPISODES)]
    """episodes of each task, policy, mode and latency"""
    first_seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    """seed of the first episode; the next have the next ones"""
    max_steps: Annotated[int | None, Field(ge=1, le=10_000_000)] = None
    """of an episode; left out: the environment ends it"""
    num_envs: Annotated[int, Field(ge=1, le=256)] = 1
    """episodes played at once, each environment in a process"""
    modes: Annotated[tuple[Mode, ...], Field(min_length=1)] = ("stepped",)
    """stepped: the simulator waits for the policy; charged: it goes on for the latency, in virtual time;
    real_time: a robot's node drives it by the wall clock, one episode at a time"""
    latencies_ms: tuple[Latency, ...] = ()
    """from an observation to its chunk at the robot, for the mode charged; for real_time, what the server
    adds to what it takes [ms]"""
    jitter_ms: Annotated[float, Field(ge=0.0, le=60_000.0)] = 0.0
    """largest deviation of each latency, either way, drawn for each chunk; none is below 0 [ms]"""
    loss: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """fraction of the chunks that are lost"""
    blind: bool = False
    """show letters instead of the policies' names, drawn by chance, until `--reveal` is given; which policy
    plays a seed first is drawn, too; in real time, which plays its seeds first"""
    robot: RobotConfig = Field(default_factory=RobotConfig)
    """parameters of the robot's node, for the modes charged and real_time; of them stepped episodes have
    execution_horizon and accept_weight_updates"""

    @model_validator(mode="after")
    def _consistent(self) -> Evaluation:
        for key in ("tasks", "modes", "latencies_ms"):
            found = list(getattr(self, key))
            if len(set(found)) < len(found):
                raise ValueError(f"{key}: found {found}, expected each once")
        late = [mode for mode in self.modes if mode != STEPPED]
        if late and not self.latencies_ms:
            raise ValueError(f"latencies_ms: found none, expected one or more for the mode {late[0]}")
        if self.latencies_ms and not late:
            raise ValueError(
                f"latencies_ms: found {list(self.latencies_ms)}, expected none for the mode {STEPPED} alone"
            )
        for key in ("jitter_ms", "loss"):
            if (value := getattr(self, key)) and not late:
                raise ValueError(f"{key}: found {value:g}, expected 0 for the mode {STEPPED} alone")
        if REAL_TIME in self.modes:
            self._check_real_time()
        if self.blind and not 2 <= len(self.policies) <= len(ascii_uppercase):
            policies = len(self.policies)
            raise ValueError(f"policies: found {policies}, expected 2 to {len(ascii_uppercase)} to be blind")
        if self.robot.command_mode != "live":
            raise ValueError("robot.command_mode: found 'shadow', expected 'live'")
        return self

    def _check_real_time(self) -> None:
        for name, source in self.policies.items():
            if source.kind not in REAL_TIME_KINDS:
                expected = " or ".join(REAL_TIME_KINDS)
                raise ValueError(
                    f"policies.{name}.kind: found {source.kind}, expected {expected} for the mode {REAL_TIME}"
                )
            if source.kind == "server":
                self._check_running_server(name)

    def _check_running_server(self, name: str) -> None:
        where = f"for the mode {REAL_TIME} with policies.{name}"
        if any(self.latencies_ms):
            raise ValueError(
                f"latencies_ms: found {list(self.latencies_ms)}, expected [0] {where}: nothing is added to "
                "the latency of a server that runs"
            )
        for key in ("jitter_ms", "loss"):
            if value := getattr(self, key):
                raise ValueError(
                    f"{key}: found {value:g}, expected 0 {where}: nothing is done to the chunks of a server "
                    "that runs"
                )

    def path_of(self, key: EpisodeKey) -> NetworkPath:
        """Return the way of an episode's chunks; what is drawn on it depends on the seed alone."""
        return NetworkPath(key.condition.latency_ms / 1e3, self.jitter_ms / 1e3, self.loss, key.seed)

    def place_of(self, policy: str, home: Path) -> PolicyPlace:
        """Return where a policy is found. home: folder of the document."""
        source = self.policies[policy]
        path = home / source.path if source.path else None
        return PolicyPlace(path, source.server, self.robot.accept_weight_updates)

    def limit_steps(self, environment: EnvironmentSpec) -> int:
        """Return how many control ticks an episode may take."""
        return self.max_steps or max(1, round(environment.episode_limit_s * environment.control_rate_hz))

    def conditions(self, default_task: str) -> Iterator[Condition]:
        """Return what is compared, in the order of the report. default_task: where the document has none."""
        for task in self.tasks or (default_task,):
            for policy in self.policies:
                for mode in self.modes:
                    for latency_ms in (0.0,) if mode == STEPPED else self.latencies_ms:
                        yield Condition(task, policy, mode, float(latency_ms))

    def keys(self, default_task: str) -> Iterator[EpisodeKey]:
        """Return all episodes, in the order of the report."""
        for condition in self.conditions(default_task):
            for seed in range(self.first_seed, self.first_seed + self.episodes):
                yield EpisodeKey(condition, seed)

    def asks_for(self, key: EpisodeKey) -> bool:
        """Return whether an episode is one of the document's; any task is where it names none."""
        conditions = self.conditions(key.condition.task)
        return 0 <= key.seed - self.first_seed < self.episodes and key.condition in conditions


def load_evaluation(path: Path) -> Evaluation:
    """Read a document. Raises DocumentError naming file, key, what was found and expected."""
    return load_document(path, Evaluation)
