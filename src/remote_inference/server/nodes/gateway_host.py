# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server's side of its gateways for other frameworks' clients, which are sessions like all others."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Protocol

from remote_inference.base.exchange import SessionOffer, SessionReply
from remote_inference.base.nodes.runtime import StartupError
from remote_inference.server.nodes.serving import Serving
from remote_inference.server.nodes.session_services import SessionServices
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.sessions import Link, Session


class Refused(Exception):  # noqa: N818  an answer, not a fault
    """A session is not granted; the message is the admission rule's reason."""


@dataclass(frozen=True)
class GatewayHost:
    """A server as a gateway sees it. Any thread may call it."""

    serving: Serving  # gets the requests of sessions, whose links send the answers
    services: SessionServices  # whose registry, refusals and terms count for all sessions
    log_request: Callable[[RequestRecord], None]
    on_failure: Callable[[BaseException], None]  # stops the server: the gateway cannot go on

    def admit(self, offer: SessionOffer, link: Link) -> Session:
        """Open a session. Raises Refused, and whatever the policy raises when it makes processors."""
        self._require_accepted(offer)
        session = Session(
            uuid.uuid4().hex[:12],
            offer,
            self.serving.policy.make_processors(),  # may take long: not while others wait for admission
            opened_ns=time.monotonic_ns(),
            link=link,
        )
        with self.services.registry.admission:
            reply = self._require_accepted(offer)
            self.services.registry.add(session)
        log = self.services.log_of(offer, session.session_id)
        log.info(f"{offer.client} admitted as {session.session_id} ({offer.robot_namespace})")
        for warning in reply.warnings:
            log.warning(f"{offer.client}: {warning}")
        return session

    def end(self, session: Session, reason: str) -> None:
        """End a session whose client has left; one that has ended already is no error."""
        if self.services.registry.remove(session.session_id) is not None:
            self.services.log_end(session, reason)

    def record_refusal(self, session: Session, seq_id: int, episode_id: int, problem: str) -> None:
        """Record a request that the gateway cannot hand on, in the request log and the metrics."""
        id_, problem = session.session_id, f"malformed observation: {problem}"
        self.log_request(RequestRecord.of(session.offer, id_, problem, seq_id=seq_id, episode_id=episode_id))

    def find_refusal(self) -> str:
        """Return why no client is admitted now, or an empty string."""
        terms = self.services.terms(self.serving)
        return "" if terms.accepting and not terms.failing else terms.failing or "server is not active"

    def report(self, offer: SessionOffer, error: Exception) -> None:
        """Log that a client was refused by a fault of the server's, and count it."""
        self.services.refusals.note_fault(offer.robot_namespace, offer.client, error)

    def _require_accepted(self, offer: SessionOffer) -> SessionReply:
        spec, terms = self.serving.policy.spec, self.services.terms(self.serving)
        reply = self.services.registry.reply(offer, spec, terms)
        if not reply.accepted:
            self.services.refusals.note(offer.robot_namespace, offer.client, reply.rejection, reply.message)
            raise Refused(reply.message)
        return reply


class Gateway(Protocol):
    """An open gateway, with threads of its own."""

    def close(self) -> bool:
        """End its connections and sessions, and free the port; return False when that takes too long."""


# By the section of the manifest that opens each; where a library lacks, pip's name for it.
_GATEWAYS = {
    "openpi": ("remote_inference.server.gateways.endpoint:OpenpiEndpoint", "websockets"),
    "lerobot_async": ("remote_inference.server.gateways.lerobot_endpoint:LerobotEndpoint", "grpcio protobuf"),
}


def open_gateways(host: GatewayHost) -> Iterator[Gateway]:
    """Open the gateways that the manifest has sections for, one at each step. Raises StartupError."""
    for name, (place, packages) in _GATEWAYS.items():
        if (section := getattr(host.serving.manifest, name)) is None:
            continue
        try:
            endpoint = resolve_name(place)
        except ImportError as error:
            expected = f"it installed: pip install {packages}"
            raise StartupError(f"{name}: found no {error.name}, expected {expected}") from error
        yield endpoint(section, host)
