# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference hud-agent`."""

from __future__ import annotations

import argparse
from secrets import token_hex

from remote_inference.tools.cli.output import add_output_arguments, print_json

TIMEOUT_S = 30.0

EXAMPLES = (
    "remote-inference hud-agent 127.0.0.1:41035 --server /policy_server",
    "remote-inference hud-agent 127.0.0.1:41035 --server gpu_1 --episodes 10 --rename front=images.top",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("control", help="HOST:PORT of the bridge's control channel, as after HUD_SIM_PORT=")
    parser.add_argument("--server", required=True, help="policy server whose chunks are played")
    parser.add_argument("--episodes", type=int, default=1, help="to play, one after another (default 1)")
    parser.add_argument("--task", help="given to the bridge's reset, if given")
    parser.add_argument(
        "--seed", type=int, help="given to the bridge's reset, if given; one more each episode"
    )
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="CAMERA=FEATURE",
        help="policy's name for a camera of the bridge; may be given several times",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT_S,
        metavar="S",
        help=f"of each answer (default {TIMEOUT_S:g} s)",
    )
    shape = '{"episodes": [{"steps", "requests", "ended", "score": {what the bridge says}}]}'
    add_output_arguments(parser, json_shape=shape, quiet="print nothing but errors")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.learn.hud.agent import HudAgent  # noqa: PLC0415  imports rclpy
    from remote_inference.learn.hud.client import HudControl, HudError  # noqa: PLC0415
    from remote_inference.tools.cli.robot_calls import open_client  # noqa: PLC0415
    from remote_inference.tools.deployment.bringup import absolute_name  # noqa: PLC0415

    host, _, port = arguments.control.rpartition(":")
    if not host or not port.isdecimal():
        raise HudError(f"found {arguments.control!r}, expected HOST:PORT of a control channel")
    server = absolute_name(arguments.server, "--server")
    rename = dict(_split(text) for text in arguments.rename)
    played = []
    with (
        HudControl(host, int(port), arguments.timeout) as control,
        open_client("hud_agent", namespace=f"/hud_{token_hex(4)}") as client,
    ):
        agent = HudAgent(client, control, server, arguments.timeout, rename)
        for index in range(arguments.episodes):
            task = {} if arguments.task is None else {"task": arguments.task}
            if arguments.seed is not None:
                task["seed"] = arguments.seed + index
            episode = agent.play(task)
            played.append(episode)
            if not (arguments.quiet or arguments.json):
                print(
                    f"{episode.steps} steps, {episode.requests} requests: {dict(episode.score)}", flush=True
                )
        if arguments.json:
            print_json({"episodes": [vars(episode) for episode in played]})
    return 0


def _split(text: str) -> tuple[str, str]:
    from remote_inference.learn.hud.client import HudError  # noqa: PLC0415

    camera, equals, feature = text.partition("=")
    if not camera or not equals or not feature:
        raise HudError(f"--rename: found {text!r}, expected CAMERA=FEATURE")
    return camera, feature
