# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Zenoh routers and sessions from the package's configuration files, on loopback ports of their own.

Run as a program it is one such session in a process, which a test can freeze and kill:
`engine.py FILE KEY=VALUE...`; `token=KEY` declares a liveliness token, `publish=KEY` publishes there every
PERIOD_S. It ends with its standard input.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zenoh

from remote_inference.tools.deployment.zenoh_config import Endpoint, router_settings
from support.importable import python_path
from support.waiting import read_line, wait_until

CONFIG = Path(__file__).parents[3] / "config" / "zenoh"
SESSION, ROUTER = CONFIG / "session.json5", CONFIG / "router.json5"
DEADLINE_S = 30.0
PERIOD_S = 0.02  # between two samples of a process that publishes
WAIT = "transport/link/tx/queue/congestion_control/drop/wait_before_drop"  # setting of a session [us]
ENVIRONMENT = {**os.environ, "PYTHONPATH": python_path()}  # for programs of this folder


def endpoints(*ports: int) -> str:
    return json.dumps([f"tcp/127.0.0.1:{port}" for port in ports])


def configuration(file: Path, settings: dict[str, str]) -> zenoh.Config:
    """Read one of our files and change settings, given as JSON5 by key."""
    config = zenoh.Config.from_file(file)
    for key, value in settings.items():
        config.insert_json5(key, value)
    return config


@contextmanager
def opened(file: Path, settings: dict[str, str]) -> Iterator[zenoh.Session]:
    session = zenoh.open(configuration(file, settings))
    try:
        yield session
    finally:
        session.close()


def router(port: int, *dialled: int, **settings: str) -> Any:
    """Open a router that listens on one port and dials others."""
    own = {"listen/endpoints": endpoints(port), "connect/endpoints": endpoints(*dialled)}
    return opened(ROUTER, {**own, **settings})


def beside(port: int) -> dict[str, str]:
    """Return the settings of a node's session beside its router, as on one host."""
    return router_settings(Endpoint("tcp", "127.0.0.1", port))


def peer(port: int, **settings: str) -> Any:
    """Open a node's session beside its router, as on one host."""
    return opened(SESSION, {**beside(port), **settings})


def client(port: int, **settings: str) -> Any:
    """Open a node's session that reaches a router on another host."""
    return opened(SESSION, {"mode": '"client"', "connect/endpoints": endpoints(port), **settings})


def put_until(put: Callable[[], None], condition: Callable[[], Any], what: str) -> None:
    """Put repeatedly: a sample put before the subscription arrives is lost."""

    def put_and_look() -> Any:
        put()
        return condition()

    wait_until(put_and_look, what)


@contextmanager
def listener() -> Iterator[socket.socket]:
    """Listen like a router that accepts connections and then stays silent."""
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a router may take its port over
        made.bind(("127.0.0.1", 0))
        made.listen()
        made.settimeout(DEADLINE_S)
        yield made


@contextmanager
def process(file: Path, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """Run a session in a process of its own; killed at the end."""
    arguments = [f"{key}={value}" for key, value in settings.items()]
    command = [sys.executable, __file__, str(file), *arguments]
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        assert read_line(started, DEADLINE_S) == "open\n"
        yield started
    finally:
        started.kill()
        started.wait()
        for pipe in (started.stdin, started.stdout):
            assert pipe is not None
            pipe.close()


def main() -> None:
    file, *arguments = sys.argv[1:]
    settings = dict(argument.split("=", 1) for argument in arguments)
    token, topic = settings.pop("token", ""), settings.pop("publish", "")
    ended = threading.Event()
    with opened(Path(file), settings) as session:
        declared = session.liveliness().declare_token(token) if token else None
        print("open", flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
        while not ended.wait(PERIOD_S):
            if topic:
                session.put(topic, b"x", congestion_control=zenoh.CongestionControl.DROP)
        del declared


if __name__ == "__main__":
    main()
