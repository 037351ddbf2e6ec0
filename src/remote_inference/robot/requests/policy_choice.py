# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which policy a robot uses where its servers serve several: a goal names one, or a tag of its server."""

from __future__ import annotations

from collections.abc import Sequence

from remote_inference.base.exchange import SessionReply
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
    def listed(self) -> tuple[str, ...]:
        """All servers of the robot, in order of preference."""
        return self._listed

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers of the wanted policy, in order of preference."""
        if self.wanted:
            return self._servers_of(self.wanted)
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
        if not policy or self._servers_of(policy):
            return ""
        served = self._served
        known = [
            f"{', '.join(shorten(name, MAX_QUOTE_LENGTH) for name in served[server])} of {server}"
            for server in self._listed
            if server in served
        ]
        found = f"policy: found {shorten(policy, MAX_QUOTE_LENGTH)!r}"
        return find_length_problem("policy", policy, MAX_LENGTH) or (
            f"{found}, expected {'; or '.join(known) or 'one of a server, of which none has been heard'}"
        )

    def _servers_of(self, policy: str) -> tuple[str, ...]:
        """Return the servers that have said this name or tag, in order of preference."""
        served = self._served
        return tuple(server for server in self._listed if policy in served.get(server, ()))

    def choose(self, policy: str) -> None:
        """Want a policy, by its name. One that no server has granted yet is not one to go back to."""
        if policy == self.wanted:
            return
        if not self.is_on_trial:
            self.before = self.wanted or self._first
        self.wanted = policy

    def find_name(self, policy: str, servers: Sequence[str]) -> str:
        """Return the policy for which a name or tag stands: of the first of these servers that has it."""
        served = (self._served[server] for server in servers if policy in self._served.get(server, ()))
        return next((names[0] for names in served), policy)

    def find_other(self, server: str, reply: SessionReply) -> str:
        """Return which other policy a session is of, in words; empty when it is of the wanted one."""
        names = self._served.get(server, ("",))
        if not self.wanted or (self.wanted in names and reply.policy_name == names[0]):
            return ""
        return f"serves {reply.policy_name!r} now, expected {self.wanted!r}"

    def note_session(self, reply: SessionReply) -> None:
        """Note the first session of the wanted policy: later ones must have the same weights."""
        for name in (self.wanted, reply.policy_name):
            self._fingerprints.setdefault(name, reply.policy_fingerprint)
        if self._keeps_first and not self.wanted:
            self._first = self._first or reply.policy_name
