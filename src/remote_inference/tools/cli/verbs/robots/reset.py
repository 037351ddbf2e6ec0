# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference reset`."""

from __future__ import annotations

import argparse

from remote_inference.tools.cli.robot_calls import add_call_arguments, call, trigger

EXAMPLES = (
    "remote-inference reset robot_1",
    'remote-inference reset robot_1 --task "pick up the blue cube"',
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_call_arguments(parser, fields=', with --task "episode_id"')
    parser.add_argument(
        "--task", metavar="TEXT", help="instruction of the new episode (default: the current one)"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.task is None:
        return trigger(arguments)
    from remote_inference.srv import StartEpisode  # noqa: PLC0415

    request = StartEpisode.Request(task=arguments.task)
    return call(arguments, StartEpisode, "start_episode", request, "episode_id")
