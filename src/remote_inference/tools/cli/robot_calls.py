# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Shared by the operator's verbs: the choice of the robot, the timeouts and the printed answer."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from remote_inference.tools.cli.exit_codes import EXIT_NO, EXIT_OK
from remote_inference.tools.cli.output import add_output_arguments, print_error, print_json

if TYPE_CHECKING:
    from remote_inference.base.clients.operator_client import OperatorClient

TIMEOUT_S = 5.0
ROBOT_HELP = "the robot's namespace, with or without slashes"


def add_timeout(parser: argparse.ArgumentParser, whom: str = "the robot") -> None:
    """Declare `--timeout`. whom: who is waited for."""
    parser.add_argument(
        "--timeout",
        type=positive,
        default=TIMEOUT_S,
        metavar="S",
        help=f"longest wait for {whom}, and then for each answer (default {TIMEOUT_S:g} s)",
    )


def add_robot(parser: argparse.ArgumentParser, *, may_be_left_out: bool = False) -> None:
    """Declare ROBOT. may_be_left_out: for verbs that only read.

    What changes a robot wants its name: while another may be undiscovered, "the only robot" is a guess.
    """
    if may_be_left_out:
        text = f"{ROBOT_HELP}; may be left out where there is only one"
        parser.add_argument("robot", nargs="?", metavar="ROBOT", help=text)
    else:
        text = f"{ROBOT_HELP}; always named, as another robot may not be seen yet"
        parser.add_argument("robot", metavar="ROBOT", help=text)
    add_timeout(parser)


def add_call_arguments(parser: argparse.ArgumentParser, *, fields: str = "") -> None:
    """Declare the arguments of a verb that calls one service of a robot."""
    add_robot(parser)
    add_output_arguments(parser, json_shape='{"robot", "success", "message"' + fields + "}")


def add_namespace(parser: argparse.ArgumentParser, without: str) -> None:
    """Declare `--namespace` of a verb that reads bags. without: what it means to leave it out."""
    parser.add_argument("--namespace", metavar="ROBOT", help=f"{ROBOT_HELP} (default: {without})")


def positive(text: str) -> float:
    """Return a duration [s] from text."""
    if not 0.0 < (value := float(text)) <= 3600.0:
        raise argparse.ArgumentTypeError(f"found {text}, expected above 0 and at most 3600")
    return value


def open_client(name: str, namespace: str = "/") -> OperatorClient:
    """Return a client with the Zenoh settings that the package's nodes have. Raises OperatorError.

    Print what it has learnt before it is closed: rmw_zenoh may hang there, and the answer must not be lost.
    """
    from remote_inference.base.clients.operator_client import OperatorClient  # noqa: PLC0415  imports rclpy

    set_zenoh_environment()
    return OperatorClient(name, namespace)


def set_zenoh_environment() -> None:
    """Give the nodes of this process the Zenoh settings that the package's nodes have."""
    from remote_inference.base.paths import share_path  # noqa: PLC0415
    from remote_inference.tools.deployment import zenoh_config  # noqa: PLC0415

    os.environ.update(zenoh_config.environment(share_path("config", "zenoh"), "", os.environ))


def trigger(arguments: argparse.Namespace) -> int:
    """Call the service of the verb's name; return the exit code."""
    from std_srvs.srv import Trigger  # noqa: PLC0415

    return call(arguments, Trigger, arguments.verb.replace("-", "_"), Trigger.Request())


def call(arguments: argparse.Namespace, kind: Any, service: str, request: Any, *fields: str) -> int:
    """Call one service of a robot and print its answer, in JSON with `fields`; return the exit code."""
    with open_client(f"{service}_verb") as ros:
        robot = ros.find_robot(arguments.robot, arguments.timeout)
        response = ros.call(kind, f"{robot}/remote_inference/{service}", request, arguments.timeout)
        return print_response(arguments, "robot", robot, response, *fields)


def print_response(arguments: argparse.Namespace, role: str, who: str, response: Any, *fields: str) -> int:
    """Print what a robot or server answered, a refusal as an error, or JSON; return the exit code."""
    if arguments.json:
        answer = {role: who, "success": response.success, "message": response.message}
        print_json({**answer, **{field: getattr(response, field) for field in fields}})
    elif not response.success:
        print_error(arguments.verb, f"{who} refused: {response.message}")
    elif not arguments.quiet:
        print(f"{who}: {response.message}", flush=True)
    return EXIT_OK if response.success else EXIT_NO
