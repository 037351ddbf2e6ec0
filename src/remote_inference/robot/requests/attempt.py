# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is known of a session that was asked for, also while it is kept for a policy that is not used now."""

from __future__ import annotations

from dataclasses import dataclass, replace

from remote_inference.base.exchange import SessionOffer, SessionReply

UNLISTED_MAX = 3  # statuses in a row: one from before the session does not list it either


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

    def after_status(self, is_listed: bool) -> Attempt:
        """Return what is known after a status of the session's server that names it, or does not."""
        if is_listed:
            return replace(self, is_listed=True, unlisted=0)
        return replace(self, unlisted=self.unlisted + 1)

    @property
    def is_ended(self) -> bool:
        """Whether the server has ended the session, by its statuses."""
        return self.unlisted >= (1 if self.is_listed else UNLISTED_MAX)


@dataclass(frozen=True)
class KeptSession:
    """A session that stays open while another policy is used."""

    offer: SessionOffer
    session: SessionReply
    attempt: Attempt
