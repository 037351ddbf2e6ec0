# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `policy_server`: serves one policy to the robots it admits.

    policy_server --ros-args -p manifest:=belt_arm.manifest.yaml -p autostart:=true

A managed node: configure loads and warms the policy up, activate admits robots, deactivate drains, cleanup
frees the device. The executor stores requests and answers services; one worker thread owns the policy.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated

from pydantic import Field
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import Header

from remote_inference.base.exchange import LOADING, SCHEMA_VERSION_MAX, SCHEMA_VERSION_MIN, Chunk
from remote_inference.base.nodes.executors import answer_waiting, spin_once
from remote_inference.base.nodes.parameters import NodeParameters, declare_parameters
from remote_inference.base.nodes.robot_logger import ShownLogger, about
from remote_inference.base.nodes.runtime import StartupError, run_node
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.repeats import Repeats, without_numbers
from remote_inference.base.wire.qos import LATCHED_QOS
from remote_inference.msg import ServerStatus
from remote_inference.server.live_weights import TRAINER_ACCESS, TrainerAccess
from remote_inference.server.manifest.manifest import Manifest, load_manifest
from remote_inference.server.nodes.duplicate_server import find_duplicate_server
from remote_inference.server.nodes.gateway_host import Gateway, GatewayHost, open_gateways
from remote_inference.server.nodes.operations import Operations, describe_policy
from remote_inference.server.nodes.serving import Serving
from remote_inference.server.nodes.session_services import SessionServices
from remote_inference.server.policy_error import explain_policy_error, trace_policy_error
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.sessions import Session, SessionRegistry
from remote_inference.server.warmup import find_policy_notes, find_speed, find_unkept_promises
from remote_inference.srv import GetStatus

STATUS_PERIOD_S = 1.0  # also the period of the search for abandoned sessions
DRAIN_TIMEOUT_S = 5.0  # after a signal: for the requests that wait and run
DRAIN_QUIET_S = 0.2  # without a request until it ends: one may be on its way, and a chunk to be acknowledged
DRAIN_POLL_S = 0.02


class ServerConfig(NodeParameters):
    """The server's parameters; what it serves is the manifest's."""

    manifest: Annotated[
        str, Field(min_length=1, description="path of the YAML that says which policy to serve")
    ]
    autostart: Annotated[bool, Field(description="configure and activate at start-up")] = False


Transition = Callable[["PolicyServer", LifecycleState], TransitionCallbackReturn]


def log_errors(transition: Transition) -> Transition:
    """Wrap a transition to log its errors, which rclpy would swallow."""

    @wraps(transition)
    def change(self: PolicyServer, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            return transition(self, state)
        except Exception as error:
            self.get_logger().error(f"{transition.__name__}: {type(error).__name__}: {error}")
            return TransitionCallbackReturn.ERROR

    return change


class PolicyServer(LifecycleNode):
    """The lifecycle node around SessionRegistry and Worker.

    Raises StartupError or DocumentError when the manifest cannot be used.
    """

    def __init__(self) -> None:
        super().__init__("policy_server")
        self.exit_code: int | None = None
        self.schedule = TimerSchedule()
        config = declare_parameters(self, ServerConfig)
        self._manifest_path = config.manifest
        load_manifest(self._manifest_path, os.environ)
        if instance_id := find_duplicate_server(self):
            raise StartupError(
                f"another server is called {self.get_fully_qualified_name()} (instance {instance_id}); "
                "end it, or give this one another name: --name with `remote-inference server` and `serve`, "
                "name:= with server.launch.py, -r __node:= with the node itself"
            )
        self._manifest_digest = ""
        self._instance_id = uuid.uuid4().hex[:12]
        self._registry = SessionRegistry(self._instance_id)
        self._serving: Serving | None = None
        self._released: ServerStatus | None = None  # of the policy whose device is free until a robot asks
        self._busy_s = 0.0  # when the server had a session last, or loaded
        self._is_loading = False
        self._gateways: list[Gateway] = []
        self._operations = Operations(self, self.schedule, self._instance_id)
        self._failures = Repeats()
        self._status_publisher = self.create_publisher(ServerStatus, "~/status", LATCHED_QOS)
        self._sessions = SessionServices(self, self._registry, self._publish_status)
        self._status_service = self.create_service(GetStatus, "~/get_status", self._get_status)
        self._trainers: TrainerAccess = resolve_name(TRAINER_ACCESS)(self, self.schedule)
        self.schedule.every(STATUS_PERIOD_S, self._check_sessions)
        self._publish_status()  # before a policy is loaded: another server of this name finds it
        if config.autostart:
            self._autostart()

    # -- lifecycle -----------------------------------------------------------------------------------------

    def on_configure(self, _: LifecycleState) -> TransitionCallbackReturn:
        self._is_loading = True
        self._status_publisher.publish(self._status())
        try:
            return self._configure()
        finally:
            self._is_loading = False
            self._publish_status()

    def _configure(self) -> TransitionCallbackReturn:
        try:
            manifest = load_manifest(self._manifest_path, os.environ)
            self._manifest_digest = hashlib.sha256(Path(self._manifest_path).read_bytes()).hexdigest()
            self._operations.open(manifest)
            self._trainers.listen(manifest)
            serving = self._load(manifest)
            host = GatewayHost(serving, self._sessions, self._log_request, self._on_failure)
            for gateway in open_gateways(host):
                self._gateways.append(gateway)
        except StartupError as error:
            return self._refuse_to_configure(str(error))
        except Exception as error:  # rclpy would swallow it
            self.get_logger().debug(trace_policy_error(error))
            reason = explain_policy_error(error)
            named = reason.startswith(f"{self._manifest_path}: ")
            return self._refuse_to_configure(reason if named else f"{self._manifest_path}: {reason}")
        self._log_capacity(serving)
        return TransitionCallbackReturn.SUCCESS

    def _load(self, manifest: Manifest) -> Serving:
        """Load the policy, and judge offers by it."""
        self._serving = Serving(
            manifest,
            self._registry,
            self._send,
            self._log_request,
            self._on_failure,
            on_policy_error=self._on_policy_error,
            open_weights=self._trainers.open,
            # The executor runs this very call, and answers nobody else until the policy is loaded.
            while_loading=partial(answer_waiting, self, self._status_service),
        )
        self._sessions.start(self._serving)
        self._released, self._busy_s = None, time.monotonic()
        return self._serving

    def get_logger(self) -> ShownLogger:
        return ShownLogger(super().get_logger().name)

    @log_errors
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._set_draining(False)
        self._sessions.accepting = True
        self._publish_status()
        return super().on_activate(state)

    @log_errors
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._sessions.accepting = False
        self._set_draining(True)
        self._publish_status()
        return super().on_deactivate(state)

    @log_errors
    def on_cleanup(self, _: LifecycleState) -> TransitionCallbackReturn:
        self._unload()
        return TransitionCallbackReturn.SUCCESS

    @log_errors
    def on_shutdown(self, _: LifecycleState) -> TransitionCallbackReturn:
        self._unload()
        return TransitionCallbackReturn.SUCCESS

    def close(self) -> None:
        """Drain and free everything; called before the context shuts down."""
        self._drain()
        self._unload()
        self._publish_status()

    def _drain(self) -> None:
        """Refuse new sessions and answer the requests that wait and run, at most for DRAIN_TIMEOUT_S."""
        serving = self._serving
        if serving is None or self.executor is None or not len(self._registry):
            return
        if self._state_machine.current_state[1] == "active":
            self.trigger_deactivate()
        self.get_logger().info(f"draining: {len(self._registry)} sessions")
        begin_s = now_s = time.monotonic()
        end_s, quiet_s = now_s + DRAIN_TIMEOUT_S, now_s + DRAIN_QUIET_S
        while now_s < min(end_s, quiet_s) and serving.alive and len(self._registry):
            spin_once(self, DRAIN_POLL_S)
            now_s = time.monotonic()
            if not serving.idle:
                quiet_s = now_s + DRAIN_QUIET_S
        if not serving.idle and len(self._registry):  # without a session nobody waits for an answer
            cause = "" if serving.alive else ": the inference thread has ended"
            waited = f"{now_s - begin_s:.1f} s"
            self.get_logger().error(f"draining: gave up after {waited} with requests unanswered{cause}")

    def _refuse_to_configure(self, reason: str) -> TransitionCallbackReturn:
        self._unload()
        self.get_logger().error(f"cannot configure: {reason}")
        return TransitionCallbackReturn.FAILURE

    def _autostart(self) -> None:
        for trigger in (self.trigger_configure, self.trigger_activate):
            if trigger() != TransitionCallbackReturn.SUCCESS:
                self._unload()
                raise StartupError("autostart failed; the log says why")
        self._publish_status()

    def _log_capacity(self, serving: Serving) -> None:
        spec, manifest = serving.policy.spec, serving.manifest
        speed = find_speed(spec, serving.request_s)
        self.get_logger().info(
            f"{spec.name} {spec.revision} ({spec.fingerprint}) on {serving.device}: "
            f"{serving.request_s * 1e3:.1f} ms a request with images as in training, "
            f"{spec.serving_mode.value}, fast enough for {speed.robots} robots at "
            f"{speed.request_rate_hz:.2g} requests/s each"
        )
        for reason in serving.passed_over:
            self.get_logger().info(f"not used: {reason}")
        for note in find_policy_notes(spec):
            self.get_logger().info(note)
        for problem in (*serving.warnings, *find_unkept_promises(manifest, spec, speed.robots)):
            self.get_logger().warning(problem)

    def _unload(self) -> None:
        """Free everything, whatever fails on the way."""
        gateways, self._gateways = self._gateways, []
        serving, self._serving, self._released = self._serving, None, None
        with ExitStack() as steps:  # the last is called first
            steps.callback(self._operations.close)
            steps.callback(self._sessions.stop)
            steps.callback(self._trainers.stop)
            if serving is not None:
                problem = "an inference has not ended; the device is freed when it does"
                steps.callback(self._close_or_log, serving, problem)
            for gateway in gateways:
                steps.callback(self._close_or_log, gateway, "a gateway has not ended in time")

    def _close_or_log(self, part: Serving | Gateway, problem: str) -> None:
        if not part.close():
            self.get_logger().error(problem)

    def _set_draining(self, draining: bool) -> None:
        if self._serving is not None:  # else its policy is released, and nothing waits
            self._serving.worker.finishing.draining = draining

    # -- a server without sessions frees its device --------------------------------------------------------

    def _release_or_load(self, now_s: float) -> None:
        """Free the device of a server that was idle for long, or load the policy again for who asked."""
        serving = self._serving
        if self._released is not None and self._sessions.awaits_policy:
            self._load_again()
        elif serving is not None and len(self._registry):
            self._busy_s = now_s
        elif serving is not None and 0.0 < serving.manifest.idle_release_s <= now_s - self._busy_s:
            self._released, self._serving = self._status(), None
            self._sessions.release(serving)
            self._close_or_log(serving, "an inference has not ended; the device is freed when it does")
            idle = f"no session for {serving.manifest.idle_release_s:g} s"
            self.get_logger().info(f"{idle}: the policy is released, the next robot has it loaded again")

    def _load_again(self) -> None:
        self._is_loading = True
        self._operations.begin_loading()
        self._status_publisher.publish(self._status())
        begin_s = time.monotonic()
        try:
            self._load(self._sessions.released_manifest)
        except Exception as error:  # who asks next has it tried again
            self.get_logger().error(f"cannot load the policy again: {explain_policy_error(error)}")
            self.get_logger().debug(trace_policy_error(error))
            self._serving, self._sessions.awaits_policy = None, False
        else:
            self.get_logger().info(f"loaded the policy again in {time.monotonic() - begin_s:.1f} s")
        finally:
            self._is_loading = False

    # -- requests ------------------------------------------------------------------------------------------

    def _send(self, session: Session, chunk: Chunk) -> None:
        if session.link is not None:
            session.link.send(chunk)

    def _on_failure(self, error: BaseException) -> None:
        self.get_logger().fatal(f"stopped by an internal error: {type(error).__name__}: {error}")
        self.exit_code = 1

    def _on_policy_error(self, error: BaseException) -> None:
        text = f"the policy raised {explain_policy_error(error)}"
        if line := self._failures.line(text, time.monotonic()):
            self.get_logger().error(line)
            self.get_logger().debug(trace_policy_error(error))

    def _log_request(self, record: RequestRecord) -> None:
        self._operations.record(record)
        # The inference thread logs it, and many robots may fail at once: the request log has every one.
        if record.status == "ok":
            return
        text = f"request {record.seq_id} of {record.client} failed: {record.outcome}"
        subject = f"{record.robot} {without_numbers(record.outcome)}"
        if line := self._failures.line(text, time.monotonic(), subject):
            about(self.get_logger(), record.robot, record.session_id).warning(line)

    # -- status --------------------------------------------------------------------------------------------

    def _get_status(self, _: GetStatus.Request, response: GetStatus.Response) -> GetStatus.Response:
        response.status = self._status()
        return response

    def _check_sessions(self) -> None:
        self._sessions.end_abandoned()
        self._release_or_load(time.monotonic())
        self._publish_status()

    def _publish_status(self) -> None:
        status = self._status()
        self._status_publisher.publish(status)
        self._operations.update(status, self._registry.all(), self._serving, self._sessions.refusals.count)

    def _status(self) -> ServerStatus:
        sessions = self._registry.all()
        stamp = self.get_clock().now().to_msg()
        lifecycle_state = LOADING if self._is_loading else self._state_machine.current_state[1]
        if (status := self._released) is not None:
            status.header.stamp, status.lifecycle_state, status.load = stamp, lifecycle_state, 0.0
            status.accepting = self._sessions.accepting and not self._is_loading
            return status
        status = ServerStatus(
            header=Header(stamp=stamp),
            server=self.get_fully_qualified_name(),
            instance_id=self._instance_id,
            lifecycle_state=lifecycle_state,
            accepting=False,
            schema_version_min=SCHEMA_VERSION_MIN,
            schema_version_max=SCHEMA_VERSION_MAX,
            inference_ms=float("nan"),
            response_ms=float("nan"),
            weights_version=-1,
            sessions=[session.session_id for session in sessions],
        )
        if self._serving is not None:
            status.manifest_digest = self._manifest_digest
            describe_policy(status, self._serving, self._sessions.terms(self._serving))
        return status


def main(args: list[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    return run_node(PolicyServer, args)
