# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference status`."""

from __future__ import annotations

import argparse

from remote_inference.tools.cli.output import add_output_arguments, print_json
from remote_inference.tools.cli.robot_calls import add_robot, open_client

EXAMPLES = ("remote-inference status", "remote-inference status robot_1 --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_robot(parser, may_be_left_out=True)
    shape = (
        '{"robot", "guard": {rule: count}, "shadow_error": {joint: {"mean", "max"}}} and the fields '
        "of ClientState"
    )
    add_output_arguments(parser, json_shape=shape, quiet="")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.base.wire.qos import LATCHED_QOS, STATE_TOPIC  # noqa: PLC0415
    from remote_inference.msg import ClientState  # noqa: PLC0415
    from remote_inference.tools.fleet_view import describe_robot, robot_as_json  # noqa: PLC0415
    from remote_inference.tools.tables import print_table  # noqa: PLC0415

    with open_client("status_verb") as ros:
        robot = ros.find_robot(arguments.robot, arguments.timeout)
        topic, watch = f"{robot}/{STATE_TOPIC}", ros.watch_robots(arguments.robot)
        state = ros.read_one(ClientState, topic, LATCHED_QOS, arguments.timeout, watch)
        if arguments.json:
            print_json(robot_as_json(robot, state))
        else:
            print_table(describe_robot(robot, state))
    return 0
