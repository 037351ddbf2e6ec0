# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay-capture`."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

from remote_inference.cli.exit_codes import EXIT_NO, EXIT_OK
from remote_inference.cli.output import add_output_arguments, print_json

EXAMPLES = ("remote-inference replay-capture captures/*.capture --manifest arm.manifest.yaml",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("captures", type=Path, nargs="+", help="files of a manifest's capture_dir")
    parser.add_argument("--manifest", type=Path, required=True, help="YAML that says which policy answers")
    shape = (
        'one line per capture, {"path", "seq_id", "agrees", "batch_size", "is_same_policy", "error", '
        '"is_equal", "is_close", "largest_difference"}'
    )
    add_output_arguments(parser, json_shape=shape, quiet="print nothing but captures that do not agree")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.core.server.manifest.manifest import load_manifest  # noqa: PLC0415
    from remote_inference.recording.requests.replay import replay  # noqa: PLC0415  loads policies

    with redirect_stdout(sys.stderr):  # a policy may print
        replays = replay(arguments.captures, load_manifest(arguments.manifest, os.environ))
    for one in replays:
        if arguments.json:
            print_json(one.to_json())
        elif not (arguments.quiet and one.agrees):
            print(one)
    return EXIT_OK if all(one.agrees for one in replays) else EXIT_NO
