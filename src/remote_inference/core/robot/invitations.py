# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which servers have come back: their status says so long before a pause between attempts is over."""

from __future__ import annotations

from dataclasses import dataclass

SILENCE_NS = 3_000_000_000  # three statuses: after a longer silence the server or the network was away


@dataclass(frozen=True)
class _Heard:
    instance_id: str
    accepting: bool
    at_ns: int


class Invitations:
    """The servers that accept sessions again, each until it has answered an attempt.

    A server that accepts all the time invites once: it may be full, and refusals are worth a pause.
    """

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}
        self._inviting: set[str] = set()

    def hear(self, server: str, instance_id: str, accepting: bool, now_ns: int) -> bool:
        """Take a server's status; return whether the server invites."""
        last = self._heard.get(server)
        self._heard[server] = _Heard(instance_id, accepting, now_ns)
        if not accepting:
            self._inviting.discard(server)
        elif (
            last is None
            or not last.accepting
            or last.instance_id != instance_id
            or now_ns - last.at_ns > SILENCE_NS
        ):
            self._inviting.add(server)
        return server in self._inviting

    def answer(self, server: str) -> None:
        """Note that a server has answered an attempt: what it accepts is known."""
        self._inviting.discard(server)
