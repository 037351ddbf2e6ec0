# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Session services: open, reset, close and expire the sessions of ROS robots, and expire all others."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rclpy.node import Node

from remote_inference.core.admission import INTERNAL_REJECTION, ServerTerms
from remote_inference.core.exchange import SessionOffer, SessionReply
from remote_inference.core.limits import shorten
from remote_inference.core.server.sessions.session import Session, SessionRegistry
from remote_inference.core.server.sessions.session_expiry import SessionExpiry
from remote_inference.core.tags import write_tags
from remote_inference.nodes.log_lines import IdLogger, about
from remote_inference.nodes.server.refusals import Refusals
from remote_inference.nodes.server.ros_link import RosLink
from remote_inference.nodes.server.serving import Serving
from remote_inference.srv import CloseSession, OpenSession, ResetSession
from remote_inference.wire import WireError, offer_from_request, reply_to_response


class SessionServices:
    """The services `open_session`, `close_session` and `reset_session` of a server.

    All methods run on the executor's thread, the only thread that may create and destroy entities.
    """

    def __init__(
        self, node: Node, registry: SessionRegistry, refusals: Refusals, changed: Callable[[], None]
    ) -> None:
        """Create the services. changed: called after a session was opened or closed or an offer refused."""
        self._node = node
        self._refusals = refusals
        self._registry = registry
        self._changed = changed
        self._serving: Serving | None = None
        self._expiry: SessionExpiry | None = None
        self.accepting = False
        node.create_service(OpenSession, "~/open_session", self._open)
        node.create_service(CloseSession, "~/close_session", self._close)
        node.create_service(ResetSession, "~/reset_session", self._reset)

    def start(self, serving: Serving) -> None:
        """Judge offers by a policy from now on; robots are admitted while `accepting`."""
        manifest = serving.manifest
        self._expiry = SessionExpiry(manifest.session_grace_s, manifest.session_idle_timeout_s)
        self._serving = serving

    def stop(self) -> None:
        """End every session and admit nobody."""
        self.accepting = False
        self._serving = None
        for session in self._registry.all():
            self._registry.end(session, "the server has ended")

    def terms(self, serving: Serving) -> ServerTerms:
        """Return the terms that the server grants now."""
        return ServerTerms(
            default_task=serving.manifest.default_task,
            pin_task=serving.manifest.pin_task,
            strict_fps=serving.manifest.strict_fps,
            max_sessions=serving.manifest.max_sessions,
            active_sessions=len(self._registry),
            load=serving.worker.busy.fraction(time.monotonic_ns()),
            accepting=self.accepting,
            limits=serving.manifest.limits,
            failing=serving.watch.unready_reason(time.monotonic_ns()),
            updates_weights=serving.weights is not None,
        )

    def look_around(self) -> None:
        """Learn which robots are present, and end abandoned sessions."""
        if self._expiry is None:
            return
        gone = self._expiry.expired(self._registry.all(), Session.is_present, time.monotonic_ns())
        for session, reason in gone:
            if self._registry.end(session, reason):
                log = self._log_of(session.offer, session.session_id)
                log.info(f"{session.offer.client}: ended {session.session_id}: {reason}")

    # -- services ------------------------------------------------------------------------------------------

    def _open(self, request: OpenSession.Request, response: OpenSession.Response) -> OpenSession.Response:
        serving = self._serving
        if serving is None:
            response.rejection, response.message = "draining", "server is not configured"
            return response
        try:
            offer = offer_from_request(request)
            reply = self._admit(offer, serving)
        except WireError as error:
            response.rejection, response.message = "schema", shorten(f"malformed offer: {error}")
            self._refusals.note(request.robot_namespace, request.client, response.rejection, response.message)
            return response
        except Exception as error:  # out of a callback it would end the node and every session
            response.rejection = INTERNAL_REJECTION
            response.message = shorten(f"{type(error).__name__}: {error}")
            self._refusals.note_fault(request.robot_namespace, request.client, error)
            return response
        if reply.accepted:
            self._log_admission(offer, reply)
        else:
            self._refusals.note(offer.robot_namespace, offer.client, reply.rejection, reply.message)
        self._changed()
        return reply_to_response(reply)

    def _close(self, request: CloseSession.Request, response: CloseSession.Response) -> CloseSession.Response:
        session = self._claim(request, response)
        response.closed = session is not None
        if session is not None:
            self._registry.end(session, "its robot has closed it")
            log = self._log_of(session.offer, session.session_id)
            log.info(f"{session.offer.client} closed {session.session_id}")
            self._changed()
        return response

    def _reset(self, request: ResetSession.Request, response: ResetSession.Response) -> ResetSession.Response:
        # The worker resets the processors at the episode's first request, which may already wait.
        session = self._claim(request, response)
        response.reset = session is not None
        if session is not None:
            session.end_episodes_before(request.episode_id)
        return response

    def _claim(
        self,
        request: CloseSession.Request | ResetSession.Request,
        response: CloseSession.Response | ResetSession.Response,
    ) -> Session | None:
        """Return the caller's session, or say in the response why it has none."""
        response.message = self._registry.find_claim_problem(request.session_id, request.session_token)
        if not response.message:
            return self._registry.get(request.session_id)
        self._node.get_logger().warning(f"refused to touch a session: {response.message}")
        return None

    def _log_admission(self, offer: SessionOffer, reply: SessionReply) -> None:
        words = f"admitted as {reply.session_id}"
        remarks = f": {reply.message}" if reply.message else ""
        tags = ", ".join(write_tags(offer.tags))
        log = self._log_of(offer, reply.session_id)
        log.info(f"{offer.client} {words}{remarks}{f' ({tags})' if tags else ''}")

    def _log_of(self, offer: SessionOffer, session_id: str) -> IdLogger:
        return about(self._node.get_logger(), offer.robot_namespace, session_id)

    # -- sessions ------------------------------------------------------------------------------------------

    def _admit(self, offer: SessionOffer, serving: Serving) -> SessionReply:
        with self._registry.admission:
            # A robot that asks again has lost its session, even if the registry holds it: count it once.
            old = self._registry.of_robot(offer.robot_namespace)
            reply = self._registry.reply(offer, serving.policy.spec, self._terms_for(offer, old, serving))
            if not reply.accepted:
                return reply
            if old is not None:
                self._registry.end(old, "its robot has opened another one")
            self._make_room(reply.max_sessions)
            session = self._begin(offer, serving)
        return replace(
            reply,
            session_id=session.session_id,
            session_token=session.token,
            active_sessions=len(self._registry),
        )

    def _make_room(self, max_sessions: int) -> None:
        """End a session that yields if a robot takes its place; the offer was judged to be granted."""
        if len(self._registry) < max_sessions:
            return
        displaced = self._registry.newest_yielding()
        if displaced is not None and self._registry.end(displaced, "a robot takes its place"):
            log = self._log_of(displaced.offer, displaced.session_id)
            log.info(f"{displaced.offer.client}: ended {displaced.session_id}: a robot takes its place")

    def _terms_for(self, offer: SessionOffer, old: Session | None, serving: Serving) -> ServerTerms:
        yielding = sum(session.yields for session in self._registry.all() if session is not old)
        terms = replace(self.terms(serving), yielding_sessions=yielding)
        if old is None:
            return terms
        another = offer.client_instance_id != old.offer.client_instance_id
        return replace(
            terms,
            active_sessions=terms.active_sessions - 1,
            name_taken=another and _is_alive(old),
        )

    def _begin(self, offer: SessionOffer, serving: Serving) -> Session:
        session = Session(
            uuid.uuid4().hex[:12], offer, serving.policy.make_processors(), opened_ns=time.monotonic_ns()
        )
        session.link = RosLink(self._node, offer, partial(serving.deposit, session))
        self._registry.add(session)
        return session


def _is_alive(session: Session) -> bool:
    """Return whether the process that opened a ROS robot's session is alive, besides one that asks now."""
    return isinstance(session.link, RosLink) and session.link.is_alive()
