# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The results of a run of the demo: summary.json, report.png and frames.png, drawn from its bag."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.utilities import get_rmw_implementation_identifier

import remote_inference
from remote_inference.demo.options import DemoOptions
from remote_inference.demo.run import NAMESPACE, Episode
from remote_inference.recording.report.report import draw_report
from remote_inference.recording.report.summary import summarise
from remote_inference.recording.timeline.frames import draw_film_strip
from remote_inference.recording.timeline.timeline import Timeline
from remote_inference.recording.timeline.timeline_reader import load_timeline
from remote_inference.ros_packages import distribution_of_wheels

LIBRARIES = ("mujoco", "numpy", "rosbags", "torch")


def write_results(options: DemoOptions, episodes: Sequence[Episode], folder: Path) -> dict[str, Any]:
    """Read the run's bag, write summary and pictures next to it; return the summary."""
    timeline = load_timeline(folder / "bag", NAMESPACE)
    summary = _write_summary(options, episodes, folder, timeline)
    title = (
        f"{options.policy}: {summary['successes']} of {len(episodes)} cubes, strategy {options.strategy}, "
        f"{options.path_text} injected"
    )
    outcomes = {episode.episode_id: episode.success for episode in episodes}
    draw_report(timeline, folder / "report.png", title, outcomes=outcomes)
    draw_film_strip(timeline, folder / "frames.png", window_s=_first_success(timeline, episodes))
    return summary


def write_summary(options: DemoOptions, episodes: Sequence[Episode], folder: Path) -> dict[str, Any]:
    """Write and return only the summary: the pictures take a while. There must be an episode."""
    return _write_summary(options, episodes, folder, load_timeline(folder / "bag", NAMESPACE))


def _write_summary(
    options: DemoOptions, episodes: Sequence[Episode], folder: Path, timeline: Timeline
) -> dict[str, Any]:
    numbers = summarise(timeline)
    successes = sum(episode.success for episode in episodes)
    summary = {
        "success_rate": successes / len(episodes),
        "successes": successes,
        "episodes": len(episodes),
        "episodes_asked_for": options.episodes,
        "policy": options.policy,
        "strategy": options.strategy,
        "injected_latency_ms": options.latency_ms,
        "injected_jitter_ms": options.jitter_ms,
        "injected_loss": options.loss,
        "injected": options.path_text,
        "seed": options.seed,
        "latency_ms": numbers.pop("latency_ms"),
        "actions_by_source": numbers.pop("actions"),
        "states_visited": numbers.pop("states"),
        "episode_results": [asdict(episode) for episode in episodes],
        "run": numbers,
        "versions": _versions(),
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def link_latest(folder: Path) -> None:
    """Let `latest` beside the run's folder point to it."""
    link = folder.parent / "latest"
    temporary = folder.parent / f".latest.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(folder.name, target_is_directory=True)
    temporary.replace(link)


def _first_success(timeline: Timeline, episodes: Sequence[Episode]) -> tuple[float, float] | None:
    """Return the part of the bag [s] with the first successful episode, None when there is none."""
    for episode in episodes:
        ticks = np.flatnonzero(timeline.executed.episode_id == episode.episode_id)
        if episode.success and len(ticks):
            begin_s = float(timeline.executed.t_s[ticks[0]])
            return begin_s, begin_s + episode.elapsed_s
    return None


def _versions() -> dict[str, str]:
    versions = {
        "remote_inference": remote_inference.__version__,
        "python": platform.python_version(),
        "ros_distro": os.environ.get("ROS_DISTRO", "") or distribution_of_wheels() or "unknown",
        "rmw": get_rmw_implementation_identifier(),
    }
    for library in LIBRARIES:
        versions[library] = version(library)
    return versions
