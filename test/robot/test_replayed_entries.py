# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a replay makes of a single entry, and with other parameters than those of then of an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from remote_inference.base.exchange import Chunk
from remote_inference.robot.command import CommandSource
from remote_inference.robot.journal import BEGIN, CALLS, INPUTS, PLAY, Entry
from remote_inference.robot.replay import (
    Called,
    Diverged,
    JournalError,
    Outcome,
    Played,
    Replay,
    is_begin,
)
from remote_inference.robot.safety.effects import Warn
from support.builders import make_config
from support.robot.replayed import divergences_of
from support.robot.simulation import World, streaming

BEGUN = World().begin
OTHER = make_config(service_timeout_s=1.25)  # which changes nothing here


@pytest.mark.parametrize(
    ("entry", "begins"),
    [
        (Entry(0, BEGIN, (BEGUN,)), True),
        (Entry(0, BEGIN, ()), False),
        (Entry(0, BEGIN, (5,)), False),
        (Entry(0, BEGIN, (BEGUN, BEGUN)), False),
        (Entry(0, "tick", (BEGUN,)), False),
    ],
)
def test_a_journal_begins_with_what_an_engine_is_built_from(entry: Entry, begins: bool) -> None:
    assert is_begin(entry) == begins


def fed(replayed: Replay, *entries: Entry) -> list[Outcome]:
    return [outcome for entry in entries for outcome in replayed.feed(entry)]


@pytest.mark.parametrize("arguments", [(), ("chunk", 5)])
def test_an_answer_without_a_chunk_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(JournalError, match="without a chunk"):
        fed(Replay(BEGUN), Entry(0, "take_chunk", arguments))


def test_a_tick_happens_before_the_operation_that_it_came_before_and_no_earlier() -> None:
    replayed = Replay(BEGUN)
    begin, *entries = streaming(World()).engine.journal.take()[1]
    assert is_begin(begin)
    place = next(place for place, entry in enumerate(entries) if entry.method == PLAY)
    assert fed(replayed, *entries[:place]) != []
    assert fed(replayed, entries[place]) == [], "its place among the operations is not known yet"
    call = next(entry for entry in entries[place:] if entry.method in CALLS)
    played, *_ = fed(replayed, call)
    assert isinstance(played, Played)
    assert (played.index, played.now_ns) == (0, entries[place].arguments[0])


def test_what_waits_at_the_end_happens_in_its_order() -> None:
    replayed = Replay(BEGUN)
    assert (
        fed(replayed, Entry(5, PLAY, (100, ())), Entry(5, "pause_at_once", ()), Entry(9, PLAY, (200, ())))
        == []
    )
    first, second = replayed.finish()
    assert isinstance(first, Played)
    assert isinstance(second, Played)
    assert [(played.index, played.now_ns) for played in (first, second)] == [(0, 100), (1, 200)]
    assert replayed.engine.paused
    assert list(replayed.finish()) == []


def test_a_call_at_another_place_among_the_operations_is_told_once() -> None:
    replayed = Replay(BEGUN)
    tick = Entry(700, "tick", (100,))
    diverged, called = fed(replayed, tick)
    assert diverged == Diverged(tick, "operations before it", 700, 0)
    assert isinstance(called, Called)
    after = replayed._lock.number
    assert after > 700, "it counts on from then"
    assert divergences_of(fed(replayed, Entry(after, "tick", (200,)))) == []


def test_with_other_parameters_the_operations_may_be_others() -> None:
    assert divergences_of(fed(Replay(BEGUN, OTHER), Entry(7, "tick", (100,)))) == []


def test_an_error_of_then_is_expected_and_another_is_told() -> None:
    replayed = Replay(BEGUN)
    hear = Entry(0, "hear_stop", ("no such input", True, 100))
    (failed,) = [*fed(replayed, hear), *replayed.finish()]
    assert failed == Diverged(hear, "error", "none", "KeyError")
    assert [*fed(replayed, hear._replace(error="KeyError")), *replayed.finish()] == []
    lost = Entry(0, "halt_at_once", (), error="OSError")
    assert [*fed(replayed, lost), *replayed.finish()] == [Diverged(lost, "error", "OSError", "none")]


def test_a_tick_that_failed_then_has_its_place() -> None:
    replayed = Replay(BEGUN)
    tick = replayed.engine.playback.tick

    def fail_once(*_: object) -> None:
        replayed.engine.playback.tick = tick  # type: ignore[method-assign]
        raise ZeroDivisionError

    replayed.engine.playback.tick = fail_once  # type: ignore[method-assign,assignment]
    broken = Entry(0, PLAY, (100, ()), error="ZeroDivisionError")
    (played,) = [*fed(replayed, broken, Entry(0, PLAY, (200, ()))), *replayed.finish()]
    assert isinstance(played, Played)
    assert (played.index, played.now_ns) == (1, 200)


def test_the_effects_of_a_call_are_told_with_it() -> None:
    entry = Entry(0, "take_malformed_chunk", ("too short",))
    (called,) = fed(Replay(BEGUN), entry)
    assert called == Called(entry, (Warn("malformed chunk dropped: too short"),))
    resume = Entry(0, "resume", (100,))
    called = fed(Replay(BEGUN), resume)[-1]
    assert isinstance(called, Called)
    assert called.entry == resume
    assert called.effects != ()
    nothing = Entry(0, "take_dropped_chunks", (2,))
    assert fed(Replay(BEGUN), nothing) == [Called(nothing, ())]
    back = Entry(0, "take_back_request", ())
    assert fed(Asked().replayed, back)[-1] == Called(back, ())


# -- other parameters: answers to requests of then -----------------------------------------------------------


class Asked:
    """A replay with other parameters, in which a request is in flight."""

    def __init__(self, *, exact: bool = False) -> None:
        world = streaming(World())
        world.run_until(lambda: world.engine.cycle.request_in_flight is not None)
        request = world.engine.cycle.request_in_flight
        assert request is not None
        self.request = request
        world.run_until(lambda: world.engine.cycle.request_in_flight is not request)
        world.run_until(lambda: world.engine.cycle.request_in_flight is not None)
        _, *entries = world.engine.journal.take()[1]
        answer = max(place for place, entry in enumerate(entries) if entry.method == "take_chunk")
        self.rest = entries[answer + 1 :]
        self.replayed = Replay(world.begin, None if exact else OTHER)
        fed(self.replayed, *entries[:answer])
        self.entry = entries[answer]
        self.chunk: Chunk = self.entry.arguments[0]
        assert self.chunk.seq_id == request.seq_id
        assert self.replayed.engine.cycle.request_in_flight is not None

    def go_on(self) -> None:
        """Go on to the next request."""
        fed(self.replayed, *self.rest)
        assert self.replayed.engine.cycle.request_in_flight is not None

    def give(self, **changes: Any) -> tuple[int, int]:
        """Give the answer with other fields; return how many chunks were borrowed and merged since."""
        engine = self.replayed.engine
        before = engine.counters.chunks_merged
        chunk = replace(self.chunk, **changes)
        fed(self.replayed, self.entry._replace(arguments=(chunk, *self.entry.arguments[1:])))
        return self.replayed.borrowed_chunks, engine.counters.chunks_merged - before


def test_with_other_parameters_an_answer_to_a_request_that_was_never_made_answers_the_one_in_flight() -> None:
    asked = Asked()
    assert asked.give(seq_id=asked.chunk.seq_id + 7) == (1, 1)


def test_an_answer_to_the_request_in_flight_is_borrowed_from_nobody() -> None:
    assert Asked().give() == (0, 1)


def test_with_the_parameters_of_then_no_answer_is_borrowed() -> None:
    asked = Asked(exact=True)
    assert asked.give(seq_id=asked.chunk.seq_id + 7) == (0, 0)


@pytest.mark.parametrize("field", ["session_id", "session_epoch", "episode_id"])
def test_an_answer_of_another_session_or_episode_answers_nothing(field: str) -> None:
    asked = Asked()
    found = getattr(asked.chunk, field)
    other = f"{found}0" if isinstance(found, str) else found + 1
    assert asked.give(seq_id=asked.chunk.seq_id + 7, **{field: other}) == (0, 0)


def test_an_answer_is_borrowed_once() -> None:
    asked = Asked()
    borrowed = asked.chunk.seq_id + 7
    assert asked.give(seq_id=borrowed) == (1, 1)
    asked.go_on()
    assert asked.give(seq_id=borrowed) == (1, 0)
    assert asked.give(seq_id=borrowed + 1) == (2, 1)


def test_an_answer_while_no_request_is_in_flight_is_given_as_it_is() -> None:
    asked = Asked()
    asked.replayed.engine.cycle.abandon()
    assert asked.give(seq_id=asked.chunk.seq_id + 7) == (0, 0)


def test_with_other_parameters_actions_are_still_commanded() -> None:
    world = streaming(World()).run(1)
    replayed = Replay(world.begin, OTHER)
    _, *entries = world.engine.journal.take()[1]
    outcomes = fed(replayed, *entries)
    assert any(
        isinstance(outcome, Played) and outcome.tick.source is CommandSource.CHUNK for outcome in outcomes
    )


def test_each_kind_of_entry_is_known() -> None:
    assert not {*CALLS} & {*INPUTS, PLAY, BEGIN}
