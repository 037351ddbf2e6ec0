# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Requests to a server's health port, as a probe sends them."""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPConnection

from support.nodes.rig import DEADLINE_S


def ask(port: int, path: str) -> tuple[int, str]:
    """Return status and body; the status is 0 when nothing listens."""
    connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except ConnectionError:
        return 0, ""
    finally:
        connection.close()


def answers(port: int, path: str, status: int, words: str = "") -> Callable[[], bool]:
    """Return a function that checks the port's answer."""

    def check() -> bool:
        found, body = ask(port, path)
        return found == status and words in body

    return check
