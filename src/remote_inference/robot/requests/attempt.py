# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is known of a session that was asked for, also while it is kept for a policy that is not used now."""

from __future__ import annotations

from dataclasses import dataclass

from remote_inference.base.exchange import SessionOffer, SessionReply


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
