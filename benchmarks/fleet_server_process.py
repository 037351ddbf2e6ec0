# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server's process of fleet.py: `Serving` and its sessions behind real Zenoh endpoints."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import zenoh
from builtin_interfaces.msg import Time
from fleet_server import Sessions
from fleet_zenoh import POLL_S, SERVER_WAIT, SERVICES, Attachments, Link, key, topic_key
from rclpy.serialization import deserialize_message, serialize_message
from zenoh import CongestionControl
from zenoh.handlers import Callback

from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Chunk
from remote_inference.base.wire.chunk import chunk_to_message
from remote_inference.base.wire.qos import CHUNK_TOPIC, OBSERVATION_TOPIC
from remote_inference.base.wire.session import offer_from_request, reply_to_response
from remote_inference.msg import ServerStatus
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.nodes.serving import Serving
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.sessions import Session
from remote_inference.srv import CloseSession, GetStatus

STATUS_PERIOD_S = 1.0


@dataclass
class ServerTimes:
    """What a server measured [s]."""

    inference: list[tuple[int, float]] = field(default_factory=list)  # batch size, time of the batch
    send_s: list[float] = field(default_factory=list)
    call_s: list[float] = field(default_factory=list)
    request_s: float = 0.0  # of one request, by the warm-up


@dataclass
class ZenohLink:
    """A session's two endpoints."""

    publisher: zenoh.Publisher
    subscriber: zenoh.Subscriber[None]
    attachments: Attachments

    def send(self, chunk: Chunk) -> None:
        serialized = serialize_message(chunk_to_message(chunk, Time()))
        self.publisher.put(serialized, attachment=self.attachments.next())

    def is_present(self) -> bool:
        return self.publisher.matching_status.matching

    def close(self, reason: str) -> None:  # noqa: ARG002  its robot sees that the endpoints are gone
        for endpoint in (self.publisher, self.subscriber):
            endpoint.undeclare()


class ServerProcess:
    """Sessions and `Serving` behind queryables and subscribers; the executor is `run`'s thread."""

    def __init__(self, name: str, session: zenoh.Session, manifest: Manifest) -> None:
        self._name, self._zenoh = name, session
        self._calls: queue.SimpleQueue[tuple[str, zenoh.Query]] = queue.SimpleQueue()
        self.times = ServerTimes()
        self._sending = threading.Lock()  # an endpoint cannot be undeclared while it publishes
        self._attachments = Attachments()
        self._sessions = Sessions(manifest, time.monotonic_ns)
        self._serving = Serving(
            manifest, self._sessions.registry, self._send, self._note, self._fail, on_policy_error=self._fail
        )
        status_key = topic_key(name, "status", "ServerStatus")
        self._status = session.declare_publisher(status_key, congestion_control=CongestionControl.DROP)
        self._queryables = [
            session.declare_queryable(
                key(f"{name}/{service}", "srv", service_type.__name__),
                Callback(partial(self._take_call, service), indirect=False),
                complete=True,
            )
            for service, service_type in SERVICES.items()
        ]

    def run(self, connection: Connection) -> None:
        """Answer calls until told to end."""
        due_s = time.monotonic()
        while not connection.poll():
            try:
                service, query = self._calls.get(timeout=POLL_S)
                begin_s = time.monotonic()
                query.reply(query.key_expr, self._answer(service, query), attachment=query.attachment)
                self.times.call_s.append(time.monotonic() - begin_s)
            except queue.Empty:
                pass
            if time.monotonic() >= due_s:
                due_s += STATUS_PERIOD_S
                for session in self._sessions.expire(Session.is_present):
                    self._end(session)
                self._status.put(serialize_message(self._describe()), attachment=self._attachments.next())
        self.times.request_s = self._serving.request_s
        self._serving.close()

    def _take_call(self, service: str, query: zenoh.Query) -> None:
        self._calls.put((service, query))

    def _answer(self, service: str, query: zenoh.Query) -> bytes:
        assert query.payload is not None
        request = deserialize_message(query.payload.to_bytes(), SERVICES[service].Request)
        if service == "get_status":
            return serialize_message(GetStatus.Response(status=self._describe()))
        if service == "close_session":
            session = self._sessions.close(request.session_id, request.session_token)
            if session is not None:
                self._end(session)
            return serialize_message(CloseSession.Response(closed=session is not None))
        offer = offer_from_request(request)
        reply, old = self._sessions.open(offer, self._serving.policy, self._begin)
        if old is not None:
            self._end(old)
        return serialize_message(reply_to_response(reply))

    def _begin(self, session: Session) -> None:
        """Make the session's endpoints, before anybody knows of it."""
        namespace = session.offer.robot_namespace
        publisher = self._zenoh.declare_publisher(
            topic_key(namespace, CHUNK_TOPIC, "ActionChunk"), congestion_control=CongestionControl.DROP
        )
        subscriber = self._zenoh.declare_subscriber(
            topic_key(namespace, OBSERVATION_TOPIC, "Observation"),
            Callback(
                lambda sample: self._serving.enqueue(session, sample.payload.to_bytes()), indirect=False
            ),
        )
        session.link = ZenohLink(publisher, subscriber, self._attachments)

    def _end(self, session: Session) -> None:
        assert session.link is not None
        with self._sending:
            session.link.close("it has ended")

    def _describe(self) -> ServerStatus:
        spec = self._serving.policy.spec
        return ServerStatus(
            server=self._name,
            instance_id=self._sessions.instance_id,
            lifecycle_state="active",
            accepting=True,
            policy_name=spec.name,
            policy_fingerprint=spec.fingerprint,
            action_names=list(spec.action_names),
            state_names=list(spec.state_names),
            image_features=list(spec.image_shapes),
            chunk_size=spec.chunk_size,
            trained_fps=spec.trained_fps,
            sessions=list(self._sessions.ids()),
            response_ms=self._serving.response_ms,
        )

    def _send(self, session: Session, chunk: Chunk) -> None:
        begin_s = time.monotonic()
        assert session.link is not None
        with self._sending:
            session.link.send(chunk)
        self.times.send_s.append(time.monotonic() - begin_s)

    def _note(self, record: RequestRecord) -> None:
        self.times.inference.append((record.batch_size, record.inference_ms / 1e3))

    def _fail(self, error: Exception) -> None:
        print(f"{self._name}: {type(error).__name__}: {error}", flush=True)


def run_server(connection: Connection, name: str, link: Link, router: int, document: dict[str, Any]) -> None:
    """Be a server's process."""
    session = link.open(name.strip("/"), router, **SERVER_WAIT)
    server = ServerProcess(name, session, parse_document(document, Manifest, name))
    connection.send(None)
    server.run(connection)
    connection.send(server.times)
