# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference list`."""

from __future__ import annotations

import argparse

from remote_inference.tools.cli.output import add_output_arguments, print_json
from remote_inference.tools.cli.robot_calls import add_timeout, open_client

EXAMPLES = ("remote-inference list", "remote-inference list --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_timeout(parser, "robots and servers")
    shape = (
        '{"looked_s", "robots": [as status --json], "servers": [{"server"} and the fields of ServerStatus]}'
    )
    add_output_arguments(parser, json_shape=shape, quiet="")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.tools.fleet_view import FleetWatch  # noqa: PLC0415

    with open_client("list_verb") as ros:
        watch = FleetWatch(ros)
        watch.settle(arguments.timeout)
        if arguments.json:
            print_json(watch.as_json())
        else:
            watch.print_tables()
    return 0
