# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The screen of `top --robot`: what an operator reads off it."""

from __future__ import annotations

import json
import math

import pytest

from remote_inference.msg import ClientState, ExecutedAction
from remote_inference.tools.robot_view import CELL_S, CELLS, SPAN_S, WIDTH, RobotTraces, sparkline

FPS = 50
NOW_S = SPAN_S - 0.01  # between two ticks


def watched(**state: object) -> RobotTraces:
    """Return the traces of a robot whose queue runs empty each second, in whose last fifth it holds."""
    traces = RobotTraces("/arm_1")
    for tick in range(round(SPAN_S * FPS)):
        now_s, step = tick / FPS, tick % FPS
        if step % (FPS // 2) == 0:
            message = ClientState(state_name="STREAMING", queue_wait_ms=2.0, inference_ms=40.0, **state)
            message.transport_ms = 20.0 if tick else math.nan
            traces.take(message, now_s)
        holds = step >= 40
        age_s = math.nan if holds else 0.1 + step / FPS
        source = ExecutedAction.HOLD if holds else ExecutedAction.CHUNK
        left = max(0, 40 - step)
        traces.take(ExecutedAction(action_age_s=age_s, queue_length=left, source=source), now_s)
    return traces


def row(traces: RobotTraces, label: str, now_s: float = NOW_S) -> tuple[str, list[str]]:
    """Return a row's bars and its numbers."""
    (line,) = [line for line in traces.lines(now_s) if line.startswith(label)]
    return line[14 : 14 + CELLS], line[14 + CELLS :].split()


def test_bars_lie_between_zero_and_the_top_and_what_is_missing_is_blank() -> None:
    assert sparkline([0.0, 3.5, 7.0, None, 9.0, -1.0], 7.0) == "▁▅█ █▁"
    assert sparkline([0.0, None], 0.0) == "▁ "


def test_age_queue_and_source_are_those_of_the_last_seconds() -> None:
    traces = watched()
    bars, (_, worst) = row(traces, "age s")
    assert len(bars) == CELLS
    assert bars[0] < bars[6]
    assert worst == "0.88"
    assert row(traces, "queue  ")[1][1] == "0"
    letters, _ = row(traces, "source")
    assert letters == ("C" * 8 + "HH") * 5
    assert any("C CHUNK, H HOLD" in line for line in traces.lines(NOW_S))


def test_a_single_tick_of_another_source_shows() -> None:
    traces = RobotTraces("/arm_1")
    traces.take(ClientState(), 0.0)
    for tick in range(10):
        source = ExecutedAction.ZERO if tick == 4 else ExecutedAction.CHUNK
        traces.take(ExecutedAction(source=source), 0.001 * tick)
    assert row(traces, "source", 0.01)[0].strip() == "Z"


def test_the_parts_of_the_latency_have_one_scale() -> None:
    traces = watched()
    waits, computed, ways = (row(traces, label) for label in ("queue wait", "inference", "transport"))
    assert waits[1] == ["2.0", "2.0"]
    assert (set(waits[0]), set(computed[0])) == ({"▁"}, {"█"})
    assert set(ways[0]) == {" ", "▅"}  # NaN, before the first chunk, is none


def test_a_robot_that_falls_silent_leaves_the_screen_and_says_for_how_long() -> None:
    traces = watched()
    lines = traces.lines(NOW_S + 3.0)
    assert "not heard for: 3 s" in lines
    assert row(traces, "age s", NOW_S + 3.0)[1][0] == "-"
    assert row(traces, "queue  ", NOW_S + 3.0)[0].endswith(" " * 20)
    assert traces.as_json(2.0 * SPAN_S + 1.0)["last"]["queue_length"] == [None] * CELLS


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"stop": "estop: pressed", "paused": True}, "stopped by: estop: pressed"),
        ({"paused": True, "pause_cause": "by the operator"}, "paused: by the operator"),
        ({"stale_sources": ["front", "wrist"]}, "waiting for: front, wrist"),
    ],
)
def test_the_screen_says_why_nothing_moves(state: dict[str, object], said: str) -> None:
    assert said in watched(**state).lines(NOW_S)


def test_no_line_is_wider_than_the_screen_whatever_a_robot_says() -> None:
    traces = watched(task="tidy " * 500, cause="c" * 300, stale_sources=["topic"] * 50)
    for source, age_s in ((7, math.inf), (99, 1e38), (100, 0.1), (255, -1.0)):
        traces.take(ExecutedAction(source=source, action_age_s=age_s), NOW_S)
    assert max(map(len, traces.lines(NOW_S))) <= WIDTH


def test_programs_get_the_state_and_the_cells() -> None:
    found = watched().as_json(NOW_S)
    json.dumps(found)
    assert found["robot"] == "/arm_1"
    assert found["state_name"] == "STREAMING"
    assert found["last"]["cell_s"] == CELL_S
    assert found["last"]["source"][-1] == "HOLD"
    assert {len(cells) for name, cells in found["last"].items() if name != "cell_s"} == {CELLS}


def test_without_a_state_there_is_a_line() -> None:
    assert RobotTraces("/arm_1").lines(0.0) == ["/arm_1: no state yet"]
