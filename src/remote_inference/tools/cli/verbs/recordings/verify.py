# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference verify`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from remote_inference.tools.cli.exit_codes import EXIT_NO, EXIT_OK
from remote_inference.tools.cli.output import add_output_arguments, print_json, show_progress

if TYPE_CHECKING:
    from remote_inference.bags.checks.verification import Verification

EXAMPLES = (
    "remote-inference verify run_1",
    "remote-inference verify run_1 --json",
    "remote-inference verify run_1 --quiet",
    "remote-inference verify run_1 --repair run_1_repaired",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bag", type=Path, metavar="BAG", help="folder of the bag, which stays as it is")
    parser.add_argument(
        "--repair",
        type=Path,
        metavar="OUT",
        help="recover what is whole into this folder, which must not exist",
    )
    shape = (
        '{"bag", "intact", "files", "bytes", "messages", "topics", "start_ns", "end_ns", "links", "digest", '
        '"findings"}, each finding {"level", "check", "text"}; with --repair {"out", "files", "messages", '
        '"lost"}, "out" null when there was nothing to repair'
    )
    add_output_arguments(parser, json_shape=shape, quiet="print nothing but problems")


def run(arguments: argparse.Namespace) -> int:
    """Return 0 for a bag without problems, 1 for one with, 2 when there is no bag."""
    if arguments.repair:
        return _repair(arguments)
    from remote_inference.bags.checks.verification import verify  # noqa: PLC0415

    with _show_progress("verifying", arguments) as report:
        result = verify(arguments.bag, report)
    if arguments.json:
        print_json(result.to_json())
    else:
        _print(result, is_quiet=arguments.quiet)
    return EXIT_OK if result.is_intact else EXIT_NO


def _repair(arguments: argparse.Namespace) -> int:
    """Recover the bag; return 0 also for one that is whole. Raises BagError when nothing can be recovered."""
    from remote_inference.bags.checks.repair import repair  # noqa: PLC0415

    with _show_progress("reading", arguments) as report:
        result = repair(arguments.bag, arguments.repair, report)
    if arguments.json:
        print_json(result.to_json())
    elif not arguments.quiet:
        for text in result.lost:
            print(text)
        if result.is_needed:
            print(f"{result.out}: {result.messages} messages in {result.files} files")
        else:
            print(f"{arguments.bag}: whole, there is nothing to repair")
    return EXIT_OK


def _show_progress(what: str, arguments: argparse.Namespace) -> AbstractContextManager[Callable[[int], None]]:
    from remote_inference.bags.storage.mcap_scan import bag_size  # noqa: PLC0415

    return show_progress(what, bag_size(arguments.bag), arguments)


def _print(result: Verification, *, is_quiet: bool) -> None:
    from remote_inference.bags.checks import Level  # noqa: PLC0415

    facts = result.facts
    if not is_quiet:
        duration_s = (result.end_ns - result.start_ns) * 1e-9
        print(
            f"{result.path}: {result.files} files, {result.size / 1e6:.1f} MB, "
            f"{result.counts.total()} messages of {len(result.counts)} topics, {duration_s:.1f} s"
        )
        if facts.links:
            print(f"digests: {facts.links} links fit; the last digest is {facts.digest}")
    for finding in result.findings:
        if not is_quiet or finding.level is Level.PROBLEM:
            print(f"{finding.level.value}: {finding.check}: {finding.text}")
    if not is_quiet:
        problems, missing = len(result.of(Level.PROBLEM)), len(result.of(Level.MISSING))
        if problems:
            print(f"not intact: {problems} problem{'' if problems == 1 else 's'}")
        else:
            print("intact, with what is named missing above" if missing else "intact")
