# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Links of several trainers to one server: what goes wrong on one of them costs the others nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pytest
from weight_links import in_process

from remote_inference.learn.weights import (
    Link,
    Reason,
    ReceiverPump,
    ReceiverState,
    SenderConfig,
    WeightReceiver,
    receiver as receiver_module,
)
from remote_inference.learn.weights.frames import (
    SCHEMA,
    Frame,
    Kind,
    Refused,
    pack_frame,
    read_frame,
    read_refused,
)
from remote_inference.learn.weights.ledger import Ledger
from support.waiting import DEADLINE_S, wait_until
from support.weights.weight_models import frames_of

FIRST, SECOND = b"trainer1", b"trainer2"


def make_model(value: float) -> dict[str, np.ndarray]:
    return {"w": np.full(4096, value, np.float32)}


def hello_of_another_schema(sender: bytes) -> bytes:
    """Return a greeting that is whole, by a later version of the protocol."""
    head = bytearray(pack_frame(Kind.HELLO, sender)[:13])
    head[3] = SCHEMA + 1
    return bytes(head) + hashlib.sha256(head).digest()


class Server:
    """A receiver and its pump, with trainers that speak in raw frames."""

    def __init__(self) -> None:
        self.receiver = WeightReceiver(make_model(0.0), report=lambda _: self.tell())
        self.pump = ReceiverPump(self.receiver)
        self.tell = lambda: None
        ledger = Ledger(self.receiver.table, make_model(1.0), 1, SenderConfig("bucket", 4096))
        self._update = ledger.find_update(0, 0, True)
        self._stranger = self.connect()

    def connect(self) -> Link:
        there, here = in_process()
        self.pump.add(here)
        return there

    def greet(self, sender: bytes) -> Link:
        """Return a new link by which a trainer has greeted the server."""
        link = self.connect()
        link.send(pack_frame(Kind.HELLO, sender), DEADLINE_S)
        assert hear(link).kind is Kind.WELCOME
        return link

    def frames(self, sender: bytes = FIRST) -> list[bytes]:
        """Return those of an update in several parts."""
        assert self._update is not None
        return frames_of(self._update, sender)

    def begin(self, link: Link) -> list[bytes]:
        """Send half an update; return the frames that are left."""
        first, second, *rest = self.frames()
        send(link, [first, second])
        wait_until(lambda: self.receiver.state is ReceiverState.STAGING, "the update has begun")
        return rest

    def end(self, link: Link, rest: list[bytes]) -> None:
        """Send the rest of an update; require that it is served, and that nothing else was said."""
        send(link, rest)
        wait_until(lambda: self.receiver.state is ReceiverState.STAGED, "the update is whole")
        assert self.receiver.apply() == 1
        assert hear(link).kind is Kind.APPLIED

    def go_round(self) -> None:
        """Wait until the pump has looked at every link often enough to read what had come, and an end."""
        for _ in range(4):
            self._stranger.send(b"", DEADLINE_S)
            hear(self._stranger)


def send(link: Link, frames: list[bytes]) -> None:
    for frame in frames:
        link.send(frame, DEADLINE_S)


def hear(link: Link) -> Frame:
    return read_frame(link.receive(DEADLINE_S))


def hear_refusal(link: Link) -> Refused:
    frame = hear(link)
    assert frame.kind is Kind.REFUSED
    return read_refused(frame)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.pump.close()


# -- whose a frame is ----------------------------------------------------------------------------------------


def test_a_trainer_of_another_schema_is_told_so(server: Server):
    link = server.connect()
    link.send(hello_of_another_schema(SECOND), DEADLINE_S)
    answer = hear(link)
    assert (answer.sender, read_refused(answer).reason) == (SECOND, Reason.SCHEMA)


@pytest.mark.parametrize("state", [ReceiverState.STAGING, ReceiverState.STAGED])
@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        (hello_of_another_schema(SECOND), Reason.SCHEMA),
        (hello_of_another_schema(FIRST), Reason.SCHEMA),
        (pack_frame(Kind.HELLO, SECOND)[:-1], Reason.FRAME),
        (pack_frame(Kind.HELLO, FIRST)[:-1] + b"?", Reason.FRAME),
        (b"garbage" * 9, Reason.FRAME),
        (b"", Reason.FRAME),
    ],
    ids=[
        "schema",
        "schema, in the first's name",
        "short",
        "spoiled, in the first's name",
        "garbage",
        "empty",
    ],
)
def test_what_cannot_be_read_is_charged_to_the_link_it_came_by(
    server: Server, state: ReceiverState, spoiled: bytes, reason: Reason
):
    first, second = server.greet(FIRST), server.connect()
    rest = server.begin(first)
    if state is ReceiverState.STAGED:
        send(first, rest)
        wait_until(lambda: server.receiver.state is state, "the update is whole")
        rest = []
    second.send(spoiled, DEADLINE_S)
    assert hear_refusal(second).reason is reason
    server.end(first, rest)


def test_what_cannot_be_read_of_the_trainer_s_own_link_ends_its_update(server: Server):
    link = server.greet(FIRST)
    server.begin(link)
    link.send(b"garbage" * 9, DEADLINE_S)
    answer = hear(link)
    assert answer.sender == FIRST
    assert (read_refused(answer).version, read_refused(answer).reason) == (1, Reason.FRAME)
    assert server.receiver.state is ReceiverState.READY


# -- a trainer that has come back by another link ------------------------------------------------------------


def test_the_late_end_of_a_trainer_s_old_link_costs_nothing(server: Server):
    old = server.greet(FIRST)
    new = server.greet(FIRST)
    rest = server.begin(new)
    old.close()
    server.go_round()
    server.end(new, rest)


def test_what_comes_late_by_a_trainer_s_old_link_costs_nothing(server: Server):
    old = server.greet(FIRST)
    new = server.greet(FIRST)
    rest = server.begin(new)
    for late in (*server.frames()[1:3], pack_frame(Kind.RELEASE, FIRST)):
        old.send(late, DEADLINE_S)
        refused = hear_refusal(old)
        assert refused.reason is Reason.CLAIMED
        assert "which updates this server by another link" in refused.text
    server.end(new, rest)


def test_a_trainer_whose_link_ends_gives_its_place_up_at_once(server: Server):
    first = server.greet(FIRST)
    server.begin(first)
    first.close()
    wait_until(lambda: server.receiver.state is ReceiverState.IDLE, "the trainer's place is free")
    second = server.greet(SECOND)
    server.end(second, server.frames(SECOND))


# -- what nobody foresaw -------------------------------------------------------------------------------------


def test_an_update_that_fails_in_an_unforeseen_way_is_refused_and_the_next_is_taken(
    server: Server, caplog: pytest.LogCaptureFixture
):
    link = server.greet(FIRST)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(receiver_module, "check_values", lambda *_: 1 // 0)
        send(link, server.frames())
        refused = hear_refusal(link)
    assert (refused.version, refused.reason) == (1, Reason.FAILED)
    assert refused.text.startswith("update 1: the server failed: ZeroDivisionError: ")
    assert "ZeroDivisionError" in caplog.text
    server.end(link, server.frames())


class _BrokenLink:
    """Fails in a way that no link should."""

    def send(self, frame: bytes, timeout_s: float) -> None:
        raise OSError("a broken link")

    def receive(self, timeout_s: float) -> bytes:
        raise OSError("a broken link")

    def close(self) -> None:
        raise OSError("a broken link")


def test_a_link_that_fails_in_an_unforeseen_way_ends_and_the_others_go_on(
    server: Server, caplog: pytest.LogCaptureFixture
):
    link = server.greet(FIRST)
    rest = server.begin(link)
    server.pump.add(_BrokenLink())
    wait_until(lambda: "the link to a trainer cannot be closed" in caplog.text, "the broken link has ended")
    server.end(link, rest)


def test_a_trainer_is_answered_when_the_server_cannot_tell_others_what_became_of_it(
    server: Server, caplog: pytest.LogCaptureFixture
):
    link = server.greet(FIRST)
    server.tell = lambda: 1 // 0
    link.send(b"garbage", DEADLINE_S)
    assert hear_refusal(link).reason is Reason.FRAME
    server.tell = lambda: None
    wait_until(lambda: "it goes on" in caplog.text, "the log says what failed")
    server.go_round()


def test_accepting_goes_on_after_an_unforeseen_failure():
    there, here = in_process()
    links = iter([here])
    receiver = WeightReceiver(make_model(0.0))
    failures = iter([OSError("no room"), MemoryError()])

    def accept(timeout_s: float) -> Link:
        if failure := next(failures, None):
            raise failure
        if link := next(links, None):
            return link
        raise TimeoutError

    pump = ReceiverPump(receiver, accept)
    there.send(pack_frame(Kind.HELLO, FIRST), DEADLINE_S)
    assert hear(there).kind is Kind.WELCOME
    pump.close()
