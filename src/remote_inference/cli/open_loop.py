# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the kinds of replay share that ask a policy: their options, the comparison and its tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, TypeVar

from remote_inference.cli.open_loop_tables import print_policy, print_side_by_side
from remote_inference.cli.output import print_json
from remote_inference.errors import UserError

if TYPE_CHECKING:
    from remote_inference.core.exchange import SessionOffer
    from remote_inference.recording.open_loop.answers import Answerer
    from remote_inference.recording.open_loop.report import Report

TAKES = {
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
        from remote_inference.recording.open_loop.picture import draw  # noqa: PLC0415  imports matplotlib

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
    from remote_inference.recording.open_loop.picture import require_drawable  # noqa: PLC0415

    require_drawable(picture)


def _compare(
    arguments: argparse.Namespace,
    sources: Sequence[Source],
    answer: Callable[[Source, SessionOffer], AbstractContextManager[Answerer]],
) -> Report:
    from remote_inference.cli.progress import show_bag_progress  # noqa: PLC0415
    from remote_inference.core.contract.contract import load_contract  # noqa: PLC0415
    from remote_inference.recording.bags.bag import open_bag  # noqa: PLC0415
    from remote_inference.recording.export.export import find_contract  # noqa: PLC0415
    from remote_inference.recording.open_loop.evaluation import evaluate  # noqa: PLC0415
    from remote_inference.recording.open_loop.offer import find_offer  # noqa: PLC0415
    from remote_inference.recording.open_loop.report import Report, parse_bounds  # noqa: PLC0415
    from remote_inference.recording.timeline.timeline_reader import find_namespace  # noqa: PLC0415

    given = load_contract(arguments.contract) if arguments.contract else None
    is_quiet = arguments.quiet or arguments.json
    evaluations = []
    with open_bag(arguments.bag) as bag:
        namespace = find_namespace(bag, arguments.namespace)
        contract = find_contract([arguments.bag], given)
        bounds = parse_bounds(arguments.max_error or (), contract.actions.names)
        offer = find_offer(bag, namespace, contract)
        for source in sources:
            with (
                answer(source, offer) as answerer,
                show_bag_progress(str(source), arguments.bag, is_quiet=is_quiet) as tell,
            ):
                evaluations.append(evaluate(bag, namespace, contract, answerer, tell))
    return Report(str(arguments.bag), namespace, evaluations, bounds, arguments.against or DEFAULT_REFERENCE)


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
