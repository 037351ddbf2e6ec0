# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Report and film strip are drawn, complete and not empty."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from synthetic_run import NS, Recording, whole_run

from remote_inference.recording.frames import FramesError, draw_film_strip
from remote_inference.recording.report import default_window, draw_report
from remote_inference.recording.timeline import Timeline, load_timeline


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    return load_timeline(whole_run(tmp_path_factory.mktemp("bags") / "run", 60.0), NS)


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def share_of(colour: tuple[int, int, int], image: np.ndarray, tolerance: int = 40) -> float:
    return float((np.abs(image.astype(int) - colour).max(axis=2) <= tolerance).mean())


def test_the_report_shows_commands_joints_and_states(run: Timeline, tmp_path: Path) -> None:
    draw_report(run, tmp_path / "report.png", "Synthetic arm")
    image = pixels(tmp_path / "report.png")
    assert image.shape[0] > 1000
    assert image.shape[1] > 1500
    upper, lower = image[: image.shape[0] // 2], image[image.shape[0] // 2 :]
    assert share_of((0, 114, 178), upper) > 0.001  # commanded
    assert share_of((230, 159, 0), upper) > 0.001  # measured
    assert share_of((0, 158, 115), lower) > 0.03  # STREAMING, inference
    assert share_of((204, 121, 167), lower) > 0.001  # RECONNECTING
    assert share_of((255, 255, 255), image) > 0.5


def test_a_chosen_window_changes_the_joint_panels(run: Timeline, tmp_path: Path) -> None:
    draw_report(run, tmp_path / "early.png", "Synthetic arm")
    draw_report(run, tmp_path / "outage.png", "Synthetic arm", window_s=(36.0, 40.0))
    early, outage = (pixels(tmp_path / f"{name}.png") for name in ("early", "outage"))
    held = [share_of((0xE4, 0xE4, 0xE4), image[: len(image) // 2], 2) for image in (early, outage)]
    assert held[1] > held[0] + 0.05


def test_the_default_window_begins_with_the_motion_and_keeps_boundaries_apart(run: Timeline) -> None:
    begin, end = default_window(run)
    assert begin == pytest.approx(run.executed.t_s[run.executed.commanded][0] - 0.3)
    assert end == pytest.approx(begin + 20.0)
    ticks = np.arange(len(run.executed.t_s))
    busy = dataclasses.replace(run.executed, request=tuple(("s1", int(i) // 3) for i in ticks))
    begin, end = default_window(dataclasses.replace(run, executed=busy))
    assert 3.0 < end - begin < 6.0


def test_a_run_without_motion_is_still_drawn(tmp_path: Path) -> None:
    recording = Recording()
    recording.executed(0, 1)
    recording.observation(5, 1, cameras=0)
    recording.executed(33, 2)
    timeline = load_timeline(recording.write(tmp_path / "run"), NS)
    draw_report(timeline, tmp_path / "report.png", "Nothing happened")
    assert (pixels(tmp_path / "report.png") < 255).any()
    with pytest.raises(FramesError, match=r"/arm: camera 0 has no JPEG image .* bag: none"):
        draw_film_strip(timeline, tmp_path / "frames.png")


def test_the_film_strip_has_a_row_per_camera_from_one_episode(run: Timeline, tmp_path: Path) -> None:
    draw_film_strip(run, tmp_path / "frames.png", count=5)
    image = pixels(tmp_path / "frames.png")
    assert image.shape[1] == 5 * 248 + 8
    half = len(image) // 2
    wrist, front = (0, 80, 130), (120, 60, 0)
    for own, other, colour in ((image[:half], image[half:], wrist), (image[half:], image[:half], front)):
        assert share_of(colour, own) > 0.5
        assert share_of(colour, other) < 0.01
    draw_film_strip(run, tmp_path / "front.png", camera_index=1, count=5, window_s=(30.5, 40.0))
    assert share_of(front, pixels(tmp_path / "front.png")[:half]) > 0.5


def test_a_camera_without_images_is_refused_with_those_that_have_some(run: Timeline, tmp_path: Path) -> None:
    with pytest.raises(FramesError, match=r"camera 2 has no JPEG image from 0\.00 to 60\.00 s; .*: 0, 1"):
        draw_film_strip(run, tmp_path / "frames.png", camera_index=2)
