# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Colours, type, legends and spans of time that the panels of a report share."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from remote_inference.bags.atomic_file import atomic_write

# Okabe and Ito's palette, which colour-blind readers can distinguish.
BLUE, ORANGE, GREEN, SKY, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#56B4E9", "#D55E00"
PURPLE = "#AA4499"  # not in that palette, as dark as the commands' blue
COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)  # of one policy after the other
GREY, LIGHT, PALE, TROUBLE = "#8A8A8A", "#E4E4E4", "#F1F1F1", "#FADBD0"
STATE_COLOURS = {
    "CONNECTING": SKY,
    "STREAMING": GREEN,
    "DEGRADED": "#F0E442",
    "STALLED": ORANGE,
    "RECONNECTING": "#CC79A7",
    "DEAD": "#000000",
}
UNKNOWN_STATE = GREY  # of a later release
SMALL, NORMAL, TITLE = 8.0, 9.0, 14.0  # [pt]
DPI = 110
TIME_LABEL = "time since start of the bag [s]"
LEAST_ERROR = 1e-3  # at the top of a panel of errors
_LEAST_SPAN, _LEAST_SHARE = 0.01, 1e-3  # of a panel's values, and as a share of them

Handle = Line2D | Patch


@dataclass(frozen=True)
class Windows:
    """The windows of the panels, each (begin, end) [s] of the bag."""

    run_s: tuple[float, float]
    joints_s: tuple[float, float]
    excerpt_s: tuple[float, float] | None  # the joints' part of the run, None for the whole run


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the name's ending; the file is there whole or not at all.

    Raises OSError, or ValueError for a format that matplotlib does not know.
    """
    picture = io.BytesIO()  # not the file: with a full disk the PDF writer fails in words of its own
    figure.savefig(picture, format=path.suffix[1:] or None)
    with atomic_write(path) as draft:
        draft.write_bytes(picture.getvalue())


def style(axes: Axes, ylabel: str) -> None:
    axes.set_ylabel(ylabel, fontsize=NORMAL)
    axes.tick_params(labelsize=SMALL, length=3)
    axes.ticklabel_format(style="plain", useOffset=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=LIGHT, linewidth=0.6)
    axes.set_axisbelow(True)


def least_range(low: float, high: float) -> tuple[float, float]:
    """Return a range of values, widened where they hardly change: noise is no motion."""
    lacking = max(_LEAST_SPAN, _LEAST_SHARE * max(abs(low), abs(high))) - (high - low)
    return (low - lacking / 2, high + lacking / 2) if lacking > 0.0 else (low, high)


def heading(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=NORMAL, weight="bold", pad=4)


def legend(axes: Axes, handles: Sequence[Handle]) -> None:
    """Put a legend in one row above the right end of a panel."""
    axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1.005, 0.98),
        ncols=max(1, len(handles)),
        frameon=False,
        fontsize=SMALL,
        handlelength=1.4,
        columnspacing=1.4,
    )


def say(axes: Axes, text: str) -> None:
    """Write into a panel why it is empty."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=NORMAL, color=GREY)


def shade(axes: Axes, spans: Iterable[tuple[float, float]], colour: str) -> None:
    """Colour spans (begin, duration) [s] over the whole height of a panel."""
    axes.broken_barh(
        list(spans), (0, 1), facecolor=colour, linewidth=0, zorder=0, transform=axes.get_xaxis_transform()
    )
