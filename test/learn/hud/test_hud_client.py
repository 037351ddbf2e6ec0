# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Our agent's side of HUD's wire: an episode with our own server, and bridges that err."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from websockets.sync.server import serve

from remote_inference.learn.hud.client import HudControl, HudError, HudRobot
from remote_inference.server.frameworks.openpi import pack
from support.environments.hud_gateway import hud_gateway
from support.environments.line import STATE, Line
from support.waiting import read_line

DEADLINE_S = 30.0
SHORT_S = 0.2


@pytest.fixture
def control_port() -> Iterator[int]:
    """The control channel of our server, which runs on another thread."""
    with hud_gateway(Line(), real_time=False) as port:
        yield port


@contextmanager
def bridge(handle: Callable[[Any], None]) -> Iterator[str]:
    """A WebSocket server that does what it is told; its address."""
    with serve(handle, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()


def test_an_episode_is_played_and_scored(control_port: int) -> None:
    with HudControl("127.0.0.1", control_port, DEADLINE_S) as control:
        episode = control.call("reset", seed=10)
        url = control.call("url")["url"]
        with HudRobot(url, episode["token"], DEADLINE_S) as robot:
            assert robot.observe()[STATE] == pytest.approx(0.1)
            robot.act(np.array([0.95], np.float32))
            assert robot.observe()["terminated"] is True
        assert control.call("result", token=episode["token"])["success"] is True


def test_an_error_of_the_control_channel_is_raised_in_its_words(control_port: int) -> None:
    with (
        HudControl("127.0.0.1", control_port, DEADLINE_S) as control,
        pytest.raises(HudError, match=r"reset: line: found task 'fly', expected 'slide' or 'slide back'"),
    ):
        control.call("reset", task="fly")


def test_a_claim_that_is_refused_is_raised_in_the_bridge_s_words(control_port: int) -> None:
    with HudControl("127.0.0.1", control_port, DEADLINE_S) as control:
        control.call("reset")
        url = control.call("url")["url"]
    with HudRobot(url, "slot-9", DEADLINE_S) as robot, pytest.raises(HudError, match="unknown episode token"):
        robot.observe()


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ("Traceback: the simulator is gone", "the simulator is gone"),
        (b"\xc1", "are not msgpack"),
        (pack([1, 2]), "expected a map"),
        (pack({"x": np.zeros(3)}).replace(b"<f8", b"|O8"), "dtype"),
        (None, "nothing within 0.2 s"),
    ],
)
def test_what_a_bridge_sends_is_not_trusted(frame: str | bytes | None, problem: str) -> None:
    ended = threading.Event()

    def handle(agent: Any) -> None:
        agent.send(pack({"claim_required": True}))
        agent.recv(DEADLINE_S)
        if frame is not None:
            agent.send(frame)
        ended.wait(DEADLINE_S)

    with bridge(handle) as url, HudRobot(url, None, SHORT_S) as robot:
        with pytest.raises(HudError, match=problem):
            robot.observe()
        ended.set()


def test_a_bridge_that_says_hello_never_is_given_up() -> None:
    ended = threading.Event()
    with bridge(lambda _: ended.wait(DEADLINE_S) and None) as url:
        with pytest.raises(HudError, match=r"nothing within 0\.2 s"):
            HudRobot(url, None, SHORT_S)
        ended.set()


def test_a_bridge_that_says_hello_too_late_is_given_up_and_may_be_asked_again() -> None:
    """What it then says to the agent that has left is not heard by the one that comes."""
    agents: list[Any] = []
    second = threading.Event()

    def handle(agent: Any) -> None:
        agents.append(agent)
        _ = second.set() if len(agents) > 1 else second.wait(DEADLINE_S)
        agent.send(pack({"claim_required": True}))
        agent.send(pack({"terminated": agent is agents[0]}))
        agent.recv(DEADLINE_S)

    with bridge(handle) as url:
        with pytest.raises(HudError, match=r"nothing within 0\.2 s"):
            HudRobot(url, None, SHORT_S)
        with HudRobot(url, None, DEADLINE_S) as robot:
            assert robot.observe() == {"terminated": False}


FROZEN = """
import os, signal, time
from websockets.sync.server import serve
def freeze(agent):
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)  # this thread may run on for a moment, and must not say goodbye
with serve(freeze, "127.0.0.1", 0) as server:
    print(server.socket.getsockname()[1], flush=True)
    server.serve_forever()
"""


def test_a_bridge_that_is_frozen_is_not_waited_for_when_it_is_left() -> None:
    """It would have to answer the agent's goodbye, for which the library waits ten seconds."""
    process = subprocess.Popen([sys.executable, "-c", FROZEN], stdout=subprocess.PIPE, text=True)
    try:
        url = f"ws://127.0.0.1:{int(read_line(process))}"
        begin_s = time.monotonic()
        with pytest.raises(HudError, match=r"nothing within 0\.2 s"):
            HudRobot(url, None, SHORT_S)
        assert time.monotonic() - begin_s < 10.0
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "found nothing, expected an answer"),
        (b"hello\n", "Expecting value"),
        (b"[1]\n", "expected an answer"),
        (b'{"result": 3}\n', "found 3, expected a map"),
        (b'{"error": "busy"}\n', "contract: busy"),
        (None, "timed out"),
    ],
)
def test_what_a_control_channel_answers_is_not_trusted(answer: bytes | None, problem: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def serve_one() -> None:
            connection, _ = listening.accept()
            connection.recv(1000)
            if answer is not None:
                connection.sendall(answer)
            else:
                ended.wait(DEADLINE_S)
            connection.close()

        thread = threading.Thread(target=serve_one, daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        with HudControl("127.0.0.1", port, SHORT_S) as control, pytest.raises(HudError, match=problem):
            control.call("contract")
        ended.set()
        thread.join(DEADLINE_S)


def test_a_control_channel_that_is_not_there_is_named() -> None:
    with pytest.raises(HudError, match=r"HUD control channel 127\.0\.0\.1:9"):
        HudControl("127.0.0.1", 9, SHORT_S)
