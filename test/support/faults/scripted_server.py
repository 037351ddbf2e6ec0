# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy server that misbehaves by script: node, services and messages are real, the answers are not."""

from __future__ import annotations

import copy
import threading
import time
import uuid
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription

from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, LATCHED_QOS, OBSERVATION_TOPIC
from remote_inference.msg import ActionChunk, Observation, ServerStatus
from remote_inference.srv import CloseSession, GetStatus, OpenSession, ResetSession
from support.faults.arm import NAMES, POLICY
from support.nodes.rig import DEADLINE_S, Rig

POISON = 2.0**23  # a capture that no arm has published: a command that carries it came from a wrong chunk
Reply = tuple[float, ActionChunk]  # delay [s] and chunk
Behaviour = Callable[[Observation], list[Reply]]


def right_answer(observation: Observation) -> ActionChunk:
    """Return the chunk of the real server's policy: the measured state in every row."""
    rows = POLICY["chunk_size"]
    chunk = array("f", observation.state * rows)
    return ActionChunk(
        schema_version=1,
        session_id=observation.session_id,
        session_epoch=observation.session_epoch,
        seq_id=observation.seq_id,
        episode_id=observation.episode_id,
        client_mono_ns=observation.client_mono_ns,
        horizon=rows,
        action_dim=len(NAMES),
        chunk_model=chunk,
        chunk_robot=chunk,
        policy_version="scripted",
    )


def poisoned(chunk: ActionChunk, **changes: Any) -> ActionChunk:
    """Return a copy of a chunk, marked so that the judge sees it if it is executed. changes: fields."""
    spoilt = copy.deepcopy(chunk)
    poison = array("f", chunk.chunk_robot)
    column = NAMES.index("capture")
    for index in range(column, len(poison), len(NAMES)):
        poison[index] = POISON
    spoilt.chunk_model = spoilt.chunk_robot = poison
    for name, value in changes.items():
        setattr(spoilt, name, value)
    return spoilt


def answer(observation: Observation) -> list[Reply]:
    """Answer each request correctly and at once."""
    return [(0.0, right_answer(observation))]


class ScriptedServer:
    """One server in the test's process; everything but `behaviour` is as in a real server."""

    def __init__(self, rig: Rig, name: str = "scripted_server") -> None:
        self.name = f"/{name}"
        self.behaviour: Behaviour = answer
        self.refusal = ""  # rejection of every offer, unless empty
        self.observations: list[Observation] = []
        self._sessions: dict[str, tuple[Publisher, Subscription]] = {}
        self._rig = rig
        self._node = rig.add_node(name)
        self._status_publisher = self._node.create_publisher(ServerStatus, "~/status", LATCHED_QOS)
        self._node.create_service(GetStatus, "~/get_status", self._get_status)
        self._node.create_service(OpenSession, "~/open_session", self._open_session)
        self._node.create_service(CloseSession, "~/close_session", self._close_session)
        self._node.create_service(ResetSession, "~/reset_session", self._reset_session)
        self._node.create_timer(0.2, self._publish_status)

    def expel(self, refusal: str) -> None:
        """Forget every session in the next status, and admit no robot any more."""
        self.refusal = refusal

    def send_when(self, condition: Callable[[], bool], chunk: ActionChunk) -> None:
        """Send a chunk to its session as soon as a condition holds, if it does within the deadline."""
        threading.Thread(target=self._await_and_send, args=(condition, chunk), daemon=True).start()

    def _await_and_send(self, condition: Callable[[], bool], chunk: ActionChunk) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < end_s:
            if condition():
                self._send(chunk.session_id, chunk)
                return
            time.sleep(0.005)

    def _observe(self, session_id: str, observation: Observation) -> None:
        if observation.session_id != session_id:
            return
        self.observations.append(observation)
        replies = sorted(self.behaviour(observation), key=lambda reply: reply[0])
        for _, chunk in (reply for reply in replies if not reply[0]):
            self._send(session_id, chunk)
        late = [reply for reply in replies if reply[0]]
        if late:
            threading.Thread(target=self._send_in_order, args=(session_id, late), daemon=True).start()

    def _send_in_order(self, session_id: str, replies: list[Reply]) -> None:
        """Send each reply after its delay; one thread for all, as timers may overtake one another."""
        begin_s = time.monotonic()
        for delay_s, chunk in replies:
            time.sleep(max(0.0, begin_s + delay_s - time.monotonic()))
            self._send(session_id, chunk)

    def _send(self, session_id: str, chunk: ActionChunk) -> None:
        if session_id in self._sessions:
            with suppress(InvalidHandle):  # the session was closed, or the test ended, in this moment
                self._sessions[session_id][0].publish(chunk)

    def _open_session(
        self, request: OpenSession.Request, response: OpenSession.Response
    ) -> OpenSession.Response:
        response.accepted, response.rejection = not self.refusal, self.refusal
        response.server_instance_id = self.name
        response.schema_version = 1
        response.action_names = list(NAMES)
        response.chunk_size = POLICY["chunk_size"]
        response.policy_fingerprint = "scripted"
        response.max_sessions = 1
        if response.accepted:
            response.session_id = self._begin(request.robot_namespace)
        self._publish_status()
        return response

    def _begin(self, namespace: str) -> str:
        session_id = uuid.uuid4().hex
        self._sessions[session_id] = (
            self._node.create_publisher(ActionChunk, f"{namespace}/{CHUNK_TOPIC}", EXCHANGE_QOS),
            self._node.create_subscription(
                Observation,
                f"{namespace}/{OBSERVATION_TOPIC}",
                lambda observation: self._observe(session_id, observation),
                EXCHANGE_QOS,
            ),
        )
        return session_id

    def _end(self, session_id: str) -> bool:
        publisher, subscription = self._sessions.pop(session_id, (None, None))
        if publisher is None or subscription is None:
            return False
        self._node.destroy_subscription(subscription)
        self._node.destroy_publisher(publisher)
        return True

    def _close_session(
        self, request: CloseSession.Request, response: CloseSession.Response
    ) -> CloseSession.Response:
        response.closed = self._end(request.session_id)
        return response

    def _reset_session(
        self, request: ResetSession.Request, response: ResetSession.Response
    ) -> ResetSession.Response:
        response.reset = request.session_id in self._sessions
        return response

    def _get_status(self, _: GetStatus.Request, response: GetStatus.Response) -> GetStatus.Response:
        response.status = self._status()
        return response

    def _publish_status(self) -> None:
        if self.refusal:
            for session_id in list(self._sessions):
                self._end(session_id)
        self._status_publisher.publish(self._status())

    def _status(self) -> ServerStatus:
        return ServerStatus(
            server=self.name,
            instance_id=self.name,
            lifecycle_state="active",
            accepting=True,
            schema_version_min=1,
            schema_version_max=1,
            sessions=list(self._sessions),
        )
