# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The watchdog's node on a clock of the test's own: its end, and what it asks and says of a stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from remote_inference.base.contract.controller_stop import STOPS, Measured, max_stopping_s
from remote_inference.base.wire.qos import WATCHDOG_TOPIC
from remote_inference.msg import Heartbeat
from remote_inference.robot.nodes import command_watchdog, measured_positions
from remote_inference.robot.nodes.command_watchdog import CHECK_PERIOD_S, CommandWatchdog
from remote_inference.robot.watchdog import Phase
from support.builders import ns
from support.nodes.rig import CONTRACT, JOINTS, write_contract

DEADLINE_S = 0.25
COMMANDS = CONTRACT["commands"][0]["topic"]


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now_ns = 10**12

    def monotonic_ns(self) -> int:
        return self.now_ns

    def monotonic(self) -> float:
        return self.now_ns / 1e9


class Kept(list[Any]):
    """Stands for a publisher."""

    publish = list.append
    subscribers = 1

    def get_subscription_count(self) -> int:
        return self.subscribers


class KeptWatchdog(CommandWatchdog):
    """Publishes to nobody, and keeps its messages by topic."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        super().__init__(priority=0)

    def create_publisher(self, _kind: Any, topic: str, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        return self.kept.setdefault(topic, Kept())

    def beat(self, phase: Phase) -> None:
        self._on_heartbeat(Heartbeat(instance=1, phase=int(phase), deadline_s=DEADLINE_S))

    def look(self) -> None:
        self._check()


class Switches:
    """Stands for SwitchClient: notes how many stops each controller had got when it was asked."""

    def __init__(self, node: KeptWatchdog, _switch: Any) -> None:
        self._node = node
        self.asked_after: list[int] = []

    def ask(self) -> None:
        self.asked_after.append(len(self._node.kept[COMMANDS]))

    def give_up_late(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(command_watchdog, "time", made)
    return made


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Iterator[Callable[[], KeptWatchdog]]:
    """Make watchdogs of a robot with velocity controllers and a controller manager."""
    contract = write_contract(
        tmp_path,
        actions={**CONTRACT["actions"], "kind": "velocity"},
        watchdog_switch={"deactivate": ["velocity_controller"]},
    )
    made: list[KeptWatchdog] = []

    def make_one() -> KeptWatchdog:
        made.append(KeptWatchdog())
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_watchdog, "SwitchClient", Switches)
        rclpy.init(args=["--ros-args", "-r", "__ns:=/rig", "-p", f"contract:={contract}"])
        yield make_one
        for one in made:
            one.destroy_node()
        rclpy.shutdown()


class End:
    """A watchdog that was told to end, and the robot's node, by what it does every 10 ms."""

    def __init__(self, watchdog: KeptWatchdog, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        self._watchdog, self._clock = watchdog, clock
        monkeypatch.setattr(command_watchdog, "spin", self._spin)
        watchdog.beat(Phase.COMMANDING)

    def lasts_s(self, beat_at: Callable[[float], Phase | None]) -> float:
        """Return how long the end takes. beat_at: the node's beat at a time since the end began [s]."""
        self._beat_at, self._begin_ns = beat_at, self._clock.now_ns
        self._watchdog.close()
        return self._since_s()

    def _since_s(self) -> float:
        return (self._clock.now_ns - self._begin_ns) / 1e9

    def _spin(self, _node: Any, timeout_s: float) -> None:
        self._clock.now_ns += round(timeout_s * 1e9)
        if (phase := self._beat_at(self._since_s())) is not None:
            self._watchdog.beat(phase)
        self._watchdog.look()


@pytest.fixture
def watchdog(make: Callable[[], KeptWatchdog]) -> KeptWatchdog:
    return make()


@pytest.fixture
def end(watchdog: KeptWatchdog, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> End:
    return End(watchdog, clock, monkeypatch)


def test_told_to_end_it_watches_a_node_that_goes_on_for_three_seconds_and_its_stops(
    end: End, watchdog: KeptWatchdog, capfd: pytest.CaptureFixture[str]
) -> None:
    longest_s = 3.0 + max_stopping_s(1 / CONTRACT["fps"])
    assert longest_s <= end.lasts_s(lambda _: Phase.COMMANDING) < longest_s + 2 * CHECK_PERIOD_S
    assert "ends while the robot node commands: nobody watches it" in capfd.readouterr().err
    assert not watchdog.kept[COMMANDS]


@pytest.mark.parametrize("last", [Phase.IDLE, Phase.ENDED])
def test_told_to_end_it_does_so_once_the_node_commands_nothing(
    end: End, capfd: pytest.CaptureFixture[str], last: Phase
) -> None:
    lasted_s = end.lasts_s(lambda since_s: Phase.COMMANDING if since_s < 1.0 else last)
    assert lasted_s == pytest.approx(1.0, abs=2 * CHECK_PERIOD_S)
    assert "nobody watches" not in capfd.readouterr().err


def test_told_to_end_it_still_stops_a_node_that_falls_silent(end: End, watchdog: KeptWatchdog) -> None:
    lasted_s = end.lasts_s(lambda _: None)
    assert len(watchdog.kept[COMMANDS]) == STOPS
    assert all(list(stop.data) == [0.0, 0.0] for stop in watchdog.kept[COMMANDS])
    assert lasted_s == pytest.approx(DEADLINE_S + STOPS * CHECK_PERIOD_S, abs=3 * CHECK_PERIOD_S)


def test_told_to_end_it_tries_on_a_stop_that_no_controller_heard(end: End, watchdog: KeptWatchdog) -> None:
    """Whoever starts both ends the watchdog as soon as the node has died."""
    told, back_s = watchdog.kept[COMMANDS], 1.5
    told.subscribers = 0

    def beat_at(since_s: float) -> None:
        if since_s >= back_s and not told.subscribers:
            told.subscribers = 1
            told.clear()

    lasted_s = end.lasts_s(beat_at)
    assert len(told) == STOPS
    assert lasted_s == pytest.approx(back_s + STOPS * CHECK_PERIOD_S, abs=3 * CHECK_PERIOD_S)


def test_told_to_end_it_says_what_it_could_not_stop(
    end: End, watchdog: KeptWatchdog, capfd: pytest.CaptureFixture[str]
) -> None:
    watchdog.kept[COMMANDS].subscribers = 0
    longest_s = 3.0 + max_stopping_s(1 / CONTRACT["fps"])
    assert longest_s <= end.lasts_s(lambda _: None) < longest_s + 2 * CHECK_PERIOD_S
    assert f"ends although not everything is stopped: {COMMANDS}: sent zero" in capfd.readouterr().err


def test_each_stop_asks_the_controller_manager_once_after_the_controllers(
    watchdog: KeptWatchdog, clock: Clock
) -> None:
    switches = watchdog._switch
    assert isinstance(switches, Switches)
    for stops in (0, STOPS):
        watchdog.beat(Phase.COMMANDING)
        watchdog.beat(Phase.ABANDONED)
        for _ in range(2 * STOPS):
            clock.now_ns += round(CHECK_PERIOD_S * 1e9)
            watchdog.look()
        assert switches.asked_after[-1] == stops + 1
    assert len(switches.asked_after) == 2


def test_two_watchdogs_are_told_apart_by_what_they_say(make: Callable[[], KeptWatchdog]) -> None:
    watchdogs = [make(), make()]
    for watchdog in watchdogs:
        watchdog.beat(Phase.COMMANDING)
    assert len({watchdog.kept[WATCHDOG_TOPIC][-1].instance for watchdog in watchdogs}) == 2


def test_a_controller_that_is_never_sent_a_stop_has_no_second_publisher(tmp_path: Path, clock: Clock) -> None:
    """Some controllers take nothing from a topic that has two."""
    contract = write_contract(tmp_path)  # positions, by a forward controller
    rclpy.init(args=["--ros-args", "-r", "__ns:=/rig", "-p", f"contract:={contract}"])
    try:
        watchdog = KeptWatchdog()
        assert COMMANDS not in watchdog.kept
        watchdog.beat(Phase.COMMANDING)
        for _ in range(round(2 * DEADLINE_S / CHECK_PERIOD_S)):
            clock.now_ns += round(CHECK_PERIOD_S * 1e9)
            watchdog.look()
        assert watchdog.kept[WATCHDOG_TOPIC][-1].state_name == "TRIPPED"
        assert list(watchdog.kept[WATCHDOG_TOPIC][-1].stops) == [
            f"{COMMANDS}: nothing sent, it keeps its last target"
        ]
        watchdog.destroy_node()
    finally:
        rclpy.shutdown()


class FailingPublisher(Kept):
    """Cannot publish for so many times."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def publish(self, message: Any) -> None:  # type: ignore[override]
        if self.failures:
            self.failures -= 1
            raise RuntimeError("out of\nhandles")
        self.append(message)


def trip(watchdog: KeptWatchdog, clock: Clock, looks: int) -> None:
    watchdog.beat(Phase.COMMANDING)
    watchdog.beat(Phase.ABANDONED)
    look(watchdog, clock, looks)


def look(watchdog: KeptWatchdog, clock: Clock, looks: int) -> None:
    for _ in range(looks):
        clock.now_ns += round(CHECK_PERIOD_S * 1e9)
        watchdog.look()


@pytest.mark.parametrize("failures", [3, 3 * STOPS])
def test_a_controller_that_cannot_be_told_is_tried_again_and_keeps_no_other_from_its_stop(
    watchdog: KeptWatchdog, clock: Clock, failures: int
) -> None:
    (sink, publisher, writer) = watchdog._controllers[0]
    failing = FailingPublisher(failures)
    other = sink.model_copy(update={"topic": "other"})
    watchdog._controllers = [(other, failing, writer), (sink, publisher, writer)]  # type: ignore[list-item]
    trip(watchdog, clock, 5 * STOPS)
    assert len(watchdog.kept[COMMANDS]) == STOPS
    assert len(failing) >= STOPS - 3
    assert list(watchdog.kept[WATCHDOG_TOPIC][-1].stops)[1] == f"{COMMANDS}: sent zero velocity"


def test_a_trajectory_is_ended_when_its_joints_are_heard_again(
    tmp_path: Path, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    commands = [{**CONTRACT["commands"][0], "type": "trajectory_msgs/msg/JointTrajectory"}]
    contract = write_contract(tmp_path, commands=commands)
    rclpy.init(args=["--ros-args", "-r", "__ns:=/rig", "-p", f"contract:={contract}"])
    try:
        watchdog = KeptWatchdog()
        measured: dict[str, Measured] = {}
        watchdog._positions.fresh = lambda: measured  # type: ignore[method-assign]
        trip(watchdog, clock, 2 * STOPS)
        assert not watchdog.kept[COMMANDS]
        measured |= {"shoulder": Measured(0.25), "elbow": Measured(-0.5)}
        look(watchdog, clock, 2 * STOPS)
        assert [list(stop.points[0].positions) for stop in watchdog.kept[COMMANDS]] == [[-0.5, 0.25]] * STOPS
        assert f"stopped later: {COMMANDS}: sent a hold of the measured position" in capfd.readouterr().err
        assert "sent a hold" in watchdog.kept[WATCHDOG_TOPIC][-1].stops[0]
        watchdog.destroy_node()
    finally:
        rclpy.shutdown()


@pytest.mark.parametrize(
    ("period_s", "silent_s"), [(0.01, 0.0), (0.1, 0.0), (0.2, 0.0), (0.01, 0.2), (0.01, 0.4)]
)
def test_an_arm_at_its_limit_is_led_back_no_faster_and_by_one_message(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, period_s: float, silent_s: float
) -> None:
    """It has gone on since it was measured, also while its sensors were silent."""
    commands = [{**CONTRACT["commands"][0], "type": "trajectory_msgs/msg/JointTrajectory"}]
    speed = CONTRACT["actions"]["limits"]["shoulder"]["max_velocity"]
    monkeypatch.setattr(measured_positions, "time", clock)
    begin_ns = clock.now_ns

    def position() -> float:
        return -1.9 + speed * (clock.now_ns - begin_ns) / 1e9

    contract = write_contract(tmp_path, commands=commands)
    rclpy.init(args=["--ros-args", "-r", "__ns:=/rig", "-p", f"contract:={contract}"])
    try:
        watchdog = KeptWatchdog()
        for _ in range(round(0.8 / period_s)):
            clock.now_ns += ns(period_s)
            said = JointState(name=JOINTS, position=[position()] * len(JOINTS))
            watchdog._positions._topics["joint_states"].keep(serialize_message(said))
        clock.now_ns += ns(silent_s)
        trip(watchdog, clock, 1)
        (point,) = watchdog.kept[COMMANDS][0].points
        due_s = point.time_from_start.sec + point.time_from_start.nanosec / 1e9
        for held in point.positions:
            assert 0.0 < position() - held <= speed * due_s
        look(watchdog, clock, 2 * STOPS)
        assert [stop.points for stop in watchdog.kept[COMMANDS]] == [[point]] * STOPS
        watchdog.destroy_node()
    finally:
        rclpy.shutdown()


def test_a_controller_that_is_out_of_reach_is_stopped_when_it_is_back(
    watchdog: KeptWatchdog, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    """It goes on with its last velocity meanwhile, and nobody else stops it."""
    told = watchdog.kept[COMMANDS]
    told.subscribers = 0
    trip(watchdog, clock, 5 * STOPS)
    outcome = f"{COMMANDS}: sent zero velocity"
    assert watchdog.kept[WATCHDOG_TOPIC][-1].stops == [f"{outcome}, which no controller hears"]
    capfd.readouterr()
    told.subscribers = 1
    told.clear()
    look(watchdog, clock, 5 * STOPS)
    assert len(told) == STOPS
    assert watchdog.kept[WATCHDOG_TOPIC][-1].stops == [outcome]
    assert capfd.readouterr().err.count("stopped later") == 1


@pytest.mark.parametrize(("noticed_s", "stops"), [(0.5, 2 * STOPS), (1.5, STOPS)])
def test_a_controller_whose_link_had_gone_when_it_was_stopped_is_stopped_when_it_is_back(
    watchdog: KeptWatchdog, clock: Clock, noticed_s: float, stops: int
) -> None:
    """Beside a recorder that is noticed late. Later on, a controller that goes has heard its stop before."""
    told = watchdog.kept[COMMANDS]
    trip(watchdog, clock, round(noticed_s / CHECK_PERIOD_S))
    assert len(told) == STOPS
    told.subscribers = 0
    look(watchdog, clock, 1)
    heard = len(told)
    told.subscribers = 1
    look(watchdog, clock, 5 * STOPS)
    assert len(told) - (heard - STOPS) == stops


def test_a_stop_that_failed_is_never_tried_against_a_node_that_is_back(
    watchdog: KeptWatchdog, clock: Clock
) -> None:
    (sink, _, writer) = watchdog._controllers[0]
    failing = FailingPublisher(3 * STOPS)
    watchdog._controllers = [(sink, failing, writer)]  # type: ignore[list-item]
    trip(watchdog, clock, 2 * STOPS)
    watchdog.beat(Phase.COMMANDING)
    failing.failures = 0
    look(watchdog, clock, 2)
    assert not failing


def test_what_happened_is_published_before_it_is_logged(watchdog: KeptWatchdog, clock: Clock) -> None:
    """A console that takes no output holds whoever logs."""
    seen: list[str] = []
    logger = watchdog.get_logger()
    logger.error = lambda _: seen.append(watchdog.kept[WATCHDOG_TOPIC][-1].state_name)  # type: ignore[method-assign]
    watchdog.get_logger = lambda: logger  # type: ignore[method-assign]
    trip(watchdog, clock, 1)
    assert seen == ["TRIPPED"]
