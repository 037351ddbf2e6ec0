# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the kinds of replay share that ask a policy: their options, the comparison and its tables."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, TypeVar

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.output import print_json, show_bag_progress
from remote_inference.tools.cli.replay_kinds import BAG_ARGUMENTS

if TYPE_CHECKING:
    from remote_inference.base.exchange import SessionOffer
    from remote_inference.learn.open_loop.evaluation import Answerer, ErrorSums, Evaluation, JointErrors
    from remote_inference.learn.open_loop.report import Report

# -- The comparison of policies with a bag as text, at most 80 columns wide where names are short --------


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
            values = [(joint.mean_abs, joint.rms, joint.p95, joint.max) for joint in joints]
            cells = [list(map(_number, row)) for row in values]
            _print_table(f"\nagainst the {words}, {sums.rows} rows", STATISTICS, joints, cells)
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
    from remote_inference.tools.tables import Table, print_table  # noqa: PLC0415

    rows = [[joint.name, joint.unit, *row] for joint, row in zip(joints, cells, strict=True)]
    print_table(Table(title, ("joint", "unit", *headings), rows, numbers=tuple(headings)))


TAKES = {
    **BAG_ARGUMENTS,
    "--contract": "contract",
    "--out": "out",
    "--force": "force",
    "--max-error": "max_error",
    "--against": "against",
}
JSON_SHAPE = (
    '{"exit_code", "bag", "namespace", "policies": [{"source", "name", "revision", "fingerprint", '
    '"requests", "failed", "compared_chunks", "identical_chunks", "same_policy_chunks", "executed" and '
    '"recorded": '
    '{"rows", "joints": [{"name", "unit", "mean_abs", "rms", "p95", "max", "mean_abs_by_row"}]}}], '
    '"exceeded", "problems", "notes"}'
)
DEFAULT_REFERENCE = "executed"
MOST_POLICIES = 6  # colours of a picture, and columns of a table

Source = TypeVar("Source", Path, str)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = "with --policy or --server: "
    parser.add_argument("--contract", type=Path, help="the robot's contract (default: the one in the bag)")
    parser.add_argument("--out", type=Path, help=f"{kinds}picture to draw")
    parser.add_argument("--force", action="store_true", help="replace the picture if it exists")
    parser.add_argument(
        "--max-error",
        action="append",
        metavar="JOINT=VALUE",
        help=f"{kinds}exit with 1 when a joint's mean absolute error is larger; all: any joint's",
    )
    parser.add_argument(
        "--against",
        choices=("executed", "recorded"),
        help="what --max-error is for: the executed actions (default) or the recorded chunks",
    )


def run(
    arguments: argparse.Namespace,
    sources: Sequence[Source],
    answer: Callable[[Source, SessionOffer], AbstractContextManager[Answerer]],
) -> int:
    """Compare each source's answers with the bag; return the exit code. answer: opens a source."""
    if arguments.out:
        _require_drawable(arguments.out, force=arguments.force)
    if len(sources) > MOST_POLICIES:
        raise UserError(f"found {len(sources)} policies, expected {MOST_POLICIES} at most")
    report = _compare(arguments, sources, answer)
    if arguments.out:
        from remote_inference.learn.open_loop.picture import draw  # noqa: PLC0415  imports matplotlib

        draw(report.evaluations, arguments.out, f"{arguments.bag.name}, {report.namespace or '/'}")
    if arguments.json:
        print_json(report.to_json())
    else:
        _print(report, arguments.out, is_quiet=arguments.quiet)
    return report.exit_code


def _require_drawable(picture: Path, *, force: bool) -> None:
    """Raise UserError for a picture that could not be drawn at the end."""
    if picture.exists() and not force:
        raise UserError(f"--out: {picture} exists, expected a new file, or --force to replace it")
    from remote_inference.learn.open_loop.picture import require_drawable  # noqa: PLC0415

    require_drawable(picture)


def _compare(
    arguments: argparse.Namespace,
    sources: Sequence[Source],
    answer: Callable[[Source, SessionOffer], AbstractContextManager[Answerer]],
) -> Report:
    from remote_inference.bags.timeline.robot_bag import open_robot  # noqa: PLC0415
    from remote_inference.base.contract.contract import load_contract  # noqa: PLC0415
    from remote_inference.learn.open_loop.evaluation import evaluate  # noqa: PLC0415
    from remote_inference.learn.open_loop.offer import find_offer  # noqa: PLC0415
    from remote_inference.learn.open_loop.report import Report, parse_bounds  # noqa: PLC0415

    given = load_contract(arguments.contract) if arguments.contract else None
    evaluations = []
    with open_robot(arguments.bag, arguments.namespace, given) as robot:
        bounds = parse_bounds(arguments.max_error or (), robot.require_contract().actions.names)
        offer = find_offer(robot)
        for source in sources:
            with (
                answer(source, offer) as answerer,
                show_bag_progress(str(source), arguments.bag, arguments) as report,
            ):
                evaluations.append(evaluate(robot, answerer, report))
    return Report(
        str(arguments.bag), robot.namespace, evaluations, bounds, arguments.against or DEFAULT_REFERENCE
    )


def _print(report: Report, picture: Path | None, *, is_quiet: bool) -> None:
    if not is_quiet:
        letters = ascii_uppercase[: len(report.evaluations)]
        print(f"{report.bag}, {report.namespace or '/'}: {report.evaluations[0].requests} requests")
        for letter, evaluation in zip(letters, report.evaluations, strict=True):
            print_policy(evaluation, letter if len(letters) > 1 else "")
        if len(letters) > 1:
            print_side_by_side(report.evaluations, letters, report.against)
        for note in report.notes:
            print(f"note: {note}")
        if picture:
            print(picture)
    for line in report.exceeded:
        print(f"exceeded: {line}")
    for line in report.problems:
        print(f"cannot be judged: {line}")
