# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Sensors that stop, freeze or change: no action is computed from an old message."""

from __future__ import annotations

import pytest

from support.faults.arm import GAP_S, NAMES, Arm, now_ns
from support.faults.fault import Fault
from support.faults.judge import TRANSPORT_S

MAX_SENSOR_AGE_S = 0.5  # the node's default
CAMERA = "camera/image_raw"


@pytest.fixture
def streaming(arm: Arm) -> Arm:
    arm.start_arm_server()
    arm.start_arm()
    return arm


def newest_capture_age_s(arm: Arm, at_ns: int) -> float:
    """Return how long after `at_ns` the newest state behind an action was captured [s]."""
    newest = max(command.capture for command in arm.record.commands)
    return (arm.record.captures[int(newest)].time_ns - at_ns) / 1e9


@pytest.mark.parametrize(
    "frozen",
    [
        pytest.param(False, marks=pytest.mark.fault("one camera is silent"), id="silent"),
        pytest.param(True, marks=pytest.mark.fault("one camera repeats its last image"), id="frozen"),
    ],
)
def test_a_camera_that_shows_nothing_new_stops_the_robot(streaming: Arm, fault: Fault, frozen: bool) -> None:
    """The joints keep coming: actions from fresh joints and an old image would look fresh."""
    fault.begins()
    stopped_ns = now_ns()
    if frozen:
        streaming.freeze_camera()
    else:
        streaming.camera_on = False
    streaming.wait_until_held()
    streaming.wait_for(lambda: list(streaming.states[-1].stale_sources) == [CAMERA], "stale camera named")
    assert newest_capture_age_s(streaming, stopped_ns) < MAX_SENSOR_AGE_S + TRANSPORT_S
    streaming.camera_on, streaming.repeated_image = True, None
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("joint states stop")
def test_joint_states_that_stop_stop_the_robot(streaming: Arm, fault: Fault) -> None:
    fault.begins()
    streaming.joints_on = False
    streaming.wait_until_held()
    streaming.joints_on = True
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("joint states with their names in another order")
def test_joints_are_found_by_name_whatever_their_order(streaming: Arm, fault: Fault) -> None:
    fault.begins()
    for names in (("gripper", *NAMES), (*NAMES[1:], "gripper", NAMES[0]), NAMES):
        streaming.joint_names = names
        commands = len(streaming.record.commands)
        streaming.wait_for(lambda before=commands: len(streaming.record.commands) > before + 30, "commands")
    fault.ends()
    fault.wait_for_recovery()
    assert fault.longest_measured_gap_s < GAP_S


@pytest.mark.fault("joint states without one of the joints")
def test_a_missing_joint_stops_the_robot_until_it_is_back(streaming: Arm, fault: Fault) -> None:
    names = streaming.joint_names
    fault.begins()
    some = tuple(name for name in names if name != "elbow")
    streaming.run_on_executor(lambda: setattr(streaming, "joint_names", some))  # between two messages
    stopped_ns = now_ns()
    streaming.wait_until_held()
    assert newest_capture_age_s(streaming, stopped_ns) <= 0.0
    streaming.joint_names = names
    fault.ends()
    fault.wait_for_recovery()
