# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Gateways for other frameworks' clients: one file, one section of the manifest and one line each.

A gateway is named like its section and is opened when the manifest has the section. Its clients are sessions
like all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from remote_inference.base.documents.registry import Registry
from remote_inference.base.exchange import SessionOffer
from remote_inference.base.policy import PolicySpec
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.sessions.session import Link, Session


class GatewayError(Exception):
    """A gateway cannot be opened; the message names its section, what was found and expected."""


class Refused(Exception):  # noqa: N818  an answer, not a fault
    """A session is not granted; the message is the admission rule's reason."""


class Host(Protocol):
    """A server as a gateway sees it. Any thread may call it."""

    @property
    def manifest(self) -> Manifest:
        """The manifest, paths absolute."""

    @property
    def spec(self) -> PolicySpec:
        """The policy that is served."""

    def admit(self, offer: SessionOffer, link: Link) -> Session:
        """Open a session. Raises Refused, and whatever the policy raises when it makes processors."""

    def enqueue(self, session: Session, data: bytes) -> None:
        """Queue a serialized Observation of a session; the answer is sent by the session's link."""

    def end(self, session: Session, reason: str) -> None:
        """End a session whose client has left; one that has ended already is no error."""

    def find_refusal(self) -> str:
        """Return why no client is admitted now, or an empty string."""

    def record_refusal(self, session: Session, seq_id: int, episode_id: int, problem: str) -> None:
        """Record a request that the gateway cannot hand on, in the request log and the metrics."""

    def report(self, offer: SessionOffer, error: Exception) -> None:
        """Log that a client was refused by a fault of the server's, and count it."""

    def fail(self, error: Exception) -> None:
        """Stop the server: the gateway cannot go on."""


class Gateway(Protocol):
    """An open gateway, with threads of its own."""

    def close(self) -> bool:
        """End its connections and sessions, and free the port; return False when that takes too long."""


GATEWAYS = Registry[Callable[[Any, Host], Gateway]]("gateway")
GATEWAYS.add("openpi", f"{__name__}.openpi.endpoint:OpenpiEndpoint", needs=("websockets",))
