# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots that go through random events for hours, one for each kind of controller, and these events.

An event ends when the robot goes on, or fails by what it judges itself; the rest is judged at the end.
"""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from remote_inference.msg import ExecutedAction
from support.faults.arm import Arm, control_ticks
from support.faults.judge import UNDER_WAY_S, find_violations
from support.faults.lying_arm import LIES, LyingArm, find_hasty
from support.faults.panel import STOPS, Panel
from support.faults.person import TAKEOVER, Person, markers
from support.faults.watched_arm import WatchedArm, go_on_after_resume, wait_for_stop
from support.nodes.rig import CONTRACT, JOINTS, Rig

SHORT_S = 1.0  # a server or a camera is away so long
SECTIONS = {"stops": STOPS, "takeover": TAKEOVER}
PARAMETERS = {
    "merge_mode": "replace",
    "buffer_time_s": 1.0,  # of 1.5 s that an observation's actions last
    "max_action_age_s": 1.5,
    "request_timeout_s": 1.0,
    "reconnect_initial_backoff_s": 0.2,
    "reconnect_max_backoff_s": 1.0,
}


class SoakedRobot(ABC):
    """A robot of one kind of controller under random events."""

    def __init__(self, rig: Rig, person: Person) -> None:
        self.rig = rig
        self.panel = Panel(rig)
        self.panel.pressed = False
        self._person = person

    @abstractmethod
    def start(self) -> None:
        """Start its processes; return when it moves."""

    @property
    def events(self) -> Sequence[Callable[[], None]]:
        """What may happen to it."""
        return (self.pause, self.begin_an_episode, self.freeze_the_server, self.stop, self.take_over)

    @abstractmethod
    def find_violations(self) -> list[str]:
        """Judge what it was commanded."""

    @property
    def commands(self) -> int:
        """Commands that its controller has received."""
        return len(self.rig.commands)

    def operate(self, name: str) -> None:
        """Call one of the operator's services, which must succeed."""
        answer = self.rig.trigger(name)
        assert answer.success, f"{name}: {answer.message}"

    def wait_for_motion(self) -> None:
        """Wait until the policy's actions are commanded."""
        first = len(self.rig.executed)
        self.rig.wait_for(
            lambda: sum(tick.source == ExecutedAction.CHUNK for tick in self.rig.executed[first:]) >= 10,
            "the policy's actions",
        )

    def find_stop(self) -> str:
        """Return why the robot is paused; empty while it is not."""
        state = self.rig.states[-1]
        return str(state.pause_cause) if state.paused else ""

    def go_on(self) -> None:
        """Release, clear and resume whatever stands, as an operator would."""
        self.panel.press(False)
        self._person.drives = True
        if self.rig.states[-1].taken_over:
            self.operate("release")
        if self.rig.states[-1].stop:
            self._clear_stop()
        else:
            self.operate("resume")
            self.wait_for_motion()

    def pause(self) -> None:
        self.operate("pause")
        self._expect_silence("a pause")
        self.operate("resume")
        self.wait_for_motion()

    def begin_an_episode(self) -> None:
        self.operate("reset")
        self.wait_for_motion()

    def freeze_the_server(self) -> None:
        self.rig.server.send_signal(signal.SIGSTOP)
        time.sleep(SHORT_S)
        self.rig.server.send_signal(signal.SIGCONT)
        self.wait_for_motion()

    def stop(self) -> None:
        """Press the button; clear the stop and resume, as the operator must."""
        self.panel.press(True)
        self.rig.wait_for(lambda: self.rig.states[-1].stop.startswith("button: "), "the stop")
        self._expect_silence("a stop")
        self.panel.press(False)
        self._clear_stop()

    def _clear_stop(self) -> None:
        self.rig.wait_for(lambda: self.rig.trigger("clear_stop").success, "the stop is cleared")
        self.operate("resume")
        self.wait_for_motion()

    def take_over(self) -> None:
        """A person commands the robot for a second, falls silent, comes back and releases it."""
        self.operate("takeover")
        self._wait_for_person()
        self._person.drives = False
        self.rig.wait_for(lambda: self.rig.executed[-1].source != ExecutedAction.HUMAN, "silence")
        self._person.drives = True
        self._wait_for_person()
        self.operate("release")
        self.wait_for_motion()

    def _wait_for_person(self) -> None:
        first = len(self.rig.executed)
        self.rig.wait_for(
            lambda: sum(tick.source == ExecutedAction.HUMAN for tick in self.rig.executed[first:]) >= 30,
            "a person's commands",
        )

    @abstractmethod
    def _moves_since(self, time_ns: int) -> Sequence[Any]:
        """Return the commands since a time that move the robot."""

    def _expect_silence(self, why: str) -> None:
        """Expect that nothing moves the robot for a second."""
        since_ns = time.time_ns() + round(UNDER_WAY_S * 1e9)
        self.rig.wait_for_executed(30)
        moves = self._moves_since(since_ns)
        assert not moves, f"commands during {why}: {moves}"


class PositionRobot(SoakedRobot):
    """Its joints jump, and each command says from what it was computed."""

    def __init__(self, folder: Path) -> None:
        self.arm = Arm(folder)
        super().__init__(self.arm, Person(self.arm, markers(self.arm)))

    def start(self) -> None:
        self.arm.start_arm_server()
        self.arm.start_arm(SECTIONS, **PARAMETERS)

    @property
    def events(self) -> Sequence[Callable[[], None]]:
        return (*super().events, self.lose_the_camera, self.freeze_the_robot)

    def operate(self, name: str) -> None:
        self.arm.operate(name)

    def lose_the_camera(self) -> None:
        self.arm.camera_on = False
        time.sleep(SHORT_S)
        self.arm.camera_on = True
        self.wait_for_motion()

    def freeze_the_robot(self) -> None:
        """Stop the process for a moment, and for longer than a stop input may be silent."""
        self._freeze(0.1)
        self.wait_for_motion()
        self._freeze(SHORT_S)
        self.rig.wait_for_executed(30)
        if self.rig.states[-1].stop.startswith("beat: "):  # a beat may be heard before the first tick
            self._clear_stop()
        self.wait_for_motion()

    def _freeze(self, seconds: float) -> None:
        self.arm.robot.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.arm.robot.send_signal(signal.SIGCONT)

    def find_violations(self) -> list[str]:
        self.arm.record.ticks = control_ticks(self.arm.executed)
        return find_violations(self.arm.record)

    def _moves_since(self, time_ns: int) -> Sequence[Any]:
        return [command for command in self.arm.record.commands if command.time_ns > time_ns]


class WatchedRobot(SoakedRobot):
    """Its controller goes on without commands; a watchdog stops it when the node freezes or hangs."""

    def __init__(self, arm: WatchedArm, field: str) -> None:
        self.arm = arm
        self.arm.sections = SECTIONS
        super().__init__(arm, Person(arm, lambda: dict.fromkeys(JOINTS, 0.0), field))

    def start(self) -> None:
        self.arm.start(**PARAMETERS)

    @property
    def events(self) -> Sequence[Callable[[], None]]:
        return (*super().events, self.freeze_the_robot, self.hang_its_control_thread)

    @property
    def commands(self) -> int:
        return len(self.arm.received)

    def freeze_the_robot(self) -> None:
        self._trip(
            lambda: self.arm.robot.send_signal(signal.SIGSTOP),
            lambda: self.arm.robot.send_signal(signal.SIGCONT),
        )

    def hang_its_control_thread(self) -> None:
        self._trip(self.arm.stick_control, self.arm.free_control)

    def _trip(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Let the watchdog stop the arm, and the operator resume it."""
        self.arm.wait_for_watchdog("ARMED")
        trips = self.arm.watchdog_states[-1].trips + 1
        begin_ns = time.time_ns()
        begin()
        try:
            wait_for_stop(self.arm, begin_ns, trips)
        finally:
            end()
        go_on_after_resume(self.arm)

    def find_violations(self) -> list[str]:
        values = (value for command in self.arm.received for value in command.values)
        limit = CONTRACT["actions"]["limits"]["shoulder"]["max"]
        return [f"commanded {value}" for value in values if not abs(value) <= limit + 1e-5]

    def _moves_since(self, time_ns: int) -> Sequence[Any]:
        return self.arm.moves_since(time_ns)


class VelocityRobot(WatchedRobot):
    """Its last velocity stays in force until it gets another."""

    def __init__(self, folder: Path) -> None:
        super().__init__(WatchedArm(folder, "velocity"), "velocity")


class _Pendulum(LyingArm):
    policy = "support.faults.pendulum_policy:PendulumPolicy"


class TrajectoryRobot(WatchedRobot):
    """Its arm moves along the trajectories; a command begins where the arm is. Its driver lies at times."""

    def __init__(self, folder: Path) -> None:
        self._moving = _Pendulum(folder, "trajectory")
        self._lies = cycle(LIES.values())
        super().__init__(self._moving, "position")

    @property
    def events(self) -> Sequence[Callable[[], None]]:
        return (*super().events, self.hear_a_lie, self.hear_a_lie)

    def hear_a_lie(self) -> None:
        """Let the driver lie; if that stops the robot, clear the stop and resume, as the operator must."""
        self._moving.lie(next(self._lies))
        if self.rig.states[-1].stop:
            self._clear_stop()
        self.wait_for_motion()

    def find_violations(self) -> list[str]:
        hasty = find_hasty(self._moving.steps)
        return [*super().find_violations(), *(f"{step} is faster than the limits" for step in hasty)]


SOAKED = {"position": PositionRobot, "trajectory": TrajectoryRobot, "velocity": VelocityRobot}
