# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The results of a run, of a sweep and of a run that learns: each as JSON and as pictures."""

from __future__ import annotations

import io
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageFont
from rclpy.utilities import get_rmw_implementation_identifier

import remote_inference
from remote_inference.bags.report.report import draw_report
from remote_inference.bags.report.style import BLUE, GREEN, ORANGE, SKY, VERMILLION, save
from remote_inference.bags.report.summary import summarise
from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.robot_bag import EXECUTED_SUFFIX
from remote_inference.bags.timeline.timeline import Timeline
from remote_inference.bags.timeline.timeline_reader import load_timeline
from remote_inference.base.paths import distribution_of_wheels
from remote_inference.learn.environments.belt_arm.strategies import STRATEGIES
from remote_inference.learn.evaluation.statistics import find_wilson_interval
from remote_inference.robot.command import CommandSource
from remote_inference.tools.demo.run import CAMERA_TOPICS, NAMESPACE, Attempt, DemoOptions, Episode
from remote_inference.tools.demo.trainer_log import read_updates

LIBRARIES = ("mujoco", "numpy", "rosbags", "torch")
LATENCIES_MS = (0.0, 300.0, 450.0, 600.0, 800.0, 1000.0)
# Colour and marker of each strategy.
_STYLES = ((BLUE, "s"), (ORANGE, "^"), ("#CC79A7", "v"), (SKY, "D"), (GREEN, "o"))


# -- A run: summary.json, report.png and frames.png, drawn from its bag ---------------------------------


def write_results(options: DemoOptions, episodes: Sequence[Episode], folder: Path) -> dict[str, Any]:
    """Read the run's bag, write summary and pictures next to it; return the summary."""
    timeline = load_timeline(folder / "bag", NAMESPACE)
    summary = write_summary(options, episodes, folder, timeline)
    picked = f"{summary['successes']} of {len(episodes)} cubes"
    title = f"{options.policy}: {picked}, strategy {options.strategy}, {options.path_text} injected"
    outcomes = {episode.episode_id: episode.success for episode in episodes}
    draw_report(timeline, folder / "report.png", title, outcomes=outcomes)
    cameras = [f"{NAMESPACE}/{topic}" for topic in CAMERA_TOPICS]
    draw_film_strip(folder / "bag", cameras, _shown_s(timeline, episodes), folder / "frames.png")
    return summary


def write_summary(
    options: DemoOptions, episodes: Sequence[Episode], folder: Path, timeline: Timeline
) -> dict[str, Any]:
    """Write and return only the summary: the pictures take a while. There must be an episode."""
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
        "versions": {
            "remote_inference": remote_inference.__version__,
            "python": platform.python_version(),
            "ros_distro": os.environ.get("ROS_DISTRO", "") or distribution_of_wheels() or "unknown",
            "rmw": get_rmw_implementation_identifier(),
            **{library: version(library) for library in LIBRARIES},
        },
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


def _shown_s(timeline: Timeline, episodes: Sequence[Episode]) -> tuple[float, float]:
    """Return the part of the bag [s] with the first successful episode, or else with the first one."""
    shown = next((episode for episode in episodes if episode.success), episodes[0])
    ticks = np.flatnonzero(timeline.executed.episode_id == shown.episode_id)
    begin_s = float(timeline.executed.t_s[ticks[0]])
    return begin_s, begin_s + shown.elapsed_s


FRAMES = 8  # of each camera in frames.png
_FRAME_WIDTH = 240  # [px]
_GAP, _CAPTION, _PERFORATION = 8, 22, 18  # [px]
_FILM, _HOLE, _TEXT = "#1B1B1B", "#F4F4F4", "#F4F4F4"


def draw_film_strip(bag: Path, cameras: Sequence[str], window_s: tuple[float, float], path: Path) -> None:
    """Draw a row for each topic of JPEG images, all of the same moments of a window [s], to a PNG file.

    Raises BagError for a topic that has no image then.
    """
    with BagReader(bag) as reader:
        begin_ns, end_ns = (reader.start_ns + round(t_s * 1e9) for t_s in window_s)
        rows = [list(reader.messages([camera], (begin_ns, end_ns))) for camera in cameras]
        for camera, row in zip(cameras, rows, strict=True):
            if not row:
                raise BagError(f"{bag}: {camera} has no image from {window_s[0]:.2f} to {window_s[1]:.2f} s")
        moments_ns = np.linspace(rows[0][0][1], rows[0][-1][1], FRAMES)
        strips = []
        for row in rows:
            nearest = [min(row, key=lambda one: abs(one[1] - moment_ns)) for moment_ns in moments_ns]
            strips.append(_strip([(reader.seconds(at_ns), image) for _, at_ns, image in nearest]))
    size = strips[0].width, sum(strip.height + _GAP for strip in strips) - _GAP
    sheet = Image.new("RGB", size, "white")
    y = 0
    for strip in strips:
        sheet.paste(strip, (0, y))
        y += strip.height + _GAP
    sheet.save(path)


def _strip(frames: Sequence[tuple[float, Any]]) -> Image.Image:
    """Return one row: the frames side by side with captions, between the perforations of a film.

    frames: time in the bag [s], and CompressedImage.
    """
    pictures = [_picture(image.data.tobytes()) for _, image in frames]
    height = max(picture.height for picture in pictures)
    size = len(frames) * (_FRAME_WIDTH + _GAP) + _GAP, height + _CAPTION + 2 * _PERFORATION
    strip = Image.new("RGB", size, _FILM)
    draw = ImageDraw.Draw(strip)
    for x in range(6, strip.width - 10, 20):
        for y in (5, strip.height - 13):
            draw.rounded_rectangle((x, y, x + 10, y + 7), radius=2, fill=_HOLE)
    for i, ((at_s, image), picture) in enumerate(zip(frames, pictures, strict=True)):
        x = _GAP + i * (_FRAME_WIDTH + _GAP)
        strip.paste(picture, (x, _PERFORATION))
        y = _PERFORATION + height + _CAPTION // 2
        caption = f"{image.header.frame_id}, {at_s:.2f} s"
        draw.text((x + 2, y), caption, _TEXT, ImageFont.load_default(13), anchor="lm")
    return strip


def _picture(jpeg: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(jpeg))
    size = (_FRAME_WIDTH, round(image.height * _FRAME_WIDTH / image.width))
    return image.convert("RGB").resize(size, Image.Resampling.LANCZOS)


# -- A sweep --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """The result of one combination."""

    strategy: str
    latency_ms: float
    successes: int
    episodes: int

    @property
    def success_rate(self) -> float:
        return self.successes / self.episodes

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the success rate."""
        return find_wilson_interval(self.successes, self.episodes)


Sweep = Mapping[tuple[str, float], Cell]


def as_rows(cells: Sweep) -> list[dict[str, Any]]:
    """Return the content of sweep.json."""
    return [
        {**asdict(cell), "success_rate": cell.success_rate, "interval": list(cell.interval)}
        for cell in cells.values()
    ]


def write_sweep(cells: Sweep, folder: Path) -> None:
    """Write sweep.json and sweep.png."""
    (folder / "sweep.json").write_text(json.dumps(as_rows(cells), indent=2) + "\n", encoding="utf-8")
    episodes = max(cell.episodes for cell in cells.values())
    figure, axes = _begin_figure()
    for (name, strategy), (colour, marker) in zip(STRATEGIES.items(), _STYLES, strict=True):
        own = (cell for cell in cells.values() if cell.strategy == name)
        if row := sorted(own, key=lambda cell: cell.latency_ms):
            below = [100.0 * max(0.0, cell.success_rate - cell.interval[0]) for cell in row]
            above = [100.0 * max(0.0, cell.interval[1] - cell.success_rate) for cell in row]
            axes.errorbar(
                [cell.latency_ms for cell in row],
                [100.0 * cell.success_rate for cell in row],
                yerr=(below, above),
                label=strategy.label,
                color=colour,
                marker=marker,
                linewidth=2,
                elinewidth=1,
                capsize=3,
            )
    axes.set_xlabel("injected latency [ms]")
    axes.set_ylabel(f"cubes picked [%], n = {episodes} each")
    axes.set_ylim(-4, 104)
    axes.set_title("A cube on a 6 cm/s belt: success by latency, with 95 % intervals")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    save(figure, folder / "sweep.png")


def _begin_figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.5, 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


# -- A run that learns -----------------------------------------------------------------------------------


PARTS_S = (0, 30, 60, 120, 180, 240, 300)  # since the trainer was started
WINDOW = 10  # attempts of the moving average


@dataclass
class Motion:
    """What moved the arm in one episode.

    held: control ticks without a row of a chunk, between the first and the last that had one.
    """

    versions: list[str] = field(default_factory=list)
    chunk_ticks: int = 0
    held: int = 0
    _waiting: int = 0  # ticks since the last row of a chunk

    def add(self, source: int, version: str) -> None:
        if source != CommandSource.CHUNK:
            self._waiting += bool(self.chunk_ticks)
            return
        self.held, self._waiting = self.held + self._waiting, 0
        self.chunk_ticks += 1
        if version not in self.versions:
            self.versions.append(version)


def write_learning(
    options: DemoOptions, attempts: Sequence[Attempt], began_s: float, after: Sequence[Cell], folder: Path
) -> dict[str, Any]:
    """Write learning.json and the last picture; return the content of the file. began_s: Unix time.

    Raises BagError.
    """
    motions: dict[int, Motion] = {}  # by the robot's episode
    with BagReader(folder / "bag") as reader:
        for _, _, message in reader.messages([NAMESPACE + EXECUTED_SUFFIX]):
            motions.setdefault(message.episode_id, Motion()).add(message.source, message.policy_version)
    found = [(attempt, motions.get(attempt.episode.episode_id, Motion())) for attempt in attempts]
    summary = {
        "latency_ms": options.latency_ms,
        "seed": options.seed,
        "success": success_by_time(attempts),
        "after": {f"{cell.latency_ms:g} ms": [cell.successes, cell.episodes] for cell in after},
        "chunk_ticks": sum(motion.chunk_ticks for _, motion in found),
        "held_ticks": sum(motion.held for _, motion in found),
        "updates": [asdict(one) | {"time_s": round(one.time_s - began_s, 3)} for one in read_updates(folder)],
        "attempts": [
            {
                "begin_s": round(attempt.begin_s, 3),
                "end_s": round(attempt.end_s, 3),
                **asdict(attempt.episode),
                "policy_versions": motion.versions,
                "held_ticks": motion.held,
            }
            for attempt, motion in found
        ],
    }
    (folder / "learning.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    draw_learning(options, attempts, began_s, folder, after)
    return summary


def success_by_time(attempts: Sequence[Attempt]) -> dict[str, list[int]]:
    """Return successes and attempts, before the trainer was started and by the time since; by their begin."""
    parts: dict[str, list[int]] = {}
    for attempt in attempts:
        name = _part_of(attempt.begin_s)
        successes, count = parts.get(name, (0, 0))
        parts[name] = [successes + attempt.episode.success, count + 1]
    return parts


def _part_of(begin_s: float) -> str:
    if begin_s < 0.0:
        return "before"
    begin = max(part for part in PARTS_S if part <= begin_s)
    later = [part for part in PARTS_S if part > begin_s]
    return f"{begin} to {later[0]} s" if later else f"from {begin} s on"


def draw_learning(
    options: DemoOptions,
    attempts: Sequence[Attempt],
    began_s: float,
    folder: Path,
    after: Sequence[Cell] = (),
) -> None:
    """Draw success over time into learning.png, in place of the picture before."""
    figure, axes = _begin_figure()
    for index, update in enumerate(read_updates(folder)):
        label = "new weights" if index == 0 else None
        axes.axvline(update.time_s - began_s, color="0.75", linewidth=1, linestyle=":", label=label)
    ends_s = [attempt.end_s for attempt in attempts]
    marks = [100.0 * attempt.episode.success for attempt in attempts]
    colours = [GREEN if mark else VERMILLION for mark in marks]
    axes.scatter(ends_s, marks, c=colours, s=14, alpha=0.7, linewidths=0, label="an attempt")
    means = [fmean(marks[max(0, index + 1 - WINDOW) : index + 1]) for index in range(len(marks))]
    axes.plot(ends_s, means, color=BLUE, linewidth=2, label=f"the last {WINDOW} attempts")
    axes.axvline(0.0, color="black", linewidth=1)
    axes.set_xlabel("since the trainer was started [s]")
    axes.set_ylabel("cubes picked [%]")
    axes.set_ylim(-6, 106)
    title = f"An arm at {options.latency_ms:g} ms goes on while its policy learns"
    if after:
        cells = ", ".join(f"{cell.latency_ms:g} ms: {cell.successes}/{cell.episodes}" for cell in after)
        title += f"\nafterwards, at {cells}"
    axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    save(figure, folder / "learning.png")  # who looks at it while it is drawn sees the one before


def as_lines(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [(f"picked, {name}", _share(*counts)) for name, counts in summary["success"].items()]
    rows += [(f"afterwards, at {name}", _share(*counts)) for name, counts in summary["after"].items()]
    updates = summary["updates"]
    rows.append(("updates", str(len(updates))))
    if updates:
        size_kb = fmean(update["size_bytes"] for update in updates) / 1e3
        longest_ms = 1e3 * max(update["apply_s"] for update in updates)
        rows += [("sent for an update", f"{size_kb:.0f} kB"), ("longest exchange", f"{longest_ms:.2f} ms")]
    rows.append(("control ticks on chunks", str(summary["chunk_ticks"])))
    return [*rows, ("held in the middle of episodes", str(summary["held_ticks"]))]


def _share(successes: int, count: int) -> str:
    return f"{successes} of {count} ({successes / count:.0%})"
