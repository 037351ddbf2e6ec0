# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The picture of the page on RTC: the weight of each row of a prefix, for a few delays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from remote_inference.server.policies.networks.rtc_network import prefix_weights

CHUNK_SIZE, EXECUTION_HORIZON = 40, 30


@dataclass(frozen=True)
class Line:
    """One request: the rows of its prefix and its delay [control ticks]."""

    prefix_rows: int
    delay_steps: int
    colour: str
    marker: str

    @property
    def label(self) -> str:
        return f"prefix of {self.prefix_rows} rows, delay {self.delay_steps}"

    @property
    def weights(self) -> list[float]:
        weights = prefix_weights(self.prefix_rows, self.delay_steps, EXECUTION_HORIZON, CHUNK_SIZE)
        return [float(weight) for weight in weights]


LINES = (
    Line(30, 3, "#009E73", "o"),
    Line(30, 10, "#0072B2", "s"),
    Line(18, 10, "#E69F00", "^"),
)


def source() -> str:
    """Return in words what the picture shows; the PNG carries it, so that a stale one is found out."""
    return "\n".join(
        f"{line.label}: {' '.join(f'{weight:.3f}' for weight in line.weights)}" for line in LINES
    )


def draw(path: Path) -> None:
    figure = Figure(figsize=(8.0, 3.2), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for line in LINES:
        axes.plot(
            line.weights,
            label=line.label,
            color=line.colour,
            marker=line.marker,
            markersize=4,
            linewidth=1.4,
        )
    axes.axvline(EXECUTION_HORIZON, color="#8A8A8A", linewidth=0.8, linestyle="--")
    axes.annotate(
        "execution horizon",
        (EXECUTION_HORIZON, 0.6),
        xytext=(5, 0),
        textcoords="offset points",
        color="#444444",
        fontsize=9,
    )
    axes.set_xlabel("row of the chunk [control ticks since capture]")
    axes.set_ylabel("weight of the prefix")
    axes.set_xlim(-0.5, CHUNK_SIZE - 0.5)
    axes.set_ylim(-0.04, 1.06)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(LINES), fontsize=9)
    figure.savefig(path, metadata={"Description": source(), "Software": None})
