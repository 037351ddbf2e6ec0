# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay --capture`."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.exit_codes import EXIT_NO, EXIT_OK
from remote_inference.tools.cli.output import print_json

OPTION = (
    "--capture",
    {
        "nargs": "+",
        "type": Path,
        "metavar": "FILE",
        "help": "serve the requests in files of a manifest's capture_dir again, and compare the chunks",
    },
)
EXAMPLES = ("remote-inference replay --capture captures/*.capture --manifest arm.manifest.yaml",)
TAKES = {"--manifest": "manifest"}
JSON_SHAPE = (
    'one line per capture, {"path", "seq_id", "agrees", "batch_size", "is_same_policy", "error", "is_equal", '
    '"is_close", "largest_difference"}'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--manifest", type=Path, help="with --capture: YAML that says which policy answers; always given"
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 when every capture agrees, 1 when a chunk differs or could not be computed."""
    if not arguments.manifest:
        raise UserError("--manifest: missing, expected it with --capture: the policy that answers")
    from remote_inference.server.captures.captures import replay  # noqa: PLC0415  loads policies
    from remote_inference.server.manifest.manifest import load_manifest  # noqa: PLC0415

    with redirect_stdout(sys.stderr):  # a policy may print
        replays = replay(arguments.capture, load_manifest(arguments.manifest, os.environ))
    for one in replays:
        if arguments.json:
            print_json(one.to_json())
        elif not (arguments.quiet and one.agrees):
            print(one)
    return EXIT_OK if all(one.agrees for one in replays) else EXIT_NO
