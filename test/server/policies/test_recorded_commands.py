# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Recorded commands are served row by row, and an arm is led slowly to them from wherever it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remote_inference.base.policy import Float32Array, PolicyError, PolicyObservation, ServingMode
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies.recorded_commands import (
    JUMP_TICKS,
    CommandProcessors,
    RecordedCommands,
    load,
)
from remote_inference.server.warmup import find_serving_mode

FPS = 20.0
MAX_VELOCITY = (2.0, 1.0)
SLOWLY = 0.2 * np.array(MAX_VELOCITY) / FPS  # of a step
ROUNDING = 1e-5


def wave(rows: int = 200) -> Float32Array:
    """Return a motion within the limits that never stands still and never returns."""
    times = np.arange(rows) / FPS
    return np.stack([0.5 + 0.4 * times, -0.3 + 0.2 * times], axis=1).astype(np.float32)


def write(folder: Path, rows: Float32Array, **changes: Any) -> Path:
    config = {
        "bag": "run_1",
        "state_names": ["elbow", "shoulder"],
        "positions": ["shoulder", "elbow"],
        "action_names": ["shoulder", "elbow"],
        "max_velocity": list(MAX_VELOCITY),
        "fps": FPS,
    }
    (folder / "policy.json").write_text(json.dumps({**config, **changes}))
    np.save(folder / "commands.npy", rows)
    return folder


@dataclass
class Robot:
    """Executes chunks as a robot does that replaces its queue, without a network's delay."""

    policy: RecordedCommands
    processors: CommandProcessors
    position: Float32Array

    def ask(self, prefix: Float32Array | None) -> tuple[Float32Array, Float32Array]:
        """Return a chunk in model space and in robot space."""
        observation = PolicyObservation(
            state=self.position[::-1].copy(), images={}, task="", prefix_model=prefix, prefix_robot=prefix
        )
        (model,) = self.policy.predict([self.processors.pre(observation)])
        return model, self.processors.post(model)

    def run(self, ticks: int, every: int = 7, prefix: Float32Array | None = None) -> Float32Array:
        """Execute ticks, with a new chunk for the rest of the old one `every` ticks; return the commands."""
        executed: list[Float32Array] = []
        while len(executed) < ticks:
            model, robot = self.ask(prefix)
            executed += list(robot[:every])
            prefix = model[every:]
            self.position = executed[-1]
        self.left = prefix
        return np.array(executed)


def make_robot(folder: Path, rows: Float32Array, position: tuple[float, float], logged: list[str]) -> Robot:
    policy = RecordedCommands(write(folder, rows), logged.append)
    return Robot(policy, policy.make_processors(), np.array(position, np.float32))


def assert_slow(commands: Float32Array, start: Float32Array) -> None:
    steps = np.abs(np.diff(np.vstack([start, commands]), axis=0))
    assert (steps <= SLOWLY + ROUNDING).all()


def test_an_arm_is_led_slowly_to_the_first_row_and_then_gets_every_row_once(tmp_path: Path):
    logged: list[str] = []
    rows = wave()
    robot = make_robot(tmp_path, rows, (-0.5, 0.4), logged)
    start = robot.position
    commands = robot.run(600)
    (begin,) = np.flatnonzero((commands == rows[0]).all(axis=1))
    assert begin > 20
    assert_slow(commands[: begin + 1], start)
    np.testing.assert_array_equal(commands[begin : begin + len(rows)], rows)
    assert (commands[begin + len(rows) :] == rows[-1]).all()
    assert logged == [
        "going slowly to the recorded position",
        "replaying from row 0 of 200",
        "done: holding the last recorded position",
    ]


def test_an_arm_that_waited_goes_on_where_it_was(tmp_path: Path):
    off = np.float32(0.004)
    rows = np.concatenate([wave(), wave()[::-1] + off])  # there and back
    robot = make_robot(tmp_path, rows, tuple(rows[0]), [])
    before = robot.run(70)
    robot.position = before[-1] + off  # it followed with a small error, and comes here on its way back
    after = robot.run(600)
    place = int(np.flatnonzero((rows == before[-1]).all(axis=1))[0])
    (begin,) = np.flatnonzero((after == rows[place]).all(axis=1))
    np.testing.assert_array_equal(after[begin : begin + len(rows) - place], rows[place:])


def test_an_arm_that_was_moved_meanwhile_is_led_back_slowly(tmp_path: Path):
    rows = wave()
    robot = make_robot(tmp_path, rows, tuple(rows[0]), [])
    before = robot.run(70)
    robot.position = before[-1] + np.array([0.5, -0.6], np.float32)
    start = robot.position
    after = robot.run(400)
    matches = (after[:, np.newaxis] == rows).all(axis=2)
    begin = int(np.flatnonzero(matches.any(axis=1))[0])
    assert_slow(after[:begin], start)
    place = int(np.flatnonzero(matches[begin])[0])
    reached = int(np.flatnonzero((rows == before[-1]).all(axis=1))[0])
    assert reached - 7 <= place <= reached + robot.policy.spec.chunk_size
    np.testing.assert_array_equal(after[begin : begin + len(rows) - place], rows[place:])


def test_a_new_episode_begins_at_the_first_row(tmp_path: Path):
    rows = wave()
    robot = make_robot(tmp_path, rows, tuple(rows[0]), [])
    robot.run(100)
    robot.processors.reset()
    again = robot.run(400)
    (begin,) = np.flatnonzero((again == rows[0]).all(axis=1))
    np.testing.assert_array_equal(again[begin : begin + 100], rows[:100])


def test_a_jump_in_the_recording_is_crossed_slowly(tmp_path: Path):
    first, second = wave(40), wave(40) + np.float32(1.0)
    robot = make_robot(tmp_path, np.concatenate([first, second]), tuple(first[0]), [])
    commands = robot.run(300)
    end = int(np.flatnonzero((commands == first[-1]).all(axis=1))[0])
    begin = int(np.flatnonzero((commands == second[0]).all(axis=1))[0])
    assert begin > end + 20
    assert_slow(commands[end : begin + 1], first[-1])
    step = 0.9 * JUMP_TICKS * np.array(MAX_VELOCITY, np.float32) / FPS
    small = np.concatenate([first, (first[-1] + step)[np.newaxis]])
    kept = make_robot(tmp_path, small, tuple(first[0]), []).run(100)
    np.testing.assert_array_equal(kept[: len(small)], small)


def test_robots_may_be_probed_without_news_for_the_operator(tmp_path: Path):
    logged: list[str] = []
    policy = RecordedCommands(write(tmp_path, wave()), logged.append)
    assert find_serving_mode(policy, "").mode is ServingMode.SHARED
    assert logged == []
    assert policy.spec.chunk_size == 30


@pytest.mark.parametrize(
    ("rows", "changes", "expected"),
    [
        (np.zeros((0, 2), np.float32), {}, "commands.npy: found shape [0, 2], expected 1 to"),
        (np.zeros((5, 3), np.float32), {}, "found shape [5, 3], expected 1 to 16777215 rows of 2 actions"),
        (np.full((5, 2), np.nan, np.float32), {}, "found non-finite values, expected finite commands"),
        (
            wave(),
            {"positions": ["shoulder", "wrist"]},
            "positions: found 'wrist', expected names of state_names",
        ),
        (wave(), {"max_velocity": [1.0]}, "max_velocity: expected one for each of action_names"),
    ],
)
def test_files_that_do_not_agree_are_named(
    rows: Float32Array, changes: dict[str, Any], expected: str, tmp_path: Path
):
    source = ModelSource(
        backend="remote_inference.server.policies.recorded_commands:load",
        path=str(write(tmp_path, rows, **changes)),
    )
    with pytest.raises(PolicyError) as caught:
        load(source)
    assert expected in str(caught.value)
