# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A person's command is executed while it is young."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.motion.command_mode import HumanCommands, TakeoverTopics
from remote_inference.robot.step_lock import StepLock
from support.builders import contract_document, ns


def test_the_newest_command_is_executed_for_its_time_and_no_longer() -> None:
    commands = HumanCommands(silent_s=0.3)
    assert commands.newest(0, since_ns=0) is None
    commands.deposit(np.array([0.1]), 5)
    commands.deposit(np.array([0.2]), 10)
    newest = commands.newest(10 + ns(0.3), since_ns=0)
    assert newest is not None
    assert newest.tolist() == [0.2]
    assert commands.newest(10 + ns(0.3) + 1, since_ns=0) is None


def test_reading_the_command_waits_while_another_thread_has_the_lock() -> None:
    lock = StepLock()
    commands = HumanCommands(0.3, lock)
    with ThreadPoolExecutor(1) as pool:
        with lock:
            looked = pool.submit(commands.newest, 0, 0)
            assert not wait([looked], timeout=0.1).done
        assert looked.result() is None


def test_a_command_of_before_an_instant_was_for_another_moment() -> None:
    commands = HumanCommands(silent_s=0.3)
    commands.deposit(np.array([0.1]), 10)
    assert commands.newest(11, since_ns=10) is not None
    assert commands.newest(11, since_ns=11) is None


LEADER, JOYSTICK = 0, 1


def arm_on_a_base(base_kind: str) -> TakeoverTopics:
    """Return the takeover in which a leader arm moves the shoulder, and a joystick the elbow."""
    document = contract_document()
    document["actions"]["limits"]["elbow"]["kind"] = base_kind
    array = "std_msgs/msg/Float64MultiArray"
    document["commands"] = [{"topic": one, "type": array, "names": [one]} for one in ("shoulder", "elbow")]
    also = [{"topic": "joystick", "type": array, "names": ["elbow"]}]
    document["takeover"] = {"topic": "leader", "type": array, "silent_s": 0.3, "also": also}
    contract = parse_document(document, Contract, "f")
    assert contract.takeover is not None
    return TakeoverTopics(contract.takeover, contract.actions)


def joined(topics: TakeoverTopics, topic: int, value: float, at_s: float) -> tuple[list[float], float] | None:
    said = topics.join(topic, np.array([value]), ns(at_s))
    return None if said is None else (said[0].tolist(), said[1] / 1e9)


def test_commands_of_two_devices_are_joined_and_as_old_as_the_older() -> None:
    topics = arm_on_a_base("velocity")
    assert joined(topics, JOYSTICK, 0.5, 1.0) is None  # nobody has said where the arm goes
    assert joined(topics, LEADER, 0.1, 1.1) == ([0.1, 0.5], 1.0)
    assert joined(topics, JOYSTICK, 0.6, 1.2) == ([0.1, 0.6], 1.1)


def test_a_base_whose_joystick_was_let_go_stands_while_the_arm_is_led_on() -> None:
    topics = arm_on_a_base("velocity")
    assert joined(topics, LEADER, 0.1, 1.0) == ([0.1, 0.0], 1.0)
    joined(topics, JOYSTICK, 0.5, 1.0)
    assert joined(topics, LEADER, 0.2, 1.15) == ([0.2, 0.5], 1.0)
    assert joined(topics, LEADER, 0.3, 1.16) == ([0.3, 0.0], 1.16)  # before what is joined is 0.3 s old


def test_a_leader_arm_that_falls_silent_is_not_kept_alive_by_the_joystick() -> None:
    topics = arm_on_a_base("velocity")
    commands = HumanCommands(silent_s=0.3)
    joined(topics, LEADER, 0.1, 1.0)
    for at_s in (1.1, 1.2, 1.3, 1.4):
        said = topics.join(JOYSTICK, np.array([0.5]), ns(at_s))
        assert said is not None
        commands.deposit(*said)
        assert (commands.newest(ns(at_s), since_ns=0) is None) == (at_s > 1.3)


def test_the_device_that_holds_a_command_back_is_named_and_not_the_one_that_speaks() -> None:
    topics = arm_on_a_base("velocity")
    joined(topics, JOYSTICK, 0.5, 1.0)
    assert topics.silent(ns(1.0)) == ["takeover"]
    joined(topics, LEADER, 0.1, 1.1)
    assert topics.silent(ns(1.45)) == ["takeover"]
    topics = arm_on_a_base("position")
    joined(topics, LEADER, 0.1, 1.0)
    assert topics.silent(ns(1.1)) == ["takeover.also.0"]


def test_positions_of_a_second_device_are_never_made_up() -> None:
    topics = arm_on_a_base("position")
    assert joined(topics, LEADER, 0.1, 1.0) is None
    joined(topics, JOYSTICK, 0.5, 1.1)
    assert joined(topics, LEADER, 0.2, 2.0) == ([0.2, 0.5], 1.1)
