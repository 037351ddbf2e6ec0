# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference run-task`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from remote_inference.base.stop_signals import interrupting
from remote_inference.tools.cli.exit_codes import EXIT_NO, EXIT_OK
from remote_inference.tools.cli.output import add_output_arguments, print_error, print_json
from remote_inference.tools.cli.robot_calls import add_robot, open_client

if TYPE_CHECKING:
    from remote_inference.action import RunPolicy

EXAMPLES = (
    'remote-inference run-task robot_1 "pick up the cube" --limit 30',
    'remote-inference run-task robot_1 "pick up the cube" --success-topic cube_in_box --json',
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_robot(parser)
    parser.add_argument(
        "task", nargs="?", default="", metavar="TASK", help="instruction (default: the current one)"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=0.0,
        metavar="S",
        help="longest time of the run (default: no limit)",
    )
    parser.add_argument(
        "--success-topic",
        default="",
        metavar="TOPIC",
        help="std_msgs/Bool, relative to the robot's namespace, whose true ends the run (default: none)",
    )
    shape = '{"robot", "termination", "message", "elapsed_s"}'
    add_output_arguments(parser, json_shape=shape, quiet="do not show how far the run is")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.action import RunPolicy  # noqa: PLC0415
    from remote_inference.robot.task_run import Termination  # noqa: PLC0415
    from remote_inference.tools.clients.task_client import TaskClient  # noqa: PLC0415

    goal = RunPolicy.Goal(
        task=arguments.task, max_duration_s=arguments.limit, success_topic=arguments.success_topic
    )
    with open_client("run_task_verb") as ros, interrupting():
        robot = ros.find_robot(arguments.robot, arguments.timeout)
        is_quiet = arguments.quiet or arguments.json
        show = (lambda _: None) if is_quiet else _show_feedback
        result = TaskClient(ros, robot).run(goal, arguments.timeout, show)
        if result is None:
            print_error("run-task", f"{robot} rejected the goal; its log says why")
            return EXIT_NO
        name = Termination(result.termination).name
        if arguments.json:
            answer = {"termination": name, "message": result.message, "elapsed_s": result.elapsed_s}
            print_json({"robot": robot, **answer})
        else:
            print(f"{robot}: {name}: {result.message}, after {result.elapsed_s:.1f} s", flush=True)
    return EXIT_OK if result.termination == Termination.SUCCEEDED else EXIT_NO


def _show_feedback(feedback: RunPolicy.Feedback) -> None:
    print(
        f"{feedback.elapsed_s:6.1f} s  {feedback.state_name}, {feedback.chunks} chunks, "
        f"{feedback.holds} holds, {feedback.interventions} interventions",
        file=sys.stderr,
        flush=True,
    )
