# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `policy_server`: serves one policy to the robots it admits.

    policy_server --ros-args -p manifest:=belt_arm.manifest.yaml -p autostart:=true

A managed node: configure loads and warms the policy up, activate admits robots, deactivate drains, cleanup
frees the device. The executor deposits requests and answers services; one worker thread owns the policy.
"""

from __future__ import annotations

import statistics
import sys
import time
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import Field
from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription
from std_msgs.msg import Header

from remote_inference.core.compatibility import ServerTerms
from remote_inference.core.document import Document, DocumentError
from remote_inference.core.exchange import (
    SCHEMA_VERSION_MAX,
    SCHEMA_VERSION_MIN,
    Chunk,
    SessionOffer,
    in_namespace,
)
from remote_inference.core.policy import PolicyError
from remote_inference.core.server.audit import AuditRecord
from remote_inference.core.server.manifest import load_manifest
from remote_inference.core.server.session import Session, SessionRegistry
from remote_inference.core.server.warmup import capacity
from remote_inference.msg import ActionChunk, Observation, ServerStatus
from remote_inference.nodes.graph import identify_endpoints
from remote_inference.nodes.parameters import declare_parameters, require_parameter
from remote_inference.nodes.runtime import STEADY_CLOCK, StartupError, run_node
from remote_inference.nodes.serving import Serving
from remote_inference.srv import CloseSession, GetStatus, OpenSession, ResetSession
from remote_inference.wire import (
    WireError,
    chunk_to_message,
    offer_from_request,
    reply_to_response,
)
from remote_inference.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, LATCHED_QOS, OBSERVATION_TOPIC

STATUS_PERIOD_S = 1.0


class ServerConfig(Document):
    """The server's parameters; what it serves is the manifest's."""

    autostart: Annotated[bool, Field(description="configure and activate at start-up")] = False


@dataclass(frozen=True)
class _Entities:
    """A session's two endpoints, and the robot's own as they were known when it began."""

    publisher: Publisher
    subscription: Subscription
    robot_gids: frozenset[bytes]


class PolicyServer(LifecycleNode):
    """The lifecycle node around SessionRegistry and Worker.

    Raises StartupError or DocumentError when the manifest cannot be used.
    """

    def __init__(self) -> None:
        super().__init__("policy_server")
        self.exit_code: int | None = None
        self._manifest_path = require_parameter(self, "manifest", "YAML file that says which policy to serve")
        if not self._manifest_path:
            raise StartupError("parameter manifest: found nothing, expected the path of a manifest")
        load_manifest(self._manifest_path)
        self._instance_id = uuid.uuid4().hex[:12]
        self._registry = SessionRegistry(self._instance_id)
        self._serving: Serving | None = None
        self._accepting = False
        self._status_publisher = self.create_publisher(ServerStatus, "~/status", LATCHED_QOS)
        self.create_service(OpenSession, "~/open_session", self._open_session)
        self.create_service(CloseSession, "~/close_session", self._close_session)
        self.create_service(ResetSession, "~/reset_session", self._reset_session)
        self.create_service(GetStatus, "~/get_status", self._get_status)
        self.create_timer(STATUS_PERIOD_S, self._look_around, clock=STEADY_CLOCK)
        if declare_parameters(self, ServerConfig).autostart:
            self._autostart()

    # -- lifecycle -----------------------------------------------------------------------------------------

    def on_configure(self, _: LifecycleState) -> TransitionCallbackReturn:
        try:
            manifest = load_manifest(self._manifest_path)
            self._serving = Serving(manifest, self._registry, self._send, self._audit, self._on_failure)
        except (DocumentError, PolicyError) as error:
            self.get_logger().error(f"cannot configure: {error}")
            return TransitionCallbackReturn.FAILURE
        except Exception as error:  # rclpy would swallow it
            self.get_logger().error(f"cannot configure: {type(error).__name__}: {error}")
            return TransitionCallbackReturn.FAILURE
        self._log_capacity(self._serving)
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._require_serving().worker.draining = False
        self._accepting = True
        self._publish_status()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._accepting = False
        self._require_serving().worker.draining = True
        self._publish_status()
        return super().on_deactivate(state)

    def on_cleanup(self, _: LifecycleState) -> TransitionCallbackReturn:
        self._unload()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, _: LifecycleState) -> TransitionCallbackReturn:
        self._unload()
        return TransitionCallbackReturn.SUCCESS

    def close(self) -> None:
        """Free everything; called before the context shuts down."""
        self._unload()
        self._publish_status()

    def _autostart(self) -> None:
        for trigger in (self.trigger_configure, self.trigger_activate):
            if trigger() != TransitionCallbackReturn.SUCCESS:
                self._unload()
                raise StartupError("autostart failed; the log says why")
        self._publish_status()

    def _log_capacity(self, serving: Serving) -> None:
        spec, manifest, inference_s = serving.policy.spec, serving.manifest, serving.inference_s
        period_s = 1.0 / spec.trained_fps
        rate_hz = 2.0 / (spec.chunk_size * period_s)  # robots that ask when half a chunk is left
        robots = capacity(inference_s, rate_hz, spec.chunk_size, period_s, rtt_s=0.0)
        self.get_logger().info(
            f"{spec.name} {spec.revision} ({spec.fingerprint}) on {manifest.model.device}: "
            f"{inference_s * 1e3:.1f} ms a request, {spec.serving_mode.value}, enough for {robots} robots at "
            f"{rate_hz:.2g} requests/s each"
        )
        if manifest.max_sessions > robots:
            self.get_logger().warning(f"max_sessions is {manifest.max_sessions}, more than {robots}")

    def _unload(self) -> None:
        self._accepting = False
        serving, self._serving = self._serving, None
        if serving is not None and not serving.close():
            self.get_logger().error("an inference does not end: the device is not freed")
        for session in self._registry.all():
            self._end(session)

    def _require_serving(self) -> Serving:
        assert self._serving is not None, "the lifecycle allows this transition only when configured"
        return self._serving

    # -- requests ------------------------------------------------------------------------------------------

    def _send(self, session: Session, chunk: Chunk) -> None:
        message = chunk_to_message(chunk, self.get_clock().now().to_msg())
        try:
            session.entities.publisher.publish(message)
        except InvalidHandle:
            self.get_logger().debug(f"session {session.session_id} closed before its chunk was sent")

    def _on_failure(self, error: Exception) -> None:
        self.get_logger().fatal(f"stopped by an internal error: {type(error).__name__}: {error}")
        self.exit_code = 1

    def _audit(self, record: AuditRecord) -> None:
        self.get_logger().debug(record.to_json())
        if record.outcome != "ok":
            self.get_logger().warning(f"request failed: {record.to_json()}")

    # -- services ------------------------------------------------------------------------------------------

    def _open_session(
        self, request: OpenSession.Request, response: OpenSession.Response
    ) -> OpenSession.Response:
        if self._serving is None:
            response.rejection, response.message = "draining", "server is not configured"
            return response
        try:
            offer = offer_from_request(request)
        except WireError as error:
            response.rejection, response.message = "schema", f"malformed offer: {error}"
            return response
        # A robot that asks again has lost its session, whatever we believe: it does not count twice.
        old = self._registry.of_robot(offer.robot_namespace)
        terms = self._terms(self._serving)
        if old is not None:
            terms = replace(
                terms,
                active_sessions=terms.active_sessions - 1,
                name_taken=offer.client_instance_id != old.offer.client_instance_id and self._is_alive(old),
            )
        reply = self._registry.reply(offer, self._serving.policy.spec, terms)
        if reply.accepted:
            if old is not None:
                self._end(old)
            session = self._begin(offer, self._serving)
            reply = replace(reply, session_id=session.session_id, active_sessions=len(self._registry))
        self.get_logger().info(
            f"{offer.client} {'admitted as ' + reply.session_id if reply.accepted else 'refused'}"
            f"{': ' + reply.message if reply.message else ''}"
        )
        self._publish_status()
        return reply_to_response(reply)

    def _begin(self, offer: SessionOffer, serving: Serving) -> Session:
        session = Session(uuid.uuid4().hex[:12], offer, serving.policy.make_processors())
        session.entities = _Entities(
            self.create_publisher(
                ActionChunk, in_namespace(offer.robot_namespace, CHUNK_TOPIC), EXCHANGE_QOS
            ),
            self.create_subscription(
                Observation,
                in_namespace(offer.robot_namespace, OBSERVATION_TOPIC),
                partial(serving.deposit, session),
                EXCHANGE_QOS,
                raw=True,
            ),
            self._robot_gids(offer),
        )
        self._registry.add(session)
        return session

    def _robot_gids(self, offer: SessionOffer) -> frozenset[bytes]:
        """Return the endpoints by which nodes of the robot's name publish its observations."""
        topic = in_namespace(offer.robot_namespace, OBSERVATION_TOPIC)
        return frozenset(
            gid
            for name, gid in identify_endpoints(self.get_publishers_info_by_topic(topic))
            if name == offer.client
        )

    def _look_around(self) -> None:
        """Learn by which endpoint each robot publishes: the graph may have been slower than its session."""
        for session in self._registry.all():
            if not session.entities.robot_gids:
                gids = self._robot_gids(session.offer)
                session.entities = replace(session.entities, robot_gids=gids)
        self._publish_status()

    def _is_alive(self, session: Session) -> bool:
        """Tell whether the process that opened a session still publishes, beside whoever asks now."""
        gids = self._robot_gids(session.offer)
        known: frozenset[bytes] = session.entities.robot_gids
        return len(gids) > 1 or (len(known) == 1 and known <= gids)

    def _end(self, session: Session) -> None:
        self._registry.remove(session.session_id)
        self.destroy_subscription(session.entities.subscription)
        self.destroy_publisher(session.entities.publisher)

    def _terms(self, serving: Serving) -> ServerTerms:
        return ServerTerms(
            default_task=serving.manifest.default_task,
            pin_task=serving.manifest.pin_task,
            strict_fps=serving.manifest.strict_fps,
            max_sessions=serving.manifest.max_sessions,
            active_sessions=len(self._registry),
            load=serving.worker.busy.fraction(time.monotonic_ns()),
            accepting=self._accepting,
        )

    def _close_session(
        self, request: CloseSession.Request, response: CloseSession.Response
    ) -> CloseSession.Response:
        session = self._registry.get(request.session_id)
        response.closed = session is not None
        if session is None:
            response.message = f"session {request.session_id!r} is not open"
        else:
            self._end(session)
            self.get_logger().info(f"{session.offer.client} closed {session.session_id}")
            self._publish_status()
        return response

    def _reset_session(
        self, request: ResetSession.Request, response: ResetSession.Response
    ) -> ResetSession.Response:
        session = self._registry.get(request.session_id)
        response.reset = session is not None
        if session is None:
            response.message = f"session {request.session_id!r} is not open"
            return response
        # The worker resets the processors at the episode's first request, which may be waiting already.
        return response

    def _get_status(self, _: GetStatus.Request, response: GetStatus.Response) -> GetStatus.Response:
        response.status = self._status()
        return response

    # -- status --------------------------------------------------------------------------------------------

    def _publish_status(self) -> None:
        self._status_publisher.publish(self._status())

    def _status(self) -> ServerStatus:
        sessions = self._registry.all()
        status = ServerStatus(
            header=Header(stamp=self.get_clock().now().to_msg()),
            server=self.get_fully_qualified_name(),
            instance_id=self._instance_id,
            lifecycle_state=self._state_machine.current_state[1],
            accepting=self._accepting,
            schema_version_min=SCHEMA_VERSION_MIN,
            schema_version_max=SCHEMA_VERSION_MAX,
            inference_ms=float("nan"),
            sessions=[session.session_id for session in sessions],
            superseded=sum(session.mailbox.superseded_total for session in sessions),
        )
        if self._serving is not None:
            self._describe_policy(status, self._serving)
        return status

    def _describe_policy(self, status: ServerStatus, serving: Serving) -> None:
        spec, worker = serving.policy.spec, serving.worker
        status.policy_name = spec.name
        status.policy_revision = spec.revision
        status.policy_fingerprint = spec.fingerprint
        status.action_names = list(spec.action_names)
        status.state_names = list(spec.state_names)
        status.image_features = list(spec.image_shapes)
        status.chunk_size = spec.chunk_size
        status.trained_fps = spec.trained_fps
        status.supports_rtc = spec.supports_rtc
        status.serving_mode = spec.serving_mode.value
        terms = self._terms(serving)
        status.max_sessions = terms.capacity(spec)
        status.load = terms.load
        status.requests = worker.counters.requests
        status.errors = worker.counters.errors
        if samples := tuple(worker.inference_ms):
            status.inference_ms = statistics.median(samples)


def main(args: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code."""
    return run_node(PolicyServer, args)


if __name__ == "__main__":
    sys.exit(main())
