# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Stop inputs that say stop, flap, fall silent or were never heard."""

from __future__ import annotations

import pytest

from support.faults.arm import Arm
from support.faults.fault import Fault
from support.faults.judge import UNDER_WAY_S
from support.faults.panel import STOPS, Panel


@pytest.fixture
def panel(arm: Arm) -> Panel:
    return Panel(arm)


@pytest.fixture
def streaming(arm: Arm, panel: Panel) -> Arm:
    panel.pressed = False
    arm.start_arm_server()
    arm.start_arm({"stops": STOPS})
    return arm


def wait_until_stopped(arm: Arm, name: str) -> None:
    """Wait until the state names the stop; from then on nothing is commanded."""
    arm.wait_for(lambda: arm.states[-1].stop.startswith(f"{name}: "), f"stopped by {name}")
    stopped_ns = arm.states[-1].header.stamp
    arm.wait_until_held()
    last_s = arm.record.commands[-1].time_ns / 1e9
    assert last_s <= stopped_ns.sec + stopped_ns.nanosec / 1e9 + UNDER_WAY_S
    assert arm.states[-1].paused
    assert arm.states[-1].queue_length == 0


def go_on(arm: Arm) -> None:
    """Clear the stop and resume, as the operator must."""
    refused = arm.trigger("resume")
    assert not refused.success
    assert "clear_stop" in refused.message
    arm.wait_for(lambda: arm.trigger("clear_stop").success, "the stop is cleared")
    commands = len(arm.record.commands)
    ticks = len(arm.executed)
    arm.wait_for(lambda: len(arm.executed) > ticks + 15, "ticks")
    assert len(arm.record.commands) == commands  # cleared is not resumed
    arm.resume()


@pytest.mark.fault("a stop input says stop")
def test_a_pressed_button_ends_the_commands(streaming: Arm, panel: Panel, fault: Fault) -> None:
    fault.begins()
    panel.press(True)
    wait_until_stopped(streaming, "button")
    assert "says true" in streaming.trigger("clear_stop").message
    panel.press(False)
    fault.ends()
    go_on(streaming)
    fault.wait_for_recovery()


@pytest.mark.fault("a stop input flaps")
def test_a_flapping_button_stays_a_stop(streaming: Arm, panel: Panel, fault: Fault) -> None:
    fault.begins()
    for _ in range(20):
        panel.press(True)
        panel.press(False)
    wait_until_stopped(streaming, "button")
    fault.ends()
    go_on(streaming)
    fault.wait_for_recovery()


@pytest.mark.fault("a stop input falls silent")
def test_a_silent_heartbeat_ends_the_commands(streaming: Arm, panel: Panel, fault: Fault) -> None:
    fault.begins()
    panel.pressed = None
    wait_until_stopped(streaming, "beat")
    assert "silent" in streaming.trigger("clear_stop").message
    panel.pressed = False
    fault.ends()
    go_on(streaming)
    fault.wait_for_recovery()


@pytest.mark.fault("a stop input was never heard")
def test_a_robot_waits_for_the_first_message_of_each_stop(arm: Arm, panel: Panel, fault: Fault) -> None:
    arm.start_arm_server()
    arm.start_unmoved({"stops": STOPS})
    fault.begins()
    refused = arm.trigger("resume")
    assert not refused.success
    assert "nothing was ever heard of stop input" in refused.message
    assert "button (estop, std_msgs/msg/Bool)" in refused.message
    log = arm.folder / "logs" / "remote_inference.log"
    told = "stops.beat: beat: "
    arm.wait_for(lambda: told in log.read_text(), "the node's warning")
    ticks = len(arm.executed)
    arm.wait_for(lambda: len(arm.executed) > ticks + 30, "a second of ticks")
    assert not arm.record.commands
    panel.press(False)
    fault.ends()
    fault.wait_for_recovery()
