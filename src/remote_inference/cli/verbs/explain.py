# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference explain`."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from remote_inference.cli.output import add_output_arguments, print_json
from remote_inference.errors import UserError

EXAMPLES = (
    "remote-inference explain bag",
    "remote-inference explain bag --from 12 --to 20 --out stall.png",
    "remote-inference explain bag --json",
    "remote-inference explain bag --namespace /robot_1 --contract robot.contract.yaml",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bag", type=Path)
    parser.add_argument("--namespace", help="the robot's namespace (default: the only robot's in the bag)")
    parser.add_argument("--out", type=Path, default=Path("report.png"), help="picture to write")
    parser.add_argument("--force", action="store_true", help="replace the picture if it exists")
    parser.add_argument(
        "--from", dest="from_s", type=float, metavar="SECONDS", help="draw from here on; 0: the whole run"
    )
    parser.add_argument("--to", dest="to_s", type=float, metavar="SECONDS", help="draw up to here")
    parser.add_argument("--contract", type=Path, help="the robot's contract (default: the one in the bag)")
    shape = (
        '{"picture", "duration_s", "requests", "requests_unanswered", "latency_ms", "actions", "states", '
        '"paused_s", "shadow", "interventions", "chunks", "seams"}, of the whole run'
    )
    add_output_arguments(parser, json_shape=shape)


def run(arguments: argparse.Namespace) -> int:
    if arguments.out.exists() and not arguments.force:
        raise UserError(f"--out: {arguments.out} exists, expected a new file, or --force to replace it")
    from remote_inference.core.contract import load_contract  # noqa: PLC0415  the rest needs matplotlib
    from remote_inference.recording.report import draw_report  # noqa: PLC0415
    from remote_inference.recording.summary import summarise  # noqa: PLC0415
    from remote_inference.recording.timeline_reader import load_timeline  # noqa: PLC0415

    contract = load_contract(arguments.contract) if arguments.contract else None
    timeline = load_timeline(arguments.bag, arguments.namespace, contract, with_frames=False)
    window_s = None
    if arguments.from_s is not None or arguments.to_s is not None:
        window_s = (arguments.from_s or 0.0, math.inf if arguments.to_s is None else arguments.to_s)
    draw_report(timeline, arguments.out, f"{arguments.bag.name}, {timeline.namespace}", window_s)
    if arguments.json:
        print_json({"picture": str(arguments.out), **summarise(timeline)})
    elif not arguments.quiet:
        print(arguments.out)
    return 0
