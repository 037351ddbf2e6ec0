# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot of fleet.py: the package's own engine, its sensors and its control loop; the network is somebody's.

The same robot runs in real time over Zenoh (`fleet_robot_process.py`) and in virtual time
(`fleet_virtual.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Chunk, Request, SessionOffer, SessionReply, StatusReply
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.engine import Engine
from remote_inference.robot.safety.effects import (
    CloseSession,
    Effect,
    GetStatus,
    OpenSession,
    SendRequest,
)

JOINTS = tuple(f"joint_{index}" for index in range(7))
CAMERAS = ("wrist", "front")
CONTROL_HZ = 5.0  # slow, so that hundreds of robots fit into a process
CHUNK_ROWS = 50
EXECUTED_ROWS = 5  # of each chunk: one second, and chunks are appended, so a robot asks once a second
RATE_HZ = CONTROL_HZ / EXECUTED_ROWS
BUFFER_S = 0.6  # of playback left when a robot asks: the longest round trip that stalls nobody
STEP_NS = int(1e9 / CONTROL_HZ)
LISTED = 4  # servers that each robot knows
TICK_NS = 20_000_000  # of the engine while it looks for a server, as in the robot's node


def make_contract() -> Contract:
    limit = {"min": -1.0, "max": 1.0, "max_velocity": 2.0}
    images = {name: {"topic": f"{name}/image", "type": "sensor_msgs/msg/CompressedImage"} for name in CAMERAS}
    joints = {"topic": "joint_states", "type": "sensor_msgs/msg/JointState", "field": "position"}
    document = {
        "robot_type": "fleet_benchmark",
        "fps": CONTROL_HZ,
        "task": "hold",
        "state": [{**joints, "names": list(JOINTS)}],
        "images": images,
        "actions": {"kind": "position", "names": list(JOINTS), "limits": dict.fromkeys(JOINTS, limit)},
        "commands": [{"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": list(JOINTS)}],
    }
    return parse_document(document, Contract, "fleet benchmark")


CONTRACT = make_contract()


def servers_of(robot: int, servers: Sequence[str], listed: int = LISTED) -> tuple[str, ...]:
    """Return a robot's servers, in order: its home, and those after it in the ring."""
    return tuple(servers[(robot + step) % len(servers)] for step in range(min(listed, len(servers))))


class Network(Protocol):
    """Carries what a robot sends. Answers come to the robot's `take_...` methods."""

    def get_status(self, robot: FleetRobot, server: str) -> None: ...

    def open_session(self, robot: FleetRobot, server: str, offer: SessionOffer) -> None: ...

    def close_session(self, robot: FleetRobot, server: str, session_id: str, token: str) -> None: ...

    def publish(self, robot: FleetRobot, server: str, request: Request) -> None: ...


@dataclass
class Record:
    """What happened to one robot. Times are monotonic [ns]."""

    asked_ns: list[int] = field(default_factory=list)
    # When a chunk was merged, its round trip [ns], queue wait [ms], inference [ms] and server.
    answers: list[tuple[int, int, float, float, str]] = field(default_factory=list)
    opened: list[tuple[int, str]] = field(default_factory=list)  # when a session was open, with which server
    refused: int = 0  # times that a server had no room
    ticks: int = 0  # since it moved first
    stalled: int = 0  # of them, those without an action


class FleetRobot:
    """One robot. All methods are called on one thread."""

    def __init__(self, index: int, servers: Sequence[str], network: Network, **parameters: Any) -> None:
        """parameters: of the robot's node, where they are others than the fleet's."""
        self.index = index
        self.namespace = f"/robot_{index}"
        fleet: dict[str, Any] = {
            "autostart": True,
            "merge_mode": "append",
            "buffer_time_s": BUFFER_S,
            "execution_horizon": EXECUTED_ROWS,
            "max_offline_s": 3600.0,
        }
        config = RobotConfig(servers=tuple(servers), **(fleet | parameters))
        self.engine = Engine(
            CONTRACT, config, f"{self.namespace}/remote_inference", self.namespace, seed=index
        )
        self.record = Record()
        self.matched = False  # whether the server in use subscribes to the robot's observations
        self._network = network
        self._control_ns = 0  # when the next control tick is due
        self._was_open = False
        self._position = np.zeros(len(JOINTS))

    @property
    def server(self) -> str:
        """The server in use or tried next."""
        return self.engine.handshake.server

    def step(self, now_ns: int) -> int:
        """Sense, act and do what is due; return when to call again [ns from now]."""
        if now_ns >= self._control_ns:
            self._control_ns = max(self._control_ns, now_ns - STEP_NS) + STEP_NS
            arrivals = dict.fromkeys(CONTRACT.topics, now_ns)
            effects = self.engine.take_sensors(arrivals, self._position, now_ns)
            self._carry_out(effects, now_ns)
            tick = self.engine.play(now_ns, ())
            self.record.ticks += bool(self.record.answers)
            self.record.stalled += tick.command is None and bool(self.record.answers)
        # The engine forgets what it was told when it loses a session.
        if not self.engine.handshake.open:
            self._carry_out(self.engine.take_presence(self.matched, now_ns), now_ns)
        left_ns = max(0, self._control_ns - now_ns)
        return left_ns if self.engine.handshake.open else min(left_ns, TICK_NS)

    def take_presence(self, matched: bool, now_ns: int) -> None:
        """Take whether the server in use subscribes to the robot's observations."""
        self.matched = matched
        self._carry_out(self.engine.take_presence(matched, now_ns), now_ns)

    def take_status_reply(self, server: str, reply: StatusReply | None, now_ns: int) -> None:
        self._carry_out(self.engine.take_status_reply(server, reply, now_ns), now_ns)

    def take_session_reply(self, server: str, epoch: int, reply: SessionReply | None, now_ns: int) -> None:
        self.record.refused += reply is not None and not reply.accepted
        self._carry_out(self.engine.take_session_reply(server, epoch, reply, now_ns), now_ns)

    def take_server_status(
        self, server: str, instance_id: str, sessions: tuple[str, ...], accepting: bool, now_ns: int
    ) -> None:
        effects = self.engine.take_server_status(server, instance_id, sessions, now_ns, accepting=accepting)
        self._carry_out(effects, now_ns)

    def take_chunk(self, chunk: Chunk, now_ns: int) -> None:
        merged, server = self.engine.counters.chunks_merged, self.server
        effects = self.engine.take_chunk(chunk, now_ns)
        if self.engine.counters.chunks_merged > merged:
            took_ns = now_ns - chunk.client_mono_ns
            self.record.answers.append((now_ns, took_ns, chunk.queue_wait_ms, chunk.inference_ms, server))
        self._carry_out(effects, now_ns)

    def _carry_out(self, effects: list[Effect], now_ns: int) -> None:
        is_open = self.engine.handshake.open
        if is_open and not self._was_open:
            self.record.opened.append((now_ns, self.server))
        self._was_open = is_open
        for effect in effects:
            match effect:
                case GetStatus(server):
                    self._network.get_status(self, server)
                case OpenSession(server, offer):
                    self._network.open_session(self, server, offer)
                case CloseSession(server, session_id, token):
                    self._network.close_session(self, server, session_id, token)
                case SendRequest(request):
                    self.record.asked_ns.append(now_ns)
                    self._network.publish(self, self.server, request)
                case _:
                    pass  # reports and warnings: the record says what counts here
