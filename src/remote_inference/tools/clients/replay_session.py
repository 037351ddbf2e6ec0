# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A live server, asked what a recorded robot asked: in a session and a namespace of its own."""

from __future__ import annotations

from types import TracebackType

from typing_extensions import Self

from remote_inference.base.clients.operator_client import OperatorClient
from remote_inference.base.clients.server_session import ServerSession, SessionRefusedError
from remote_inference.base.exchange import ChunkStatus, SessionOffer, no_rows
from remote_inference.base.wire import WireError
from remote_inference.base.wire.arrays import read_message
from remote_inference.learn.open_loop.evaluation import (
    Answer,
    PolicyIdentity,
    ReplayError,
    require_history,
)
from remote_inference.msg import Observation


class ReplaySession:
    """Answers requests by a server's chunks; a context manager."""

    def __init__(self, client: OperatorClient, server: str, recorded: SessionOffer, timeout_s: float) -> None:
        """Open a session. recorded: the offer of the robot in the bag. timeout_s: of each answer.

        Raises OperatorError when the server is silent, ReplayError when it refuses the robot.
        """
        try:
            self._session = ServerSession(client, server, recorded, timeout_s)
        except SessionRefusedError as refusal:
            raise ReplayError(f"the bag's robot: {refusal}") from None
        self._recorded_session: str | None = None
        reply = self._session.reply
        try:
            require_history(f"server {server}", reply.observation_steps, recorded)
        except ReplayError:
            self._session.close()
            raise
        self.policy = PolicyIdentity(
            server,
            reply.policy_name,
            reply.policy_revision,
            reply.policy_fingerprint,
            reply.chunk_size,
            reply.rtc,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, trace)

    def ask(self, session_id: str, request: bytes) -> Answer:
        """Return the answer to a serialized Observation. A recorded session gets a session of its own.

        Raises OperatorError when the server does not answer in time.
        """
        if self._recorded_session not in (None, session_id):
            self._session.renew()
        self._recorded_session = session_id
        try:
            chunk = self._session.ask(read_message(request, Observation, "request"))
        except WireError as error:
            return Answer(no_rows(), no_rows(), str(error))
        if chunk.status is ChunkStatus.ERROR or not chunk.robot.size:
            return Answer(no_rows(), no_rows(), f"server answered {chunk.status.name}: {chunk.message}")
        return Answer(chunk.model, chunk.robot)
