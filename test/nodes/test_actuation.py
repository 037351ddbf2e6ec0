# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the other controllers get when one's commands cannot be published, and what the watchdog is told."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from remote_inference.core.contract.contract import Contract
from remote_inference.core.documents.document import parse_document
from remote_inference.core.robot.command import CommandSource
from remote_inference.core.robot.journal import Begin, JournalledEngine
from remote_inference.core.robot.safety.hearing import UNHEARD_NS
from remote_inference.core.robot.tick import Tick
from remote_inference.core.watchdog import Phase
from remote_inference.nodes.robot.actuation import Actuation
from remote_inference.nodes.schedule import Schedule
from remote_inference.wire.qos import HEARTBEAT_TOPIC
from support.builders import FLOAT64_MULTI_ARRAY, JOINTS, contract_document, make_config

DEADLINE_S = 30.0
FAILING, OTHER = "a", "b"


class Publisher:
    """Stands for one of a node, with a subscriber; keeps what it publishes."""

    def __init__(self, topic: str) -> None:
        self.topic_name = topic
        self.fails = False
        self.kept: list[Any] = []

    def get_subscription_count(self) -> int:
        return 1

    def publish(self, message: Any) -> None:
        if self.fails:
            raise RuntimeError(f"cannot publish {self.topic_name}")
        self.kept.append(message)


class Robot:
    """Two velocity controllers, which a person drives; the node publishes to nobody."""

    def __init__(self, node: Any) -> None:
        document = contract_document("velocity", fps=50.0) | {
            "commands": [
                {"topic": topic, "type": FLOAT64_MULTI_ARRAY, "names": [name]}
                for topic, name in zip((FAILING, OTHER), JOINTS, strict=True)
            ],
            "takeover": {"topic": "teleop", "type": FLOAT64_MULTI_ARRAY, "silent_s": 5.0},
        }
        contract = parse_document(document, Contract, "f")
        config = make_config(fallback="zero")
        self.publishers: dict[str, Publisher] = {}
        node.create_publisher = self._create
        self.engine = JournalledEngine(Begin(contract, config, "/r/n", "/r", seed=1, version="0"))
        self.actuation = Actuation(
            node,
            contract,
            config,
            self.engine,
            Schedule(),
            sense=lambda: None,
            pause=lambda _: None,  # type: ignore[arg-type, return-value]
        )

    def _create(self, _kind: Any, topic: str, _qos: Any) -> Publisher:
        return self.publishers.setdefault(topic, Publisher(topic))

    def drive(self) -> None:
        assert self.engine.take_over(time.monotonic_ns())[0] == ""
        self.actuation.start()
        self.wait_until(lambda: any(message.data[0] for message in self.publishers[OTHER].kept))

    def wait_until(self, condition: Any) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end_s
            self.engine.hear_person(np.array([0.5, 0.5]), time.monotonic_ns())
            self.actuation._note_hearing()
            time.sleep(0.01)

    def end(self) -> Phase:
        """Do what the node's end does; return the last beat."""
        self.engine.halt_at_once()
        self.actuation.halt()
        return Phase(self.publishers[HEARTBEAT_TOPIC].kept[-1].phase)


@pytest.fixture
def robot(node: Any) -> Robot:
    return Robot(node)


def test_a_controller_that_cannot_be_told_keeps_no_other_from_its_stop(robot: Robot) -> None:
    robot.drive()
    robot.publishers[FAILING].fails = True
    robot.wait_until(lambda: robot.actuation.loop.error)
    assert robot.end() is Phase.ABANDONED, "the watchdog has to try"
    assert list(robot.publishers[OTHER].kept[-1].data) == [0.0]


def test_an_end_in_order_is_told_as_such(robot: Robot) -> None:
    robot.drive()
    assert robot.end() is Phase.ENDED
    for topic in (FAILING, OTHER):
        assert list(robot.publishers[topic].kept[-1].data) == [0.0]


def test_a_command_that_was_decided_before_a_freeze_is_not_sent_after_it(robot: Robot) -> None:
    robot.drive()
    play, sent = robot.engine.play, robot.publishers[OTHER].kept
    before: list[int] = []

    def play_and_freeze(*arguments: Any) -> Tick:
        tick = play(*arguments)
        if not before and tick.source is CommandSource.HUMAN:
            before.append(len(sent))
            robot.engine.pause_at_once()  # meanwhile
            time.sleep(2 * UNHEARD_NS / 1e9)  # the freeze
        return tick

    robot.engine.play = play_and_freeze  # type: ignore[method-assign]
    robot.wait_until(lambda: before and len(sent) > before[0])
    assert [list(message.data) for message in sent[before[0] :]] == [[0.0]] * (len(sent) - before[0])
    assert robot.engine.control.word.losses == 1
    assert robot.end() is Phase.ENDED


def test_a_tick_that_takes_its_time_is_sent(robot: Robot) -> None:
    robot.drive()
    play, sent = robot.engine.play, robot.publishers[OTHER].kept
    before: list[int] = []

    def play_slowly(*arguments: Any) -> Tick:
        before.append(len(sent))
        time.sleep(0.2 * UNHEARD_NS / 1e9)
        return play(*arguments)

    robot.engine.play = play_slowly  # type: ignore[method-assign]
    robot.wait_until(lambda: before and len(sent) > before[0] + 5)
    assert robot.engine.control.word.losses == 0
    assert robot.end() is Phase.ENDED
