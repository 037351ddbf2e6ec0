# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that acts as a bad network link: delay, jitter, bandwidth, stalls and cuts.

Each side keeps its own socket and sees the back pressure that a real link would give. Loss on a link shows in
TCP as delay, which `jitter_s` and `stall` stand for.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias, TypeVar

from typing_extensions import Self

BUFFER_BYTES = 16384  # of each socket and of each direction's queue: the link hides nothing from the sender
READ_BYTES = 8192
Result = TypeVar("Result")
Delayed: TypeAlias = "asyncio.Queue[tuple[float, bytes]]"  # when each is due, of the event loop's clock [s]


class ImpairedLink:
    """Forwards connections from `port` to a target port on this host; a context manager.

    delay_s: one way. jitter_s: added to it, uniform; order is kept. bandwidth_bps: bits per second, each way.
    """

    def __init__(
        self,
        target_port: int,
        *,
        delay_s: float = 0.0,
        jitter_s: float = 0.0,
        bandwidth_bps: float = float("inf"),
    ) -> None:
        self._target_port = target_port
        self._delay_s, self._jitter_s, self._bandwidth_bps = delay_s, jitter_s, bandwidth_bps
        self._random = random.Random(0)
        self._connections: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_cut = False
        self._listener = _socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        serve = asyncio.start_server(self._accept, sock=self._listener, limit=BUFFER_BYTES)
        self._server = asyncio.run_coroutine_threadsafe(serve, self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._call(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def stall(self) -> None:
        """Hold every byte back; connections stay open."""
        self._call(self._flowing.clear)

    def resume(self) -> None:
        """End a stall."""
        self._call(self._flowing.set)

    def cut(self) -> None:
        """Break every connection and refuse new ones."""

        async def break_all() -> None:
            self._is_cut = True
            broken = list(self._connections)
            for connection in broken:
                connection.cancel()
            await asyncio.gather(*broken, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(break_all(), self._loop).result()

    def mend(self) -> None:
        """End a cut."""
        self._is_cut = False

    def _call(self, function: Callable[[], Result]) -> Result:
        async def call() -> Result:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        target: asyncio.StreamWriter | None = None
        ways: list[asyncio.Task[None]] = []
        try:
            outgoing = _socket()
            await self._loop.sock_connect(outgoing, ("127.0.0.1", self._target_port))
            answers, target = await asyncio.open_connection(sock=outgoing, limit=BUFFER_BYTES)
            pairs = ((reader, target), (answers, writer))
            ways = [asyncio.ensure_future(self._forward(*pair)) for pair in pairs]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, asyncio.CancelledError):
            pass  # the target does not listen, or the link was cut
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, target):
                if end is not None:
                    end.transport.abort()
            self._connections.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one direction: a queue drained at the bandwidth, then a delay line."""
        delayed: Delayed = asyncio.Queue()
        deliver = asyncio.ensure_future(self._deliver(delayed, writer))
        free_s = last_s = 0.0
        try:
            while data := await reader.read(READ_BYTES):
                now_s = self._loop.time()
                free_s = max(now_s, free_s) + 8.0 * len(data) / self._bandwidth_bps
                last_s = max(last_s, free_s + self._delay_s + self._jitter_s * self._random.random())
                delayed.put_nowait((last_s, data))
                queued_s = 8.0 * BUFFER_BYTES / self._bandwidth_bps
                await asyncio.sleep(max(free_s - queued_s - now_s, 0.0))
                await self._flowing.wait()
        finally:
            deliver.cancel()

    async def _deliver(self, delayed: Delayed, writer: asyncio.StreamWriter) -> None:
        while True:
            due_s, data = await delayed.get()
            await asyncio.sleep(max(due_s - self._loop.time(), 0.0))
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()


def _socket() -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
