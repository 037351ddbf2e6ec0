# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Servers of one name that are alive at once: an instance that sends again was not replaced."""

from __future__ import annotations

from remote_inference.core.robot.effects import Effect, Warn

WARNING_PERIOD_NS = 10_000_000_000  # between two warnings


class Namesakes:
    """Remembers which instances of each server have sent a status, and tells those that take turns."""

    def __init__(self) -> None:
        self._instances: dict[str, list[str]] = {}  # senders of statuses by server, the last sender last
        self._alive: dict[str, frozenset[str]] = {}  # instances that are alive at once
        self._next_warning_ns = 0

    def hear(self, server: str, instance_id: str, now_ns: int) -> list[Effect]:
        """Take the sender of a ServerStatus at a monotonic instant [ns]; return the warning that is due."""
        heard = self._instances.setdefault(server, [])
        if heard and instance_id == heard[-1]:
            return []
        if instance_id not in heard:
            heard.append(instance_id)
            return []
        others = heard[heard.index(instance_id) :]
        heard.remove(instance_id)
        heard.append(instance_id)
        self._alive[server] = frozenset(others)
        if now_ns < self._next_warning_ns:
            return []
        self._next_warning_ns = now_ns + WARNING_PERIOD_NS
        return [Warn(f"servers of one name, {server}: instances {' and '.join(others)}; end all but one")]

    def include(self, server: str, instance_id: str) -> bool:
        """Return whether an instance shares its server's name with another that is alive."""
        return instance_id in self._alive.get(server, ())
