# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The comparison of policies with a bag as text, at most 80 columns wide where names are short."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remote_inference.recording.open_loop.errors import ErrorSums, JointErrors
    from remote_inference.recording.open_loop.evaluation import Evaluation

REFERENCES = {"executed": "executed actions", "recorded": "recorded chunks"}
ROW_GROUPS = 5  # parts of a chunk in a table
SMALLEST = 5e-5  # shown; what is smaller and not 0 is shown as such
STATISTICS = ("mean abs", "RMS", "p95", "max")


def print_policy(evaluation: Evaluation, letter: str) -> None:
    """Print what one policy's answers are worth. letter: its name among others, empty when it is alone."""
    policy = evaluation.policy
    head = f"\n{letter}: " if letter else "\n"
    print(f"{head}{policy.name} {policy.revision} ({policy.source})")
    print(f"{evaluation.requests - evaluation.failed} answers, {_describe_chunks(evaluation)}")
    for reference, words in REFERENCES.items():
        sums: ErrorSums = getattr(evaluation, reference)
        if joints := sums.by_joint():
            _print_table(
                f"\nagainst the {words}, {sums.rows} rows",
                STATISTICS,
                joints,
                [_statistics(j) for j in joints],
            )
    if joints := evaluation.executed.by_joint():
        groups = _groups(len(joints[0].mean_abs_by_row))
        headings = [f"{group[0]}-{group[-1]}" for group in groups]
        cells = [[_number(_mean(joint, group)) for group in groups] for joint in joints]
        _print_table("\nmean absolute error by rows of the chunk", headings, joints, cells)


def print_side_by_side(evaluations: Sequence[Evaluation], letters: str, reference: str) -> None:
    """Print the mean absolute errors of several policies beside each other."""
    sums: list[ErrorSums] = [getattr(evaluation, reference) for evaluation in evaluations]
    joints = sums[0].by_joint()
    if not joints:
        return
    rows = min(evaluation.policy.chunk_size for evaluation in evaluations)
    columns = [one.mean_abs(rows) for one in sums]
    cells = [[_number(float(value)) for value in row] for row in zip(*columns, strict=True)]
    title = f"\nmean absolute error of rows 0-{rows - 1}, against the {REFERENCES[reference]}"
    _print_table(title, list(letters), joints, cells)


def _describe_chunks(evaluation: Evaluation) -> str:
    compared, same = evaluation.compared_chunks, evaluation.same_policy_chunks
    if not compared:
        return "no recorded chunk to compare with"
    of = "of the same policy" if same == compared else f"{same} of the same policy"
    return f"{compared} recorded chunks ({of}), {evaluation.identical_chunks} equal bit for bit"


def _statistics(joint: JointErrors) -> list[str]:
    return [_number(value) for value in (joint.mean_abs, joint.rms, joint.p95, joint.max)]


def _groups(rows: int) -> list[range]:
    count = min(rows, ROW_GROUPS)
    bounds = [round(rows * place / count) for place in range(count + 1)]
    return [range(*pair) for pair in pairwise(bounds)]


def _mean(joint: JointErrors, rows: range) -> float:
    values = [joint.mean_abs_by_row[row] for row in rows if not math.isnan(joint.mean_abs_by_row[row])]
    return sum(values) / len(values) if values else math.nan


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    if 0.0 < value < SMALLEST:
        return "<0.0001"
    return "0" if value == 0.0 else f"{value:.4f}" if value < 100.0 else f"{value:.4g}"


def _print_table(
    title: str, headings: Sequence[str], joints: Sequence[JointErrors], cells: Sequence[Sequence[str]]
) -> None:
    from remote_inference.monitoring.tables import Table, print_table  # noqa: PLC0415

    rows = [[joint.name, joint.unit, *row] for joint, row in zip(joints, cells, strict=True)]
    print_table(Table(title, ("joint", "unit", *headings), rows, numbers=tuple(headings)))
