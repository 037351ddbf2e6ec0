# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The thread and event loop on which a gateway opens its port and answers its clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from contextlib import suppress

from remote_inference.base.nodes.runtime import StartupError

START_TIMEOUT_S = 5.0
JOIN_TIMEOUT_S = 4.0


class LoopThread:
    """Serves from its making until it is closed."""

    def __init__(
        self,
        name: str,
        address: str,
        serve: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """serve: opens the port, then awaits its argument, which returns when the gateway is closed.

        on_failure: gets what `serve` raises later, on the thread. Raises StartupError when the port does not
        open.
        """
        self._serve, self._on_failure = serve, on_failure
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        wait([self._started], START_TIMEOUT_S)
        if self._started.cancel():  # then the thread does not keep a port that it opens later
            raise StartupError(f"{name}: {address} has not opened in {START_TIMEOUT_S:g} s")
        try:
            self._loop, self._stop = self._started.result(START_TIMEOUT_S)
        except OSError as error:
            found = f"{address} ({error.strerror or error})"
            raise StartupError(f"{name}: found {found}, expected a free port of this machine") from error

    def close(self) -> bool:
        """End what is served; return False when that takes too long."""
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(JOIN_TIMEOUT_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._begin())
        except Exception as error:
            if self._started.cancelled():
                return  # the constructor has raised already
            if self._started.done():  # a server without its gateway would look healthy
                self._on_failure(error)
            elif self._started.set_running_or_notify_cancel():
                self._started.set_exception(error)

    async def _begin(self) -> None:
        await self._serve(self._until_closed)

    async def _until_closed(self) -> None:
        stop = asyncio.Event()
        if self._started.set_running_or_notify_cancel():
            self._started.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()
