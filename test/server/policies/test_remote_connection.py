# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A connection that fails is tried again after a pause, which grows and ends; callers never wait for it."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.base.policy import PolicyError
from remote_inference.server.policies.remote.policy import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    Connection,
    LinkError,
)

ROWS = np.zeros((2, 1), np.float32)


class ScriptedServer:
    """A server in memory; its clock stands unless a call takes time."""

    place = "server"

    def __init__(self) -> None:
        self.now_s = 100.0
        self.is_open = False
        self.calls: list[str] = []
        self.timeouts_s: list[float] = []
        self.away = False
        self.open_s = 0.0
        self.refuses = False

    def open(self, timeout_s: float) -> bytes:
        self.calls.append("open")
        self.now_s += self.open_s
        if self.away:
            raise LinkError("nobody there")
        self.is_open = True
        return b"hello"

    def infer(self, model_input: object, timeout_s: float) -> np.ndarray:
        self.calls.append("infer")
        self.timeouts_s.append(timeout_s)
        if self.away:
            raise LinkError("gone")
        if self.refuses:
            raise PolicyError("no such camera")
        return ROWS

    def reset(self, timeout_s: float) -> None:
        self.calls.append("reset")
        if self.away:
            raise LinkError("gone")

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def server() -> ScriptedServer:
    return ScriptedServer()


@pytest.fixture
def logged() -> list[str]:
    return []


@pytest.fixture
def connection(server: ScriptedServer, logged: list[str]) -> Connection:
    return Connection(server, lambda: server.now_s, logged.append)


def test_the_pause_between_attempts_doubles_up_to_the_longest_and_is_logged(
    connection: Connection, server: ScriptedServer, logged: list[str]
):
    server.away = True
    pauses = []
    for _ in range(6):
        before_s, attempts = server.now_s, len(server.calls)
        while len(server.calls) == attempts:
            with pytest.raises(PolicyError):
                connection.infer(None, 5.0)
            server.now_s += 0.01
        pauses.append(server.now_s - before_s)
    assert pauses[1:] == pytest.approx([0.5, 1.0, 2.0, 4.0, LONGEST_PAUSE_S], abs=0.03)
    assert logged[0] == f"nobody there; the next attempt is in {FIRST_PAUSE_S:.1f} s"
    assert len(logged) == 6


def test_an_answer_makes_the_next_pause_short_again(connection: Connection, server: ScriptedServer):
    server.away = True
    for _ in range(3):
        with pytest.raises(PolicyError):
            connection.infer(None, 5.0)
        server.now_s += LONGEST_PAUSE_S
    server.away = False
    assert connection.infer(None, 5.0) is ROWS
    server.away = True
    with pytest.raises(LinkError):
        connection.infer(None, 5.0)
    with pytest.raises(PolicyError, match=f"the next attempt is in {FIRST_PAUSE_S:.1f} s"):
        connection.infer(None, 5.0)


def test_connecting_counts_against_the_time_of_the_inference(connection: Connection, server: ScriptedServer):
    server.open_s = 1.5
    connection.infer(None, 5.0)
    assert server.timeouts_s == [pytest.approx(3.5)]


def test_a_refusal_keeps_the_connection(connection: Connection, server: ScriptedServer):
    server.refuses = True
    for _ in range(2):
        with pytest.raises(PolicyError, match="no such camera"):
            connection.infer(None, 5.0)
    assert server.calls == ["open", "infer", "infer"]


def test_a_reset_that_did_not_arrive_is_sent_again(connection: Connection, server: ScriptedServer):
    connection.infer(None, 5.0)
    connection.reset()
    server.away = True
    with pytest.raises(LinkError):
        connection.infer(None, 5.0)
    server.away = False
    server.now_s += LONGEST_PAUSE_S
    connection.infer(None, 5.0)
    connection.infer(None, 5.0)
    assert server.calls[2:] == ["reset", "open", "reset", "infer", "infer"]
