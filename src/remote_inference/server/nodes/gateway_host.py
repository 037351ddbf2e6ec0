# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Admits clients of gateways to the sessions of a server, and opens the gateways that a manifest names."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from remote_inference.base.exchange import SessionOffer, SessionReply
from remote_inference.base.limits import shorten
from remote_inference.base.policy import PolicySpec
from remote_inference.server.gateways import GATEWAYS, Gateway, GatewayError, Refused
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.nodes.serving import Serving
from remote_inference.server.nodes.session_services import SessionServices
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.sessions.session import Link, Session


@dataclass(frozen=True)
class GatewayHost:
    """The server's side of its gateways (`gateways.Host`). Their threads call all methods."""

    serving: Serving
    services: SessionServices  # whose registry, refusals and terms count for all sessions
    log_request: Callable[[RequestRecord], None]
    on_failure: Callable[[BaseException], None]

    @property
    def manifest(self) -> Manifest:
        return self.serving.manifest

    @property
    def spec(self) -> PolicySpec:
        return self.serving.policy.spec

    def admit(self, offer: SessionOffer, link: Link) -> Session:
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

    def enqueue(self, session: Session, data: bytes) -> None:
        self.serving.enqueue(session, data)

    def end(self, session: Session, reason: str) -> None:
        if self.services.registry.remove(session.session_id) is not None:
            log = self.services.log_of(session.offer, session.session_id)
            log.info(f"{session.offer.client}: ended {session.session_id}: {shorten(reason)}")

    def record_refusal(self, session: Session, seq_id: int, episode_id: int, problem: str) -> None:
        problem = f"malformed observation: {problem}"
        record = RequestRecord.of(
            session.offer, session.session_id, problem, seq_id=seq_id, episode_id=episode_id
        )
        self.log_request(record)

    def find_refusal(self) -> str:
        terms = self.services.terms(self.serving)
        return "" if terms.accepting and not terms.failing else terms.failing or "server is not active"

    def report(self, offer: SessionOffer, error: Exception) -> None:
        self.services.refusals.note_fault(offer.robot_namespace, offer.client, error)

    def fail(self, error: Exception) -> None:
        self.on_failure(error)

    def _require_accepted(self, offer: SessionOffer) -> SessionReply:
        reply = self.services.registry.reply(offer, self.spec, self.services.terms(self.serving))
        if not reply.accepted:
            self.services.refusals.note(offer.robot_namespace, offer.client, reply.rejection, reply.message)
            raise Refused(reply.message)
        return reply


def open_gateways(host: GatewayHost) -> Sequence[Gateway]:
    """Open the gateways of the manifest's sections. Raises GatewayError; none is open then."""
    opened: list[Gateway] = []
    try:
        for name in GATEWAYS.names:
            if (section := getattr(host.manifest, name)) is not None:
                opened.append(_import_gateway(name)(section, host))  # noqa: PERF401  closed below
    except GatewayError:
        for gateway in opened:
            gateway.close()
        raise
    return opened


def _import_gateway(name: str) -> Callable[..., Gateway]:
    try:
        return GATEWAYS.get(name)
    except ImportError as error:
        needs = " ".join(GATEWAYS.needs(name))
        raise GatewayError(
            f"{name}: found no {error.name}, expected it installed: pip install {needs}"
        ) from error
