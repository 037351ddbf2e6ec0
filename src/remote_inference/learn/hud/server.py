# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Serves an environment to HUD's agents: a WebSocket for frames, and a control channel for episodes.

The wire is HUD's `openpi/0`: metadata; then the agent's claim; then observations and actions by turns, or in
real time observations at the control rate and chunks whenever they come. A text frame is an error. The
control channel takes a line of JSON-RPC for each call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import websockets
from websockets.asyncio.server import ServerConnection, serve

from remote_inference.base.calls import Calls
from remote_inference.base.errors import UserError
from remote_inference.base.wire.arrays import WireError
from remote_inference.learn.hud.episode import Frame, HudEnvironment
from remote_inference.server.frameworks.openpi import pack, unpack_map

Result = TypeVar("Result")

PORT_ANNOUNCEMENT = "HUD_SIM_PORT="  # HUD's endpoint looks for it in a process's output
CLAIM_TIMEOUT_S = 30.0
ACTION_TIMEOUT_S = 30.0
SEND_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 15.0  # of the environment: longer than its own
MAX_FRAME_BYTES = 1 << 24  # of what an agent sends: a chunk has a few kilobytes
MAX_CALL_BYTES = 1 << 20


class HudServer:
    """One environment on one WebSocket port and one control port.

    One thread makes the environment and all calls on it. A call that never returns blocks neither `run` nor
    the process: how long agents wait is limited by the environment (`ThreadEnvironment`).
    """

    def __init__(
        self, make: Callable[[], HudEnvironment], *, real_time: bool, host: str = "127.0.0.1"
    ) -> None:
        self._make = make
        self._real_time = real_time
        self._host = host
        self._calls = Calls()
        self._bound: ServerConnection | None = None
        self._environment: HudEnvironment  # made by `run` before it serves
        self.url = ""

    async def run(
        self, announce: Callable[[int], None], stop: asyncio.Event, port: int = 0, control_port: int = 0
    ) -> None:
        """Serve until `stop`. announce: called with the control channel's port when all is up.

        port: of the WebSocket; a port of 0 stands for any free one. Raises UserError for a port that is taken
        and what making the environment raises.
        """
        self._calls.start("hud_environment")
        try:
            made = await _unless(stop, self._run_call(self._make))
            if made is not None:
                self._environment = made
                await self._serve_until(stop, announce, port, control_port)
        finally:
            self._calls.close()

    async def _serve_until(
        self, stop: asyncio.Event, announce: Callable[[int], None], port: int, control_port: int
    ) -> None:
        try:
            async with serve(
                self._serve_agent,
                self._host,
                port,
                max_size=MAX_FRAME_BYTES,
                compression=None,
                origins=[None],  # no page in a browser on this machine
                ping_interval=None,  # a reset may block an agent's loop for minutes
            ) as server:
                self.url = f"ws://{self._host}:{next(iter(server.sockets)).getsockname()[1]}"
                control = await asyncio.start_server(
                    self._serve_control, self._host, control_port, limit=MAX_CALL_BYTES
                )
                announce(control.sockets[0].getsockname()[1])
                try:
                    await stop.wait()
                finally:
                    control.close()
        except OSError as error:
            raise UserError(f"cannot listen on {self._host}: {error.strerror or error}") from error
        finally:
            with suppress(asyncio.TimeoutError):  # an earlier call has not returned
                await asyncio.wait_for(self._run_call(self._environment.close), CLOSE_TIMEOUT_S)

    async def _run_call(self, call: Callable[[], Result]) -> Result:
        return await asyncio.wrap_future(self._calls.submit(call))

    # -- an agent ------------------------------------------------------------------------------------------

    async def _serve_agent(self, agent: ServerConnection) -> None:
        try:
            await _send(agent, {"claim_required": True, "protocol": "openpi/0"})
            claim = _read(await asyncio.wait_for(agent.recv(), CLAIM_TIMEOUT_S))
            if "claim" not in claim or not isinstance(claim["claim"], str | None):
                raise UserError('the first frame: found no claim, expected {"claim": token or null}')
            frame = await self._run_call(lambda: self._environment.bind(claim["claim"]))
            if self._bound is not None:
                raise UserError("the episode already has an agent")
            self._bound = agent
            try:
                await (self._play(agent, frame) if self._real_time else self._play_stepped(agent, frame))
            finally:
                self._bound = None if self._bound is agent else self._bound
        except websockets.ConnectionClosed:
            pass
        except asyncio.TimeoutError:
            await _refuse(agent, "robot env: timed out waiting for the agent")
        except (UserError, WireError) as error:
            await _refuse(agent, str(error))

    def _require_bound(self, agent: ServerConnection) -> None:
        """Raise UserError for an agent whose episode was released: another may have begun."""
        if self._bound is not agent:
            raise UserError("its episode was released")

    async def _play_stepped(self, agent: ServerConnection, frame: Frame) -> None:
        await _send(agent, frame)
        while not frame["terminated"]:
            action = _actions(_read(await asyncio.wait_for(agent.recv(), ACTION_TIMEOUT_S)))
            self._require_bound(agent)
            frame = await self._run_call(partial(self._environment.act, action))
            await _send(agent, frame)
        await agent.wait_closed()

    async def _play(self, agent: ServerConnection, frame: Frame) -> None:
        """Run the clock, and queue chunks whenever they come, until the episode or the connection ends."""
        frames = _NewestFrame(agent)
        frames.put(await self._run_call(lambda: self._environment.describe(frame)))
        chunks = asyncio.create_task(self._receive_chunks(agent))
        sending = asyncio.create_task(frames.send())
        try:
            loop = asyncio.get_running_loop()
            period_s = 1.0 / self._environment.contract["control_rate"]
            due_s = loop.time() + period_s
            while not frame["terminated"]:
                ended, _ = await asyncio.wait(
                    [chunks, sending],
                    timeout=max(0.0, due_s - loop.time()),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in ended:
                    task.result()  # raises what was wrong with a chunk, or the end of the connection
                due_s = max(due_s + period_s, loop.time())  # a late tick delays the others, as a slow clock
                self._require_bound(agent)
                frame = await self._run_call(self._environment.tick)
                frames.put(frame)
            await sending
            await chunks  # of an agent that has not seen the end yet: until it leaves
        finally:
            frames.leave()
            chunks.cancel()
            sending.cancel()
            await asyncio.gather(chunks, sending, return_exceptions=True)

    async def _receive_chunks(self, agent: ServerConnection) -> None:
        while True:
            message = _read(await agent.recv())
            chunk, index = _actions(message), message.get("obs_index")
            if index is not None and not isinstance(index, int):
                raise UserError(f"obs_index: found {type(index).__name__}, expected an integer")
            self._require_bound(agent)
            await self._run_call(partial(self._environment.queue_chunk, chunk, index))

    # -- the control channel -------------------------------------------------------------------------------

    async def _serve_control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A line that is longer than the stream's limit is a ValueError, and the last.
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            while line := await reader.readline():
                if line.rstrip().endswith((b" HTTP/1.0", b" HTTP/1.1")):  # of a browser's page
                    writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    break
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        number: Any = None
        try:
            call = json.loads(line)
            if not isinstance(call, dict) or not isinstance(call.get("method"), str):
                raise UserError("found no method, expected a call of JSON-RPC 2.0")
            number, params = call.get("id"), call.get("params") or {}
            if not isinstance(params, dict):
                raise UserError(f"params: found {type(params).__name__}, expected an object")
            result = await self._call(call["method"], params)
            json.dumps(result)
        except Exception as error:  # a simulator may raise anything
            words = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            return {"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": words}}
        return {"jsonrpc": "2.0", "id": number, "result": result}

    async def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        hud = self._environment
        if method == "url":
            return {"url": self.url}
        if method == "contract":
            return {"contract": hud.contract}
        if method == "capabilities":
            name = params.get("name", "robot")
            found = {"name": name, "protocol": "openpi/0", "url": self.url}
            return {"capabilities": [{**found, "params": {"contract": hud.contract}}]}
        if method == "reset":
            return await self._run_call(lambda: hud.claim(**params))
        if method == "result":
            score = await self._run_call(lambda: hud.release(params.get("token")))
            agent, self._bound = self._bound, None
            if agent is not None:  # the slot is free for the next one
                self._leaving = asyncio.create_task(agent.close())  # which is kept until it has ended
            return score
        raise UserError(f"found method {method!r}, expected capabilities, contract, reset, result or url")


class _NewestFrame:
    """Sends an agent the newest frame in real time: a frame that the agent is too slow for is skipped.

    The environment's clock never waits for an agent that reads nothing while it computes.
    """

    def __init__(self, agent: ServerConnection) -> None:
        self._agent = agent
        # Not sent yet: the frame, and whether it is the last; None when nothing more is to be sent.
        self._newest: asyncio.Queue[tuple[bytes, bool] | None] = asyncio.Queue(1)

    def put(self, frame: Frame) -> None:
        """Store the newest frame. It is packed now: the environment may use its arrays again."""
        self._replace((pack(frame), bool(frame["terminated"])))

    def leave(self) -> None:
        """Send nothing more. To cancel `send` is not enough: before Python 3.12, `wait_for` may lose that."""
        self._replace(None)

    async def send(self) -> None:
        """Send until the episode's last frame has been sent."""
        is_last = False
        while not is_last and (newest := await self._newest.get()):
            packed, is_last = newest
            await asyncio.wait_for(self._agent.send(packed), SEND_TIMEOUT_S)

    def _replace(self, newest: tuple[bytes, bool] | None) -> None:
        if self._newest.full():
            self._newest.get_nowait()
        self._newest.put_nowait(newest)


async def _unless(stop: asyncio.Event, work: Awaitable[Result]) -> Result | None:
    """Return what `work` returns, or None when `stop` is set first; `work` is left alone then."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        return working.result()
    working.cancel()
    return None


async def _send(agent: ServerConnection, frame: Frame) -> None:
    await asyncio.wait_for(agent.send(pack(frame)), SEND_TIMEOUT_S)


async def _refuse(agent: ServerConnection, reason: str) -> None:
    with suppress(websockets.ConnectionClosed, asyncio.TimeoutError):
        await asyncio.wait_for(agent.send(reason), SEND_TIMEOUT_S)  # a text frame is the wire's error
        await asyncio.wait_for(agent.close(1011, reason[:100]), SEND_TIMEOUT_S)


def _read(message: str | bytes) -> dict[str, Any]:
    if isinstance(message, str):
        raise UserError("found a text frame, expected msgpack")
    return unpack_map(message)


def _actions(message: dict[str, Any]) -> Any:
    if "actions" not in message:
        raise UserError(f"found a frame with {', '.join(map(str, message)) or 'nothing'}, expected actions")
    return message["actions"]
