# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames in messages: whole and in order, or the link ends; whatever the network or the other end does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from remote_inference.learn.weights import LinkClosedError, SenderConfig, WeightSyncer
from remote_inference.learn.weights.fragment_link import (
    DISCOVERY_S,
    FRAGMENT_BYTES,
    LEASE_S,
    MAX_FRAGMENT_BYTES,
    MAX_LINKS,
    PROTOCOL,
    WINDOW,
    Fragment,
    FragmentKind,
    FragmentLink,
    LinkTable,
)
from remote_inference.learn.weights.frames import MAX_FRAME_BYTES
from support.waiting import wait_until
from support.weights.weight_models import Served, bits_of, change, copy_of, make_model, updates

DEADLINE_S = 30.0
LINK = "0123456789abcdef"
KINDS = (("bfloat16", (60, 70)), ("float32", (500,)), ("int64", ()), ("bool", (40, 30)))
SIZES = (0, 1, 1000, FRAGMENT_BYTES - 1, FRAGMENT_BYTES, FRAGMENT_BYTES + 1, 3 * FRAGMENT_BYTES + 5)
frames = st.lists(st.sampled_from(SIZES), min_size=1, max_size=4)  # at most WINDOW pieces


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Network:
    """Two ends, and what lies between them. spoil: returns what becomes of a piece with frames' bytes."""

    def __init__(
        self,
        spoil: Callable[[Fragment], list[Fragment]] = lambda piece: [piece],
        *,
        loses_taken: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.published: list[Fragment] = []  # by the trainer
        self._spoil, self._loses_taken = spoil, loses_taken
        clocks = (clock,) if clock else ()
        self.trainer = FragmentLink("server", LINK, self._there, *clocks)
        self.server = FragmentLink("trainer", LINK, self._back, *clocks)

    def _there(self, piece: Fragment) -> None:
        self.published.append(piece)
        for left in self._spoil(piece) if piece.kind is FragmentKind.DATA else [piece]:
            self.server.put(left)

    def _back(self, piece: Fragment) -> None:
        if not (self._loses_taken and piece.kind is FragmentKind.TAKEN):
            self.trainer.put(piece)

    def send(self, sizes: list[int]) -> list[bytes]:
        sent = [bytes([number % 251]) * size for number, size in enumerate(sizes, 1)]
        for frame in sent:
            self.trainer.send(frame, 0.0)
        return sent

    def receive_all(self) -> tuple[list[bytes], Exception]:
        """Return the frames that arrive, and what came after them."""
        received: list[bytes] = []
        while not isinstance(last := self._receive_or_error(), Exception):
            received.append(last)
        return received, last

    def receive(self) -> bytes:
        """Return the next frame, of which everything has come: who must not wait reads piece by piece."""
        for _ in range(WINDOW):
            with suppress(TimeoutError):
                return self.server.receive(0.0)
        return self.server.receive(0.0)

    def _receive_or_error(self) -> bytes | Exception:
        try:
            return self.receive()
        except (LinkClosedError, TimeoutError) as error:
            return error


def piece_count(sizes: list[int]) -> int:
    return sum(max(1, -(-size // FRAGMENT_BYTES)) for size in sizes)


# -- what a network does -----------------------------------------------------------------------------------


@settings(max_examples=40)
@given(frames, st.sets(st.integers(0, WINDOW)))
def test_frames_arrive_whole_and_in_order_and_a_piece_that_comes_twice_counts_once(sizes, twice):
    network = Network(lambda piece: [piece] * (1 + (piece.seq in twice)))
    sent = network.send(sizes)
    received, error = network.receive_all()
    assert received == sent
    assert isinstance(error, TimeoutError)


@settings(max_examples=40)
@given(frames, st.data())
def test_after_a_lost_piece_no_frame_arrives_and_the_link_ends(sizes, data):
    count = piece_count(sizes)
    lost = data.draw(st.integers(0, count - 1))
    network = Network(lambda piece: [] if piece.seq == lost else [piece])
    sent = network.send(sizes)
    received, error = network.receive_all()
    assert received == sent[: len(received)]
    assert piece_count(sizes[: len(received)]) <= lost
    if lost == count - 1:  # nothing has shown it yet
        assert isinstance(error, TimeoutError)
    else:
        assert str(error) == f"trainer: piece {lost} is lost: found piece {lost + 1}"


@settings(max_examples=40)
@given(frames.filter(lambda sizes: piece_count(sizes) > 1), st.data())
def test_pieces_in_another_order_never_make_another_frame(sizes, data):
    pieces: list[Fragment] = []
    network = Network(lambda piece: pieces.append(piece) or [])
    sent = network.send(sizes)
    for piece in data.draw(st.permutations(pieces)):
        network.server.put(piece)
    received, _ = network.receive_all()
    assert received == sent[: len(received)]


def test_the_sender_waits_when_a_window_of_pieces_is_unread():
    network = Network()
    frame = bytes(range(256)) * (2 * WINDOW * FRAGMENT_BYTES // 256)
    with pytest.raises(TimeoutError):
        network.trainer.send(frame, 0.05)
    assert len(network.published) == WINDOW


def test_a_frame_of_more_than_a_window_arrives_while_it_is_read():
    network = Network()
    frame = bytes(range(256)) * (2 * WINDOW * FRAGMENT_BYTES // 256)
    sender = threading.Thread(target=network.trainer.send, args=(frame, DEADLINE_S))
    sender.start()
    received = network.server.receive(DEADLINE_S)
    sender.join(DEADLINE_S)
    assert received == frame


def test_an_end_that_reads_keeps_its_time_though_pieces_have_come():
    """A server's thread reads the links of several trainers in turn."""
    network = Network()
    (frame,) = network.send([2 * FRAGMENT_BYTES])
    with pytest.raises(TimeoutError):
        network.server.receive(0.0)
    assert network.server.receive(0.0) == frame


def test_a_lost_word_of_pieces_read_is_said_again_with_the_next():
    network = Network(loses_taken=True)
    for _ in range(WINDOW):
        network.send([1000])
    network.receive_all()
    with pytest.raises(TimeoutError):
        network.trainer.send(b"x", 0.0)
    network.trainer.ping()
    network.trainer.send(b"x", 0.0)


def test_a_late_word_of_fewer_pieces_read_takes_no_room_away():
    network = Network()
    for _ in range(WINDOW):
        network.send([1000])
    network.receive_all()
    network.trainer.put(Fragment(LINK, FragmentKind.TAKEN, 1))
    for _ in range(WINDOW):
        network.send([1000])


# -- what the other end does -------------------------------------------------------------------------------

GOOD = Fragment(LINK, FragmentKind.DATA, 0, 0, 10, b"12345")


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([replace(GOOD, offset=1)], "piece 0: found bytes 1 to 6 of 10, expected some from 0 on of 10"),
        ([replace(GOOD, size=4)], "piece 0: found bytes 0 to 5 of 4, expected some from 0 on of 4"),
        ([replace(GOOD, data=b"")], "piece 0: found bytes 0 to 0 of 10, expected some from 0 on of 10"),
        ([GOOD, replace(GOOD, seq=1)], "piece 1: found bytes 0 to 5 of 10, expected some from 5 on of 10"),
        (
            [GOOD, replace(GOOD, seq=1, offset=5, size=11)],
            "piece 1: found bytes 5 to 10 of 11, expected some from 5 on of 10",
        ),
        (
            [replace(GOOD, size=MAX_FRAME_BYTES + 1)],
            f"found a frame of {MAX_FRAME_BYTES + 1} bytes, expected {MAX_FRAME_BYTES} at most",
        ),
        (
            [replace(GOOD, size=MAX_FRAME_BYTES, data=bytes(MAX_FRAGMENT_BYTES + 1))],
            f"piece 0: found {MAX_FRAGMENT_BYTES + 1} bytes, expected {MAX_FRAGMENT_BYTES} at most",
        ),
        (
            [replace(GOOD, seq=seq, size=1, data=b"1") for seq in range(WINDOW + 1)],
            f"found more than {WINDOW} pieces that were not asked for",
        ),
    ],
)
def test_a_piece_that_does_not_fit_ends_the_link(pieces: list[Fragment], text: str):
    network = Network()
    for piece in pieces:
        network.server.put(piece)
    _, error = network.receive_all()
    assert isinstance(error, LinkClosedError)
    assert str(error) == f"trainer: {text}"
    with pytest.raises(LinkClosedError, match="trainer: "):
        network.server.send(b"x", 0.0)
    network.server.close()
    with pytest.raises(LinkClosedError, match="server: the other end has gone"):
        network.trainer.send(b"x", 0.0)


fragments = st.builds(
    Fragment,
    link_id=st.just(LINK),
    kind=st.sampled_from(sorted(set(FragmentKind) - {FragmentKind.CLOSE})),
    seq=st.integers(0, 5) | st.integers(0, 2**64 - 1),
    offset=st.integers(0, 10) | st.integers(0, 2**64 - 1),
    size=st.integers(0, 10) | st.integers(0, 2**64 - 1),
    data=st.binary(max_size=12),
)


@given(st.lists(fragments, max_size=30))
def test_nothing_that_comes_raises_anything_else_than_the_end_of_the_link(pieces):
    network = Network()
    for piece in pieces:
        network.server.put(piece)
    _, error = network.receive_all()
    assert isinstance(error, LinkClosedError | TimeoutError)
    if isinstance(error, TimeoutError):  # what it says about pieces read gives no room that there is not
        with pytest.raises(TimeoutError):
            network.server.send(bytes((WINDOW + 1) * FRAGMENT_BYTES), 0.0)


def test_what_was_sent_before_an_end_closed_is_read_before_the_end():
    network = Network()
    (frame,) = network.send([1000])
    network.trainer.close()
    assert network.receive() == frame
    with pytest.raises(LinkClosedError, match="trainer: the other end has gone"):
        network.receive()
    with pytest.raises(LinkClosedError, match="server: the link is closed"):
        network.trainer.send(b"x", 0.0)


def test_an_end_that_waits_learns_at_once_that_the_other_has_gone():
    network = Network()
    ended: list[Exception] = []

    def wait() -> None:
        try:
            network.trainer.receive(DEADLINE_S)
        except LinkClosedError as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    network.server.close()
    waiting.join(DEADLINE_S / 2)
    assert [str(error) for error in ended] == ["server: the other end has gone"]


def test_an_end_that_is_silent_is_given_up_and_one_that_pings_is_not():
    clock = Clock()
    network = Network(clock=clock)
    clock.now_s += 0.9 * LEASE_S
    network.trainer.ping()
    clock.now_s += 0.9 * LEASE_S
    network.trainer.tend()  # it heard the answer to its ping
    network.server.tend()
    assert not network.trainer.end
    assert not network.server.end
    clock.now_s += 0.2 * LEASE_S
    network.server.tend()
    with pytest.raises(LinkClosedError, match=f"trainer: received nothing for {LEASE_S:g} s"):
        network.receive()


def test_an_end_that_was_never_heard_is_waited_for_as_long_as_discovery_may_take():
    clock = Clock()
    link = FragmentLink("server", LINK, lambda _: None, clock)
    clock.now_s += 2 * LEASE_S
    link.tend()
    assert not link.end
    link.put(Fragment(LINK, FragmentKind.PONG))
    clock.now_s += LEASE_S + 0.1
    link.tend()
    assert link.end
    link = FragmentLink("server", LINK, lambda _: None, clock)
    clock.now_s += DISCOVERY_S + 0.1
    link.tend()
    with pytest.raises(LinkClosedError, match=f"server: received nothing for {DISCOVERY_S:g} s"):
        link.receive(0.0)


def test_a_greeting_ends_with_the_answer_or_in_time():
    Network().trainer.greet(DEADLINE_S)
    with pytest.raises(TimeoutError):
        FragmentLink("server", LINK, lambda _: None).greet(0.1)


# -- a server's links --------------------------------------------------------------------------------------


class Tower:
    """A server's table and trainers' links to it."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.trainers: dict[str, FragmentLink] = {}
        self.said: list[Fragment] = []
        self._clocks = (clock,) if clock else ()
        self.restart()

    def restart(self) -> None:
        self.table = LinkTable(self._back, *self._clocks)

    def put(self, fragment: Fragment) -> None:
        """Take what a trainer publishes."""
        self.table.put(fragment)

    def _back(self, fragment: Fragment) -> None:
        self.said.append(fragment)
        if fragment.link_id in self.trainers:
            self.trainers[fragment.link_id].put(fragment)

    def open(self, name: str = LINK) -> str:
        return self.table.open(PROTOCOL, name, f"/trainer_{name}")

    def connect(self) -> FragmentLink:
        name = f"{len(self.trainers):016d}"
        self.trainers[name] = FragmentLink("server", name, self.put)
        assert self.open(name) == ""
        self.trainers[name].greet(DEADLINE_S)
        return self.trainers[name]


@pytest.mark.parametrize(
    ("protocol", "link_id", "text"),
    [
        (PROTOCOL + 1, LINK, f"found protocol {PROTOCOL + 1}, expected {PROTOCOL}"),
        (PROTOCOL, "short", "found link 'short', expected 16 to 64 letters, digits, - or _"),
        (PROTOCOL, 16 * "\n", "expected 16 to 64 letters"),
        (PROTOCOL, 65 * "a", "expected 16 to 64 letters"),
    ],
)
def test_a_link_that_cannot_be_is_refused(protocol: int, link_id: str, text: str):
    assert text in Tower().table.open(protocol, link_id, "/trainer")


def test_a_link_that_is_asked_for_again_is_the_same():
    """The answer to the first request may be lost."""
    tower = Tower()
    link = tower.connect()
    assert tower.open(link.link_id) == ""
    link.send(b"frame", 0.0)
    assert tower.table.accept(0.0).receive(0.0) == b"frame"
    with pytest.raises(TimeoutError):
        tower.table.accept(0.01)


def test_the_number_of_links_is_limited_until_one_ends():
    tower = Tower()
    opened = [tower.connect() for _ in range(MAX_LINKS)]
    assert tower.open() == f"{MAX_LINKS} trainers have links, expected fewer than {MAX_LINKS}"
    opened[0].close()
    assert tower.open() == ""


def test_a_silent_trainer_makes_room():
    clock = Clock()
    tower = Tower(clock)
    for number in range(MAX_LINKS):
        assert tower.open(f"{number:016d}") == ""
    clock.now_s += DISCOVERY_S + 0.1
    assert tower.open() == ""
    with pytest.raises(LinkClosedError):
        tower.table.accept(0.0).receive(0.0)


def test_a_trainer_of_whom_the_server_knows_nothing_learns_so():
    tower = Tower()
    link = tower.connect()
    tower.restart()
    link.send(b"frame", 1.0)
    with pytest.raises(LinkClosedError, match="server: the other end has gone"):
        link.send(b"frame", 1.0)
    count = len(tower.said)
    tower.table.put(Fragment(LINK, FragmentKind.CLOSE))
    assert len(tower.said) == count, "two ends that know nothing of each other must not talk for ever"


def test_each_link_hears_only_its_own():
    tower = Tower()
    first, second = tower.connect(), tower.connect()
    first_end, second_end = tower.table.accept(0.0), tower.table.accept(0.0)
    second.send(b"of the second", 0.0)
    first.send(b"of the first", 0.0)
    assert (first_end.receive(0.0), second_end.receive(0.0)) == (b"of the first", b"of the second")
    first_end.send(b"to the first", 0.0)
    assert first.receive(0.0) == b"to the first"
    with pytest.raises(TimeoutError):
        second.receive(0.0)
    first.close()
    second.send(b"still there", 0.0)
    assert second_end.receive(0.0) == b"still there"


def test_a_closed_table_ends_its_links_and_opens_no_more():
    tower = Tower()
    link = tower.connect()
    with pytest.raises(TimeoutError):
        tower.table.accept(0.0) and tower.table.accept(0.01)
    tower.table.close()
    assert tower.open() == "the server takes no weights any more"
    with pytest.raises(LinkClosedError, match="the other end has gone"):
        link.receive(DEADLINE_S)
    with pytest.raises(LinkClosedError, match="nobody listens any more"):
        tower.table.accept(0.0)


# -- all of it ---------------------------------------------------------------------------------------------


class LossyTower(Tower):
    """Loses one piece, by its number among all of them."""

    def __init__(self, lost: int | None) -> None:
        super().__init__()
        self._lost, self._count = lost, 0

    def put(self, fragment: Fragment) -> None:
        is_piece = fragment.kind is FragmentKind.DATA
        if not is_piece or self._count != self._lost:
            super().put(fragment)
        self._count += is_piece


def is_current(syncer: WeightSyncer) -> bool:
    """Sync once more, as a trainer does anyway, and return whether the server has it."""
    syncer.sync(syncer.sender.version + 1)
    return syncer.sender.wait(DEADLINE_S)["server"].is_current


@settings(max_examples=10)
@given(updates, st.sampled_from(("patch", "bucket")), st.sampled_from((None, 1, 3, 7, 20)))
def test_a_trainer_and_a_server_agree_bit_by_bit_though_a_piece_is_lost(steps, strategy, lost):
    tower, model = LossyTower(lost), make_model(KINDS)
    served = Served(copy_of(make_model(KINDS, seed=1)))

    def connect() -> FragmentLink:
        link = tower.connect()
        served.syncer.pump.add(tower.table.accept(0.0))
        return link

    syncer = WeightSyncer(SenderConfig(strategy=strategy, bucket_size=4096, answer_s=0.5))
    try:
        syncer.init_sender(lambda: model, {"server": connect})
        for share, seed in steps:
            change(model, share, seed)
            syncer.sync(syncer.sender.version + 1)
            syncer.sender.wait(DEADLINE_S)
        wait_until(lambda: is_current(syncer), "the server has the newest weights")
        assert bits_of(served.served) == bits_of(model)
    finally:
        syncer.close()
        served.close()
