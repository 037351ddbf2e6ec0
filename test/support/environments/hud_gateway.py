# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Our own HUD bridge, on a thread of its own, for the clients of one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from remote_inference.learn.environment import Environment
from remote_inference.learn.hud.episode import HudEnvironment
from remote_inference.learn.hud.server import HudServer
from support.waiting import DEADLINE_S


@contextmanager
def hud_gateway(environment: Environment, *, real_time: bool) -> Iterator[int]:
    """Serve an environment; yield the port of the control channel."""
    up, stop = threading.Event(), asyncio.Event()
    found: list[tuple[int, asyncio.AbstractEventLoop]] = []

    def announce(port: int) -> None:
        found.append((port, asyncio.get_running_loop()))
        up.set()

    server = HudServer(lambda: HudEnvironment(environment), real_time=real_time)
    # `asyncio.run` ends the connections that an agent has left open.
    thread = threading.Thread(target=lambda: asyncio.run(server.run(announce, stop)))
    thread.start()
    assert up.wait(DEADLINE_S)
    [(port, loop)] = found
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(DEADLINE_S)
