# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Somebody sets a clock while a robot is recorded: times rise all the same, and the jump is told."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from rclpy.time import Time
from std_msgs.msg import Header

from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import CLOCK
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.bags.timeline.messages import TickOrder, TickTimes, find_offset
from remote_inference.msg import ExecutedAction
from remote_inference.tools.cli import main
from support.recording.picked_run import COMMANDED_FROM, FPS, PERIOD_MS, TICKS, joints_at, write_picked_run
from support.recording.simulated_run import BEGIN_NS, write_simulated_run
from support.recording.synthetic_run import START_NS

JUMP_TICK = 25  # of the first episode


def jumping(by_ms: float) -> Callable[[float], float]:
    """Return the times of a clock that is set at a tick."""
    return lambda at_ms: at_ms + (by_ms if at_ms >= JUMP_TICK * PERIOD_MS else 0.0)


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("by_ms", [-3_600_000, -700, -30, 400, 3_600_000])
def test_the_times_of_an_export_rise_though_the_robot_s_clock_jumps(
    by_ms: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = write_picked_run(tmp_path / "run", stamps_ms=jumping(by_ms))
    assert main(["export", str(bag), "--csv", str(tmp_path / "ticks.csv"), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert (written["episodes"], written["ticks"]) == (2, 2 * TICKS)
    times_ns = [int(row["t_ns"]) for row in read_rows(tmp_path / "ticks.csv")]
    steps = np.diff(times_ns)
    assert steps.min() > 0
    assert steps.max() < 2 * PERIOD_MS * 1e6
    assert abs(times_ns[-1] - START_NS - (2 * TICKS - 1) * PERIOD_MS * 1e6) < PERIOD_MS * 1e6
    if abs(by_ms) > 50:  # smaller steps are those of a busy machine
        (note,) = written["notes"]
        assert f"the robot's clock jumped by {by_ms / 1e3:+.3f} s at 1.3 s" in note


@pytest.mark.parametrize("by_ms", [-900, -300, 300, 900])
def test_what_a_tick_saw_is_of_its_time_though_the_recorder_s_clock_is_another(
    by_ms: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = write_picked_run(tmp_path / "run", stamps_ms=lambda at_ms: at_ms + by_ms)
    assert main(["export", str(bag), "--csv", str(tmp_path / "ticks.csv"), "--json"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    told = re.search(r"the robot's clock is about ([-+.\d]+) s from the recorder's", note)
    assert told is not None
    assert float(told[1]) == pytest.approx(by_ms / 1e3, abs=0.03)
    row = read_rows(tmp_path / "ticks.csv")[60]
    seen, at_ms = float(row["state.shoulder"]), 60 * PERIOD_MS
    assert min(abs(seen - joints_at(at_ms + late)[0]) for late in range(-15, 25)) < 1e-3
    assert abs(int(row["t_ns"]) - START_NS - at_ms * 1e6) < PERIOD_MS * 1e6


def test_what_a_tick_saw_is_not_from_before_the_jump(tmp_path: Path) -> None:
    """By its stamp, a tick after a jump back would have seen joints of 0.7 s before."""
    bag = write_picked_run(tmp_path / "run", stamps_ms=jumping(-700))
    assert main(["export", str(bag), "--csv", str(tmp_path / "ticks.csv"), "--quiet"]) == 0
    row = read_rows(tmp_path / "ticks.csv")[JUMP_TICK + 5]
    seen, at_ms = float(row["state.shoulder"]), (JUMP_TICK + 5) * PERIOD_MS
    assert min(abs(seen - joints_at(at_ms + late)[0]) for late in range(-15, 25)) < 1e-3


def test_the_timestamps_of_a_data_set_are_those_of_its_frames_though_the_clock_jumps(tmp_path: Path) -> None:
    bag = write_picked_run(tmp_path / "run", stamps_ms=jumping(-700))
    options = ("--lerobot-v3", str(tmp_path / "data"), "--no-images", "--resample", "--quiet")
    assert main(["export", str(bag), *options]) == 0
    rows = pq.read_table(tmp_path / "data/data/chunk-000/file-000.parquet").to_pydict()
    frames = rows["frame_index"]
    assert len(frames) >= 2 * (TICKS - COMMANDED_FROM) - 1
    assert rows["timestamp"] == [float(np.float32(frame / FPS)) for frame in frames]


def test_explain_tells_that_the_recorder_s_clock_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, bag = write_simulated_run(tmp_path / "whole"), tmp_path / "run"
    with BagReader(whole) as source:
        at_ns = source.start_ns + 1_500_000_000
        with BagWriter(bag, source.topics.values(), contract=source.contract) as out:
            for topic, stamp_ns, data in source.raw_messages():
                out.write(topic, stamp_ns, data)
            out.add_record(CLOCK, {"at_ns": str(at_ns), "jump_s": "-2.5", "ahead_s": "-2.5"})
    assert main(["explain", str(bag), "--out", str(tmp_path / "run.png")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "The recorder's clock was set by -2.500 s at 1.5 s; times here go on steadily." in told
    assert main(["explain", str(bag), "--out", str(tmp_path / "again.png"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clock_jumps"] == [{"t_s": pytest.approx(1.5), "jump_s": -2.5}]


def test_ticks_of_two_times_are_not_taken_for_a_hundred_episodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recorder without a steady clock of its own stamps receptions again that it stamped before."""
    whole, bag = write_simulated_run(tmp_path / "whole"), tmp_path / "run"
    with BagReader(whole) as source, BagWriter(bag, source.topics.values(), contract=source.contract) as out:
        half_ns = (source.start_ns + source.end_ns) // 2
        for topic, stamp_ns, data in source.raw_messages():
            out.write(topic, stamp_ns - (stamp_ns > half_ns) * 1_000_000_000, data)
    assert main(["export", str(bag), "--csv", str(tmp_path / "ticks.csv")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(bag) in line
    assert "is among ticks of another time, expected them in order: a clock was set back" in line
    assert not (tmp_path / "ticks.csv").exists()
    assert main(["verify", str(bag)]) == 1
    assert "times of reception go back" in capsys.readouterr().out


# -- the rules -----------------------------------------------------------------------------------------------


def executed(tick: int, stamp_ns: int) -> ExecutedAction:
    return ExecutedAction(header=Header(stamp=Time(nanoseconds=stamp_ns).to_msg()), tick=tick)


@st.composite
def recordings(draw: st.DrawFn) -> list[tuple[int, Any]]:
    """Receptions that rise, with ticks, restarts and stamps that may jump anywhere."""
    ahead_ns, received_ns, tick, found = 0, BEGIN_NS, 0, []
    for _ in range(draw(st.integers(1, 40))):
        received_ns += draw(st.integers(0, 60_000_000))
        tick = draw(st.sampled_from([tick + 1, tick + 1, tick + 1, tick + 3, 0]))
        ahead_ns += draw(st.sampled_from([0, 0, 0, 0, -400_000_000, 300_000_000, -(10**10)]))
        stamp_ns = received_ns + ahead_ns - draw(st.integers(0, 5_000_000))
        found.append((received_ns, executed(tick, stamp_ns)))
    return found


@given(recordings())
def test_instants_rise_whatever_clocks_do(recording: list[tuple[int, Any]]) -> None:
    times = TickTimes(find_offset(recording))
    found = [times.at(received_ns, message) for received_ns, message in recording]
    assert all(after > before for before, after in pairwise(found))


def test_stamps_of_a_clock_that_nobody_sets_are_the_instants() -> None:
    times, lags_ns = TickTimes(), [3_000_000, 40_000_000, 900_000_000, 0, 1_000_000]
    for tick, lag_ns in enumerate(lags_ns):
        stamp_ns = BEGIN_NS + tick * 1_000_000_000
        assert times.at(stamp_ns + lag_ns, executed(tick, stamp_ns)) == stamp_ns
    assert times.jump_ns is None


def is_mixed(ticks: list[int]) -> bool:
    order = TickOrder()
    return any(order.is_mixed_with(tick) for tick in ticks)


def test_a_node_that_begins_anew_mixes_no_ticks() -> None:
    assert not is_mixed([*range(50), *range(80), *range(20), *range(90)])
    assert not is_mixed([*range(50), *range(49), 50, 51, *range(30)]), "a message was lost where it falls"
    assert is_mixed([tick for pair in zip(range(50), range(50, 100), strict=True) for tick in pair])
