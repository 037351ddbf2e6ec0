# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Weights go over ROS to a server in another process: bit by bit, and whoever dies in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rclpy.node import Node
from typing_extensions import Self

from remote_inference.base.nodes.deferred_service import DeferredResponse, create_deferred_service
from remote_inference.base.nodes.executors import make_executor
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire.qos import WEIGHTS_QOS, WEIGHTS_TOPIC
from remote_inference.learn.nodes.weights_link import NOT_LISTENING, TrainerLinks, connect
from remote_inference.learn.weights import (
    Link,
    LinkClosedError,
    Reason,
    SenderConfig,
    WeightSender,
    WeightsError,
)
from remote_inference.learn.weights.fragment_link import LEASE_S, PING_S
from remote_inference.msg import WeightsFragment
from remote_inference.srv import OpenWeightsLink
from support.importable import python_path
from support.nodes.ros_weights import DEADLINE_S, Tensors, change, make_tensors
from support.waiting import read_line, wait_until

SERVER = "/receiver"
SHARES = (0.001, 0.02, 0.0, 1.0, 0.2)


class Receiver:
    """The server's process, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with (self._folder / "receiver.log").open("ab") as log:
            self._process = run("weights_receiver", stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_S)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            assert self._process.wait(DEADLINE_S) == 0, (self._folder / "receiver.log").read_text()


def run(module: str, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"support.nodes.{module}", *arguments]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": python_path()}, **streams)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path)
    yield made
    made.close()


class Trainer:
    """Sends tensors of its own."""

    def __init__(self, **config: Any) -> None:
        self.tensors: Tensors = make_tensors(seed=2)
        config.setdefault("answer_s", DEADLINE_S)
        self.sender = WeightSender(lambda: self.tensors, SenderConfig(**config))

    def begin(self) -> WeightsError | None:
        """Send what there is; return why that is impossible."""
        try:
            self.sender.init_sender({"server": partial(connect, SERVER, DEADLINE_S)})
        except WeightsError as error:
            return error
        return None

    def sync(self) -> Reason | None:
        """Send the tensors as a new version; return why the server has them not, or None."""
        self.sender.sync(self.sender.version + 1)
        return self.sender.wait(DEADLINE_S)["server"].reason

    def is_current(self) -> bool:
        return self.sender.statuses["server"].is_current


def serves(tensors: Tensors) -> bool:
    """Return whether the server has exactly these tensors: a new trainer with them need send none."""
    asking = Trainer()
    asking.tensors = tensors
    assert asking.begin() is None
    status = asking.sender.wait(DEADLINE_S)["server"]
    asking.sender.close()
    return status.is_current and status.size == 0


@pytest.mark.parametrize(
    "config",
    [{"strategy": "patch"}, {"strategy": "bucket", "bucket_size": 1 << 20}, {"compression": "zstd"}],
    ids=("patch", "bucket", "zstd"),
)
def test_after_every_update_the_server_has_the_trainer_s_bits(receiver: Receiver, config: dict[str, Any]):
    trainer, random = Trainer(**config), np.random.default_rng(5)
    assert trainer.begin() is None
    for share in SHARES:
        change(trainer.tensors, share, random)
        assert trainer.sync() is None  # the server's digest is that of the trainer's tensors
        assert trainer.is_current()
    trainer.sender.close()
    assert serves(trainer.tensors)


def test_a_server_that_was_killed_gets_everything_when_it_is_back(receiver: Receiver):
    trainer, random = Trainer(), np.random.default_rng(5)
    assert trainer.begin() is None
    assert trainer.sync() is None
    receiver.kill()
    receiver.start()

    def reaches_it() -> bool:
        change(trainer.tensors, 0.01, random)
        return trainer.sync() is None and trainer.is_current()

    wait_until(reaches_it, "the new server has the newest weights", DEADLINE_S)
    trainer.sender.close()
    assert serves(trainer.tensors)


class InterruptedLink:
    """A trainer's link, after some frames of which something happens, once."""

    def __init__(self, link: Link, frames: int, happens: Callable[[], None]) -> None:
        self._link, self._left, self._happens = link, frames, happens

    def send(self, frame: bytes, timeout_s: float) -> None:
        self._link.send(frame, timeout_s)
        self._left -= 1
        if self._left == 0:
            self._happens()

    def receive(self, timeout_s: float) -> bytes:
        return self._link.receive(timeout_s)

    def close(self) -> None:
        self._link.close()


@pytest.mark.parametrize("is_back_at_once", [False, True], ids=["stays away", "back at once"])
def test_a_server_that_is_killed_in_the_middle_of_an_update_gets_everything_when_it_is_back(
    receiver: Receiver, is_back_at_once: bool
):
    """A hello, a header and one part of four: the rest goes to nobody, or to a server that knows no link."""
    trainer = Trainer(bucket_size=1 << 20)
    frames = [3]  # of the first link

    def restart() -> None:
        receiver.kill()
        if is_back_at_once:
            receiver.start()

    def interrupted() -> Link:
        left = frames.pop() if frames else 0
        return InterruptedLink(connect(SERVER, DEADLINE_S), left, restart)

    trainer.sender.init_sender({"server": interrupted})
    status = trainer.sender.wait(DEADLINE_S)["server"]
    assert (status.reason, status.is_current, status.updates) == (Reason.TRANSPORT, False, 0)
    assert "receiver" in status.text
    if not is_back_at_once:
        receiver.start()
    assert serves(make_tensors()), "what it was started with"

    change(trainer.tensors, 0.01, np.random.default_rng(5))
    wait_until(lambda: trainer.sync() is None, "the new server has the newest weights", DEADLINE_S)
    status = trainer.sender.statuses["server"]
    assert (status.is_current, status.updates, status.full_updates) == (True, 1, 1)
    trainer.sender.close()
    assert serves(trainer.tensors)


def test_a_trainer_that_is_killed_in_the_middle_frees_its_place_and_changes_nothing(receiver: Receiver):
    dying = run("weights_trainer", SERVER, stdout=subprocess.PIPE)
    assert read_line(dying, DEADLINE_S) == b"in the middle\n"
    other = Trainer()
    error = other.begin()
    assert error is not None
    assert error.reason is Reason.CLAIMED
    dying.kill()
    dying.communicate(timeout=DEADLINE_S)
    wait_until(lambda: other.begin() is None, f"a place after {LEASE_S:g} s of silence", DEADLINE_S)
    status = other.sender.wait(DEADLINE_S)["server"]
    assert status.is_current
    assert status.version == 1, "nothing of the first trainer's update was served"
    other.sender.close()


def test_of_two_trainers_one_is_heard_until_it_goes(receiver: Receiver):
    first, second = Trainer(), Trainer()
    assert first.begin() is None
    error = second.begin()
    assert error is not None
    assert error.reason is Reason.CLAIMED
    assert first.sync() is None
    first.sender.close()
    change(second.tensors, 0.5, np.random.default_rng(5))
    wait_until(lambda: second.begin() is None, "the first one's place")
    assert second.sync() is None
    second.sender.close()
    assert serves(second.tensors)


def test_two_links_of_one_server_are_open_at_once(receiver: Receiver):
    links = [connect(SERVER, DEADLINE_S), connect(SERVER, DEADLINE_S)]
    for link in links:
        link.close()
        link.close()
    with pytest.raises(LinkClosedError, match="/receiver: the link is closed"):
        links[0].send(b"frame", 1.0)


def test_a_server_that_is_not_there_is_waited_for_no_longer_than_asked():
    with pytest.raises(TimeoutError):
        connect("/nobody", 0.2)


def test_a_name_that_cannot_be_is_refused():
    with pytest.raises(LinkClosedError, match="/no such name: cannot be reached"):
        connect("no such name", 0.2)


# -- the server's node alone -------------------------------------------------------------------------------


class Spinning:
    """Spins a node in a thread; a context manager."""

    def __init__(self, node: Node, schedule: TimerSchedule) -> None:
        executor, _ = make_executor("single", node.context)
        executor.add_node(node)
        self._executor, self._schedule, self._ends = executor, schedule, threading.Event()
        self._thread = threading.Thread(target=self._spin)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(DEADLINE_S)
        self._executor.shutdown(1.0)

    def _spin(self) -> None:
        while not self._ends.is_set():
            self._executor.spin_once(min(0.1, self._schedule.wait_s()))
            self._schedule.run_due()


def test_a_server_that_accepts_no_weights_says_so_and_has_no_topic_for_them(node: Node):
    schedule = TimerSchedule()
    TrainerLinks(node, schedule)
    with Spinning(node, schedule):
        with pytest.raises(LinkClosedError, match=f"/test_node: {NOT_LISTENING}"):
            connect("/test_node", DEADLINE_S)
        assert not node.get_subscriptions_info_by_topic("/test_node/weights")


def test_a_trainer_learns_that_the_server_listens_no_more_and_its_topics_go(node: Node):
    schedule = TimerSchedule()
    table = TrainerLinks(node, schedule).listen()
    with Spinning(node, schedule):
        link = connect("/test_node", DEADLINE_S)
        table.accept(DEADLINE_S)
        table.close()
        with pytest.raises(LinkClosedError, match="/test_node: the other end has gone"):
            link.receive(DEADLINE_S)
        link.close()
        wait_until(lambda: not node.get_subscriptions_info_by_topic("/test_node/weights"), "no topic")
        with pytest.raises(LinkClosedError, match=NOT_LISTENING):
            connect("/test_node", DEADLINE_S)


def test_a_message_that_makes_no_sense_is_left_out(node: Node):
    """Here a kind that does not exist; what fragments may say is tested without ROS."""
    schedule = TimerSchedule()
    table = TrainerLinks(node, schedule).listen()
    with Spinning(node, schedule):
        stranger = node.create_publisher(WeightsFragment, "/test_node/weights", WEIGHTS_QOS)
        wait_until(lambda: stranger.get_subscription_count() > 0, "the server listens")
        stranger.publish(WeightsFragment(link_id="a", kind=99))
        link = connect("/test_node", DEADLINE_S)
        link.send(b"frame", DEADLINE_S)
        assert table.accept(DEADLINE_S).receive(DEADLINE_S) == b"frame"
        link.close()


def test_a_request_whose_answer_is_lost_is_sent_again(node: Node):
    asked: list[str] = []

    def answer_the_second(request: OpenWeightsLink.Request, answer: DeferredResponse) -> None:
        asked.append(request.link_id)
        if len(asked) == 2:
            answer.send(OpenWeightsLink.Response(message="asked twice"))

    create_deferred_service(node, OpenWeightsLink, "~/open_weights_link", answer_the_second)
    with Spinning(node, TimerSchedule()), pytest.raises(LinkClosedError, match="/test_node: asked twice"):
        connect("/test_node", DEADLINE_S)
    assert len(set(asked)) == 1


def test_nothing_is_sent_before_the_server_has_opened_the_link(node: Node):
    """A message of a link that it does not know yet is answered by that link's end."""
    asked_s: list[float] = []
    heard: list[WeightsFragment] = []
    node.create_subscription(WeightsFragment, f"~/{WEIGHTS_TOPIC}", heard.append, WEIGHTS_QOS)

    def answer_late(request: OpenWeightsLink.Request, answer: DeferredResponse) -> None:
        asked_s.append(time.monotonic())
        if asked_s[-1] - asked_s[0] > 2 * PING_S:
            refusal = f"heard {len(heard)} messages"
            answer.send(OpenWeightsLink.Response(message=refusal))

    create_deferred_service(node, OpenWeightsLink, "~/open_weights_link", answer_late)
    with (
        Spinning(node, TimerSchedule()),
        pytest.raises(LinkClosedError, match="/test_node: heard 0 messages"),
    ):
        connect("/test_node", DEADLINE_S)
