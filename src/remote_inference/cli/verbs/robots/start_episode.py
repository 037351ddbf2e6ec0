# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference start-episode`."""

from __future__ import annotations

import argparse

from remote_inference.cli.robot_calls import add_call_arguments, call

EXAMPLES = (
    "remote-inference start-episode robot_1",
    'remote-inference start-episode robot_1 --task "pick up the blue cube"',
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_call_arguments(parser, fields=', "episode_id"')
    parser.add_argument("--task", default="", metavar="TEXT", help="instruction (default: the current one)")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.srv import StartEpisode  # noqa: PLC0415

    return call(
        arguments, StartEpisode, "start_episode", StartEpisode.Request(task=arguments.task), "episode_id"
    )
