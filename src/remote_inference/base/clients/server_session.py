# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A session of a short-lived client with a policy server, for programs that are no robot."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from typing_extensions import Self

from remote_inference.base.admission import PASSING_REJECTIONS, FatalMismatch, check_reply
from remote_inference.base.clients.operator_client import OperatorClient, OperatorError
from remote_inference.base.errors import UserError
from remote_inference.base.exchange import Chunk, SessionKind, SessionOffer, SessionReply, StatusReply
from remote_inference.base.nodes.graph import full_name
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.chunk import chunk_from_bytes
from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC
from remote_inference.base.wire.session import offer_to_request, reply_from_response, status_from_response
from remote_inference.msg import ActionChunk, Observation
from remote_inference.srv import CloseSession, GetStatus, OpenSession

FIRST_RETRY_S = 1.0  # the server's endpoints may not know ours yet: the first request may be lost
CHECK_S = 0.25  # between two checks whether the server is still there


class SessionRefusedError(UserError):
    """A server does not serve the client; the message says why.

    is_passing: whether it may serve the same offer later.
    """

    def __init__(self, message: str, *, is_passing: bool = False) -> None:
        super().__init__(message)
        self.is_passing = is_passing


class SessionLostError(OperatorError):
    """The server has ended the session, or is gone."""


def read_status(client: OperatorClient, server: str, timeout_s: float) -> StatusReply:
    """Return a server's status before an offer. Raises OperatorError or SessionRefusedError."""
    response = client.call(GetStatus, f"{server}/get_status", GetStatus.Request(), timeout_s)
    status = status_from_response(response)
    if not status.accepting:
        raise SessionRefusedError(f"server {server} accepts no sessions", is_passing=True)
    return status


class ServerSession:
    """Answers requests by a server's chunks; a context manager. One request is in flight at a time."""

    def __init__(self, client: OperatorClient, server: str, offer: SessionOffer, timeout_s: float) -> None:
        """Open a session. offer: what the client shows and executes; its identity is filled in.

        timeout_s: of each answer. Raises OperatorError when the server is silent, SessionRefusedError when it
        refuses.
        """
        self._client = client
        self._server = server
        self._timeout_s = timeout_s
        self.offer = replace(
            offer,
            client=client.node.get_fully_qualified_name(),
            client_instance_id=secrets.token_hex(6),
            robot_namespace=client.node.get_namespace(),
            kind=SessionKind.EVALUATION,  # no robot waits for it
        )
        self._open_reply: SessionReply | None = None
        self._epoch = self._seq_id = self._first_seq_id = 0
        self._newest: bytes | None = None
        self._next_check_s = 0.0  # of whether the server is still there
        self._publisher = client.node.create_publisher(Observation, OBSERVATION_TOPIC, EXCHANGE_QOS)
        self._chunks = client.node.create_subscription(
            ActionChunk, CHUNK_TOPIC, self._handle_chunk, EXCHANGE_QOS, raw=True
        )
        try:
            read_status(client, server, timeout_s)
            self.reply = self._open()
        except BaseException:
            client.node.destroy_subscription(self._chunks)
            client.node.destroy_publisher(self._publisher)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self.close()
        except OperatorError as silence:  # what was done is done, and the server forgets a silent session
            if error is None:
                print(f"warning: the session was not ended: {silence}", file=sys.stderr)
        self._client.node.destroy_subscription(self._chunks)
        self._client.node.destroy_publisher(self._publisher)

    def ask(
        self, message: Observation, timeout_s: float | None = None, watch: Callable[[], None] = lambda: None
    ) -> Chunk:
        """Return the answer to a request, which gets the session's identity and the next number.

        timeout_s: None for the session's. watch: called meanwhile; may raise. Raises OperatorError when the
        server does not answer in time, SessionLostError when it has left, WireError when its answer cannot
        be read.
        """
        timeout_s = timeout_s or self._timeout_s
        end_s = time.monotonic() + timeout_s
        self._next_check_s = time.monotonic() + CHECK_S

        def check() -> None:
            watch()
            self._require_server()

        retry_s = FIRST_RETRY_S if self._seq_id == 0 else timeout_s  # the session's first request is repeated
        self._newest, self._first_seq_id = None, self._seq_id + 1
        while (left_s := end_s - time.monotonic()) > 0:
            self._send(message)
            if self._client.spin_until(lambda: self._newest is not None, min(retry_s, left_s), check):
                assert self._newest is not None, "an answer has come"
                return chunk_from_bytes(self._newest)
        raise OperatorError(f"answer of {self._server}: did not happen within {timeout_s:g} s")

    def renew(self) -> None:
        """End the session and open another one: the server forgets the episode. Raises as when it is made."""
        self.close()
        self.reopen()

    def reopen(self) -> None:
        """Open another session in place of one that the server has lost. Raises as when it is made."""
        self._open_reply = None
        self.reply = self._open()

    def close(self) -> None:
        """End the session; safe to call again. Raises OperatorError when the server is silent."""
        session, self._open_reply = self._open_reply, None
        if session is not None:
            request = CloseSession.Request(session_id=session.session_id, session_token=session.session_token)
            self._call(CloseSession, "close_session", request)

    # -- requests ------------------------------------------------------------------------------------------

    def _require_server(self) -> None:
        """Raise SessionLostError when the server's endpoints have gone; checked every CHECK_S."""
        if time.monotonic() < self._next_check_s:
            return
        self._next_check_s = time.monotonic() + CHECK_S
        if not self._is_matched():
            raise SessionLostError(f"server {self._server} has ended the session, or is gone")

    def _send(self, message: Observation) -> None:
        assert self._open_reply is not None, "requests follow open_session"
        self._seq_id += 1
        message.session_id, message.session_epoch = self._open_reply.session_id, self._epoch
        message.seq_id = self._seq_id
        self._publisher.publish(message)

    def _handle_chunk(self, data: bytes) -> None:
        if (session := self._open_reply) is None:
            return
        with suppress(WireError):  # what cannot be read counts as ours
            chunk = chunk_from_bytes(data)
            is_due = self._first_seq_id <= chunk.seq_id <= self._seq_id
            if chunk.session_id != session.session_id or not is_due:
                return
        self._newest = bytes(data)

    # -- the session ---------------------------------------------------------------------------------------

    def _open(self) -> SessionReply:
        self._epoch += 1
        self._seq_id = 0
        offer = replace(self.offer, session_epoch=self._epoch)
        reply = reply_from_response(self._call(OpenSession, "open_session", offer_to_request(offer)))
        try:
            check_reply(offer, reply, None)
        except FatalMismatch as mismatch:
            raise SessionRefusedError(f"server {self._server} does not fit: {mismatch}") from None
        if not reply.accepted:
            reason = f"server {self._server} refuses ({reply.rejection}): {reply.message}"
            raise SessionRefusedError(reason, is_passing=reply.rejection in PASSING_REJECTIONS)
        self._open_reply = reply
        try:
            self._client.wait_for(self._is_matched, f"topics of {self._server}", self._timeout_s)
        except Exception:
            self.close()
            raise
        return reply

    def _is_matched(self) -> bool:
        """Return whether the server's two endpoints for us are in the graph."""
        node = self._client.node
        observations, chunks = map(node.resolve_topic_name, (OBSERVATION_TOPIC, CHUNK_TOPIC))
        return all(
            any(full_name(endpoint) == self._server for endpoint in endpoints)
            for endpoints in (
                node.get_subscriptions_info_by_topic(observations),
                node.get_publishers_info_by_topic(chunks),
            )
        )

    def _call(self, kind: Any, service: str, request: Any) -> Any:
        return self._client.call(kind, f"{self._server}/{service}", request, self._timeout_s)
