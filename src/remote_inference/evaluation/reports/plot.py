# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Success by latency as a picture, SVG text: what a policy loses, and how sure that is."""

from __future__ import annotations

import io
from collections.abc import Sequence

from remote_inference.evaluation.reports.statistics import Summary

_WIDTH_IN, _HEIGHT_IN = 8.0, 3.4


def draw_success(summaries: Sequence[Summary]) -> str:
    """Return the success of each policy and task by latency, with its 95 % interval.

    Open marks: the simulator waited; squares: it ran in real time.
    """
    from matplotlib import rc_context  # noqa: PLC0415  takes half a second
    from matplotlib.figure import Figure  # noqa: PLC0415

    from remote_inference.recording.report.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION  # noqa: PLC0415

    colours = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
    figure = Figure((_WIDTH_IN, _HEIGHT_IN), layout="constrained")
    axes = figure.subplots()
    lines: dict[tuple[str, str], list[Summary]] = {}
    for one in summaries:
        lines.setdefault((one.condition.policy, one.condition.task), []).append(one)
    tasks = {task for _, task in lines}
    for number, ((policy, task), found) in enumerate(lines.items()):
        colour = colours[number % len(colours)]
        label = policy if len(tasks) == 1 else f"{policy}, {task}"
        for mode, shape, filling in (
            ("charged", "o-", colour),
            ("real_time", "s--", colour),
            ("stepped", "o", "none"),
        ):
            some = sorted(
                (one for one in found if one.condition.mode == mode), key=lambda one: one.condition.latency_ms
            )
            if not some:
                continue
            rates = [100 * one.rate for one in some]
            below = [100 * max(0.0, one.rate - one.low) for one in some]
            above = [100 * max(0.0, one.high - one.rate) for one in some]
            axes.errorbar(
                [one.condition.latency_ms for one in some],
                rates,
                yerr=(below, above),
                color=colour,
                capsize=3,
                label=f"{label}, {mode}",
                fmt=shape,
                markerfacecolor=filling,
            )
    axes.set(xlabel="latency [ms]", ylabel="success [%]", ylim=(-4, 104))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    text = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "evaluation"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    picture = text.getvalue()
    return picture[picture.index("<svg") :]
