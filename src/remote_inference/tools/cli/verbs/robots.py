# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Verbs that watch and move robots: `status`, `list`, `top`, `resume` and the like, `reset`, `run-task`."""

from __future__ import annotations

import sys
from typing import Any

from remote_inference.base.stop_signals import interrupting
from remote_inference.tools.cli.common import (
    EXIT_NO,
    EXIT_OK,
    POLICY_HELP,
    ROBOT_HELP,
    Arguments,
    VerbParser,
    open_client,
    positive,
    print_error,
    print_json,
    say,
)

EXAMPLES = {
    "status": ("", "robot_1 --json"),
    "list": ("", "--json"),
    "top": ("", "--robot robot_1", "--once", "--json --period 5"),
    "trigger": ("robot_1",),
    "reset": ("robot_1", 'robot_1 --task "pick up the blue cube"'),
    "run_task": (
        'robot_1 "pick up the cube" --limit 30',
        'robot_1 "pick up the cube" --success-topic cube_in_box --json',
    ),
}
PERIOD_S, ROBOT_PERIOD_S = 1.0, 0.2  # of `top`, of all robots and of one


def add_status(parser: VerbParser) -> None:
    parser.add("robot ROBOT", f"{ROBOT_HELP}; may be left out where there is only one", nargs="?")
    parser.add_timeout()
    shape = (
        '{"robot", "guard": {rule: count}, "shadow_error": {joint: {"mean", "max"}}} and the fields '
        "of ClientState"
    )
    parser.add_output(shape, quiet="")


def run_status(arguments: Arguments) -> None:
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


def add_list(parser: VerbParser) -> None:
    parser.add_timeout("robots and servers")
    shape = (
        '{"looked_s", "robots": [as status --json], "servers": [{"server"} and the fields of ServerStatus]}'
    )
    parser.add_output(shape, quiet="")
    parser.set_defaults(run=run_top, once=True, robot=None, period=None)


def add_top(parser: VerbParser) -> None:
    parser.add_timeout("robots and servers")
    parser.add(
        "--robot ROBOT",
        "show one robot's last 5 s as sparklines: the age of the executed action, the queue, what the "
        "newest chunk waited for, and who commanded",
    )
    text = f"time between refreshes (default {PERIOD_S:g} s, with --robot {ROBOT_PERIOD_S:g} s)"
    parser.add("--period S", text, type=positive)
    parser.add("--once", "print one table and end, as in a pipe")
    shape = (
        'at each refresh, one line as list --json; with --robot as status --json, and "last": {"cell_s", and '
        "by row a value or null for each cell of 5 s, the newest last}"
    )
    parser.add_output(shape, quiet="")


def run_top(arguments: Arguments) -> None:
    from remote_inference.tools.fleet_view import FleetWatch  # noqa: PLC0415  imports rclpy
    from remote_inference.tools.robot_view import RobotWatch  # noqa: PLC0415
    from remote_inference.tools.tables import draw_forever  # noqa: PLC0415

    draws = not (arguments.json or arguments.once) and sys.stdout.isatty()
    period_s = arguments.period or (ROBOT_PERIOD_S if arguments.robot else PERIOD_S)
    with open_client(f"{arguments.verb}_verb") as ros:
        watch: FleetWatch | RobotWatch = FleetWatch(ros)
        if arguments.robot:
            robot = ros.find_robot(arguments.robot, arguments.timeout)
            watch = RobotWatch(ros, robot, gathers=not draws)
        watch.settle(arguments.timeout)
        if draws:
            draw_forever(watch.render, lambda: watch.refresh(period_s))
        elif not arguments.json:
            watch.print_tables()
        else:
            print_json(watch.as_json())
            while not arguments.once:
                watch.refresh(period_s)
                print_json(watch.as_json())


def add_robot(parser: VerbParser) -> None:
    """Declare ROBOT, which is named: while another may be undiscovered, "the only robot" is a guess."""
    parser.add("robot ROBOT", f"{ROBOT_HELP}; always named, as another robot may not be seen yet")
    parser.add_timeout()


def add_trigger(parser: VerbParser, *, fields: str = "") -> None:
    """Declare the arguments of a verb that calls one service of a robot."""
    add_robot(parser)
    parser.add_output('{"robot", "success", "message"' + fields + "}")


def run_trigger(arguments: Arguments) -> int:
    """Call the service of the verb's name; return the exit code."""
    from std_srvs.srv import Trigger  # noqa: PLC0415

    return _call(arguments, Trigger, arguments.verb.replace("-", "_"), Trigger.Request())


def _call(arguments: Arguments, kind: Any, service: str, request: Any, *fields: str) -> int:
    """Call one service of a robot and print its answer, in JSON with `fields`; return the exit code."""
    with open_client(f"{service}_verb") as ros:
        robot = ros.find_robot(arguments.robot, arguments.timeout)
        response = ros.call(kind, f"{robot}/remote_inference/{service}", request, arguments.timeout)
        return arguments.print_response("robot", robot, response, *fields)


def add_reset(parser: VerbParser) -> None:
    add_trigger(parser, fields=', with --task or --policy "episode_id"')
    parser.add("--task TEXT", "instruction of the new episode (default: the current one)")
    parser.add("--policy NAME", f"{POLICY_HELP} (default: the current one)")


def run_reset(arguments: Arguments) -> int:
    if arguments.task is None and arguments.policy is None:
        return run_trigger(arguments)
    from remote_inference.srv import StartEpisode  # noqa: PLC0415

    request = StartEpisode.Request(task=arguments.task or "", policy=arguments.policy or "")
    return _call(arguments, StartEpisode, "start_episode", request, "episode_id")


def add_run_task(parser: VerbParser) -> None:
    add_robot(parser)
    parser.add("task TASK", "instruction (default: the current one)", nargs="?", default="")
    parser.add("--policy NAME", f"{POLICY_HELP} (default: the current one)", default="")
    parser.add("--limit S", "longest time of the run (default: no limit)", type=float, default=0.0)
    text = "std_msgs/Bool, relative to the robot's namespace, whose true ends the run (default: none)"
    parser.add("--success-topic TOPIC", text, default="")
    shape = '{"robot", "termination", "message", "elapsed_s"}'
    parser.add_output(shape, quiet="do not show how far the run is")


def run_run_task(arguments: Arguments) -> int:
    from remote_inference.action import RunPolicy  # noqa: PLC0415
    from remote_inference.robot.task_run import Termination  # noqa: PLC0415
    from remote_inference.tools.cli.task_client import TaskClient  # noqa: PLC0415

    goal = RunPolicy.Goal(
        task=arguments.task,
        policy=arguments.policy,
        max_duration_s=arguments.limit,
        success_topic=arguments.success_topic,
    )

    def show(feedback: RunPolicy.Feedback) -> None:
        if not (arguments.quiet or arguments.json):
            done = f"{feedback.chunks} chunks, {feedback.holds} holds, {feedback.interventions} interventions"
            line = f"{feedback.elapsed_s:6.1f} s  {feedback.state_name}, {done}"
            say(line, file=sys.stderr)

    with open_client("run_task_verb") as ros, interrupting():
        robot = ros.find_robot(arguments.robot, arguments.timeout)
        result = TaskClient(ros, robot).run(goal, arguments.timeout, show)
        if result is None:
            print_error("run-task", f"{robot} rejected the goal; its log says why")
            return EXIT_NO
        name = Termination(result.termination).name
        if arguments.json:
            answer = {"termination": name, "message": result.message, "elapsed_s": result.elapsed_s}
            print_json({"robot": robot, **answer})
        else:
            say(f"{robot}: {name}: {result.message}, after {result.elapsed_s:.1f} s")
    return EXIT_OK if result.termination == Termination.SUCCEEDED else EXIT_NO
