# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference hud`."""

from __future__ import annotations

import argparse
import asyncio
import sys

from remote_inference.base.stop_signals import common_signals
from remote_inference.tools.cli.verbs.simulations import NAMES, add_option_argument, read_options

EXAMPLES = (
    "remote-inference hud belt_arm",
    "remote-inference hud belt_arm --real-time --port 9091",
    "remote-inference hud gymnasium:gym_pusht:gym_pusht/PushT-v0 --option mapping=pusht.yaml",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("environment", help=NAMES)
    add_option_argument(parser)
    parser.add_argument(
        "--real-time",
        action="store_true",
        help="run the environment on its own clock and take chunks; left out, it waits for each action",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="port of the WebSocket; default: any free one")
    parser.add_argument("--control-port", type=int, default=0, help="port of the control channel; as --port")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.learn.environments import make_environment  # noqa: PLC0415  may import a simulator
    from remote_inference.learn.environments.runners import run_on_thread  # noqa: PLC0415
    from remote_inference.learn.hud.episode import HudEnvironment  # noqa: PLC0415
    from remote_inference.learn.hud.server import PORT_ANNOUNCEMENT, HudServer  # noqa: PLC0415

    name, options = arguments.environment, read_options(arguments.options)
    server = HudServer(
        lambda: HudEnvironment(run_on_thread(name, lambda: make_environment(name, options))),
        real_time=arguments.real_time,
        host=arguments.host,
    )

    def announce(control_port: int) -> None:
        print(f"{name} at {server.url}", file=sys.stderr)
        print(f"{PORT_ANNOUNCEMENT}{control_port}", flush=True)

    async def serve() -> None:
        stop = asyncio.Event()
        for number in common_signals():
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await server.run(announce, stop, arguments.port, arguments.control_port)

    asyncio.run(serve())
    return 0
