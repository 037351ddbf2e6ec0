# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A motion and where it came from, as plain data.

Times `*_s` are seconds since the start of the bag, by the recorder's clock. What is not known is None, and
`Motion.missing` says why.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from remote_inference.recording.timeline.answers import RequestKey


@dataclass(frozen=True)
class Command:
    """One control tick."""

    tick: int  # since the node's start
    t_s: float
    received_ns: int  # by the recorder
    source: str  # name of CommandSource
    action: tuple[float, ...]  # [action_dim] after the guard; empty when there was nothing to publish
    shadow: bool
    episode_id: int
    interventions: tuple[str, ...]
    session_id: str  # empty without a chunk
    seq_id: int
    row: int  # of the chunk
    age_ms: float | None  # since capture of the source observation
    policy_version: str
    row_fraction: float = 0.0  # of the row's time that had passed

    @property
    def request(self) -> RequestKey | None:
        """The request behind the command; None without a chunk."""
        return (self.session_id, self.seq_id) if self.session_id else None


@dataclass(frozen=True)
class SeenImage:
    """One image of an observation."""

    camera: str
    encoding: str  # of the image: jpeg, png, rgb8, ...
    width: int  # [px], 0 when the image cannot be read
    height: int
    bytes: int
    sha256: str
    stamp_ns: int | None  # by the camera's own clock


@dataclass(frozen=True)
class SensorArrival:
    """When the newest message of a sensor's topic reached the robot's node, before a request was made."""

    topic: str
    t_s: float
    before_request_ms: float


@dataclass(frozen=True)
class Request:
    """One observation that was sent."""

    session_id: str
    session_epoch: int
    seq_id: int
    episode_id: int
    episode_start: bool
    task: str
    sent_s: float
    received_ns: int
    mono_ns: int  # the robot's monotonic clock when sent
    delay_steps: int
    prefix_rows: int  # rows of the running chunk that the policy had to continue
    history_steps: int
    state: tuple[float, ...]
    images: tuple[SeenImage, ...]


@dataclass(frozen=True)
class Rows:
    """What became of a chunk's rows, as far as the bag shows."""

    horizon: int
    first: int  # row that was executed first
    last: int  # row that was executed last
    executed: int
    dropped: int  # rows before the first: they had passed when the chunk arrived


@dataclass(frozen=True)
class Latency:
    """Where the age of a command came from [ms]; the parts add up to `age_ms`."""

    sensing_ms: float | None  # capture of the oldest sensor to request
    transport_ms: float | None  # both ways of the network, and the nodes' overhead
    queue_wait_ms: float | None
    inference_ms: float | None
    waiting_ms: float | None  # chunk's arrival to this tick
    age_ms: float | None


@dataclass(frozen=True)
class Correction:
    """What the guard did to one joint."""

    joint: str
    rule: str  # empty when the bag does not tell which of the tick's rules
    before: float
    after: float


@dataclass(frozen=True)
class Standing:
    """What the robot's node said of itself, until it said something else."""

    t_s: float
    state: str
    cause: str
    paused: bool
    paused_s: float | None  # since when; None while it is not
    pause_cause: str  # empty while it is not, and in bags of older releases
    stop: str
    taken_over: bool
    server: str
    task: str
    episode_id: int
    stale_sources: tuple[str, ...]
    injected_fault: str


@dataclass(frozen=True)
class WatchdogChange:
    """What the command watchdog said of itself, until it said something else."""

    t_s: float
    state: str
    cause: str
    stops: tuple[str, ...]


@dataclass(frozen=True)
class Policy:
    """A server's policy."""

    fingerprint: str
    name: str
    revision: str
    server: str
    manifest_digest: str  # SHA-256 of the manifest that it was loaded from, empty when not known


@dataclass(frozen=True)
class Answered:
    """A chunk without its numbers."""

    received_s: float
    status: str
    message: str
    horizon: int
    superseded: int
    server_load: float
    policy_version: str


@dataclass(frozen=True)
class Motion:
    """One command, walked back."""

    bag: str
    namespace: str
    time: str  # of the tick: UTC, ISO 8601
    command: Command
    joints: dict[str, float]
    units: dict[str, str]  # by joint, empty without a contract
    reasons: tuple[str, ...]  # why this was commanded and no row of a chunk; empty with one
    since_s: float  # begin of the ticks of this source in a row
    before: Command | None  # without a chunk: the last command before that had one
    standing: Standing | None
    watchdog: WatchdogChange | None
    rows: Rows | None
    request: Request | None
    sensors: tuple[SensorArrival, ...]
    answer: Answered | None
    latency: Latency | None
    corrections: tuple[Correction, ...]
    policy: Policy | None
    log_line: dict[str, Any] | None  # of the server's request log
    missing: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {**asdict(self), "found": "chunk" if self.command.request else "no_chunk"}
