# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference verify`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from remote_inference.cli.exit_codes import EXIT_NO, EXIT_OK
from remote_inference.cli.output import add_output_arguments, print_json

if TYPE_CHECKING:
    from remote_inference.recording.checks.verification import Verification

EXAMPLES = (
    "remote-inference verify run_1",
    "remote-inference verify run_1 --json",
    "remote-inference verify run_1 --quiet",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bag", type=Path, metavar="BAG", help="folder of the bag")
    shape = (
        '{"bag", "intact", "files", "bytes", "messages", "topics", "start_ns", "end_ns", "links", "digest", '
        '"findings"}, each finding {"level", "check", "text"}'
    )
    add_output_arguments(parser, json_shape=shape, quiet="print nothing but problems")


def run(arguments: argparse.Namespace) -> int:
    """Return 0 for a bag without problems, 1 for one with, 2 when there is no bag."""
    from remote_inference.cli.progress import show_progress  # noqa: PLC0415
    from remote_inference.recording.bags.mcap_scan import bag_size  # noqa: PLC0415
    from remote_inference.recording.checks.verification import verify  # noqa: PLC0415

    is_quiet = arguments.quiet or arguments.json
    with show_progress("verifying", bag_size(arguments.bag), is_quiet=is_quiet) as tell:
        result = verify(arguments.bag, tell)
    if arguments.json:
        print_json(result.to_json())
    else:
        _print(result, is_quiet=arguments.quiet)
    return EXIT_OK if result.is_intact else EXIT_NO


def _print(result: Verification, *, is_quiet: bool) -> None:
    from remote_inference.recording.checks import Level  # noqa: PLC0415

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
