# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The order in which a robot tries its servers: pauses, invitations, and servers that share a name."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from remote_inference.robot.safety.effects import Effect, Warn

JITTER = 0.25  # each pause is drawn from 1 - JITTER to 1 + JITTER times the backoff
SILENCE_NS = 3_000_000_000  # three statuses: after a longer silence the server or the network was away
MAX_INSTANCES = 8  # of a server that are kept: whoever publishes statuses must not fill the memory
WARNING_PERIOD_NS = 10_000_000_000  # between two warnings


class DuplicateServers:
    """Remembers which instances of each server have sent a status, and finds those that are alive at once."""

    def __init__(self) -> None:
        self._instances: dict[str, list[str]] = {}  # senders of statuses by server, the last sender last
        self._alive: dict[str, frozenset[str]] = {}  # instances that are alive at once
        self._next_warning_ns = 0

    def note_sender(self, server: str, instance_id: str, now_ns: int) -> list[Effect]:
        """Note the sender of a ServerStatus at a monotonic instant [ns]; return the warning that is due.

        An instance that sends again was not replaced: their statuses then no longer end a session.
        """
        heard = self._instances.setdefault(server, [])
        if heard and instance_id == heard[-1]:
            return []
        if instance_id not in heard:
            heard.append(instance_id)
            del heard[:-MAX_INSTANCES]
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


@dataclass(frozen=True)
class _Status:
    instance_id: str
    accepting: bool
    sessions: frozenset[str]
    at_ns: int


class Invitations:
    """The servers that accept sessions again, each until it has answered an attempt.

    A server that accepts all the time invites once: it may be full, and refusals are worth a pause. One that
    refused this robot because of another's session invites when a session has ended.
    """

    def __init__(self) -> None:
        self._heard: dict[str, _Status] = {}
        self._inviting: set[str] = set()
        self._in_the_way: set[str] = set()  # servers on which another's session is in the way

    def note_status(
        self, server: str, instance_id: str, accepting: bool, now_ns: int, sessions: Iterable[str] = ()
    ) -> bool:
        """Note a server's status; return whether the server invites."""
        last = self._heard.get(server)
        heard = self._heard[server] = _Status(instance_id, accepting, frozenset(sessions), now_ns)
        if not accepting:
            self._inviting.discard(server)
        elif (
            last is None
            or not last.accepting
            or last.instance_id != instance_id
            or now_ns - last.at_ns > SILENCE_NS
            or (server in self._in_the_way and last.sessions - heard.sessions)
        ):
            self._inviting.add(server)
        return server in self._inviting

    def answer(self, server: str, *, session_in_the_way: bool = False) -> None:
        """Note that a server has answered an attempt: what it accepts is known."""
        self._inviting.discard(server)
        if session_in_the_way:
            self._in_the_way.add(server)
        else:
            self._in_the_way.discard(server)


class ServerList:
    """The servers in turn. Between rounds over all of them lie pauses, which double, with jitter."""

    def __init__(
        self, servers: Sequence[str], initial_backoff_s: float, max_backoff_s: float, rng: random.Random
    ) -> None:
        self._servers = tuple(servers)
        self._initial_backoff_s = initial_backoff_s
        self._max_backoff_s = max_backoff_s
        self._rng = rng
        self._index = 0
        self._failures = 0
        self._loading: dict[str, tuple[int, str]] = {}  # when each said so last [ns], and its instance

    @property
    def current(self) -> str:
        """The server in use or tried next."""
        return self._servers[self._index]

    @property
    def loading(self) -> dict[str, str]:
        """The servers whose last word was that they load their policy, and their instances, "" if unknown."""
        return {server: self._loading[server][1] for server in self._servers if server in self._loading}

    def note(self, server: str, at_ns: int, *, loading: bool, instance_id: str = "") -> None:
        """Note whether a server loads its policy. at_ns: when it said so, or since when it is silent."""
        said_ns, instance = self._loading.get(server, (at_ns, ""))
        if loading:
            self._loading[server] = at_ns, instance_id or instance
        elif said_ns <= at_ns:
            self._loading.pop(server, None)

    def only(self, servers: Sequence[str], *, first: str | None = None) -> None:
        """Try these servers alone, or those of before when there are none.

        first: the one that is tried next, or in use; None: the first of them.
        """
        if not servers:
            return
        self._servers = tuple(servers)
        self._index = 0 if first is None else self._servers.index(first)

    def move_on(self) -> None:
        """Try the next server."""
        self._index = (self._index + 1) % len(self._servers)

    def take(self, server: str) -> None:
        """Try a server of the list next."""
        self._index = self._servers.index(server)

    def fail(self) -> int:
        """Try the next server; return the pause before it is tried [ns], 0 until all have failed."""
        self.move_on()
        self._failures += 1
        rounds, rest = divmod(self._failures, len(self._servers))
        return 0 if rest else self._pause_ns(rounds - 1)

    def succeed(self) -> None:
        """Begin the next backoff from its first pause."""
        self._failures = 0

    def _pause_ns(self, failed_rounds: int) -> int:
        pause_s = min(self._initial_backoff_s * 2.0 ** min(failed_rounds, 32), self._max_backoff_s)
        return int(pause_s * self._rng.uniform(1 - JITTER, 1 + JITTER) * 1e9)
