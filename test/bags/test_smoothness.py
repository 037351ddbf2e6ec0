# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Seams between chunks, jerk, and the time behind the plan, of commands whose steps are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from remote_inference.bags.report.report import draw_report
from remote_inference.bags.report.summary import ORDERS, describe, summarise
from remote_inference.bags.timeline.timeline import Timeline
from remote_inference.bags.timeline.timeline_reader import load_timeline
from remote_inference.msg import ExecutedAction
from support.recording.explained_run import write_explained_run
from support.recording.synthetic_run import JOINTS, NS, Recording

PERIOD_S = 0.1
STILL = [0.0] * 5


def record(commands: Sequence[float | None], begins: Sequence[int], **fields: Any) -> Recording:
    """Return a run in which one joint moves. begins: ticks from which a new chunk is executed."""
    recording = Recording()
    for tick, command in enumerate(commands):
        chunk = {"seq_id": sum(begin <= tick for begin in begins)}
        action = None if command is None else [STILL[0], command, *STILL[1:]]
        recording.executed(1e3 * PERIOD_S * tick, tick, action, **{**chunk, **fields})
    return recording


@pytest.fixture
def read(tmp_path: Path) -> Callable[[Recording], Timeline]:
    return lambda recording: load_timeline(recording.write(tmp_path / "run"), NS)


def ramp(ticks: int, speed: float, begin: float = 0.0) -> list[float]:
    return [begin + speed * PERIOD_S * tick for tick in range(ticks)]


def test_a_seam_shows_its_steps_beside_the_medians_of_its_chunk(
    read: Callable[[Recording], Timeline],
) -> None:
    """At tick 10 the command jumps by 0.5 where it went by 0.1; it goes on twice as fast."""
    numbers = summarise(read(record([*ramp(10, 1.0), *ramp(10, 2.0, 1.4)], [0, 10])))
    seams = numbers["seams"]
    assert seams["count"] == 1
    [seam] = seams["largest"]
    assert (seam["t_s"], seam["tick"], seam["joint"]) == (pytest.approx(1.0), 10, JOINTS[1])
    assert list(seam["steps"]) == list(ORDERS)
    assert seam["steps"] == pytest.approx({"position": 0.5, "velocity": 4.0, "acceleration": 40.0})
    within = {"position": 0.2, "velocity": 0.0, "acceleration": 0.0}
    assert seam["within_chunk"] == pytest.approx(within, abs=1e-9)
    assert seams["at_boundaries"]["unknown"] == {
        "median": pytest.approx(0.5),
        "max": pytest.approx(0.5),
        "n": 1,
    }
    assert seams["velocity"]["at_boundaries"]["unknown"]["max"] == pytest.approx(4.0)
    assert seams["velocity"]["within_chunks"]["unknown"]["max"] == pytest.approx(0.0, abs=1e-9)


def test_chunks_that_continue_a_smooth_motion_have_seams_like_its_own_steps(
    read: Callable[[Recording], Timeline],
) -> None:
    wave = [math.sin(0.3 * tick) for tick in range(90)]
    seams = summarise(read(record(wave, range(0, 90, 7))))["seams"]
    assert seams["count"] == 12
    for steps in (seams, seams["velocity"], seams["acceleration"]):
        at, within = (steps[place]["unknown"]["max"] for place in ("at_boundaries", "within_chunks"))
        assert 0.0 < at <= 1.05 * within


def test_the_largest_seams_come_first_and_are_few(read: Callable[[Recording], Timeline]) -> None:
    jumps = [0.1 * jump for jump in (0, 1, 4, 2, 8, 3)]
    commands = [sum(jumps[: 1 + tick // 10]) for tick in range(60)]
    seams = summarise(read(record(commands, range(0, 60, 10))))["seams"]
    assert seams["count"] == 5
    assert [seam["tick"] for seam in seams["largest"]] == [40, 20, 50]


@pytest.mark.parametrize(
    ("held", "seams"), [(0, 1), (5, 1), (15, 0)], ids=["at once", "after a short hold", "after a long hold"]
)
def test_a_chunk_after_a_hold_of_more_than_a_second_begins_a_new_motion(
    read: Callable[[Recording], Timeline], held: int, seams: int
) -> None:
    commands = [*ramp(10, 1.0), *[None] * held, *ramp(10, 1.0, 1.4)]
    found = summarise(read(record(commands, [0, 10])))["seams"]
    assert found["count"] == seams
    if seams and held:  # the arm stood
        assert found["largest"][0]["steps"]["velocity"] == pytest.approx(5.0)


def test_neither_a_new_episode_nor_a_lost_message_is_a_seam(read: Callable[[Recording], Timeline]) -> None:
    recording = record(ramp(10, 1.0), [0])
    for tick, fields in ((10, {"episode_id": 2}), (21, {"episode_id": 2, "seq_id": 3})):
        for later in range(10):
            number = tick + later
            at_ms = 1e3 * PERIOD_S * number
            recording.executed(at_ms, number, [5.0 + number] * 6, **{"seq_id": 2, **fields})
    assert summarise(read(recording))["seams"]["count"] == 0


def test_a_chunk_after_a_person_s_commands_begins_with_a_seam(read: Callable[[Recording], Timeline]) -> None:
    recording = record(ramp(10, 1.0), [10], source=ExecutedAction.HUMAN, session_id="")
    for tick in range(10, 20):
        recording.executed(1e3 * PERIOD_S * tick, tick, [3.0] * 6, seq_id=1)
    [seam] = summarise(read(recording))["seams"]["largest"]
    assert (seam["tick"], seam["joint"]) == (10, JOINTS[0])
    assert seam["steps"]["position"] == pytest.approx(3.0)


@pytest.mark.parametrize("held", [0, 40])
def test_jerk_is_the_third_difference_by_the_cube_of_the_period(
    read: Callable[[Recording], Timeline], held: int
) -> None:
    """5 t^3 has a jerk of 30/s3. Of the time in which the joint stands, only the stop counts."""
    cubic = [5.0 * (PERIOD_S * tick) ** 3 for tick in range(40)]
    jerk = summarise(read(record([*cubic, *[None] * held], [0])))["jerk"]
    assert list(jerk) == JOINTS
    assert jerk[JOINTS[0]] == {"unit": "unknown/s3", "rms": 0.0, "p99": 0.0, "n": 40 if held else 37}
    if not held:
        moved = {"unit": "unknown/s3", "rms": pytest.approx(30.0), "p99": pytest.approx(30.0), "n": 37}
        assert jerk[JOINTS[1]] == moved


def test_behind_the_plan_are_the_ticks_in_which_the_guard_altered_a_chunk_s_action(
    read: Callable[[Recording], Timeline],
) -> None:
    recording = Recording()
    rules = {3: ["velocity_limit"], 4: ["acceleration_limit", "jerk_limit"], 7: ["joint_limit"]}
    for tick in range(20):
        fields = {} if tick < 10 else {"source": ExecutedAction.HUMAN, "interventions": ["velocity_limit"]}
        named = {"interventions": rules.get(tick, []), "seq_id": 1}
        recording.executed(1e3 * PERIOD_S * tick, tick, [0.1] * 6, **{**named, **fields})
    recording.executed(2000.0, 20, interventions=["age"])  # refused: nothing was commanded
    assert summarise(read(recording))["behind_plan_s"] == pytest.approx(3 * PERIOD_S)


def test_explain_tells_jerk_seams_and_the_time_behind_in_eighty_columns(
    read: Callable[[Recording], Timeline],
) -> None:
    timeline = read(record([*ramp(10, 1.0), *ramp(10, 2.0, 1.4)], [0, 10], interventions=["velocity_limit"]))
    lines = describe(NS, summarise(timeline))
    assert max(map(len, lines)) <= 80
    told = " ".join(line.strip() for line in lines)
    assert "1 seam between chunks; the command was behind the plan for 1.90 s in all." in told
    assert f"{JOINTS[1]} " in told[told.index("Jerk, RMS and p99: ") :]
    row = " ".join(lines[-2:]).split()  # a long name takes a line of its own
    assert row[:3] == ["1.00", "10", "0.5"]
    assert row[-2:] == [JOINTS[1], "unknown"]


def test_a_run_with_a_contract_has_units(tmp_path: Path) -> None:
    numbers = summarise(load_timeline(write_explained_run(tmp_path / "run"), NS))
    assert {one["unit"] for one in numbers["jerk"].values()} == {"rad/s3"}
    assert {one["unit"] for one in numbers["seams"]["largest"]} == {"rad"}
    assert numbers["behind_plan_s"] == pytest.approx(0.05)  # one tick, clamped


def test_the_seams_are_drawn(read: Callable[[Recording], Timeline], tmp_path: Path) -> None:
    draw_report(read(record([*ramp(10, 1.0), *ramp(10, 2.0, 1.4)], [0, 10])), tmp_path / "seams.svg", "Seams")
    assert "Step in velocity at seams" in (tmp_path / "seams.svg").read_text()
