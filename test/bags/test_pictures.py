# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The report is drawn, complete and not empty."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from remote_inference.bags.report.report import ReportError, default_window, draw_joints, draw_report
from remote_inference.bags.report.run import find_episodes, guard_events
from remote_inference.bags.timeline.timeline import Timeline
from remote_inference.bags.timeline.timeline_reader import load_timeline
from remote_inference.base.contract.action_bounds import JointLimit
from remote_inference.msg import ClientState, ExecutedAction
from support.recording.synthetic_run import NS, Recording, whole_run


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


def test_a_person_s_commands_and_would_be_ones_look_different(tmp_path: Path) -> None:
    def draw(name: str, **fields: Any) -> tuple[float, float]:
        """Return the shares of blue and purple in a report of commands with these fields."""
        recording = Recording()
        recording.state(0, ClientState.STREAMING)
        recording.observation(5, 1, cameras=0)
        recording.chunk(6, 1)
        for tick in range(60):
            recording.executed(10 + 33 * tick, tick, [0.1 * (tick // 5 % 5)] * 6, **fields)
        draw_report(
            load_timeline(recording.write(tmp_path / name), NS), tmp_path / f"{name}.png", "Who commands"
        )
        image = pixels(tmp_path / f"{name}.png")
        upper = image[: image.shape[0] // 2]
        return share_of((0, 114, 178), upper), share_of((0xAA, 0x44, 0x99), upper)

    live, human, shadow = (
        draw("live"),
        draw("human", source=ExecutedAction.HUMAN),
        draw("shadow", shadow=True),
    )
    assert live[1] == shadow[1] == 0.0
    assert human[1] > 0.001
    assert 0.0 < shadow[0] < 0.8 * live[0]  # dashed


VERMILLION, TROUBLE = (0xD5, 0x5E, 0x00), (0xFA, 0xDB, 0xD0)


def test_failed_episodes_are_marked(run: Timeline, tmp_path: Path) -> None:
    draw_report(run, tmp_path / "unknown.png", "Synthetic arm")
    draw_report(run, tmp_path / "failed.png", "Synthetic arm", outcomes={1: False, 2: True})
    shares = [share_of(TROUBLE, pixels(tmp_path / f"{name}.png"), 2) for name in ("unknown", "failed")]
    assert shares[0] == 0.0
    assert shares[1] > 0.1


def test_an_episode_is_in_trouble_when_someone_says_so_or_the_robot_was_without_actions(
    run: Timeline, tmp_path: Path
) -> None:
    assert [(e.episode_id, e.trouble) for e in find_episodes(run)] == [(1, ""), (2, "")]
    assert [e.begin_s for e in find_episodes(run)] == pytest.approx([0.002, 30.002])
    judged = find_episodes(run, {1: False, 2: True})
    assert [e.trouble for e in judged] == ["failed", ""]
    states = dataclasses.replace(run.states, state=(*run.states.state[:-1], "DEAD"))
    dead = dataclasses.replace(run, states=states)
    assert [e.trouble for e in find_episodes(dead)] == ["", "ended DEAD"]
    assert [e.trouble for e in find_episodes(dead, {2: True})] == ["", ""]  # who judges it knows better


def test_the_guard_is_shown_by_rule_and_with_what_only_the_client_s_counts_tell(tmp_path: Path) -> None:
    recording = Recording()
    for tick, rules in enumerate((["age"], ["joint_limit", "velocity_limit"], ["velocity_limit"])):
        recording.executed(100 * tick, tick, [0.0] * 6, interventions=rules)
    names = ["age", "shape"]
    for at_ms, counts in ((0, [5, 1]), (150, [6, 1]), (400, [6, 3])):
        recording.state(at_ms, 1, guard_names=names, guard_counts=counts)
    events = guard_events(load_timeline(recording.write(tmp_path / "run"), NS))
    assert {rule: t_s.tolist() for rule, t_s in events.items()} == {
        "age": pytest.approx([0.0]),
        "joint_limit": pytest.approx([0.1]),
        "velocity_limit": pytest.approx([0.1, 0.2]),
        "shape": pytest.approx([0.4]),
    }


def test_limits_in_view_are_drawn(run: Timeline, tmp_path: Path) -> None:
    def with_limits(maximum: float) -> Timeline:
        limit = JointLimit(min=-50.0, max=maximum, max_velocity=1.0)
        return dataclasses.replace(
            run, joints=tuple(dataclasses.replace(joint, limit=limit) for joint in run.joints)
        )

    for name, maximum in (("far", 50.0), ("near", 0.5)):
        draw_report(with_limits(maximum), tmp_path / f"{name}.png", "Synthetic arm")
    far, near = (pixels(tmp_path / f"{name}.png") for name in ("far", "near"))
    upper = slice(0, len(near) // 2)
    assert share_of(VERMILLION, near[upper]) > share_of(VERMILLION, far[upper]) + 0.0002


def test_a_bag_without_joint_states_is_drawn(tmp_path: Path) -> None:
    recording = Recording()
    for tick in range(5):
        recording.executed(100 * tick, tick, [0.1 * tick] * 6)
    timeline = load_timeline(recording.write(tmp_path / "run", leave_out="joint_states"), NS)
    assert {joint.topic for joint in timeline.joints} == {""}
    draw_report(timeline, tmp_path / "report.png", "No joints")
    assert (pixels(tmp_path / "report.png") < 255).any()


def test_the_noise_of_an_arm_that_stands_still_is_a_line_with_plain_numbers(tmp_path: Path) -> None:
    recording = Recording()
    noise = np.random.default_rng(0).normal(0.0, 1e-8, (60, 6))
    for tick in range(60):
        recording.joints(33 * tick, list(0.7 + noise[tick]))
        recording.executed(33 * tick + 2, tick, [0.7] * 6)
    figure = Figure()
    FigureCanvasAgg(figure)
    timeline = load_timeline(recording.write(tmp_path / "run"), NS)
    draw_joints(figure, figure.add_gridspec(1, 1)[0], timeline, [], (0.0, 2.0))
    figure.canvas.draw()
    assert len(figure.axes) == 6
    for axes in figure.axes:
        low, high = axes.get_ylim()
        assert high - low == pytest.approx(0.01)
        assert axes.yaxis.get_offset_text().get_text() == ""
        assert [float(label.get_text()) for label in axes.get_yticklabels()] == pytest.approx(
            axes.get_yticks(), abs=1e-4
        )


@pytest.mark.parametrize("window_s", [(5.0, 5.0), (8.0, 2.0), (60.5, 70.0), (-4.0, -1.0)])
def test_a_window_without_anything_is_refused(
    run: Timeline, tmp_path: Path, window_s: tuple[float, float]
) -> None:
    with pytest.raises(ReportError, match=r"window: found .* s, expected a part of 0 to 60\.0 s"):
        draw_report(run, tmp_path / "report.png", "Synthetic arm", window_s)


def test_a_picture_that_cannot_be_written_is_named(run: Timeline, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"none/report\.png: cannot be written: No such file"):
        draw_report(run, tmp_path / "none" / "report.png", "Synthetic arm")
    with pytest.raises(ReportError, match=r"report\.xyz: Format 'xyz' is not supported"):
        draw_report(run, tmp_path / "report.xyz", "Synthetic arm")
