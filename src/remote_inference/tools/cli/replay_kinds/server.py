# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay --server`."""

from __future__ import annotations

import argparse
from secrets import token_hex
from typing import TYPE_CHECKING

from remote_inference.tools.cli.replay_kinds import open_loop
from remote_inference.tools.cli.robot_calls import open_client, positive

if TYPE_CHECKING:
    from remote_inference.base.exchange import SessionOffer

TIMEOUT_S = 30.0

OPTION = (
    "--server",
    {
        "action": "append",
        "metavar": "NAME",
        "help": "ask a running server, through a session, what the robot asked, and compare; once for each",
    },
)
EXAMPLES = ("remote-inference replay --server /policy_server run_1",)
TAKES = {**open_loop.TAKES, "--timeout": "timeout"}
JSON_SHAPE = "as --policy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        type=positive,
        metavar="S",
        help=f"with --server: longest wait for each answer (default {TIMEOUT_S:g} s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 within the bounds, 1 when one is exceeded, 2 when it cannot be judged."""
    from remote_inference.tools.deployment.bringup import absolute_name  # noqa: PLC0415
    from remote_inference.tools.deployment.middleware import require_middleware  # noqa: PLC0415

    require_middleware()
    from remote_inference.tools.clients.replay_session import ReplaySession  # noqa: PLC0415  imports rclpy

    timeout_s = arguments.timeout or TIMEOUT_S
    servers = [absolute_name(name, "--server") for name in arguments.server]
    with open_client("replay", namespace=f"/replay_{token_hex(4)}") as client:

        def ask(server: str, offer: SessionOffer) -> ReplaySession:
            return ReplaySession(client, server, offer, timeout_s)

        return open_loop.run(arguments, servers, ask)
