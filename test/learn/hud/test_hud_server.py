# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""HUD's wire on real sockets: agents in turns and in real time, and what an agent that errs is told."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import websockets

from remote_inference.base.errors import UserError
from remote_inference.learn.environments.runners import ThreadEnvironment, Timeouts
from remote_inference.learn.hud import server as hud_server
from remote_inference.learn.hud.episode import HudEnvironment
from remote_inference.learn.hud.server import HudServer
from remote_inference.server.frameworks.openpi import pack, unpack_map
from support.environments.line import STATE, Line

DEADLINE_S = 30.0


@dataclass
class Running:
    """A server, and a connection to its control channel."""

    url: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, line: bytes) -> dict[str, Any]:
        self.writer.write(line + b"\n")
        answer: dict[str, Any] = json.loads(await asyncio.wait_for(self.reader.readline(), DEADLINE_S))
        return answer

    async def call(self, method: str, **params: Any) -> Any:
        answer = await self.say(json.dumps({"id": 1, "method": method, "params": params}).encode())
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]

    async def connect(self, claim: str | None = None, frame: str | bytes | None = None) -> Agent:
        """Claim an episode by its token, or send another first frame."""
        socket = await websockets.connect(self.url, ping_interval=None)
        agent = Agent(socket)
        assert (await agent.read())["claim_required"] is True
        await socket.send(pack({"claim": claim}) if frame is None else frame)
        return agent


@dataclass
class Agent:
    """An agent's end of a connection."""

    socket: Any

    async def read(self) -> dict[str, Any]:
        message = await asyncio.wait_for(self.socket.recv(), DEADLINE_S)
        if isinstance(message, str):
            raise RuntimeError(message)
        return unpack_map(message)

    async def read_to_the_end(self) -> None:
        while True:
            await self.read()

    async def act(self, **message: Any) -> None:
        await self.socket.send(pack(message))


@asynccontextmanager
async def running(line: Line | None = None, *, real_time: bool = False) -> AsyncIterator[Running]:
    line = line or Line(rate_hz=50.0)
    async with serving(lambda: HudEnvironment(line), real_time=real_time) as found:
        yield found
    assert line.closed


@asynccontextmanager
async def serving(make: Callable[[], HudEnvironment], *, real_time: bool = False) -> AsyncIterator[Running]:
    server = HudServer(make, real_time=real_time)
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    ending = asyncio.create_task(server.run(port.set_result, stop))
    await asyncio.wait([ending, port], timeout=DEADLINE_S, return_when=asyncio.FIRST_COMPLETED)
    reader, writer = await asyncio.open_connection("127.0.0.1", port.result())
    try:
        yield Running(server.url, reader, writer)
    finally:
        writer.close()
        stop.set()
        await asyncio.wait_for(ending, DEADLINE_S)


def play(
    work: Callable[[Running], Awaitable[None]], line: Line | None = None, *, real_time: bool = False
) -> None:
    async def run() -> None:
        async with running(line, real_time=real_time) as found:
            await work(found)

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


def test_an_agent_takes_turns_until_the_episode_ends_and_the_control_channel_tells_the_score() -> None:
    async def work(found: Running) -> None:
        episode = await found.call("reset", task="slide", seed=10)
        agent = await found.connect(episode["token"])
        assert (await agent.read())[STATE] == pytest.approx(0.1)
        await agent.act(actions=np.array([0.5], np.float32))
        frame = await agent.read()
        assert (frame["terminated"], frame["reward"]) == (False, 0.0)
        await agent.act(actions=np.array([0.95], np.float32))
        assert (await agent.read())["terminated"] is True
        score = await found.call("result", token=episode["token"])
        assert (score["success"], score["score"], score["total_reward"]) == (True, 1.0, 1.0)

    play(work)


def test_in_real_time_observations_come_by_themselves_and_chunks_are_executed() -> None:
    async def work(found: Running) -> None:
        await found.call("reset")
        agent = await found.connect()
        indices = [(await agent.read())["meta"]["obs_index"] for _ in range(5)]
        assert indices == [0, 1, 2, 3, 4]
        await agent.act(actions=np.full((50, 1), 0.4, np.float32), obs_index=4, delay_used=0)
        while (frame := await agent.read())[STATE][0] != pytest.approx(0.4):
            assert not frame["terminated"]
        await agent.act(actions=np.full((50, 1), 0.95, np.float32))
        while not (await agent.read())["terminated"]:
            pass
        assert (await found.call("result"))["success"] is True

    play(work, real_time=True)


def test_in_real_time_the_clock_does_not_wait_for_an_agent_that_reads_nothing() -> None:
    """Its buffers and ours fill up while it computes; the frames of that time are left out."""
    line = Line(rate_hz=200.0, image=(480, 640, 3))

    async def work(found: Running) -> None:
        await found.call("reset")
        agent = await found.connect()
        while len(line.actions) < 150:  # 140 MB of frames
            await asyncio.sleep(0.01)
        index = -1
        for read in range(150):
            before, index = index, (await agent.read())["meta"]["obs_index"]
            if index > before + 1:
                return
            assert index == before + 1 == read
        pytest.fail("found every frame, expected that some are left out")

    play(work, line, real_time=True)


def test_a_chunk_for_an_episode_that_has_just_ended_is_no_error() -> None:
    """An agent sees the end only after it has answered the observation before it."""

    async def work(found: Running) -> None:
        await found.call("reset")
        agent = await found.connect()
        await agent.act(actions=np.full((50, 1), 0.95, np.float32))
        while not (await agent.read())["terminated"]:
            pass
        for _ in range(3):
            await agent.act(actions=np.full((50, 1), 0.4, np.float32))
            await asyncio.wait_for(await agent.socket.ping(), DEADLINE_S)
        await agent.socket.close()
        assert (await found.call("result"))["success"] is True

    play(work, real_time=True)


def test_an_agent_that_drops_leaves_the_slot_to_the_next() -> None:
    async def work(found: Running) -> None:
        await found.call("reset")
        agent = await found.connect()
        await agent.read()
        await agent.socket.close()
        agent = await found.connect()
        assert (await agent.read())["terminated"] is False
        await found.call("result")
        await found.call("reset", seed=20)
        await agent.socket.close()
        assert (await (await found.connect()).read())[STATE] == pytest.approx(0.2)

    play(work)


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ("hello", "found a text frame, expected msgpack"),
        (b"\xc1", "are not msgpack"),
        (pack({"actions": 1}), "found no claim"),
        (pack({"claim": 7}), "found no claim"),
        ("slot-9-beef", "found a text frame"),
        (pack({"claim": "slot-9-beef"}), "unknown episode token"),
    ],
)
def test_a_claim_that_cannot_be_used_is_refused_in_words(frame: str | bytes, problem: str) -> None:
    async def work(found: Running) -> None:
        await found.call("reset")
        agent = await found.connect(frame=frame)
        with pytest.raises(RuntimeError, match=problem):
            await agent.read()
        await agent.socket.wait_closed()
        assert (await (await found.connect()).read())["terminated"] is False

    play(work)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"action": np.zeros(1)}, "found a frame with action, expected actions"),
        ({"actions": np.zeros(2)}, r"line: action: found shape \[2\], expected \[1\]"),
        ({"actions": np.array([np.nan])}, "expected finite values"),
        ({"actions": np.array([-0.5])}, "the slider jams"),
        ({"actions": "left"}, "action: found 'left', expected an array of numbers"),
    ],
)
def test_an_action_that_cannot_be_applied_is_refused_in_words(message: dict[str, Any], problem: str) -> None:
    async def work(found: Running) -> None:
        await found.call("reset")
        agent = await found.connect()
        await agent.read()
        await agent.act(**message)
        with pytest.raises(RuntimeError, match=problem):
            await agent.read()
        await found.call("result")

    play(work)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"actions": np.zeros((3, 2))}, r"found shape \[3, 2\], expected \[rows, 1\]"),
        ({"actions": np.zeros((3, 1)), "obs_index": "two"}, "obs_index: found str"),
        ({"actions": np.zeros((3, 1)), "obs_index": 10_000}, "obs_index: found 10000"),
    ],
)
def test_a_chunk_that_cannot_be_executed_is_refused_in_words(message: dict[str, Any], problem: str) -> None:
    async def work(found: Running) -> None:
        await found.call("reset")
        agent = await found.connect()
        await agent.read()
        await agent.act(**message)
        with pytest.raises(RuntimeError, match=problem):
            await agent.read_to_the_end()

    play(work, real_time=True)


def test_a_second_agent_of_the_same_episode_is_refused() -> None:
    async def work(found: Running) -> None:
        await found.call("reset")
        first = await found.connect()
        await first.read()
        with pytest.raises(RuntimeError, match="the episode already has an agent"):
            await (await found.connect()).read()
        await first.act(actions=np.array([0.1], np.float32))
        assert (await first.read())[STATE] == pytest.approx(0.1)

    play(work)


def test_an_agent_without_an_episode_is_told_to_reset_one() -> None:
    async def work(found: Running) -> None:
        with pytest.raises(RuntimeError, match="reset one on the control channel first"):
            await (await found.connect()).read()

    play(work)


def test_a_silent_agent_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hud_server, "ACTION_TIMEOUT_S", 0.1)

    async def work(found: Running) -> None:
        await found.call("reset")
        agent = await found.connect()
        await agent.read()
        with pytest.raises(RuntimeError, match="timed out waiting for the agent"):
            await agent.read()

    play(work)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (b"reset", "Expecting value"),
        (b"[1]", "found no method"),
        (b'{"method": 7}', "found no method"),
        (b'{"method": "fly"}', "expected capabilities, contract, reset, result or url"),
        (b'{"method": "reset", "params": [1]}', "params: found list, expected an object"),
        (b'{"method": "reset", "params": {"wind": 3}}', "unexpected keyword argument 'wind'"),
        (b'{"method": "reset", "params": {"task": "fly"}}', "found task 'fly'"),
        (b'{"method": "result"}', "no episode is claimed"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_a_call_that_cannot_be_carried_out_is_answered_in_words(call: bytes, problem: str) -> None:
    async def work(found: Running) -> None:
        answer = await found.say(call)
        assert problem in answer["error"]["message"]
        assert (await found.call("contract"))["contract"]["robot_type"] == "line"

    play(work)


def test_a_line_without_end_closes_the_control_channel() -> None:
    async def work(found: Running) -> None:
        found.writer.write(b"x" * (hud_server.MAX_CALL_BYTES * 3))
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(found.reader.read(), DEADLINE_S) == b""

    play(work)


def test_a_port_that_is_taken_is_an_error_and_the_environment_is_closed() -> None:
    async def run() -> None:
        async with running() as found:
            line = Line()
            taken = int(found.url.rpartition(":")[2])
            server = HudServer(lambda: HudEnvironment(line), real_time=False)
            with pytest.raises(UserError, match="cannot listen on 127"):
                await server.run(lambda _: None, asyncio.Event(), taken)
            assert line.closed

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


def test_an_agent_that_is_left_while_a_frame_reaches_it_is_sent_nothing_more() -> None:
    """A cancellation that comes in the instant in which a frame was sent is lost by Python before 3.12."""

    async def leave() -> None:
        sent = asyncio.get_running_loop().create_future()

        class Socket:
            async def send(self, _: bytes) -> None:
                await sent

        frames = hud_server._NewestFrame(Socket())  # type: ignore[arg-type]  # what it needs of one
        frames.put({"terminated": False})
        sending = asyncio.create_task(frames.send())
        await asyncio.sleep(0.01)  # it is sending
        sent.set_result(None)
        await asyncio.sleep(0)  # sent, but not told yet
        frames.leave()
        sending.cancel()
        ended, _ = await asyncio.wait([sending], timeout=DEADLINE_S)
        assert ended

    asyncio.run(leave())


@pytest.mark.parametrize("real_time", [False, True])
def test_an_agent_that_stays_neither_blocks_the_next_one_nor_acts_for_it(real_time: bool) -> None:
    async def work(found: Running) -> None:
        first = await found.call("reset")
        old = await found.connect(first["token"])
        await old.read()
        await found.call("result", token=first["token"])
        second = await found.call("reset")
        agent = await found.connect(second["token"])
        assert (await agent.read())[STATE] == pytest.approx(0.0)
        with suppress(websockets.ConnectionClosed):
            await old.act(actions=np.array([[0.9]] if real_time else [0.9], np.float32))
        with pytest.raises((websockets.ConnectionClosed, RuntimeError)):
            await old.read_to_the_end()
        await agent.act(actions=np.array([[0.2]] * 50 if real_time else [0.2], np.float32))
        frame = await agent.read()
        while real_time and frame[STATE][0] == pytest.approx(0.0):
            frame = await agent.read()
        assert frame[STATE] == pytest.approx(0.2)

    play(work, real_time=real_time)


def test_an_error_of_the_simulator_is_told_on_the_control_channel() -> None:
    class Broken(Line):
        def reset(self, *_: Any) -> Any:
            raise RuntimeError("no such shelf")

    async def work(found: Running) -> None:
        with pytest.raises(RuntimeError, match="RuntimeError: no such shelf"):
            await found.call("reset")

    play(work, Broken(rate_hz=50.0))


def test_a_simulator_that_hangs_is_told_to_its_agent_and_keeps_nobody_from_ending() -> None:
    returns = threading.Event()

    class Hung(Line):
        def step(self, action: Any) -> Any:
            returns.wait()
            return super().step(action)

    async def work() -> None:
        def make() -> HudEnvironment:
            return HudEnvironment(ThreadEnvironment("line", Hung, Timeouts(step_s=0.2)))

        async with serving(make) as found:
            episode = await found.call("reset")
            agent = await found.connect(episode["token"])
            await agent.read()
            await agent.act(actions=np.array([0.5], np.float32))
            with pytest.raises(RuntimeError, match=r"line: step took longer than 0\.2 s"):
                await agent.read()
            with pytest.raises(RuntimeError, match="it hangs"):
                await found.call("result", token=episode["token"])

    try:
        asyncio.run(asyncio.wait_for(work(), DEADLINE_S))
    finally:
        returns.set()


def test_a_bridge_whose_simulator_is_still_loading_ends_when_it_is_asked_to() -> None:
    begun, returns = threading.Event(), threading.Event()

    def make() -> HudEnvironment:
        begun.set()
        returns.wait()
        raise AssertionError("nobody waits for it any more")

    async def work() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(HudServer(make, real_time=False).run(lambda _: None, stop))
        await asyncio.to_thread(begun.wait, DEADLINE_S)
        stop.set()
        await running

    try:
        asyncio.run(asyncio.wait_for(work(), DEADLINE_S))
    finally:
        returns.set()


def test_a_page_in_a_browser_reaches_neither_door():
    async def knock(server: Running) -> None:
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(server.url, origin="https://page.example")
        assert refused.value.response.status_code == 403
        call = json.dumps({"id": 1, "method": "reset", "params": {"seed": 1}}).encode() + b"\n"
        server.writer.write(b"POST / HTTP/1.1\r\nContent-Type: text/plain\r\n\r\n" + call)
        assert (await asyncio.wait_for(server.reader.read(), DEADLINE_S)).startswith(b"HTTP/1.1 403")

    play(knock)
