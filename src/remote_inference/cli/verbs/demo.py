# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference demo`."""

from __future__ import annotations

import argparse
from pathlib import Path

from remote_inference.cli.output import add_output_arguments, print_json
from remote_inference.demo.options import POLICIES
from remote_inference.environments.belt_arm.strategies import ROBOT_STRATEGIES, TRIM

EXAMPLES = (
    "remote-inference demo",
    "remote-inference demo --latency-ms 300 --strategy no_trim",
    "remote-inference demo --policy belt_arm_flow --episodes 30 --out runs/flow",
    "remote-inference demo --sweep --episodes 50",
    "remote-inference demo --quiet --json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--episodes", type=_positive, default=10, help="cubes to try (default 10)")
    parser.add_argument(
        "--latency-ms", type=_latency, default=0.0, help="latency injected in the server's network path [ms]"
    )
    parser.add_argument(
        "--strategy",
        choices=tuple(ROBOT_STRATEGIES),
        default=TRIM.name,
        help="; ".join(f"{name}: {strategy.help}" for name, strategy in ROBOT_STRATEGIES.items())
        + f" (default {TRIM.name})",
    )
    parser.add_argument(
        "--policy",
        choices=tuple(POLICIES),
        default="belt_arm",
        help="belt_arm: regression; belt_arm_flow: flow matching, continues the running chunk (RTC) "
        "(default belt_arm)",
    )
    parser.add_argument("--seed", type=_natural, default=0, help="chooses the episodes (default 0)")
    parser.add_argument(
        "--sweep",
        action="store_true",
        help="run every strategy at 0 to 600 ms; the other choices are ignored",
    )
    parser.add_argument("--out", type=Path, help="folder of the results (default runs/<stamp>)")
    shape = "the content of summary.json, or with --sweep of sweep.json; the rest goes to stderr"
    add_output_arguments(parser, json_shape=shape, quiet="show no progress, only the result")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.demo.command import run_demo  # noqa: PLC0415  needs rich and matplotlib

    return run_demo(arguments, print_json if arguments.json else None)


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"found {value}, expected at least 1")
    return value


def _natural(text: str) -> int:
    if (value := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"found {value}, expected at least 0")
    return value


def _latency(text: str) -> float:
    if not 0.0 <= (value := float(text)) <= 60_000.0:
        raise argparse.ArgumentTypeError(f"found {value}, expected 0 to 60000")
    return value
