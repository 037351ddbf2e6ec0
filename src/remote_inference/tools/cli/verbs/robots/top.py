# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference top`."""

from __future__ import annotations

import argparse

from remote_inference.tools.cli.output import add_output_arguments, print_json
from remote_inference.tools.cli.robot_calls import add_timeout, open_client, positive

EXAMPLES = (
    "remote-inference top",
    "remote-inference top --once",
    "remote-inference top --json --period 5",
)
PERIOD_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_timeout(parser, "robots and servers")
    parser.add_argument(
        "--period",
        type=positive,
        default=PERIOD_S,
        metavar="S",
        help=f"time between refreshes (default {PERIOD_S:g} s)",
    )
    parser.add_argument("--once", action="store_true", help="print one table and end, as in a pipe")
    add_output_arguments(parser, json_shape="at each refresh, one line as list --json", quiet="")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.tools.fleet_view import FleetWatch  # noqa: PLC0415  imports rclpy
    from remote_inference.tools.tables import is_terminal  # noqa: PLC0415

    with open_client("top_verb") as ros:
        watch = FleetWatch(ros)
        watch.settle(arguments.timeout)
        if arguments.json:
            print_json(watch.as_json())
            while not arguments.once:
                watch.refresh(arguments.period)
                print_json(watch.as_json())
        elif arguments.once or not is_terminal():
            watch.print_tables()
        else:
            watch.draw(arguments.period)
    return 0
