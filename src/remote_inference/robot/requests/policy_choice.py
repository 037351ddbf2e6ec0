# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which policy a robot uses where its servers serve several: a goal names one, or a tag of its server.

The session of the policy before is kept, so that the next goal can go back to it without a handshake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from remote_inference.base.exchange import SessionOffer, SessionReply
from remote_inference.base.limits import MAX_QUOTE_LENGTH, find_length_problem, shorten

MAX_LENGTH = 256  # of a name or tag


class PolicyChoice:
    """Knows the policies of a robot's servers. For the engine's thread, but for `find_problem`."""

    def __init__(self, servers: Sequence[str], *, keeps_first: bool) -> None:
        """servers: in order of preference. keeps_first: while none is wanted, the first session's is."""
        self.wanted = ""  # name or tag, empty for any policy
        self.before = ""  # the same of the policy before
        self._listed = tuple(servers)
        self._keeps_first = keeps_first
        self._first = ""  # name of the first session's, of a robot that keeps it
        self._served: dict[str, tuple[str, ...]] = {}  # by server: its policy's name, then its tags
        self._fingerprints: dict[str, str] = {}  # of the first session with each that was wanted

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers of the wanted policy, in order of preference."""
        if self.wanted:
            return tuple(server for server in self._listed if self.wanted in self._served.get(server, ()))
        known = (self._served.get(server, (self._first,)) for server in self._listed)
        return tuple(
            server for server, names in zip(self._listed, known, strict=True) if self._first in ("", names[0])
        )

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint that the wanted policy must have, None before its first session."""
        return self._fingerprints.get(self.wanted)

    @property
    def is_on_trial(self) -> bool:
        """Whether a goal named the policy, and no server has granted a session of it yet."""
        return bool(self.wanted) and self.wanted not in self._fingerprints

    def note(self, server: str, names: tuple[str, ...]) -> None:
        """Note a server's policy and tags; none while it loads, which changes nothing."""
        if names:
            self._served = {**self._served, server: names}

    def find_problem(self, policy: str) -> str:
        """Return why a policy cannot be used, in words; empty when it can, or is "". For any thread."""
        served = self._served
        if not policy or any(policy in served.get(server, ()) for server in self._listed):
            return ""
        known = [
            f"{', '.join(shorten(name, MAX_QUOTE_LENGTH) for name in served[server])} of {server}"
            for server in self._listed
            if server in served
        ]
        found = f"policy: found {shorten(policy, MAX_QUOTE_LENGTH)!r}"
        return find_length_problem("policy", policy, MAX_LENGTH) or (
            f"{found}, expected {'; or '.join(known) or 'one of a server, of which none has been heard'}"
        )

    def choose(self, policy: str) -> None:
        """Want a policy."""
        if policy != self.wanted:
            self.before, self.wanted = self.wanted, policy

    def find_other(self, server: str, reply: SessionReply) -> str:
        """Return which other policy a session is of, in words; empty when it is of the wanted one."""
        names = self._served.get(server, ("",))
        if not self.wanted or (self.wanted in names and reply.policy_name == names[0]):
            return ""
        return f"serves {reply.policy_name!r} now, expected {self.wanted!r}"

    def note_session(self, reply: SessionReply) -> None:
        """Note the first session of the wanted policy: later ones must have the same weights."""
        self._fingerprints.setdefault(self.wanted, reply.policy_fingerprint)
        if self._keeps_first and not self.wanted:
            self._first = self._first or reply.policy_name


@dataclass(frozen=True)
class Attempt:
    """What is known of the session that was asked for last, from the answer to get_status on.

    round_trip_ns: of the shorter call. response_s: time that the server needs for a chunk. is_delivering: it
    has delivered a chunk. is_listed: the server's status has named it. unlisted: statuses that did not.
    """

    round_trip_ns: int = 0
    response_s: float = 0.0
    is_delivering: bool = False
    is_listed: bool = False
    unlisted: int = 0


@dataclass(frozen=True)
class KeptSession:
    """A session that stays open while another policy is used."""

    offer: SessionOffer
    session: SessionReply
    attempt: Attempt

    def is_open(self, instance_id: str, sessions: tuple[str, ...]) -> bool:
        """Return whether its server's status says so."""
        return instance_id == self.session.server_instance_id and self.session.session_id in sessions
