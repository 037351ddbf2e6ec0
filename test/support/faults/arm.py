# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An arm that knows which state each command was computed from.

Besides two joints, the contract has two markers that look like joints without limits: the arm publishes the
number of each state message as the position of `capture`, and its own count of episodes as that of `episode`.
A policy that answers with the measured state returns the markers, so each command carries the number of the
capture behind it.

The measured joints jump between positions just beyond their limits: without clamps there is no safe command.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray

from remote_inference.base.wire.sensors.content_time import stamp_ns
from remote_inference.msg import ExecutedAction
from support.faults.judge import (
    FPS,
    GAP_S,
    LIMITS,
    MAX_ACTION_AGE_S,
    MAX_VELOCITY,
    PERIOD_S,
    Capture,
    Command,
    ControlTick,
    OperatorCall,
    Outage,
    Record,
    number_by_arrival,
)
from support.nodes.rig import CONTRACT, DEADLINE_S, Rig, write_contract, write_manifest

MARKERS = ("capture", "episode")
NAMES = (*LIMITS, *MARKERS)
JUMP_NS = 60 * 10**9  # between two ticks: the clock was set
COUNT_MAX = 2.0**24  # a float32 counts exactly up to here
OVERSHOOT = 1.03  # less than one step beyond a limit, so that the first command can lie within it
JUMP_CAPTURES = {"shoulder": 45, "elbow": 25}  # captures between two jumps of the measured position

# Parameters of every robot in these tests; the others have their defaults.
PARAMETERS: dict[str, Any] = {
    "merge_mode": "replace",
    "buffer_time_s": 2.75,  # of 3 s in a chunk: several requests a second
    "max_action_age_s": MAX_ACTION_AGE_S,
    "request_timeout_s": 1.0,
    "reconnect_initial_backoff_s": 0.2,
    "reconnect_max_backoff_s": 1.0,
}
POLICY: dict[str, Any] = {"state_names": list(NAMES), "action_names": list(NAMES), "chunk_size": 90}


def write_arm_contract(folder: Path, max_following_error: float, **changes: Any) -> Path:
    limits = {
        joint: {
            "min": lower,
            "max": upper,
            "max_velocity": MAX_VELOCITY[joint],
            "max_following_error": max_following_error,
            "max_measured_velocity": 1e3,  # it jumps
        }
        for joint, (lower, upper) in LIMITS.items()
    }
    limits |= {marker: {"min": -1.0, "max": COUNT_MAX, "max_velocity": 1e9} for marker in MARKERS}
    sections = {
        "fps": FPS,
        "state": [{**CONTRACT["state"][0], "names": list(NAMES)}],
        "actions": {"kind": "position", "names": list(NAMES), "limits": limits},
        "commands": [{**CONTRACT["commands"][0], "names": list(reversed(NAMES))}],
    }
    return write_contract(folder, **{**sections, **changes})


def measured(number: int) -> tuple[float, ...]:
    """Return the joint positions of a capture."""
    return tuple(
        OVERSHOOT * LIMITS[joint][number // captures % 2] for joint, captures in JUMP_CAPTURES.items()
    )


class Arm(Rig):
    """The rig with jumping joints, markers and a record of everything that the judge needs."""

    def __init__(self, folder: Path) -> None:
        self.record = Record()
        self.has_namesake = False  # a second node of the robot's name
        self.expected_exit: int | None = None  # of the robot's process; None: it must live
        self.episode = 0
        self.joints_on = self.camera_on = True
        self.repeated_image: Image | None = None  # published instead of new ones: a frozen driver
        self.joint_names = ("gripper", *reversed(NAMES))
        super().__init__(folder)

    def start_arm_server(self, name: str = "policy_server", **policy: Any) -> None:
        """Start a real server whose policy answers with the measured state."""
        self.start_server(write_manifest(self.folder, policy={**POLICY, **policy}), name=name)

    def start_arm(self, contract: Mapping[str, Any] | None = None, **changes: Any) -> None:
        """Start the robot's node and wait until it streams. contract: other sections of it."""
        self.start_unmoved(contract, **changes)
        self.wait_for_state("STREAMING", max(0, len(self.states) - 1))
        self.wait_for_commands(10)

    def start_unmoved(self, contract: Mapping[str, Any] | None = None, **changes: Any) -> None:
        """Start the robot's node and wait until it has a session."""
        first = len(self.states)
        path = write_arm_contract(self.folder, self.record.max_following_error, **(contract or {}))
        self.start_robot(path, **{**PARAMETERS, **changes})
        self.wait_for(lambda: any(state.session_id for state in self.states[first:]), "a session")

    def wait_until_held(self) -> None:
        """Wait until the commands have stopped, longer than for a late tick."""
        self.wait_for(lambda: now_ns() - self.record.commands[-1].time_ns > 1.2 * GAP_S * 1e9, "held")

    def reset(self) -> str:
        """Begin an episode; return the node's answer."""
        return self.operate("reset")

    def pause(self) -> None:
        self.operate("pause")

    def resume(self) -> None:
        self.operate("resume")

    def operate(self, name: str) -> str:
        """Call one of the operator's services, which must succeed; return the node's answer."""
        if name == "reset":
            self.episode += 1
        called_ns, next_capture = now_ns(), len(self.record.captures)
        response = self.trigger(name)
        self.record.calls.append(OperatorCall(name, called_ns, now_ns(), next_capture))
        assert response.success, response.message
        return str(response.message)

    def stop_controller(self) -> None:
        """End the subscription to the commands; return when the robot's node has noticed."""
        before = self._count_warnings()  # it may have warned while it started
        self._executor.create_task(self._end_controller)
        self.wait_for(lambda: self._count_warnings() > before, "the node's warning")

    def start_controller(self) -> None:
        self._executor.create_task(self._return_controller)

    def _count_warnings(self) -> int:
        log = self.folder / "logs" / "remote_inference.log"
        return log.read_text().count("no controller subscribes")

    def _end_controller(self) -> None:
        self.node.destroy_subscription(self._controller)
        self.record.outages.append(Outage("controller", now_ns()))

    def _return_controller(self) -> None:
        self.record.end_outage(now_ns())
        self._start_controller()

    def measured(self, number: int) -> tuple[float, ...]:
        """Return the joint positions of a capture."""
        return measured(number)

    def wait_for_exit(self, code: int) -> None:
        """Wait until the robot's process gives up by itself."""
        self.expected_exit = code
        assert self.robot.wait(DEADLINE_S) == code

    def _on_command(self, message: Float64MultiArray, info: dict[str, int | None]) -> None:
        super()._on_command(message, info)
        values = dict(zip(reversed(NAMES), message.data, strict=True))
        # The middleware's thread stamps the arrival: this process may take the message late.
        time_ns = info["received_timestamp"] or now_ns()
        number = info["publication_sequence_number"]
        if number is None:
            number = number_by_arrival(self.record.commands, time_ns)
        self.record.commands.append(
            Command(
                time_ns=time_ns,
                number=number,
                positions=tuple(values[joint] for joint in LIMITS),
                capture=values["capture"],
                episode=values["episode"],
            )
        )

    def _publish_sensors(self) -> None:
        stamp = self.node.get_clock().now().to_msg()
        if self.joints_on:
            self._publish_joints(stamp)
        if self.camera_on:
            image = Image(height=48, width=64, encoding="rgb8", step=192, data=array("B", bytes(48 * 192)))
            image.header.stamp = stamp
            self._last_image = self.repeated_image or image
            self._camera.publish(self._last_image)

    def freeze_camera(self) -> None:
        """Make the driver repeat its last image, with its stamp, for ever."""
        self.repeated_image = self._last_image

    def _publish_joints(self, stamp: Any) -> None:
        number = len(self.record.captures)
        capture = Capture(now_ns(), self.measured(number), self.episode)
        values = dict(zip(NAMES, (*capture.positions, float(number), float(capture.episode)), strict=True))
        values["gripper"] = 9.0
        joints = JointState(name=list(self.joint_names), position=[values[name] for name in self.joint_names])
        joints.header.stamp = stamp
        self.record.captures.append(capture)
        self._joints.publish(joints)


def control_ticks(executed: Sequence[ExecutedAction]) -> list[ControlTick]:
    """Return a node's ticks on the arm's clock, from which that of their stamps may jump away."""
    ticks = [ControlTick(stamp_ns(message), message.tick) for message in executed[:1]]
    for before, message in pairwise(executed):
        passed_ns = stamp_ns(message) - stamp_ns(before)
        if not 0 <= passed_ns < JUMP_NS:
            passed_ns = round((message.tick - before.tick) * PERIOD_S * 1e9)
        ticks.append(ControlTick(ticks[-1].time_ns + passed_ns, message.tick))
    return ticks


def of_first_node(executed: Sequence[ExecutedAction]) -> list[ExecutedAction]:
    """Return the ticks of the node that was there before another one of its name, which counts from 0."""
    first = list(executed[:1])
    for message in executed:
        if message.tick > first[-1].tick:
            first.append(message)
    return first


def now_ns() -> int:
    """Return the arm's clock: wall time, in which the middleware stamps arrivals."""
    return time.time_ns()
