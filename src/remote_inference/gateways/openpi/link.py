# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The way from the server's threads to the event loop of a connection."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from remote_inference.core.exchange import Chunk


class ConnectionLink:
    """A session's link that wakes the coroutine of its connection. The loop's thread makes and awaits it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Chunk] | None = None
        self._is_open = True
        self.ended: asyncio.Future[str] = self._loop.create_future()  # why the server has ended the session

    def expect(self) -> asyncio.Future[Chunk]:
        """Return what the next chunk becomes the result of."""
        self._answer = self._loop.create_future()
        return self._answer

    def leave(self) -> None:
        """Note that the client is gone; chunks are dropped from now on."""
        self._is_open = False

    def send(self, chunk: Chunk) -> None:
        self._call(self._set_answer, chunk)

    def is_present(self) -> bool:
        return self._is_open

    def close(self, reason: str) -> None:
        self._call(self._set_ended, reason)

    def _call(self, function: object, argument: object) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the connection
            self._loop.call_soon_threadsafe(function, argument)  # type: ignore[arg-type]

    def _set_answer(self, chunk: Chunk) -> None:
        if self._is_open and self._answer is not None and not self._answer.done():
            self._answer.set_result(chunk)

    def _set_ended(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
