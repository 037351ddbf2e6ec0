# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A person takes the arm over at the worst moment, or falls silent; a robot that must not be commanded."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from remote_inference.base.wire.qos import HEARTBEAT_QOS, HEARTBEAT_TOPIC
from remote_inference.msg import Heartbeat
from support.faults.arm import NAMES, Arm
from support.faults.fault import Fault
from support.faults.person import TAKEOVER, Person, markers
from support.faults.scripted_server import ScriptedServer, right_answer

SLOW_S = 0.5  # delay of each answer: the robot waits for one most of the time


def sources_since(arm: Arm, first: int) -> set[int]:
    return {tick.source for tick in arm.executed[first:]}


def wait_for_ticks(arm: Arm, count: int, **fields: Any) -> None:
    """Wait for more ticks with these fields."""
    first = len(arm.executed)
    arm.wait_for(
        lambda: (
            sum(
                all(getattr(tick, name) == value for name, value in fields.items())
                for tick in arm.executed[first:]
            )
            >= count
        ),
        f"{count} ticks with {fields}",
    )


@pytest.mark.fault("a person takes over during a request, and releases")
def test_a_takeover_during_a_request_ends_the_policy_s_commands(
    arm: Arm, scripted: ScriptedServer, fault: Fault
) -> None:
    arm.start_arm({"takeover": TAKEOVER}, servers=[scripted.name])
    Person(arm, markers(arm))
    scripted.behaviour = lambda observation: [(SLOW_S, right_answer(observation))]
    seen = len(scripted.observations)
    arm.wait_for(lambda: len(scripted.observations) > seen, "a request")
    fault.begins()
    arm.operate("takeover")
    wait_for_ticks(arm, 5, source=6)
    first, requests = len(arm.executed), len(scripted.observations)
    wait_for_ticks(arm, 45, source=6)
    assert sources_since(arm, first) == {6}
    assert arm.states[-1].taken_over
    assert len(scripted.observations) == requests  # the policy is asked nothing
    arm.operate("release")
    fault.ends()  # only now: a person's command is no recovery
    fault.wait_for_recovery()
    wait_for_ticks(arm, 1, source=1)


@pytest.mark.fault("the takeover topic falls silent")
def test_a_silent_person_means_the_fallback_and_not_the_policy(arm: Arm, fault: Fault) -> None:
    arm.start_arm_server()
    arm.start_arm({"takeover": TAKEOVER})
    person = Person(arm, markers(arm))
    arm.operate("takeover")
    wait_for_ticks(arm, 10, source=6)
    fault.begins()
    person.drives = False
    arm.wait_until_held()
    first = len(arm.executed)
    wait_for_ticks(arm, 30, source=0)
    assert sources_since(arm, first) == {0}
    arm.operate("release")
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("the robot's node runs in shadow mode, then live")
def test_a_node_in_shadow_mode_commands_nothing(arm: Arm, fault: Fault) -> None:
    """Its heartbeats say so, too: the command watchdog stays disarmed."""
    phases: list[int] = []
    arm.subscribe(Heartbeat, HEARTBEAT_TOPIC, lambda beat: phases.append(beat.phase), HEARTBEAT_QOS)
    arm.start_arm_server()
    arm.start_unmoved(command_mode="shadow")
    fault.begins()
    wait_for_ticks(arm, 30, source=1, shadow=True)
    arm.wait_for(lambda: arm.states[-1].shadow_ticks > 0, "a comparison")
    assert list(arm.states[-1].shadow_names) == list(NAMES)
    assert not arm.record.commands
    heard = len(phases)
    arm.wait_for(lambda: len(phases) > heard + 10, "heartbeats of such ticks")
    arm.robot.send_signal(signal.SIGINT)
    assert arm.robot.wait(30) == 0
    fault.ends()
    assert set(phases) <= {Heartbeat.IDLE, Heartbeat.ENDED}
    arm.start_arm()
    fault.wait_for_recovery()
