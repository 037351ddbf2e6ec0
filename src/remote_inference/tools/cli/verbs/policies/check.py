# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference check`."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from remote_inference.tools.cli.output import add_output_arguments, print_error, print_json

if TYPE_CHECKING:
    from remote_inference.tools.deployment.serving.check import Report

EXAMPLES = (
    "remote-inference check arm.contract.yaml",
    "remote-inference check arm.contract.yaml arm.manifest.yaml",
    "remote-inference check arm.contract.yaml arm.params.yaml arm.manifest.yaml",
    "remote-inference check --run arm.manifest.yaml arm.contract.yaml",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", type=Path, nargs="+", help="contracts, manifests and ROS parameter files of robots"
    )
    parser.add_argument(
        "--run",
        dest="try_policies",
        action="store_true",
        help="try each policy as its server would: warm it up, time it, show a sample chunk",
    )
    shape = (
        '{"exit_code", "files": [{"path", "kind", "problem", "warnings", "trial"}], '
        '"fits": [{"contract", "manifest", "accepted", "rejection", "reason", "warnings"}], "unjudged"}; '
        '"trial" is null without --run, else {"request_ms", "request_rate_hz", "robots", "serving_mode", '
        '"action_names", "chunk": [[one number per action] per row]}'
    )
    add_output_arguments(parser, json_shape=shape, quiet="print nothing but problems and refusals")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.tools.deployment.serving.check import check  # noqa: PLC0415  loads policies

    with redirect_stdout(sys.stderr):  # a policy may print
        report = check(arguments.files, run=arguments.try_policies)
    if arguments.json:
        print_json(report.to_json())
    else:
        _print(report, quiet=arguments.quiet)
    return report.exit_code


def _print(report: Report, *, quiet: bool) -> None:
    descriptions = [] if quiet else [file.lines for file in report.files]
    for lines in (*descriptions, *(fit.lines() for fit in report.fits if not (quiet and fit.accepted))):
        for line in lines:
            print(line)
    for problem in (file.problem for file in report.files if file.problem):
        print_error("check", problem)
    for pair in report.unjudged:
        print_error("check", f"not judged: {pair}")
