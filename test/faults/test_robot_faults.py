# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Faults of the robot's own computer: its wall clock jumps, its process is paused."""

from __future__ import annotations

import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from support.faults.arm import GAP_S, Arm
from support.faults.fault import Fault

HOUR_S = 3600
# Fast DDS notes the wall time in shared memory. Processes with another clock would take dead peers for alive,
# in later tests too, and wait an hour for locks.


class WallClock:
    """The wall clock of one process, changed by a preloaded library; its other clocks are real."""

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "offset"
        self._offset.write_bytes(bytes(8))
        library = folder / "wall_clock.so"
        source = Path(__file__).with_name("wall_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
        self.environment = {
            "LD_PRELOAD": str(library),
            "WALL_CLOCK_OFFSET": str(self._offset),
        }

    def jump(self, offset_s: int) -> None:
        """Make the clock jump to an offset from the real one."""
        with self._offset.open("r+b") as file:  # mapped by the process: it must stay the same file
            file.write(struct.pack("l", offset_s))


@pytest.mark.parametrize(
    "offset_s",
    [
        pytest.param(HOUR_S, marks=pytest.mark.fault("the robot's wall clock jumps ahead by 1 h"), id="+1h"),
        pytest.param(-HOUR_S, marks=pytest.mark.fault("the robot's wall clock jumps back by 1 h"), id="-1h"),
    ],
)
def test_a_jump_of_the_wall_clock_changes_nothing(
    arm: Arm, fault: Fault, tmp_path: Path, offset_s: int
) -> None:
    clock = WallClock(tmp_path)
    arm.start_arm_server()
    arm.start_arm(environment=clock.environment)
    assert abs(arm.states[-1].header.stamp.sec - time.time()) < HOUR_S / 2
    fault.begins()
    clock.jump(offset_s)
    arm.wait_for(
        lambda: abs(arm.states[-1].header.stamp.sec - time.time() - offset_s) < HOUR_S / 2, "the jump"
    )
    fault.ends()
    arm.wait_for_commands(90)
    fault.wait_for_recovery()
    assert fault.longest_measured_gap_s < GAP_S


@pytest.mark.parametrize(
    "pause_s",
    [  # longer than the watchdog's patience, then than max_action_age_s, then than a middleware's lease
        pytest.param(0.4, marks=pytest.mark.fault("the robot's process is paused for 0.4 s"), id="0.4 s"),
        pytest.param(1.7, marks=pytest.mark.fault("the robot's process is paused for 1.7 s"), id="1.7 s"),
        pytest.param(4.0, marks=pytest.mark.fault("the robot's process is paused for 4 s"), id="4 s"),
    ],
)
def test_a_process_that_was_paused_executes_no_old_action(arm: Arm, fault: Fault, pause_s: float) -> None:
    arm.start_arm_server()
    arm.start_arm()
    fault.begins()
    arm.robot.send_signal(signal.SIGSTOP)
    time.sleep(pause_s)  # the pause is the fault
    arm.robot.send_signal(signal.SIGCONT)
    fault.ends()
    fault.wait_for_recovery()
