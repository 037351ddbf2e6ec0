# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One client: its session, and the answer to each of its observations, read by the keys of the manifest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.serialization import serialize_message
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from remote_inference.base.documents.problems import show_value
from remote_inference.base.exchange import Chunk, ChunkStatus, Request, SessionOffer
from remote_inference.base.limits import MAX_REMARK_LENGTH, shorten
from remote_inference.base.policy import Float32Array, PolicySpec
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.server.frameworks.openpi import pack, unpack_map
from remote_inference.server.manifest.sections import ObservationKeys
from remote_inference.server.nodes.gateway_host import GatewayHost, Refused
from remote_inference.server.requests.job import BLANK_REQUEST
from remote_inference.server.sessions import Session

MOST_NAMED = 100  # keys of an observation that lacks one
_AXES = {"hwc": "height, width, 3", "chw": "3, height, width"}


class ObservationReader:
    """Turns observations into serialized requests, as a robot that offers the policy's features sends them.

    Nothing is guessed: openpi's own policies take images of either layout and of any number type.
    """

    def __init__(self, keys: ObservationKeys, spec: PolicySpec, default_task: str) -> None:
        """keys: as `OpenpiSection.keys_for` returns them for the policy."""
        self._keys = keys
        self._state_names = spec.state_names
        self._default_task = default_task

    def read(self, observation: Mapping[str, Any], request: Request) -> bytes:
        """Return the request with the observation's task, state and images, serialized.

        Raises WireError naming the key, what was found and expected. Keys that are not mapped are ignored.
        """
        entries = dict(_flatten(observation))
        task = self._read_task(entries)
        state = self._read_state(entries)
        images = [image_to_message(self._read_image(entries, key)) for key in self._keys.images.values()]
        message = observation_to_message(replace(request, task=task), state, images, Time())
        data: bytes = serialize_message(message)
        return data

    def _read_task(self, entries: Mapping[str, Any]) -> str:
        key = self._keys.prompt
        if key not in entries and self._default_task:
            return ""
        prompt = _get(entries, key, "the task, for which the server has no default")
        if isinstance(prompt, bytes):
            prompt = prompt.decode("utf-8", "replace")
        if not isinstance(prompt, str):
            raise WireError(f"{key}: found {_describe(prompt)}, expected a text")
        return prompt

    def _read_state(self, entries: Mapping[str, Any]) -> Float32Array:
        keys = self._keys.state
        parts = [_read_numbers(key, _get(entries, key, "a part of the state")) for key in keys]
        state = np.concatenate(parts)
        if len(state) != len(self._state_names):
            found = ", ".join(f"{len(part)} in {key}" for part, key in zip(parts, keys, strict=True))
            raise WireError(f"state: found {found}, expected {len(self._state_names)} values in all")
        return state

    def _read_image(self, entries: Mapping[str, Any], key: str) -> NDArray[np.uint8]:
        """Return uint8 `[height, width, 3]`, not necessarily contiguous."""
        image, layout = _get(entries, key, "an image"), self._keys.layout
        expected = f"a uint8 array of shape [{_AXES[layout]}] ({layout})"
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
            raise WireError(f"{key}: found {_describe(image)}, expected {expected}")
        if image.ndim != 3 or image.shape[layout.index("c")] != 3 or not image.size:
            raise WireError(f"{key}: found {_describe(image)}, expected {expected}")
        return image if layout == "hwc" else image.transpose(1, 2, 0)


def _flatten(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of nested maps, with their whole keys, `a/b`."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}/")
        else:
            yield name, value


def _get(entries: Mapping[str, Any], key: str, what: str) -> Any:
    if key in entries:
        return entries[key]
    names = list(islice(entries, MOST_NAMED))
    near = get_close_matches(key, names, n=1)
    found = shorten(", ".join(names) or "no entry", MAX_REMARK_LENGTH // 2)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise WireError(f"{key}: found no such key, expected {what}; keys of the observation: {found}{hint}")


def _read_numbers(key: str, value: Any) -> Float32Array:
    """Return float32 `[n]` of an array of at most one dimension, a number or a list of numbers."""
    numbers = value if isinstance(value, np.ndarray) else _as_array(value)
    if numbers is None or numbers.dtype.kind not in "fiu" or numbers.ndim > 1:
        raise WireError(f"{key}: found {_describe(value)}, expected numbers in one dimension")
    with np.errstate(over="ignore"):  # infinite values are refused by their joint's name
        return numbers.astype(np.float32).reshape(-1)


def _as_array(value: Any) -> NDArray[Any] | None:
    numbers = value if isinstance(value, list) else [value]
    plain = all(isinstance(n, (int, float, np.generic)) and not isinstance(n, bool) for n in numbers)
    return np.asarray(numbers, np.float64) if plain else None


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name} of shape {list(value.shape)}"
    return show_value(value)


class ConnectionLink:
    """A session's link from the server's threads to the event loop, whose thread makes and awaits it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Chunk] = self._loop.create_future()
        self.is_open = True  # the client has not gone
        self.paused, self.kept = False, frozenset[str]()  # its clients have no word for them
        self.ended: asyncio.Future[str] = self._loop.create_future()  # why the server has ended the session

    def expect(self) -> asyncio.Future[Chunk]:
        """Return what the next chunk becomes the result of."""
        self._answer = self._loop.create_future()
        return self._answer

    def send(self, chunk: Chunk) -> None:
        self._set(lambda: self._answer, chunk)

    def is_present(self) -> bool:
        return self.is_open

    def close(self, reason: str) -> None:
        self._set(lambda: self.ended, reason)

    def _set(self, find: Callable[[], asyncio.Future[Any]], result: object) -> None:
        def set_result() -> None:
            if not (future := find()).done():
                future.set_result(result)

        with suppress(RuntimeError):  # the loop has ended, and with it the connection
            self._loop.call_soon_threadsafe(set_result)


def limit_connections(most: int) -> type[ServerConnection]:
    """Return a class of connections of which those beyond `most` end before their handshake.

    A client that connects and sends nothing would else take file descriptors from the whole server.
    """
    connected: set[ServerConnection] = set()

    class LimitedConnection(ServerConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if len(connected) < most:
                connected.add(self)
            else:
                self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            connected.discard(self)
            super().connection_lost(exc)

    return LimitedConnection


SEND_TIMEOUT_S = 20.0  # for a client that does not read
MAX_REASON_BYTES = 123  # of a close frame (RFC 6455, 5.5)
# With which websockets ends a connection for a frame: broken, no UTF-8, longer than it may be.
REFUSED_FRAME = (CloseCode.PROTOCOL_ERROR, CloseCode.INVALID_DATA, CloseCode.MESSAGE_TOO_BIG)
RESET_ANSWER = "reset successful"  # RoboArena's, a text frame

Result = TypeVar("Result")


class _Ended(Exception):  # noqa: N818  not a fault of the client
    """The server has ended the session, or wants the client to leave."""


class _Failed(Exception):  # noqa: N818  the message is the answer
    """The server has no chunk for a request."""


class Connection:
    """A client from its handshake to its end. All methods run on the endpoint's loop."""

    def __init__(
        self, socket: ServerConnection, host: GatewayHost, reader: ObservationReader, metadata: bytes
    ) -> None:
        """metadata: the frame with which the server greets."""
        self._socket = socket
        self._host = host
        self._reader = reader
        self._metadata = metadata
        self._link = ConnectionLink()
        self._closed = asyncio.ensure_future(socket.wait_closed())
        self._seq_id = 0
        self._episode_id = 0
        self._last_total_ms: float | None = None
        self._endpoints: dict[str, Callable[[Session, Mapping[str, Any]], Awaitable[None]]] = {
            "infer": self._infer,
            "reset": self._reset,
        }

    async def serve(self, offer: SessionOffer) -> None:
        """Open the client's session, answer until either side ends it, and leave nothing of it."""
        try:
            session = self._host.admit(offer, self._link)
        except Refused as refusal:
            await self._close(CloseCode.TRY_AGAIN_LATER, str(refusal))
            return
        except Exception as error:  # the policy's processors may raise anything
            self._host.report(offer, error)
            await self._close(CloseCode.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            return
        try:
            await self._talk(session)
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code in REFUSED_FRAME:
                self._host.record_refusal(session, self._seq_id + 1, self._episode_id, str(closed))
            self._leave(session, str(closed))
        except _Ended as end:
            self._leave(session, str(end))
            await self._close(CloseCode.GOING_AWAY, str(end))
        except (WireError, _Failed) as problem:
            if isinstance(problem, WireError):  # the worker has never seen the request
                self._host.record_refusal(session, self._seq_id, self._episode_id, str(problem))
            self._leave(session, str(problem))
            await self._send_problem(str(problem))
        except asyncio.TimeoutError:
            self._leave(session, f"it has read nothing for {SEND_TIMEOUT_S:g} s")
            self._socket.transport.abort()
        except Exception as error:  # websockets would end the connection without a line
            fault = f"{type(error).__name__}: {error}"
            self._host.report(offer, error)
            self._leave(session, fault)
            await self._send_problem(fault)
        finally:
            self._leave(session, "the gateway has ended")
            self._closed.cancel()

    # -- requests ------------------------------------------------------------------------------------------

    async def _talk(self, session: Session) -> None:
        await self._send(self._metadata)
        while True:
            frame = await self._before_end(self._socket.recv())
            begin_s = time.monotonic()
            self._seq_id += 1
            if isinstance(frame, str):
                raise WireError("frame: found a text frame, expected a binary one that holds msgpack")
            observation = unpack_map(frame, self._host.serving.manifest.max_request_bytes)
            name = observation.pop("endpoint", "infer")
            endpoint = self._endpoints.get(name) if isinstance(name, str) else None
            if endpoint is None:
                expected = " or ".join(map(repr, self._endpoints))
                raise WireError(f"endpoint: found {show_value(name)}, expected {expected}")
            await endpoint(session, observation)
            self._last_total_ms = 1e3 * (time.monotonic() - begin_s)

    async def _infer(self, session: Session, observation: Mapping[str, Any]) -> None:
        request = replace(
            BLANK_REQUEST, session_id=session.session_id, seq_id=self._seq_id, episode_id=self._episode_id
        )
        data = self._reader.read(observation, request)
        answer = self._link.expect()
        self._host.serving.enqueue(session, data)
        chunk = await self._before_end(answer)
        if not chunk.robot.size:
            raise _Failed(chunk.message)
        timing = {"infer_ms": chunk.inference_ms, "queue_wait_ms": chunk.queue_wait_ms}
        if self._last_total_ms is not None:
            timing["prev_total_ms"] = self._last_total_ms
        await self._send(pack({"actions": chunk.robot, "server_timing": timing}))
        if chunk.status is ChunkStatus.DRAINING:
            raise _Ended(chunk.message or "server is draining")

    async def _reset(self, session: Session, _: Mapping[str, Any]) -> None:
        self._episode_id += 1
        session.end_episodes_before(self._episode_id)
        await self._send(RESET_ANSWER)

    # -- the end -------------------------------------------------------------------------------------------

    async def _before_end(self, awaited: Awaitable[Result]) -> Result:
        """Return what is awaited. Raises _Ended or ConnectionClosed when the session or client ends before.

        There is no other limit: the server ends a session that has been silent for session_idle_timeout_s.
        """
        task = asyncio.ensure_future(awaited)
        ends: set[asyncio.Future[Any]] = {task, self._link.ended, self._closed}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        if self._link.ended.done():
            raise _Ended(self._link.ended.result())
        raise self._socket.protocol.close_exc

    def _leave(self, session: Session, reason: str) -> None:
        self._link.is_open = False
        self._host.end(session, reason)

    async def _send(self, frame: str | bytes) -> None:
        await asyncio.wait_for(self._socket.send(frame), SEND_TIMEOUT_S)

    async def _send_problem(self, problem: str) -> None:
        """Send a problem as a text frame, as openpi's server does, and close the connection."""
        try:
            await self._send(problem)
            await self._close(CloseCode.INTERNAL_ERROR, problem)
        except ConnectionClosed:
            pass  # the client is gone; the server's log has it
        except asyncio.TimeoutError:
            self._socket.transport.abort()

    async def _close(self, code: CloseCode, reason: str) -> None:
        fitting = reason.encode(errors="replace")[:MAX_REASON_BYTES].decode(errors="ignore")
        await self._socket.close(code, fitting)
