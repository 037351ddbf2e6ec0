# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent's side of HUD's wire `openpi/0`: a simulated robot of another process. Blocking calls."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import websockets
from websockets.sync.client import connect

from remote_inference.base.documents.problems import show_value
from remote_inference.base.errors import UserError
from remote_inference.base.limits import shorten
from remote_inference.base.policy import Float32Array
from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.openpi import MAX_FRAME_BYTES, pack, unpack_map

MAX_ANSWER_BYTES = 1 << 24
MAX_REASON = 500  # characters of a bridge's error text
CLOSE_S = 0.5  # for the bridge's part of a goodbye: one that is frozen takes no part


class HudError(UserError):
    """A HUD bridge does not answer, or answers what cannot be used."""


class HudControl(AbstractContextManager["HudControl"]):
    """A bridge's control channel: a line of JSON-RPC for each call; a context manager."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        """Connect. Raises HudError when nobody listens."""
        self._place = f"HUD control channel {host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise HudError(f"{self._place}: {error.strerror or error}") from error
        self._file = self._socket.makefile("rwb")
        self._calls = 0

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._socket.close()

    def call(self, method: str, **params: Any) -> Mapping[str, Any]:
        """Return a call's result. Raises HudError for an error, no answer in time, or no result."""
        self._calls += 1
        request = {"jsonrpc": "2.0", "id": self._calls, "method": method, "params": params}
        try:
            self._file.write(json.dumps(request).encode() + b"\n")
            self._file.flush()
            line = self._file.readline(MAX_ANSWER_BYTES)
            answer = json.loads(line) if line else None
        except (OSError, ValueError, RecursionError) as error:
            raise HudError(f"{self._place}: {method}: {error}") from error
        if not isinstance(answer, dict):
            raise HudError(f"{self._place}: {method}: found {show_value(answer)}, expected an answer")
        if "error" in answer:
            found = answer["error"]
            reason = found.get("message", found) if isinstance(found, dict) else found
            raise HudError(f"{self._place}: {method}: {shorten(str(reason), MAX_REASON)}")
        result = answer.get("result")
        if not isinstance(result, dict):
            raise HudError(f"{self._place}: {method}: found {show_value(result)}, expected a map")
        return result


class HudRobot(AbstractContextManager["HudRobot"]):
    """A bridge's WebSocket, bound to one episode; a context manager."""

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        """Connect and claim an episode. timeout_s: of each answer. Raises HudError when that fails."""
        self._url = url
        self._timeout_s = timeout_s
        with ExitStack() as opened:
            try:
                self._socket = opened.enter_context(
                    connect(
                        url,
                        max_size=MAX_FRAME_BYTES,
                        open_timeout=timeout_s,
                        close_timeout=CLOSE_S,
                        compression=None,
                        ping_interval=None,
                    )
                )
            except (OSError, websockets.WebSocketException, ValueError) as error:
                raise HudError(f"{url}: {error}") from error
            self.observe()  # metadata
            self._send({"claim": token})
            self._opened = opened.pop_all()
        self._frames: NewestFrame | None = None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._opened.close()
        if self._frames is not None:
            self._frames.join(self._timeout_s)

    def follow(self) -> NewestFrame:
        """Read observations in a thread from now on, in real time; `observe` must not be called any more."""
        self._frames = NewestFrame(self.observe)
        return self._frames

    def act(self, action: Float32Array) -> None:
        """Send one action `[A]`; an observation follows."""
        self._send({"actions": action})

    def send_chunk(self, chunk: Float32Array, obs_index: int) -> None:
        """Send a chunk `[H, A]` for an observation, in real time."""
        self._send({"actions": chunk, "obs_index": obs_index})

    def observe(self) -> dict[str, Any]:
        """Return the next observation. Raises HudError when none comes in time, or an error instead."""
        try:
            message = self._socket.recv(self._timeout_s)
        except TimeoutError as error:
            raise HudError(f"{self._url}: nothing within {self._timeout_s:g} s") from error
        except websockets.ConnectionClosed as error:
            raise HudError(f"{self._url}: the connection has ended: {error}") from error
        if isinstance(message, str):
            raise HudError(f"{self._url}: {shorten(message, MAX_REASON)}")
        try:
            return unpack_map(message)
        except WireError as error:
            raise HudError(f"{self._url}: {error}") from error

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._socket.send(pack(message))
        except websockets.ConnectionClosed as error:
            raise HudError(f"{self._url}: the connection has ended: {error}") from error


class NewestFrame:
    """The newest frame of a bridge in real time, which is read by a thread of its own.

    A frame that nobody has taken gives way to the next one: who computes for ten ticks goes on with the
    observation of the tenth. Read one after the other, frames would wait, first here and then in the bridge,
    and every answer would come later than the one before.
    """

    def __init__(self, read: Callable[[], dict[str, Any]]) -> None:
        """read: blocks until the next frame, or raises."""
        self._read = read
        self._changed = threading.Condition()
        self._frame: dict[str, Any] | None = None  # that nobody has taken yet
        self._end: Exception | None = None  # why no frame follows
        self._thread = threading.Thread(target=self._follow, name="hud_frames", daemon=True)
        self._thread.start()

    def newest(self) -> dict[str, Any]:
        """Return the newest frame, each once; wait for one. Raises HudError when none follows."""
        with self._changed:
            self._changed.wait_for(lambda: self._frame is not None or self._end is not None)
            return self._pop()

    def last(self) -> dict[str, Any]:
        """Return the episode's last frame, after the connection has failed. Raises HudError without one."""
        with self._changed:
            self._changed.wait_for(lambda: self._end is not None)
            if self._frame is not None and not self._frame.get("terminated"):
                self._frame = None
            return self._pop()

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended, which it does when the connection is closed."""
        self._thread.join(timeout_s)

    def _pop(self) -> dict[str, Any]:
        frame, self._frame = self._frame, None
        if frame is None:
            assert self._end is not None, "waited for a frame or the end"
            raise self._end
        return frame

    def _follow(self) -> None:
        end: Exception = HudError("the episode has ended")
        frame: dict[str, Any] = {}
        try:
            while not frame.get("terminated"):
                frame = self._read()
                with self._changed:
                    self._frame = frame  # in place of the one before
                    self._changed.notify_all()
        except Exception as error:  # raised where the next frame is taken
            end = error
        with self._changed:
            self._end = end
            self._changed.notify_all()
