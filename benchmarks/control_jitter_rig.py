# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The measuring rig of control_jitter.py: sensors, the stamps of the robot's ticks, a server to kill."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from rclpy.executors import SingleThreadedExecutor
from request_cycle_rig import (
    JOINTS,
    ROBOT,
    SENSOR_PUBLISHER_QOS,
    SERVER,
    START_TIMEOUT_S,
    Case,
    camera_image,
    plain_node,
)
from sensor_msgs.msg import JointState

from remote_inference.base.wire.arrays import float64_field
from remote_inference.base.wire.qos import EXECUTED_QOS, EXECUTED_TOPIC, LATCHED_QOS, STATE_TOPIC
from remote_inference.msg import ClientState, ExecutedAction
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessGroup

CASE = Case(cameras=3, quality=90)
CAMERA_RATE_HZ = 30.0


# The stamps come from the control thread itself; the topic only carries them, so its delays are not in the
# figures. They are of the wall clock, whose slewing (below 0.05 %) is too slow to show within a period.
class Rig:
    """The robot's sensors, and a subscriber to the stamps of its ticks."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.node = plain_node("control_jitter_rig")
        self.stamps_ns: dict[int, int] = {}  # by tick
        self.state: ClientState | None = None
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self.node.create_subscription(
            ExecutedAction, f"{ROBOT}/{EXECUTED_TOPIC}", self._take_executed, EXECUTED_QOS
        )
        self.node.create_subscription(ClientState, f"{ROBOT}/{STATE_TOPIC}", self._take_state, LATCHED_QOS)

    def play_sensors(self) -> None:
        """Publish all images and the joints at the cameras' rate from now on."""
        image = camera_image()
        joints = JointState(name=list(JOINTS), position=float64_field(np.zeros(len(JOINTS))))
        messages = {f"camera_{index}": image for index in range(self._case.cameras)} | {
            "joint_states": joints
        }
        publishers = [
            (self.node.create_publisher(type(message), f"{ROBOT}/{topic}", SENSOR_PUBLISHER_QOS), message)
            for topic, message in messages.items()
        ]

        def publish() -> None:
            for publisher, message in publishers:
                publisher.publish(message)

        self.node.create_timer(1.0 / CAMERA_RATE_HZ, publish)

    def spin(self, duration_s: float) -> None:
        end_s = time.monotonic() + duration_s
        while (left_s := end_s - time.monotonic()) > 0:
            self._executor.spin_once(timeout_sec=left_s)

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        end_s = time.monotonic() + START_TIMEOUT_S
        while not condition():
            if time.monotonic() > end_s:
                raise SystemExit(f"{what}: not within {START_TIMEOUT_S:g} s")
            self._executor.spin_once(timeout_sec=0.1)

    def next_state(self) -> ClientState:
        self.state = None
        self.wait_for(lambda: self.state, "the robot's state")
        assert self.state is not None
        return self.state

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()

    def _take_executed(self, executed: ExecutedAction) -> None:
        stamp = executed.header.stamp
        self.stamps_ns[executed.tick] = stamp.sec * 1_000_000_000 + stamp.nanosec

    def _take_state(self, state: ClientState) -> None:
        self.state = state


class Server:
    """A policy server that can be killed."""

    def __init__(self, group: ProcessGroup, manifest: Path) -> None:
        self._group = group
        self._process = replace(bringup.server(manifest, name=SERVER[1:]), required=False)
        self._running = group.start(self._process)
        self.left_behind: set[Path] = set()

    def kill_and_start(self) -> None:
        self.left_behind |= shared_memory_of(self._running.pid)
        self._running.send_signal(signal.SIGKILL)
        self._running.wait()
        self._running = self._group.start(self._process)


def shared_memory_of(pid: int) -> set[Path]:
    """Return Fast DDS's files under /dev/shm that a process has mapped or open."""
    paths = set()
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            paths.add(line.split()[-1])
        for file in Path(f"/proc/{pid}/fd").iterdir():
            paths.add(os.readlink(file))
    return {Path(path) for path in paths if path.startswith("/dev/shm/fast")}


def remove(left_behind: set[Path]) -> None:
    """Remove the shared memory of processes that were killed: Fast DDS frees it only on a clean exit."""
    in_use = set()
    for process in Path("/proc").glob("[0-9]*"):
        in_use |= shared_memory_of(int(process.name))
    for path in left_behind - in_use:
        path.unlink(missing_ok=True)
        path.with_name(f"sem.{path.name}_mutex").unlink(missing_ok=True)  # open only while it is held
