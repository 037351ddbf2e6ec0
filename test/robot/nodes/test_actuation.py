# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the other controllers get when one's commands cannot be published, and what the watchdog is told."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire.qos import COMMAND_QOS, HEARTBEAT_TOPIC
from remote_inference.robot.command import CommandSource
from remote_inference.robot.journal import Begin, JournalledEngine
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.nodes import actuation
from remote_inference.robot.nodes.actuation import TRIES, Actuation
from remote_inference.robot.queue.action_queue import MergeMode
from remote_inference.robot.watchdog import EXECUTOR_STALE_NS, Phase
from support.builders import (
    FLOAT64_MULTI_ARRAY,
    JOINT_TRAJECTORY,
    JOINTS,
    contract_document,
    make_config,
    make_source,
)
from support.waiting import wait_until

DEADLINE_S = 30.0
FAILING, OTHER = "a", "b"


class Publisher:
    """Stands for one of a node, with a subscriber; keeps what it publishes."""

    def __init__(self, topic: str, order: list[str]) -> None:
        """order: of all that is published, by topic."""
        self.topic_name = topic
        self.fails = False
        self.kept: list[Any] = []
        self._order = order

    def get_subscription_count(self) -> int:
        return 1

    def publish(self, message: Any) -> None:
        if self.fails:
            raise RuntimeError(f"cannot publish {self.topic_name}")
        self.kept.append(message)
        self._order.append(self.topic_name)


class Clock:
    """Stands for `time`; what works takes time as what stands still does."""

    def __init__(self) -> None:
        self.now_ns = time.monotonic_ns()
        self.worked_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def thread_time_ns(self) -> int:
        return self.worked_ns


class Robot:
    """Two controllers, which a person drives; the node publishes to nobody."""

    def __init__(self, node: Any, kind: str = "velocity", message_type: str = FLOAT64_MULTI_ARRAY) -> None:
        document = contract_document(kind, fps=50.0) | {
            "commands": [
                {"topic": topic, "type": message_type, "names": [name]}
                for topic, name in zip((FAILING, OTHER), JOINTS, strict=True)
            ],
            "takeover": {"topic": "teleop", "type": FLOAT64_MULTI_ARRAY, "silent_s": 5.0},
        }
        contract = parse_document(document, Contract, "f")
        config = make_config(fallback="zero" if kind == "velocity" else "hold")
        self.publishers: dict[str, Any] = {}
        self.order: list[str] = []
        self.paused = ""
        self._node = node
        node.create_publisher = self._create
        self.engine = JournalledEngine(Begin(contract, config, "/r/n", "/r", seed=1, version="0"))
        self.actuation = Actuation(
            node,
            contract,
            config,
            self.engine,
            TimerSchedule(),
            sense=lambda: None,  # type: ignore[arg-type, return-value]
            pause=self._pause,
            mistrust=self._pause,
        )

    def _create(self, _kind: Any, topic: str, _qos: Any) -> Publisher:
        return self.publishers.setdefault(topic, Publisher(topic, self.order))

    def _pause(self, cause: str) -> None:
        self.paused = cause
        self.engine.take_outside_stop(cause)

    def drive(self) -> None:
        assert self.engine.take_over(time.monotonic_ns())[0] == ""
        self.actuation.loop.start()
        self.wait_until(lambda: len(self.sent) > 2)

    @property
    def sent(self) -> list[float]:
        """What the second controller got: velocities, or the first points of trajectories."""
        kept = list(self.publishers[OTHER].kept)
        return [
            message.points[0].positions[0] if hasattr(message, "points") else message.data[0]
            for message in kept
        ]

    @property
    def phases(self) -> list[Phase]:
        return [Phase(beat.phase) for beat in list(self.publishers[HEARTBEAT_TOPIC].kept)]

    def stand_still(self, time_s: float) -> None:
        """Let each tick stand still from now on, between its decision and its message."""
        play = self.engine.play

        def play_and_stand(*arguments: Any) -> Tick:
            tick = play(*arguments)
            time.sleep(time_s)
            return tick

        self.engine.play = play_and_stand  # type: ignore[method-assign]

    def wait_until(self, condition: Any) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end_s
            self.engine.hear_person(np.array([0.5, 0.5]), time.monotonic_ns())
            self.engine.control.change(measured=np.zeros(2), measured_ns=time.monotonic_ns())
            self.actuation._executor_staleness.update(time.monotonic_ns())
            time.sleep(0.01)

    def feed(self, now_ns: int) -> None:
        """Let the policy's rows join the queue, and resume."""
        rows = np.full((100, 2), 0.01, np.float32)
        source = make_source(capture_ns=now_ns)
        self.engine.queue.merge(source, rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0)
        self.engine.control.change(paused=False)

    def take(self, clock: Clock, *, worked_ns: int = 0, stood_ns: int = 0) -> None:
        """Let each tick from now on work, or stand still, for a time."""
        play = self.engine.play

        def play_for_a_time(*arguments: Any) -> Tick:
            tick = play(*arguments)
            clock.now_ns += worked_ns + stood_ns
            clock.worked_ns += worked_ns
            return tick

        self.engine.play = play_for_a_time  # type: ignore[method-assign]

    def tick_by_hand(self, clock: Clock) -> None:
        """Do what the control thread does in its next tick, where the arm is measured and led by a person."""
        if not len(self.engine.queue) and not self.engine.taken_over:
            assert self.engine.take_over(clock.now_ns)[0] == ""
        clock.now_ns += 20_000_000
        self.engine.hear_person(np.array([0.5, 0.5]), clock.now_ns)
        self.engine.control.change(measured=np.zeros(2), measured_ns=clock.now_ns)
        self.actuation._executor_staleness.update(clock.now_ns)
        self.actuation._tick(clock.now_ns)

    def end(self) -> Phase:
        """Do what the node's end does; return the last beat."""
        self.engine.halt_at_once()
        self.actuation.halt(time.sleep)
        return Phase(self.publishers[HEARTBEAT_TOPIC].kept[-1].phase)


@pytest.fixture
def robot(node: Any) -> Robot:
    return Robot(node)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(actuation, "time", made)
    return made


@pytest.fixture
def arm(node: Any) -> Robot:
    """Return one of trajectory controllers."""
    return Robot(node, "position", JOINT_TRAJECTORY)


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
    losses: list[int] = []

    def play_and_freeze(*arguments: Any) -> Tick:
        tick = play(*arguments)
        if not before and tick.source is CommandSource.HUMAN:
            before.append(len(sent))
            losses.append(robot.engine.control.operator.losses)
            robot.engine.pause_at_once()  # meanwhile
            time.sleep(2 * EXECUTOR_STALE_NS / 1e9)  # the freeze
        return tick

    robot.engine.play = play_and_freeze  # type: ignore[method-assign]
    robot.wait_until(lambda: before and len(sent) > before[0])
    assert [list(message.data) for message in sent[before[0] :]] == [[0.0]] * (len(sent) - before[0])
    assert robot.engine.control.operator.losses > losses[0]  # a busy machine may cost more
    assert robot.end() is Phase.ENDED


def test_a_tick_that_takes_its_time_is_sent(robot: Robot) -> None:
    robot.drive()
    play, sent = robot.engine.play, robot.publishers[OTHER].kept
    before: list[int] = []

    def play_slowly(*arguments: Any) -> Tick:
        before.append(len(sent))
        time.sleep(0.2 * EXECUTOR_STALE_NS / 1e9)
        return play(*arguments)

    robot.engine.play = play_slowly  # type: ignore[method-assign]
    robot.wait_until(lambda: before and len(sent) > before[0] + 5)
    assert robot.engine.control.operator.losses == 0
    assert robot.end() is Phase.ENDED


@pytest.mark.parametrize(
    ("worked_ns", "stood_ns"), [(10**9, 0), (10**9, EXECUTOR_STALE_NS), (0, EXECUTOR_STALE_NS + 1)]
)
def test_a_tick_s_own_work_is_no_standing_still(
    robot: Robot, clock: Clock, worked_ns: int, stood_ns: int
) -> None:
    """A long chunk may take a slow computer more than a period."""
    robot.tick_by_hand(clock)
    robot.take(clock, worked_ns=worked_ns, stood_ns=stood_ns)
    robot.tick_by_hand(clock)
    assert (robot.engine.control.operator.losses == 0) is (stood_ns <= EXECUTOR_STALE_NS)
    assert len(robot.sent) == 1 + (stood_ns <= EXECUTOR_STALE_NS)


def test_a_freeze_while_messages_are_written_holds_the_command_back(robot: Robot) -> None:
    robot.drive()
    (_, _, writer), _ = robot.actuation._commands
    write, sent = writer.message, robot.publishers[OTHER].kept
    before: list[int] = []

    def write_and_freeze(*arguments: Any) -> Any:
        message = write(*arguments)
        if not before:
            before.append(len(sent))
            robot.engine.pause_at_once()
            time.sleep(2 * EXECUTOR_STALE_NS / 1e9)
        return message

    writer.message = write_and_freeze  # type: ignore[method-assign]
    robot.wait_until(lambda: before and len(sent) > before[0])
    assert [list(message.data) for message in sent[before[0] :]] == [[0.0]] * (len(sent) - before[0])
    assert robot.end() is Phase.ENDED


def test_the_watchdog_hears_of_a_command_before_a_controller_does(robot: Robot) -> None:
    """Else nobody would stop the controllers if the process died between the two."""
    robot.drive()
    first = robot.order.index(OTHER)
    assert HEARTBEAT_TOPIC in robot.order[:first]
    assert robot.phases[robot.order[:first].count(HEARTBEAT_TOPIC) - 1] is Phase.COMMANDING
    assert robot.end() is Phase.ENDED


def test_a_robot_whose_ticks_all_stand_still_falls_silent_pauses_and_stops(robot: Robot) -> None:
    robot.drive()
    robot.stand_still(1.2 * EXECUTOR_STALE_NS / 1e9)
    robot.wait_until(lambda: robot.paused)
    assert robot.paused == "control ticks stand still: no command could be sent in time"
    beats = len(robot.phases)
    robot.wait_until(lambda: robot.sent[-1] == 0.0 and robot.phases[-1] is Phase.IDLE)
    assert robot.phases[beats:].count(Phase.COMMANDING) > 0, "stops leave however late"
    assert robot.end() is Phase.ENDED


def test_a_trajectory_is_ended_although_each_tick_stands_still(arm: Robot, clock: Clock) -> None:
    """A hold is decided anew, and leaves late rather than never."""
    arm.feed(clock.now_ns)
    arm.tick_by_hand(clock)
    arm.engine.pause_at_once()
    arm.take(clock, stood_ns=12_000_000)  # more than half a period
    played = arm.actuation._played
    arm.tick_by_hand(clock)
    assert arm.actuation._played == played + TRIES
    assert [len(trajectory.points) for trajectory in arm.publishers[OTHER].kept[1:]] == [1]
    assert not arm.paused
    assert arm.phases[-1] is Phase.COMMANDING, "until all its stops have left"


def test_a_hold_that_a_long_freeze_has_outdated_never_leaves(arm: Robot, clock: Clock) -> None:
    arm.feed(clock.now_ns)
    arm.tick_by_hand(clock)
    arm.engine.pause_at_once()
    arm.take(clock, stood_ns=10**9)
    arm.tick_by_hand(clock)
    assert len(arm.sent) == 1


def test_a_tick_that_waits_and_stands_still_pauses_a_robot_whose_watchdog_may_have_acted(
    arm: Robot, clock: Clock
) -> None:
    """It has no command that could be outdated, and its beat ends the silence."""
    arm.actuation.heart._beats.hear_watchdog(8, 0, 0)
    arm.feed(clock.now_ns)
    arm.tick_by_hand(clock)
    clock.now_ns += 20_000_000  # a tick is missed: the next one waits
    arm.take(clock, stood_ns=300_000_000)
    arm.tick_by_hand(clock)
    assert len(arm.sent) == 1
    assert arm.paused == "the control thread was stuck, and the command watchdog has stopped the controllers"


def test_a_robot_that_ends_hears_where_its_joints_are_to_be_held(arm: Robot) -> None:
    """A command that did not leave says nothing of where they are: they are measured while the node ends."""
    arm.feed(time.monotonic_ns())
    arm.actuation.loop.start()
    arm.wait_until(lambda: len(arm.sent) > 2)
    arm.engine.control.change(lose=True, withhold=True)
    arm.engine.halt_at_once()

    def measure(time_s: float) -> None:
        time.sleep(time_s)
        arm.engine.control.change(measured=np.array([0.2, -0.3]), measured_ns=time.monotonic_ns())

    arm.actuation.halt(measure)
    assert arm.sent[-1] == -0.3
    assert arm.phases[-1] is Phase.ENDED


class HeardRobot(Robot):
    """One whose commands are published, and which keeps what it has decided."""

    def __init__(self, node: Any, kind: str) -> None:
        super().__init__(node, kind)
        self.commands: list[np.ndarray] = []
        play = self.engine.play

        def play_and_keep(*arguments: Any) -> Tick:
            tick = play(*arguments)
            self.commands += [] if tick.command is None else [tick.command]
            return tick

        self.engine.play = play_and_keep  # type: ignore[method-assign]

    def _create(self, kind: Any, topic: str, qos: Any) -> Any:
        return self.publishers.setdefault(topic, Node.create_publisher(self._node, kind, topic, qos))

    def subscribe(self, topic: str, twins: int = 1) -> None:
        """Let another controller of the same name subscribe. twins: how many there are then."""
        self._node.create_subscription(Float64MultiArray, topic, print, COMMAND_QOS)
        publisher = self.publishers[topic]
        wait_until(lambda: publisher.get_subscription_count() == twins, f"{twins} controllers")


def test_efforts_begin_at_zero_for_a_controller_that_died_and_is_back_before_anybody_missed_it(
    node: Any, clock: Clock
) -> None:
    robot = HeardRobot(node, "effort")
    for topic in (FAILING, OTHER):
        robot.subscribe(topic)
    robot.actuation.controllers.update()
    for _ in range(10):
        robot.tick_by_hand(clock)
    assert robot.commands[0] == pytest.approx([0.1, 0.1]), "a step"
    robot.subscribe(FAILING, twins=2)
    for _ in range(3):
        robot.tick_by_hand(clock)
    wait_until(lambda: not robot.actuation.controllers.unsubscribed(), "that it surely hears")
    for _ in range(2):
        robot.tick_by_hand(clock)
    rows = [[0.5, 0.5], *[[0.1, 0.5]] * 4, [0.2, 0.5]]
    assert np.array(robot.commands[-len(rows) :]) == pytest.approx(np.array(rows))
