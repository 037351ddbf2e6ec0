# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Session services: open, reset, close and expire the sessions of ROS robots, and expire all others."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.node import Node
from rclpy.subscription import Subscription

from remote_inference.base.admission import INTERNAL_REJECTION, LOADING_REJECTION, ServerTerms
from remote_inference.base.exchange import Chunk, SessionOffer, SessionReply, in_namespace
from remote_inference.base.limits import shorten
from remote_inference.base.nodes.graph import identify_endpoints
from remote_inference.base.nodes.robot_logger import RobotLogger, about, calm
from remote_inference.base.policy import PolicySpec
from remote_inference.base.repeats import Repeats
from remote_inference.base.tags import write_tags
from remote_inference.base.wire import qos
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.chunk import chunk_to_message
from remote_inference.base.wire.session import offer_from_request, reply_to_response
from remote_inference.msg import ActionChunk, ClientState, Observation
from remote_inference.server.admission import terms_of
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.monitoring.snapshot import QUIET_AFTER_S
from remote_inference.server.nodes.serving import Serving
from remote_inference.server.policy_error import explain_policy_error, trace_policy_error
from remote_inference.server.sessions import Session, SessionExpiry, SessionRegistry
from remote_inference.srv import CloseSession, OpenSession, ResetSession

# Not rclpy's default events, four per session: its executor compares them all for every message. They only
# log an incompatible QoS, which the robot's endpoints log, too.
_NO_EVENTS = SubscriptionEventCallbacks(use_default_callbacks=False)
_NO_PUBLISHER_EVENTS = PublisherEventCallbacks(use_default_callbacks=False)


class Refusals:
    """Counts refused offers, and logs them; those of one robot by one rule repeat. Any thread may call it."""

    def __init__(self, logger: RcutilsLogger) -> None:
        self._logger = logger
        self._repeats = Repeats()
        self._lock = threading.Lock()
        self.count = 0

    def note_fault(self, robot: str, client: str, error: BaseException) -> None:
        """Count an offer that failed by a fault of the server's own."""
        self.note(robot, client, INTERNAL_REJECTION, explain_policy_error(error))
        self._logger.debug(trace_policy_error(error))

    def note(self, robot: str, client: str, rejection: str, reason: str) -> None:
        """Count an offer that a robot's client made. rejection: name of the rule; reason: in words."""
        with self._lock:
            self.count += 1
        # Not by the reason, which may hold a number that changes.
        subject = shorten(f"{rejection} {robot} {client}")
        text = f"{shorten(client)} refused: {shorten(reason)}"
        if line := self._repeats.line(text, time.monotonic(), subject):
            logger = about(self._logger, shorten(robot))
            log = logger.error if rejection == INTERNAL_REJECTION else logger.info
            log(line)


class RosLink:
    """A session's subscription to its robot's requests and publisher of its chunks.

    It stores the robot's endpoints that were known when the session began. The executor's thread makes,
    calls and closes it: no other thread may create and destroy entities.
    """

    def __init__(self, node: Node, offer: SessionOffer, enqueue: Callable[[bytes], None]) -> None:
        """enqueue: gets each serialized request."""
        self.paused, self.kept = False, frozenset[str]()
        self._state: Subscription | None = None
        self._node = node
        self._offer = offer
        with ExitStack() as undo:  # destroys the endpoints if a later step fails
            self._publisher = node.create_publisher(
                ActionChunk,
                in_namespace(offer.robot_namespace, qos.CHUNK_TOPIC),
                qos.EXCHANGE_QOS,
                event_callbacks=_NO_PUBLISHER_EVENTS,
            )
            undo.callback(node.destroy_publisher, self._publisher)
            self._subscription: Subscription | None = node.create_subscription(
                Observation,
                in_namespace(offer.robot_namespace, qos.OBSERVATION_TOPIC),
                enqueue,
                qos.EXCHANGE_QOS,
                raw=True,
                event_callbacks=_NO_EVENTS,
            )
            undo.callback(node.destroy_subscription, self._subscription)
            self._robot_gids = find_robot_gids(node, offer)
            undo.pop_all()

    def send(self, chunk: Chunk) -> None:
        message = chunk_to_message(chunk, self._node.get_clock().now().to_msg())
        try:
            self._publisher.publish(message)
        except InvalidHandle:
            log = about(self._node.get_logger(), self._offer.robot_namespace, chunk.session_id)
            log.debug(f"session {chunk.session_id} closed before its chunk was sent")

    def is_present(self) -> bool:
        gids = find_robot_gids(self._node, self._offer)
        if not self._robot_gids:  # the session opened before discovery found them
            self._robot_gids = gids
        return bool(gids)

    def listen(self, *, is_quiet: bool) -> None:
        """Hear why a quiet robot asks for nothing. One that asks is not paused, and costs nothing here."""
        if is_quiet and self._state is None:
            topic = in_namespace(self._offer.robot_namespace, qos.STATE_TOPIC)
            self._state = self._node.create_subscription(
                ClientState, topic, self._take_state, qos.LATCHED_QOS, event_callbacks=_NO_EVENTS
            )
        elif not is_quiet and self._state is not None:
            self._node.destroy_subscription(self._state)
            self._state, self.paused, self.kept = None, False, frozenset()

    def _take_state(self, state: ClientState) -> None:
        self.paused, self.kept = state.paused, frozenset(state.kept_sessions)

    def close(self, reason: str) -> None:  # noqa: ARG002  the robot sees that the endpoints are gone
        self.listen(is_quiet=False)
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._publisher)
        # Its callback refers to the session, which refers to this link: the circle would keep the processors,
        # and their device memory, until the next garbage collection.
        self._subscription = None

    def is_alive(self) -> bool:
        """Return whether the process that opened the session is in the graph, besides one that asks now.

        A paused robot sends no requests, but is alive.
        """
        gids = find_robot_gids(self._node, self._offer)
        if len(gids) > 1:
            return True
        return len(self._robot_gids) == 1 and self._robot_gids <= gids


def find_robot_gids(node: Node, offer: SessionOffer) -> frozenset[bytes]:
    """Return the endpoints by which nodes of the robot's name publish observations."""
    topic = in_namespace(offer.robot_namespace, qos.OBSERVATION_TOPIC)
    return frozenset(
        gid
        for name, gid in identify_endpoints(node.get_publishers_info_by_topic(topic))
        if name == offer.client
    )


class SessionServices:
    """The services `open_session`, `close_session` and `reset_session` of a server.

    All methods run on the executor's thread, the only thread that may create and destroy entities.
    """

    def __init__(self, node: Node, registry: SessionRegistry, changed: Callable[[], None]) -> None:
        """Create the services. changed: called after a session was opened or closed or an offer refused."""
        self._node = node
        self.registry = registry
        self.refusals = Refusals(node.get_logger())
        self._changed = changed
        self._serving: Serving | None = None
        self._released: tuple[Manifest, PolicySpec] | None = None
        self.awaits_policy = False  # a robot that fits has asked for a released one
        self._expiry: SessionExpiry | None = None
        self.accepting = False
        node.create_service(OpenSession, "~/open_session", self._open)
        node.create_service(CloseSession, "~/close_session", self._close)
        node.create_service(ResetSession, "~/reset_session", self._reset)

    def start(self, serving: Serving) -> None:
        """Judge offers by this policy; robots are admitted while `accepting`."""
        manifest = serving.manifest
        self._expiry = SessionExpiry(manifest.session_grace_s, manifest.session_idle_timeout_s)
        self._serving, self._released, self.awaits_policy = serving, None, False

    def release(self, serving: Serving) -> None:
        """Judge offers by a policy that is freed now, and is loaded again for a robot that fits."""
        self._serving, self._released = None, (serving.manifest, serving.policy.spec)
        self.awaits_policy = False

    @property
    def released_manifest(self) -> Manifest:
        """Manifest of the policy that is released."""
        assert self._released is not None, "a policy is released"
        return self._released[0]

    def stop(self) -> None:
        """End every session and admit nobody."""
        self.accepting = False
        self._serving, self._released, self.awaits_policy = None, None, False
        for session in self.registry.all():
            self.registry.end(session, "the server has ended")

    def terms(self, serving: Serving) -> ServerTerms:
        """Return the server's terms for offers as they are now."""
        return replace(
            terms_of(serving.manifest),
            active_sessions=len(self.registry),
            load=serving.worker.busy.fraction(time.monotonic_ns()),
            accepting=self.accepting,
            failing=serving.watch.unready_reason(time.monotonic_ns()),
            updates_weights=serving.weights is not None,
        )

    def end_abandoned(self) -> None:
        """End the sessions whose robots are gone, silent or use another server; listen to the quiet ones."""
        if self._expiry is None:
            return
        gone = self._expiry.expired(self.registry.all(), Session.is_present, time.monotonic_ns())
        for session, reason in gone:
            if self.registry.end(session, reason):
                self.log_end(session, reason)
        quiet_ns = time.monotonic_ns() - round(QUIET_AFTER_S * 1e9)
        for session in self.registry.all():
            if isinstance(session.link, RosLink):
                uses_another = session.foreign_requests > 0 or session.is_kept
                session.link.listen(is_quiet=uses_another or session.last_asked_ns < quiet_ns)

    # -- services ------------------------------------------------------------------------------------------

    def _open(self, request: OpenSession.Request, response: OpenSession.Response) -> OpenSession.Response:
        serving = self._serving
        if serving is None and self._released is None:
            response.rejection, response.message = "draining", "server is not configured"
            return response
        try:
            offer = offer_from_request(request)
            reply = self._ask_to_load(offer) if serving is None else self._admit(offer, serving)
        except WireError as error:
            response.rejection, response.message = "schema", shorten(f"malformed offer: {error}")
            self.refusals.note(request.robot_namespace, request.client, response.rejection, response.message)
            return response
        except Exception as error:  # out of a callback it would end the node and every session
            response.rejection = INTERNAL_REJECTION
            response.message = shorten(f"{type(error).__name__}: {error}")
            self.refusals.note_fault(request.robot_namespace, request.client, error)
            return response
        if reply.accepted:
            remarks = f": {reply.message}" if reply.message else ""
            tags = f" ({', '.join(write_tags(offer.tags))})" if offer.tags else ""
            log = self.log_of(offer, reply.session_id)
            log.info(f"{offer.client} admitted as {reply.session_id}{remarks}{tags}")
        else:
            self.refusals.note(offer.robot_namespace, offer.client, reply.rejection, reply.message)
        self._changed()
        return reply_to_response(reply)

    def _close(self, request: CloseSession.Request, response: CloseSession.Response) -> CloseSession.Response:
        session = self._claim(request, response)
        response.closed = session is not None
        if session is not None:
            self.registry.end(session, "its robot has closed it")
            log = self.log_of(session.offer, session.session_id)
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
        response.message = self.registry.find_claim_problem(request.session_id, request.session_token)
        if not response.message:
            return self.registry.get(request.session_id)
        calm(self._node).warning(f"refused to touch a session: {response.message}", subject="claim")
        return None

    def log_of(self, offer: SessionOffer, session_id: str) -> RobotLogger:
        """Return the logger whose lines name a session and its robot."""
        return about(self._node.get_logger(), offer.robot_namespace, session_id)

    def log_end(self, session: Session, reason: str) -> None:
        log = self.log_of(session.offer, session.session_id)
        log.info(f"{session.offer.client}: ended {session.session_id}: {shorten(reason)}")

    # -- sessions ------------------------------------------------------------------------------------------

    def _ask_to_load(self, offer: SessionOffer) -> SessionReply:
        """Have a released policy loaded for a robot that it fits; return why there is no session yet."""
        assert self._released is not None
        manifest, spec = self._released
        reply = self.registry.reply(offer, spec, replace(terms_of(manifest), accepting=self.accepting))
        if not reply.accepted:
            return reply
        self.awaits_policy = True
        reason = "the policy was released, and is being loaded again"
        return SessionReply(accepted=False, rejection=LOADING_REJECTION, message=reason)

    def _admit(self, offer: SessionOffer, serving: Serving) -> SessionReply:
        with self.registry.admission:
            # A robot that asks again has lost its session, even if the registry holds it: count it once.
            old = self.registry.of_robot(offer.robot_namespace)
            reply = self.registry.reply(offer, serving.policy.spec, self._terms_for(offer, old, serving))
            if not reply.accepted:
                return reply
            if old is not None:
                self.registry.end(old, "its robot has opened another one")
            self._make_room(reply.max_sessions)
            processors = serving.policy.make_processors()
            session = Session(uuid.uuid4().hex[:12], offer, processors, opened_ns=time.monotonic_ns())
            session.link = RosLink(self._node, offer, partial(serving.enqueue, session))
            self.registry.add(session)
        return replace(
            reply,
            session_id=session.session_id,
            session_token=session.token,
            active_sessions=len(self.registry),
        )

    def _make_room(self, max_sessions: int) -> None:
        """End a session that yields if its place is needed for an offer that is granted."""
        if len(self.registry) < max_sessions:
            return
        displaced, reason = self.registry.newest_yielding(), "a robot takes its place"
        if displaced is not None and self.registry.end(displaced, reason):
            self.log_end(displaced, reason)

    def _terms_for(self, offer: SessionOffer, old: Session | None, serving: Serving) -> ServerTerms:
        yielding = sum(session.yields for session in self.registry.all() if session is not old)
        terms = replace(self.terms(serving), yielding_sessions=yielding)
        if old is None:
            return terms
        another = offer.client_instance_id != old.offer.client_instance_id
        is_alive = isinstance(old.link, RosLink) and old.link.is_alive()
        return replace(terms, active_sessions=terms.active_sessions - 1, name_taken=another and is_alive)
