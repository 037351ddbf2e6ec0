# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference repair`."""

from __future__ import annotations

import argparse
from pathlib import Path

from remote_inference.cli.output import add_output_arguments, print_json

EXAMPLES = (
    "remote-inference repair run_1 run_1_repaired",
    "remote-inference repair run_1 run_1_repaired --json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bag", type=Path, metavar="BAG", help="folder of the bag, which stays as it is")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to create for what is recovered")
    shape = '{"out", "files", "messages", "lost"}; "out" is null when there was nothing to repair'
    add_output_arguments(parser, json_shape=shape)


def run(arguments: argparse.Namespace) -> int:
    """Return 0 when the bag is recovered or whole, 2 when nothing can be."""
    from remote_inference.cli.progress import show_progress  # noqa: PLC0415
    from remote_inference.recording.bags.mcap_scan import bag_size  # noqa: PLC0415
    from remote_inference.recording.checks.repair import repair  # noqa: PLC0415

    is_quiet = arguments.quiet or arguments.json
    with show_progress("reading", bag_size(arguments.bag), is_quiet=is_quiet) as tell:
        result = repair(arguments.bag, arguments.out, tell)
    if arguments.json:
        print_json(result.to_json())
    elif not arguments.quiet:
        for text in result.lost:
            print(text)
        if result.is_needed:
            print(f"{result.out}: {result.messages} messages in {result.files} files")
        else:
            print(f"{arguments.bag}: whole, there is nothing to repair")
    return 0
