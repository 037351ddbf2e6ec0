# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The engine and the control thread: whichever lines of the one run between lines of the other, no jump."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from remote_inference.robot.engine import Engine
from remote_inference.robot.motion.command_mode import CommandMode, OperatorCommand
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.action_queue import MergeMode
from support.builders import MAX_STEP, PERIOD_NS, TOPICS, make_config, make_contract, make_source, ns
from support.robot.interruption import interrupt

START_NS = ns(100)
CONTRACT = make_contract()
CONFIGS = {fallback: make_config(fallback=fallback) for fallback in ("hold", "repeat_last")}


class Robot:
    """A paused robot with a full queue, moved by hand in a pause shorter than the age bound."""

    def __init__(self, fallback: str) -> None:
        self.engine = Engine(CONTRACT, CONFIGS[fallback], "/robot_1/client", "/robot_1", seed=0)
        self.now_ns = START_NS
        self.ticks: list[Tick] = []
        rows = np.full((40, 2), 0.5, np.float32)
        self._sense(np.zeros(2))
        self.engine.queue.merge(
            make_source(capture_ns=START_NS), rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0
        )
        for _ in range(6):
            self.tick()
        self.engine.pause()
        self.tick()
        self._sense(np.full(2, -0.9))
        self.ticks.clear()

    def _sense(self, position: np.ndarray) -> None:
        self.engine.take_sensors(dict.fromkeys(TOPICS, self.now_ns), position, self.now_ns)

    def tick(self) -> None:
        self.now_ns += PERIOD_NS
        self.ticks.append(self.engine.playback.tick(self.now_ns))

    def check_steps(self) -> None:
        reached = np.full(2, -0.9)
        for command in [tick.command for tick in self.ticks if tick.command is not None]:
            assert np.abs(command - reached).max() <= MAX_STEP + 1e-9
            reached = command


Action = Callable[[Robot], Any]
OPERATOR: dict[str, Action] = {
    "resume": lambda robot: robot.engine.resume(robot.now_ns),
    "resume and reset": lambda r: (r.engine.resume(r.now_ns), r.engine.reset("", r.now_ns)),
    "reset and resume": lambda r: (r.engine.reset("", r.now_ns), r.engine.resume(r.now_ns)),
    "resume, pause and resume": lambda r: (
        r.engine.resume(r.now_ns),
        r.engine.pause(),
        r.engine.resume(r.now_ns),
    ),
}
each_command = pytest.mark.parametrize("command", OPERATOR.values(), ids=OPERATOR)
each_fallback = pytest.mark.parametrize("fallback", CONFIGS)


def lines_interrupted(fallback: str, action: Action, other: Action) -> int:
    """Run `other` at each line of `action` in turn, check the commands, and return the number of lines."""

    def comes(line: int) -> bool:
        robot = Robot(fallback)
        came = interrupt(lambda: action(robot), line, lambda: other(robot))
        robot.tick()
        robot.tick()
        robot.check_steps()
        return came

    return next(line for line in count() if not comes(line))


@each_fallback
@each_command
def test_an_operator_who_comes_in_the_middle_of_a_tick_causes_no_jump(command: Action, fallback: str):
    assert lines_interrupted(fallback, Robot.tick, command) > 5, "a tick has more lines"


@each_fallback
@each_command
def test_a_tick_in_the_middle_of_an_operator_s_command_causes_no_jump(command: Action, fallback: str):
    assert lines_interrupted(fallback, command, Robot.tick) > 5, "an operator's command has more lines"


def test_changes_of_several_threads_keep_each_other():
    mode = CommandMode(OperatorCommand())
    before = mode.operator
    mode.change(halted=True)
    mode.change(forget=True, paused=False)
    assert (mode.operator.paused, mode.operator.halted, mode.operator.forgets) == (False, True, 1)
    assert before == OperatorCommand(), "a command that was read does not change"
