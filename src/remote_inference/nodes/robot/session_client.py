# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The engine's requests to policy servers as service calls, and their answers back to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from remote_inference.core.exchange import SessionOffer
from remote_inference.core.robot.effects import Effect
from remote_inference.core.robot.engine import Engine
from remote_inference.nodes.robot.operator_services import Work
from remote_inference.nodes.robot.server_calls import ServerCalls
from remote_inference.srv import CloseSession, GetStatus, OpenSession, ResetSession
from remote_inference.wire import offer_to_request, reply_from_response


class SessionClient:
    """Called on the worker's thread, on which the engine gets the answers, too."""

    def __init__(self, engine: Engine, servers: ServerCalls, submit: Callable[[Work], None]) -> None:
        """Take what is called and who is told. submit: runs work on the worker's thread."""
        self._engine = engine
        self._servers = servers
        self._submit = submit

    def get_status(self, server: str) -> None:
        def answered(answer: GetStatus.Response | None) -> list[Effect]:
            accepting = None if answer is None else answer.status.accepting
            return self._engine.take_status_reply(server, accepting, time.monotonic_ns())

        self._call(server, "get_status", GetStatus.Request(), answered)

    def open(self, server: str, offer: SessionOffer) -> None:
        def answered(answer: OpenSession.Response | None) -> list[Effect]:
            reply = None if answer is None else reply_from_response(answer)
            return self._engine.take_session_reply(server, offer.session_epoch, reply, time.monotonic_ns())

        self._call(server, "open_session", offer_to_request(offer), answered)

    def close(self, server: str, session_id: str) -> None:
        self._call(server, "close_session", CloseSession.Request(session_id=session_id), lambda _: [])

    def reset(self, server: str, session_id: str, episode_id: int) -> None:
        def answered(answer: ResetSession.Response | None) -> list[Effect]:
            acknowledged = answer is not None and answer.reset
            message = "no answer" if answer is None else answer.message
            return self._engine.take_reset_reply(episode_id, acknowledged, message)

        request = ResetSession.Request(session_id=session_id, episode_id=episode_id)
        self._call(server, "reset_session", request, answered)

    def _call(self, server: str, service: str, request: Any, answered: Callable[[Any], list[Effect]]) -> None:
        self._servers.call(server, service, request, lambda answer: self._submit(lambda: answered(answer)))
