# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The router of a test run on rmw_zenoh: used once it listens, reported when it has ended."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from support import zenoh_router

LATE = """
import os, re, signal, socket, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(0.3)
port = re.search(r"listen/endpoints=.*:(\\d+)", os.environ["ZENOH_CONFIG_OVERRIDE"])[1]
listener = socket.create_server(("127.0.0.1", int(port)))
time.sleep(60.0)
"""


def program(folder: Path, text: str) -> Path:
    """Write a stand-in for rmw_zenohd."""
    path = folder / "router"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def test_a_router_is_used_when_it_listens_and_ends_even_when_it_does_not_want_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zenoh_router, "STOP_DEADLINE_S", 0.5)
    router, port = zenoh_router.run(program(tmp_path, LATE))
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5.0).close()
    finally:
        zenoh_router.stop(router)
    assert router.returncode is not None
    assert not Path(f"/proc/{router.pid}").exists()


def test_a_router_that_ends_at_once_is_reported_with_its_exit_code(tmp_path: Path) -> None:
    before = dict(os.environ)
    with pytest.raises(RuntimeError, match="router: ended with exit code 3, expected a router"):
        zenoh_router.run(program(tmp_path, "raise SystemExit(3)\n"))
    assert dict(os.environ) == before


def test_a_router_that_does_not_listen_is_ended_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zenoh_router, "START_DEADLINE_S", 0.3)
    with pytest.raises(RuntimeError, match=r"does not listen on port \d+ within 0.3 s"):
        zenoh_router.run(program(tmp_path, "import time\ntime.sleep(60.0)\n"))
