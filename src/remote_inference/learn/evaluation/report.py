# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The reports of an evaluation: report.html, which needs no other file, and task_summary.json."""

from __future__ import annotations

import base64
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from remote_inference.base.documents.problems import finite
from remote_inference.learn.evaluation import statistics
from remote_inference.learn.evaluation.blinding import blind
from remote_inference.learn.evaluation.document import STEPPED, Condition, Evaluation
from remote_inference.learn.evaluation.results import EpisodeResult, ResultsFolder, write_whole
from remote_inference.learn.evaluation.statistics import Degradation, Pair, Spread, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# -- Success by latency as a picture, SVG text: what a policy loses, and how sure that is ----------------

_WIDTH_IN, _HEIGHT_IN, _ROW_IN, _FOOT_IN = 8.0, 3.4, 0.35, 0.8


def draw_success(summaries: Sequence[Summary]) -> str:
    """Return the success of each policy and task with its 95 % interval, by latency where there is any.

    Open marks: the simulator waited; squares: it ran in real time.
    """
    from matplotlib import rc_context  # noqa: PLC0415  takes half a second
    from matplotlib.figure import Figure  # noqa: PLC0415

    tasks = {one.condition.task for one in summaries}
    grouped: dict[tuple[str, str], list[Summary]] = {}
    for one in summaries:
        grouped.setdefault((one.condition.policy, one.condition.task), []).append(one)
    lines = [
        (policy if len(tasks) == 1 else f"{policy}, {task}", found)
        for (policy, task), found in grouped.items()
    ]
    has_latency = any(one.condition.has_latency for one in summaries)
    height_in = _HEIGHT_IN if has_latency else _FOOT_IN + _ROW_IN * len(lines)
    figure = Figure((_WIDTH_IN, height_in), layout="constrained")
    (_draw_by_latency if has_latency else _draw_in_rows)(figure.subplots(), lines)
    text = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "evaluation"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    picture = text.getvalue()
    return picture[picture.index("<svg") :]


def _draw_by_latency(axes: Axes, lines: Sequence[tuple[str, Sequence[Summary]]]) -> None:
    from remote_inference.bags.report.style import COLOURS  # noqa: PLC0415

    for (label, found), colour in zip(lines, cycle(COLOURS), strict=False):
        for mode, shape, filling in (
            ("charged", "o-", colour),
            ("real_time", "s--", colour),
            ("stepped", "o", "none"),
        ):
            some = sorted(
                (one for one in found if one.condition.mode == mode), key=lambda one: one.condition.latency_ms
            )
            if some:
                axes.errorbar(
                    [one.condition.latency_ms for one in some],
                    [100 * one.rate for one in some],
                    yerr=_bars(some),
                    color=colour,
                    capsize=3,
                    label=f"{label}, {mode}",
                    fmt=shape,
                    markerfacecolor=filling,
                )
    axes.set(xlabel="latency [ms]", ylabel="success [%]", ylim=(-4, 104))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_in_rows(axes: Axes, lines: Sequence[tuple[str, Sequence[Summary]]]) -> None:
    """Draw a row for each policy and task: the simulator waited for all of them."""
    from remote_inference.bags.report.style import BLUE  # noqa: PLC0415

    found = [one for _, some in lines for one in some]
    places, rates = range(len(found)), [100 * one.rate for one in found]
    axes.errorbar(rates, places, xerr=_bars(found), color=BLUE, capsize=3, fmt="o", markerfacecolor="none")
    axes.set_yticks(places, [label for label, _ in lines], parse_math=False)
    axes.set(xlabel="success [%]", xlim=(-4, 104), ylim=(len(found) - 0.5, -0.5))
    axes.grid(alpha=0.3, axis="x")


def _bars(some: Sequence[Summary]) -> tuple[list[float], list[float]]:
    """Return how far each interval reaches below and above its rate [%]."""
    below = [100 * max(0.0, one.rate - one.low) for one in some]
    return below, [100 * max(0.0, one.high - one.rate) for one in some]


REPORT, SUMMARY = "report.html", "task_summary.json"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72em; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .8em; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top; }
th { font-weight: 600; } td.n, th.n { text-align: right; }
img { max-width: 100%; } figure { margin: 1em 0; } figcaption { color: #555; }
.bad { color: #a32a14; }
"""


@dataclass(frozen=True)
class Findings:
    """The findings of an evaluation so far. asked: episodes of the whole evaluation.

    lost: those that are not played since an error ended the last attempt, by its kind.
    """

    asked: int
    played: int
    lost: Mapping[str, int]
    summaries: Sequence[Summary]
    pairs: Sequence[Pair]
    degradations: Sequence[Degradation]

    @classmethod
    def of(
        cls, evaluation: Evaluation, results: Collection[EpisodeResult], lost: Mapping[str, int]
    ) -> Findings:
        """Return the findings of the episodes that the document asks for; others do not count."""
        tasks = list(dict.fromkeys(result.task for result in results)) or [""]
        conditions = list(evaluation.conditions(tasks[0]))
        asked = [one for one in results if evaluation.asks_for(one.key)]
        summaries = statistics.summarise(asked, conditions)
        return cls(
            len(conditions) * evaluation.episodes,
            len(asked),
            lost,
            summaries,
            statistics.compare_policies(asked),
            statistics.find_degradations(summaries),
        )

    def to_json(self) -> dict[str, object]:
        """Return the content of task_summary.json."""
        return {
            "episodes_asked": self.asked,
            "episodes_played": self.played,
            "episodes_lost": dict(self.lost),
            "conditions": [_flatten(one) for one in self.summaries],
            "comparisons": [asdict(one) for one in self.pairs],
            "rt_degradation": [
                {**vars(one.condition), "stepped": one.stepped, "late": one.late, "points": one.points}
                for one in self.degradations
            ],
        }


def write_report(
    evaluation: Evaluation, folder: ResultsFolder, title: str, names: Mapping[str, str] | None = None
) -> Findings:
    """Write both files into the folder, each whole or not at all; return the findings.

    names: to show instead of the policies' own. Raises ResultsError.
    """
    found: Iterable[EpisodeResult] = folder.results.values()
    last = {one.key: one.kind for one in folder.lost if one.key not in folder.results}
    lost = dict(Counter(kind for key, kind in last.items() if evaluation.asks_for(key)))
    if names:
        evaluation, found = blind(evaluation, found, names)
    results = sorted(found, key=lambda one: one.key)
    findings = Findings.of(evaluation, results, lost)
    write_whole(folder.folder / SUMMARY, json.dumps(finite(findings.to_json()), indent=2) + "\n")
    write_whole(folder.folder / REPORT, _make_page(title, findings, results, folder.folder))
    return findings


def _flatten(summary: Summary) -> dict[str, object]:
    content = asdict(summary)
    condition = content.pop("condition")
    return {**condition, "success_rate": summary.rate, **content}


def _make_page(title: str, findings: Findings, results: Sequence[EpisodeResult], folder: Path) -> str:
    missing = findings.asked - findings.played
    lost = ", ".join(f"{kind} {count}" for kind, count in findings.lost.items())
    why = f" Lost to errors, by kind: {escape(lost)}." if lost else ""
    state = f'<p class="bad">{missing} of them are not played yet.{why}</p>' if missing else ""
    costs = map(_degradation_row, findings.degradations)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{findings.played} of {findings.asked} episodes played.</p>{state}",
        _section("Success", _SUCCESS_HEAD, map(_success_row, findings.summaries), always=True),
        f"<figure>{draw_success(findings.summaries)}</figure>" if findings.summaries else "",
        _section("What latency costs (RT degradation)", _DEGRADATION_HEAD, costs),
        _section("Policies compared by seed (McNemar, exact)", _PAIR_HEAD, map(_pair_row, findings.pairs)),
        _numbers_part(findings.summaries),
        _section("Time", _TIMES_HEAD, map(_times_row, findings.summaries), always=True),
        "<p>p95 and p99 are the largest of an episode's. sessions: what all episodes waited until a server "
        "had a session for them.</p>",
        _errors_part(findings.summaries),
        _failures_part(results, folder),
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


_QUANTITIES = ("mean", "p95", "p99")
# A heading that begins with a star is that of numbers.
_PLACE_HEAD = ("task", "policy", "mode", "*latency")
_SUCCESS_HEAD = (*_PLACE_HEAD, "*success", "*95 % interval", "*steps", "*held", "*errors")
_DEGRADATION_HEAD = (*_PLACE_HEAD, "*simulator waits", "*it goes on", "*lost points")
_PAIR_HEAD = ("task", "mode", "*latency", "policies", "*same seeds", "*only this one succeeded", "*p")
_TIMES_HEAD = (
    *("policy", "mode", "*latency"),
    *(f"*{what} {quantity} ms" for what in ("policy", "step") for quantity in _QUANTITIES),
    "*sessions s",
)


def _place(at: Condition) -> tuple[str, ...]:
    return at.task, at.policy, at.mode, at.latency


def _success_row(one: Summary) -> tuple[str, ...]:
    rate = f"{one.rate:.0%} ({one.successes} of {one.episodes})"
    held = str(one.held_steps) if one.condition.has_latency else ""
    interval = f"{one.low:.1%} to {one.high:.1%}"
    return (*_place(one.condition), rate, interval, _spread(one.steps), held, str(one.errors or ""))


def _times_row(one: Summary) -> tuple[str, ...]:
    times = [found[name] for found in (one.inference_ms, one.step_ms) for name in _QUANTITIES]
    _, *place = _place(one.condition)
    shown = ["" if time_ms is None else f"{time_ms:.2f}" for time_ms in times]
    return (*place, *shown, f"{one.session_wait_ms / 1e3:.1f}")


def _degradation_row(one: Degradation) -> tuple[str, ...]:
    return (*_place(one.condition), f"{one.stepped:.0%}", f"{one.late:.0%}", f"{100 * one.points:+.0f}")


def _pair_row(one: Pair) -> tuple[str, ...]:
    latency = f"{one.latency_ms:g} ms" if one.mode != STEPPED else ""
    policies, only = f"{one.first} / {one.second}", f"{one.only_first} / {one.only_second}"
    return one.task, one.mode, latency, policies, str(one.episodes), only, f"{one.p:.3g}"


def _numbers_part(summaries: Sequence[Summary]) -> str:
    names = list(dict.fromkeys(name for one in summaries for name in one.numbers))
    rows = [
        (*_place(one.condition), *(_spread(one.numbers.get(name)) for name in names)) for one in summaries
    ]
    head = (*_PLACE_HEAD, *(f"*{name}" for name in names))
    return _section("Numbers of the environment, mean ± std", head, rows, always=True)


def _errors_part(summaries: Sequence[Summary]) -> str:
    rows = [
        (str(one.condition), kind, str(count)) for one in summaries for kind, count in one.troubles.items()
    ]
    return _section("Errors on the way, by kind", ("episodes", "kind", "*errors"), rows)


def _failures_part(results: Sequence[EpisodeResult], folder: Path) -> str:
    figures = []
    for one in results:
        path = folder / one.film
        if one.success or not one.film or not path.is_file():
            continue
        picture = base64.b64encode(path.read_bytes()).decode()
        why = f": {one.error}" if one.error else ""
        caption = escape(f"{one.key}, {one.steps} steps{why}")
        figures.append(
            f'<figure><img alt="{caption}" src="data:image/png;base64,{picture}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    return f"<h2>Failures</h2>{''.join(figures)}" if figures else ""


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, always: bool = False) -> str:
    """Return a title with its table; nothing without rows, unless it is shown always."""
    rows = list(rows)
    if not rows and not always:
        return ""
    marks = [' class="n"' if name.startswith("*") else "" for name in head]
    # Names of numbers are long: they may break within.
    names = [re.sub(r"([_./])", r"\1<wbr>", escape(name.removeprefix("*"))) for name in head]
    cells = "".join(f"<th{mark}>{name}</th>" for name, mark in zip(names, marks, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{mark}>{escape(cell)}</td>" for cell, mark in zip(row, marks, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<h2>{title}</h2><div class="wide"><table><tr>{cells}</tr>{body}</table></div>'


def _spread(one: Spread | None) -> str:
    if one is None:
        return ""
    return f"{one.mean:.4g}" if one.std is None else f"{one.mean:.4g} ± {one.std:.2g}"
