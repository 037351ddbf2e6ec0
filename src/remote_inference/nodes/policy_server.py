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
import threading
import time
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.publisher import Publisher
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from std_msgs.msg import Header

from remote_inference.core.compatibility import ServerTerms
from remote_inference.core.document import DocumentError
from remote_inference.core.exchange import (
    SCHEMA_VERSION_MAX,
    SCHEMA_VERSION_MIN,
    Chunk,
    Request,
    SessionOffer,
    in_namespace,
)
from remote_inference.core.policy import Policy, PolicyError, PolicyObservation, ServingMode
from remote_inference.core.server.audit import AuditRecord
from remote_inference.core.server.manifest import Manifest, load_manifest
from remote_inference.core.server.scheduler import SCHEDULERS
from remote_inference.core.server.session import Session, SessionRegistry
from remote_inference.core.server.warmup import capacity, warm_up
from remote_inference.core.server.worker import Worker
from remote_inference.msg import ActionChunk, Observation, ServerStatus
from remote_inference.nodes.delay_line import DelayLine
from remote_inference.nodes.parameters import require_parameter
from remote_inference.nodes.runtime import StartupError, run_node
from remote_inference.policies import load_policy
from remote_inference.srv import CloseSession, GetStatus, OpenSession, ResetSession
from remote_inference.wire import (
    WireError,
    chunk_to_message,
    observation_from_message,
    offer_from_request,
    reply_to_response,
    request_from_message,
)
from remote_inference.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, LATCHED_QOS, OBSERVATION_TOPIC

STATUS_PERIOD_S = 1.0
IDLE_WAIT_S = 0.1  # longest sleep of the worker, should a wake-up get lost
JOIN_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class _Entities:
    """A session's two endpoints."""

    publisher: Publisher
    subscription: Subscription


class _ObservationDecoder:
    """The worker's view of the wire."""

    def request(self, data: bytes) -> tuple[Request, Observation]:
        message = deserialize_message(data, Observation)
        return request_from_message(message), message

    def observation(self, message: Any, session: Session) -> PolicyObservation:
        return observation_from_message(message, session.offer)


class _Serving:
    """A loaded policy with its worker thread; exists from configure to cleanup."""

    def __init__(self, manifest: Manifest, policy: Policy, worker: Worker, delay_line: DelayLine) -> None:
        self.manifest = manifest
        self.policy = policy
        self.worker = worker
        self.delay_line = delay_line


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
        self._serving: _Serving | None = None
        self._accepting = False
        self._work = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._status_publisher = self.create_publisher(ServerStatus, "~/status", LATCHED_QOS)
        self.create_service(OpenSession, "~/open_session", self._open_session)
        self.create_service(CloseSession, "~/close_session", self._close_session)
        self.create_service(ResetSession, "~/reset_session", self._reset_session)
        self.create_service(GetStatus, "~/get_status", self._get_status)
        self.create_timer(STATUS_PERIOD_S, self._publish_status)
        if self.declare_parameter("autostart", False).value:
            self._autostart()

    # -- lifecycle -----------------------------------------------------------------------------------------

    def on_configure(self, _: LifecycleState) -> TransitionCallbackReturn:
        try:
            self._serving = self._load(load_manifest(self._manifest_path))
        except (DocumentError, PolicyError) as error:
            self.get_logger().error(f"cannot configure: {error}")
            return TransitionCallbackReturn.FAILURE
        self._stop.clear()
        self._thread = threading.Thread(target=self._run_worker, name="inference", daemon=True)
        self._thread.start()
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._require_serving().worker.draining = False
        self._accepting = True
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._accepting = False
        self._require_serving().worker.draining = True
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

    def _load(self, manifest: Manifest) -> _Serving:
        policy = load_policy(manifest.model)
        if manifest.serving_mode == "exclusive":
            policy.spec = replace(policy.spec, serving_mode=ServingMode.EXCLUSIVE)
        inference_s = warm_up(policy, manifest.warmup_inferences, manifest.default_task, time.monotonic_ns)
        worker = Worker(
            policy,
            SCHEDULERS[manifest.scheduler](),
            _ObservationDecoder(),
            deliver=self._deliver,
            clock_ns=time.monotonic_ns,
            audit=self._audit,
        )
        self._log_capacity(manifest, policy, inference_s)
        return _Serving(manifest, policy, worker, DelayLine(manifest.inject_latency_ms / 1e3))

    def _log_capacity(self, manifest: Manifest, policy: Policy, inference_s: float) -> None:
        spec = policy.spec
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
        self._stop.set()
        self._work.set()
        if self._thread is not None:
            self._thread.join(JOIN_TIMEOUT_S)
            if self._thread.is_alive():
                self.get_logger().error(f"inference did not end within {JOIN_TIMEOUT_S:g} s")
            self._thread = None
        for session in self._registry.all():
            self._end(session)
        if self._serving is not None:
            self._serving.delay_line.close()
            self._serving.policy.close()
            self._serving = None

    def _require_serving(self) -> _Serving:
        assert self._serving is not None, "the lifecycle allows this transition only when configured"
        return self._serving

    # -- requests ------------------------------------------------------------------------------------------

    def _run_worker(self) -> None:
        worker = self._require_serving().worker
        while not self._stop.is_set():
            self._work.wait(IDLE_WAIT_S)
            self._work.clear()
            while not self._stop.is_set() and worker.step(self._registry.all()):
                pass

    def _deposit(self, session: Session, data: bytes) -> None:
        session.mailbox.put(data, time.monotonic_ns())
        self._work.set()

    def _deliver(self, session: Session, chunk: Chunk) -> None:
        message = chunk_to_message(chunk, self.get_clock().now().to_msg())
        self._require_serving().delay_line.put(lambda: self._publish_chunk(session, message))

    def _publish_chunk(self, session: Session, message: ActionChunk) -> None:
        try:
            session.entities.publisher.publish(message)
        except InvalidHandle:
            self.get_logger().debug(f"session {session.session_id} closed before its chunk was sent")

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
        # A robot that asks again has lost its session, whatever we believe.
        if (old := self._registry.of_robot(offer.robot_namespace)) is not None:
            self._end(old)
        reply = self._registry.reply(offer, self._serving.policy.spec, self._terms(self._serving))
        if reply.accepted:
            session = self._begin(offer, self._serving.policy)
            reply = replace(reply, session_id=session.session_id, active_sessions=len(self._registry))
        self.get_logger().info(
            f"{offer.client} {'admitted as ' + reply.session_id if reply.accepted else 'refused'}"
            f"{': ' + reply.message if reply.message else ''}"
        )
        self._publish_status()
        return reply_to_response(reply)

    def _begin(self, offer: SessionOffer, policy: Policy) -> Session:
        session = self._registry.add(offer, policy.make_processors())
        session.entities = _Entities(
            self.create_publisher(
                ActionChunk, in_namespace(offer.robot_namespace, CHUNK_TOPIC), EXCHANGE_QOS
            ),
            self.create_subscription(
                Observation,
                in_namespace(offer.robot_namespace, OBSERVATION_TOPIC),
                partial(self._deposit, session),
                EXCHANGE_QOS,
                raw=True,
            ),
        )
        return session

    def _end(self, session: Session) -> None:
        self._registry.remove(session.session_id)
        self.destroy_subscription(session.entities.subscription)
        self.destroy_publisher(session.entities.publisher)

    def _terms(self, serving: _Serving) -> ServerTerms:
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
        session.mailbox.clear()
        session.episode_id = request.episode_id
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

    def _describe_policy(self, status: ServerStatus, serving: _Serving) -> None:
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
