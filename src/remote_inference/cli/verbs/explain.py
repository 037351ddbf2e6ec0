# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference explain`."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = ("remote-inference explain bag --namespace /robot_1 --out report.png",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bag", type=Path)
    parser.add_argument("--namespace", required=True, help="the robot's namespace in the bag")
    parser.add_argument("--out", type=Path, default=Path("report.png"), help="picture to write")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.recording import draw_report, load_timeline  # noqa: PLC0415  needs matplotlib

    timeline = load_timeline(arguments.bag, arguments.namespace)
    draw_report(timeline, arguments.out, f"{arguments.bag.name}, {arguments.namespace}")
    print(arguments.out)
    return 0
