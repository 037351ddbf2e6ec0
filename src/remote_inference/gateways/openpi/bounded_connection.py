# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A bound for open sockets: who connects and never says who it is takes files from the whole server."""

from __future__ import annotations

import asyncio
from typing import Any

from websockets.asyncio.server import ServerConnection


class Bound:
    """The most sockets that a server holds at a time, and those that it holds."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[ServerConnection] = set()

    def make_connection(self, *arguments: Any, **options: Any) -> ServerConnection:
        """Make a connection as `websockets` asks for it."""
        return _BoundedConnection(self, *arguments, **options)

    def admits(self, connection: ServerConnection) -> bool:
        """Count a connection if there is a place for it."""
        if len(self._open) < self._most:
            self._open.add(connection)
        return connection in self._open

    def forget(self, connection: ServerConnection) -> None:
        self._open.discard(connection)


class _BoundedConnection(ServerConnection):
    """A connection that ends before its handshake when there is no place for it."""

    def __init__(self, bound: Bound, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._bound = bound

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._bound.admits(self):
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._bound.forget(self)
        super().connection_lost(exc)
