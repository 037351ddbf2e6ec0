# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference check`."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remote_inference.deployment.check import Report

EXAMPLES = (
    "remote-inference check arm.contract.yaml",
    "remote-inference check arm.contract.yaml arm.manifest.yaml",
    "remote-inference check --run arm.manifest.yaml arm.contract.yaml",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", type=Path, nargs="+", help="contracts and manifests")
    parser.add_argument(
        "--run",
        dest="try_policies",
        action="store_true",
        help="try each policy as its server would: warm it up, time it, show a sample chunk",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with the whole sample chunk")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.deployment.check import check  # noqa: PLC0415  loads policies

    with redirect_stdout(sys.stderr):  # a policy may print
        report = check(arguments.files, run=arguments.try_policies)
    if arguments.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        _print(report)
    return report.exit_code


def _print(report: Report) -> None:
    for lines in (*(file.lines for file in report.files), *(fit.lines() for fit in report.fits)):
        for line in lines:
            print(line)
    sys.stdout.flush()
    for problem in (file.problem for file in report.files if file.problem):
        print(f"remote-inference check: {problem}", file=sys.stderr)
    for pair in report.unjudged:
        print(f"remote-inference check: not judged: {pair}", file=sys.stderr)
