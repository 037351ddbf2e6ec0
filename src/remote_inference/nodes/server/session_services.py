# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Session services: open, reset, close and expire sessions, and own the two endpoints of each."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription

from remote_inference.core.admission import INTERNAL_REJECTION, ServerTerms
from remote_inference.core.exchange import SessionOffer, SessionReply, in_namespace
from remote_inference.core.limits import shorten
from remote_inference.core.server.policy_error import explain_policy_error, trace_policy_error
from remote_inference.core.server.session import Session, SessionRegistry
from remote_inference.core.server.session_expiry import SessionExpiry
from remote_inference.msg import ActionChunk, Observation
from remote_inference.nodes.graph import identify_endpoints
from remote_inference.nodes.server.serving import Serving
from remote_inference.srv import CloseSession, OpenSession, ResetSession
from remote_inference.wire import WireError, offer_from_request, reply_to_response
from remote_inference.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC

# After this silence a robot counts as gone, even if an endpoint of its name is still in the graph.
SILENCE_NS = 20_000_000_000


@dataclass(frozen=True)
class _Entities:
    """A session's two endpoints, and the robot's endpoints that were known when the session began."""

    publisher: Publisher
    subscription: Subscription
    robot_gids: frozenset[bytes]


class SessionServices:
    """The services `open_session`, `close_session` and `reset_session` of a server.

    All methods run on the executor's thread, the only thread that may create and destroy entities.
    """

    def __init__(self, node: Node, registry: SessionRegistry, changed: Callable[[], None]) -> None:
        """Create the services. changed: called after a session was opened or closed or an offer refused."""
        self._node = node
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
            self._end(session)

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
            failing=serving.watch.unready_reason(time.monotonic_ns()),
        )

    def look_around(self) -> None:
        """Learn the endpoints by which robots publish, and end abandoned sessions."""
        present = {session.session_id: self._robot_gids(session.offer) for session in self._registry.all()}
        for session in self._registry.all():
            if not session.entities.robot_gids:  # the session opened before discovery found them
                session.entities = replace(session.entities, robot_gids=present[session.session_id])
        if self._expiry is None:
            return
        gone = self._expiry.expired(
            self._registry.all(), lambda session: bool(present[session.session_id]), time.monotonic_ns()
        )
        for session, reason in gone:
            self._end(session)
            self._node.get_logger().info(f"{session.offer.client}: ended {session.session_id}: {reason}")

    # -- services ------------------------------------------------------------------------------------------

    def _open(self, request: OpenSession.Request, response: OpenSession.Response) -> OpenSession.Response:
        serving = self._serving
        if serving is None:
            response.rejection, response.message = "draining", "server is not configured"
            return response
        try:
            reply = self._admit(offer_from_request(request), serving)
        except WireError as error:
            response.rejection, response.message = "schema", shorten(f"malformed offer: {error}")
            return response
        except Exception as error:  # out of a callback it would end the node and every session
            response.rejection = INTERNAL_REJECTION
            response.message = shorten(f"{type(error).__name__}: {error}")
            self._node.get_logger().error(f"{request.client} refused: {explain_policy_error(error)}")
            self._node.get_logger().debug(trace_policy_error(error))
            return response
        self._node.get_logger().info(
            f"{request.client} {'admitted as ' + reply.session_id if reply.accepted else 'refused'}"
            f"{': ' + reply.message if reply.message else ''}"
        )
        self._changed()
        return reply_to_response(reply)

    def _close(self, request: CloseSession.Request, response: CloseSession.Response) -> CloseSession.Response:
        session = self._claim(request, response)
        response.closed = session is not None
        if session is not None:
            self._end(session)
            self._node.get_logger().info(f"{session.offer.client} closed {session.session_id}")
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

    # -- sessions ------------------------------------------------------------------------------------------

    def _admit(self, offer: SessionOffer, serving: Serving) -> SessionReply:
        # A robot that asks again has lost its session, even if the registry holds it: count it once.
        old = self._registry.of_robot(offer.robot_namespace)
        reply = self._registry.reply(offer, serving.policy.spec, self._terms_for(offer, old, serving))
        if not reply.accepted:
            return reply
        if old is not None:
            self._end(old)
        session = self._begin(offer, serving)
        return replace(
            reply,
            session_id=session.session_id,
            session_token=session.token,
            active_sessions=len(self._registry),
        )

    def _terms_for(self, offer: SessionOffer, old: Session | None, serving: Serving) -> ServerTerms:
        terms = self.terms(serving)
        if old is None:
            return terms
        another = offer.client_instance_id != old.offer.client_instance_id
        return replace(
            terms,
            active_sessions=terms.active_sessions - 1,
            name_taken=another and self._is_alive(old),
        )

    def _begin(self, offer: SessionOffer, serving: Serving) -> Session:
        session = Session(
            uuid.uuid4().hex[:12], offer, serving.policy.make_processors(), opened_ns=time.monotonic_ns()
        )
        # Without rclpy's default events, four per session: its executor compares them all for every message.
        # They only log an incompatible QoS, which the robot's endpoints log, too.
        with ExitStack() as undo:  # destroys the endpoints if a later step fails
            publisher = self._node.create_publisher(
                ActionChunk,
                in_namespace(offer.robot_namespace, CHUNK_TOPIC),
                EXCHANGE_QOS,
                event_callbacks=PublisherEventCallbacks(use_default_callbacks=False),
            )
            undo.callback(self._node.destroy_publisher, publisher)
            subscription = self._node.create_subscription(
                Observation,
                in_namespace(offer.robot_namespace, OBSERVATION_TOPIC),
                partial(serving.deposit, session),
                EXCHANGE_QOS,
                raw=True,
                event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
            )
            undo.callback(self._node.destroy_subscription, subscription)
            session.entities = _Entities(publisher, subscription, self._robot_gids(offer))
            undo.pop_all()
        self._registry.add(session)
        return session

    def _end(self, session: Session) -> None:
        self._registry.remove(session.session_id)
        self._node.destroy_subscription(session.entities.subscription)
        self._node.destroy_publisher(session.entities.publisher)

    def _robot_gids(self, offer: SessionOffer) -> frozenset[bytes]:
        """Return the endpoints by which nodes of the robot's name publish observations."""
        topic = in_namespace(offer.robot_namespace, OBSERVATION_TOPIC)
        return frozenset(
            gid
            for name, gid in identify_endpoints(self._node.get_publishers_info_by_topic(topic))
            if name == offer.client
        )

    def _is_alive(self, session: Session) -> bool:
        """Return whether the process that opened a session still publishes, besides the one that asks now."""
        gids = self._robot_gids(session.offer)
        if len(gids) > 1:
            return True
        known: frozenset[bytes] = session.entities.robot_gids
        silent_ns = time.monotonic_ns() - session.last_asked_ns
        return len(known) == 1 and known <= gids and silent_ns < SILENCE_NS
