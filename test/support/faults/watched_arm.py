# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An arm with a velocity or a trajectory controller, whose commands a real watchdog watches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from remote_inference.base.wire.qos import WATCHDOG_TOPIC
from remote_inference.msg import WatchdogState
from remote_inference.tools.deployment import bringup
from support.importable import python_path
from support.machine_stalls import MachineStalls
from support.nodes.echo_policy import ECHO
from support.nodes.rig import (
    CONTRACT,
    DEEP_LATCHED_QOS,
    DEEP_QOS,
    JOINTS,
    Rig,
    write_contract,
    write_manifest,
)

TIMEOUT_S = 0.2  # watchdog_timeout_s, its default
PERIOD_S = 1.0 / CONTRACT["fps"]
# What each kind of controller takes, and a fallback that the robot may have with it.
TYPES: dict[str, Any] = {
    "velocity": Float64MultiArray,
    "effort": Float64MultiArray,
    "position": Float64MultiArray,
    "trajectory": JointTrajectory,
}
FALLBACKS = {"velocity": "zero", "effort": "zero", "position": "hold", "trajectory": "hold"}
ON_ITS_WAY_S = 0.1  # a measured position that left later may not have arrived yet
STALLS = 3  # of the test's own threads, that the watchdog, its messages and its stop may suffer each
ELSEWHERE = [0.3, -0.4]  # [rad] where the arm is measured when the fault has begun
STUCK_CONTROL = Path(__file__).with_name("stuck_control")


@dataclass(frozen=True)
class Received:
    """One command. `values` is in the order of the sink; of a trajectory its last point."""

    time_ns: int  # arrival, stamped by the middleware's thread
    values: tuple[float, ...]
    moves: bool  # it is no stop: there is none for a position controller


class WatchedArm(Rig):
    """The rig with a controller of one kind. The measured joints are those of the rig."""

    def __init__(self, folder: Path, controller: str) -> None:
        self.controller = controller
        self.fps: float = CONTRACT["fps"]
        self.fallback = FALLBACKS[controller]
        self.sections: dict[str, Any] = {}  # of the contract, besides those of the rig's
        self.limit: dict[str, float] = {}  # of each joint, besides those of the rig's
        self.received: list[Received] = []
        self.watchdog_states: list[WatchdogState] = []
        self.beginning_s = 0.0  # what the last fault's cause took
        self._measured: list[tuple[int, tuple[float, ...]]] = []  # time [ns] and positions as published
        self._stuck = folder / "stuck"
        self._broken = folder / "broken"
        self._stalls = MachineStalls()
        super().__init__(folder)
        self.subscribe(WatchdogState, WATCHDOG_TOPIC, self.watchdog_states.append, DEEP_LATCHED_QOS)

    def close(self) -> None:
        self._stalls.close()
        super().close()

    def write_contract(self) -> Path:
        kind = self.controller if self.controller in {"velocity", "effort"} else "position"
        sink = dict(CONTRACT["commands"][0])
        if self.controller == "trajectory":
            sink["type"] = "trajectory_msgs/msg/JointTrajectory"
        limits = {joint: {**limit, **self.limit} for joint, limit in CONTRACT["actions"]["limits"].items()}
        actions = {**CONTRACT["actions"], "kind": kind, "limits": limits}
        return write_contract(self.folder, actions=actions, commands=[sink], fps=self.fps, **self.sections)

    def write_manifest(self) -> Path:
        model = {"backend": ECHO, "path": "model"}  # a velocity that is measured goes on
        policy = {"chunk_size": 60, "trained_fps": self.fps}
        return write_manifest(self.folder, policy=policy, model=model)

    def start_server(self, manifest: Path, **parameters: Any) -> None:
        process = bringup.server(manifest, **parameters)
        added = {"PYTHONPATH": python_path()}
        self.server = self.group.start(replace(process, environment={**process.environment, **added}))

    def parameters(self) -> dict[str, Any]:
        return {"fallback": self.fallback}

    def start(self, **parameters: Any) -> None:
        """Start server, watchdog and robot; wait until the arm is commanded and the watchdog is armed."""
        contract = self.write_contract()
        self.start_server(self.write_manifest())
        self.watchdog = self.group.start(bringup.command_watchdog(contract, namespace=self.namespace))
        self.start_watched_robot(**parameters)
        self.wait_for_watchdog("ARMED")
        self.wait_for_motion()

    def start_watched_robot(self, **parameters: Any) -> None:
        environment: Mapping[str, str] = {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(STUCK_CONTROL), os.environ.get("PYTHONPATH")])),
            "STUCK_CONTROL": str(self._stuck),
            "BROKEN_THREAD": str(self._broken),
        }
        self.start_robot(self.folder / "contract.yaml", environment, **self.parameters(), **parameters)

    def stick_control(self) -> None:
        self._stuck.touch()

    def free_control(self) -> None:
        self._stuck.unlink()

    def break_thread(self, name: str) -> None:
        """Let a thread of the node fail: `control`, or `requests`, which is the worker."""
        self._broken.write_text(name)

    def wait_for_watchdog(self, name: str) -> WatchdogState:
        """Wait until the watchdog is in a state; return the message."""
        self.wait_for(
            lambda: self.watchdog_states and self.watchdog_states[-1].state_name == name,
            f"the watchdog is {name}",
        )
        return self.watchdog_states[-1]

    def wait_for_motion(self) -> None:
        """Wait for commands that move the arm, newer than this call."""
        begin_ns = time.time_ns()
        self.wait_for(lambda: len(self.moves_since(begin_ns)) >= 10, "commands that move")

    def moves_since(self, time_ns: int) -> list[Received]:
        return [command for command in self.received if command.moves and command.time_ns > time_ns]

    def first_stop_since(self, time_ns: int) -> Received | None:
        stops = (command for command in self.received if not command.moves and command.time_ns > time_ns)
        return next(stops, None)

    def latest_stop_s(self, begin_ns: int) -> float:
        """Return how long after a fault's begin [s] the stop may come: twice the watchdog's time.

        One that always runs late needs that. Beyond it counts how long the fault took to begin, and how long
        this machine let this process wait.
        """
        return self.beginning_s + 2 * (TIMEOUT_S + PERIOD_S) + STALLS * self._stalls.longest_s(begin_ns)

    def known_positions(self, time_ns: int) -> list[tuple[float, ...]]:
        """Return what the watchdog may take for the newest measured positions, in order of JOINTS."""
        known: list[tuple[float, ...]] = []
        for left_ns, positions in self._measured:
            if left_ns > time_ns:
                break
            if left_ns < time_ns - ON_ITS_WAY_S * 1e9:
                known.clear()
            known.append(positions)
        return known

    def _measure(self) -> JointState:
        self._measured.append((time.time_ns(), tuple(self.positions)))
        return super()._measure()

    def _start_controller(self) -> None:
        kind = TYPES[self.controller]
        self._controller = self.node.create_subscription(kind, "commands", self._receive_command, DEEP_QOS)

    def _on_command(self, message: Any, info: dict[str, int | None]) -> None:
        time_ns = info["received_timestamp"] or time.time_ns()
        if isinstance(message, JointTrajectory):
            values, moves = message.points[-1].positions, len(message.points) > 1
        else:
            values, moves = message.data, self.controller == "position" or any(message.data)
        self.received.append(Received(time_ns, tuple(values), moves))


def article(kind: str) -> str:
    return "an" if kind == "effort" else "a"


def in_order_of_sink(positions: Sequence[float]) -> tuple[float, ...]:
    """Return positions, in the order of JOINTS, as the controller takes them."""
    assert len(positions) == len(JOINTS)
    return tuple(reversed(positions))


def each_controller(
    fault: str, kinds: Sequence[str] = ("velocity", "trajectory"), arm: str = "watched"
) -> pytest.MarkDecorator:
    """Return a mark that repeats a test of a fault with each kind of controller.

    kinds: by default those that go on without commands. arm: the fixture of the arm.
    """
    controllers = [
        pytest.param(kind, marks=pytest.mark.fault(f"{fault}, with a {kind} controller")) for kind in kinds
    ]
    return pytest.mark.parametrize(arm, controllers, indirect=True)


def wait_for_stop(arm: WatchedArm, begin_ns: int, trips: int = 1) -> str:
    """Wait until the watchdog has stopped the arm, and judge the stop; return what happened.

    trips: of the watchdog until then.
    """
    arm.wait_for(lambda: arm.first_stop_since(begin_ns), "the stop")
    trip = arm.wait_for_watchdog("TRIPPED")
    stop = arm.first_stop_since(begin_ns)
    assert stop is not None
    if arm.controller == "trajectory":
        assert stop.values in [in_order_of_sink(known) for known in arm.known_positions(stop.time_ns)]
    else:
        assert stop.values == (0.0, 0.0)
    under_way = arm.moves_since(begin_ns)
    assert all(command.time_ns < stop.time_ns for command in under_way)
    stopped_s = (stop.time_ns - begin_ns) / 1e9
    latest_s = arm.latest_stop_s(begin_ns)
    assert TIMEOUT_S - PERIOD_S < stopped_s < latest_s, f"begun within {arm.beginning_s:.3f} s"
    assert trip.trips == trips
    assert ("sent a hold" if arm.controller == "trajectory" else "sent zero velocity") in trip.stops[0]
    words = "hold of the measured position" if arm.controller == "trajectory" else "zero velocity"
    return f"the watchdog sent {words} after {stopped_s:.2f} s"


def begin(arm: WatchedArm, cause: Callable[[], None]) -> int:
    """Begin a fault; return its time. The arm is somewhere else from then on: what it holds must be that."""
    begin_ns = time.time_ns()
    cause()
    arm.beginning_s = (time.time_ns() - begin_ns) / 1e9
    arm.positions = ELSEWHERE
    return begin_ns


def go_on_after_resume(arm: WatchedArm) -> None:
    """Judge a robot node that is back: it waits for the operator, and the watchdog for both."""
    arm.wait_for_watchdog("RETURNED")
    arm.wait_for(lambda: arm.states[-1].paused, "the robot is paused")
    paused_ns = time.time_ns()
    arm.wait_for(lambda: arm.states[-1].header.stamp.sec > paused_ns // 10**9 + 1, "a later state")
    moves = arm.moves_since(paused_ns)
    assert not moves, f"commands during the pause: {moves}"
    if arm.states[-1].stop.startswith("beat: "):  # frozen for longer than the stop input may be silent
        arm.wait_for(lambda: arm.trigger("clear_stop").success, "the stop is cleared")
    answer = arm.trigger("resume")
    assert answer.success, answer.message
    resumed_ns = time.time_ns()

    def moves_on() -> bool:
        # Where all processes stand still for longer than the watchdog allows, it stops the robot once more.
        if arm.watchdog_states[-1].state_name == "RETURNED" and arm.states[-1].paused:
            arm.trigger("resume")
        return len(arm.moves_since(resumed_ns)) >= 10

    arm.wait_for(moves_on, "commands that move")
    arm.wait_for_watchdog("ARMED")


def wait_for_reports(arm: WatchedArm, count: int) -> None:
    """Wait for `count` more reports of the watchdog, which come every half second."""
    target = len(arm.watchdog_states) + count
    arm.wait_for(lambda: len(arm.watchdog_states) >= target, f"{count} reports of the watchdog")
