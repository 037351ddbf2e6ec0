# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a journal keeps of an engine's calls, and what of them it tells."""

from __future__ import annotations

from typing import Any

import pytest

from remote_inference.robot.journal import BEGIN, PLAY, Entry, Journal, time_of
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.step_lock import StepLock
from support.builders import ns
from support.robot.simulation import World

NOW_NS = ns(200)
MANY = "remote_inference.robot.journal.MAX_WAITING"


def taken(world: World) -> list[Entry]:
    return list(world.engine.journal.take()[1])


@pytest.mark.parametrize(
    ("entry", "time_ns"),
    [
        (Entry(0, "tick", (5,)), 5),
        (Entry(0, "reset", ("clap", 6)), 6),
        (Entry(0, "take_duplicate_node", (True, 7)), 7),
        (Entry(0, "resume", (), {"now_ns": 8}), 8),
        (Entry(0, "take_chunk", ("chunk", 9), {"arrival_ns": 1}), 9),
        (Entry(0, "pause", ("called",)), None),
        (Entry(0, "take_back_request", ()), None),
        (Entry(0, "tick", ()), None),
        (Entry(0, "reset", ("clap",)), None),
        (Entry(0, "tick", ("5",)), None),
        (Entry(0, "tick", (True,)), None),
        (Entry(0, "pause_at_once", ("called",)), None),
        (Entry(0, "hear_stop", ("button", True, 5)), None),
        (Entry(0, PLAY, (5, ())), None),
        (Entry(0, BEGIN, (5,)), None),
        (Entry(0, "explode", (5,)), None),
    ],
)
def test_the_time_of_a_call_is_told_of_the_engine_s_thread_alone(entry: Entry, time_ns: int | None) -> None:
    assert time_of(entry) == time_ns


def test_a_journal_begins_with_what_the_engine_was_built_from() -> None:
    world = World()
    first, entries = world.engine.journal.take()
    assert (first, list(entries)) == (0, [Entry(0, BEGIN, (world.begin,))])


def test_the_oldest_entries_go_first_and_the_places_of_the_others_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MANY, 3)
    journal = Journal(World().begin, StepLock())
    for number in (1, 2):
        journal.add(Entry(number, "tick", ()))
    first, entries = journal.take()
    assert (first, [entry.number for entry in entries]) == (0, [0, 1, 2])
    for number in (3, 4, 5, 6, 7):
        journal.add(Entry(number, "tick", ()))
    first, entries = journal.take()
    assert (first, [entry.number for entry in entries]) == (5, [5, 6, 7])
    assert journal.take()[0] == 8


def test_a_call_that_fails_is_kept_with_its_error_and_fails() -> None:
    world = World()
    world.engine.handshake.advance = fail  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        world.engine.tick(NOW_NS)
    *_, entry = taken(world)
    assert (entry.method, entry.arguments, entry.error) == ("tick", (NOW_NS,), "ZeroDivisionError")
    del world.engine.handshake.advance
    world.engine.tick(NOW_NS)
    (entry,) = taken(world)
    assert (entry.method, entry.error) == ("tick", "")


def test_a_control_tick_that_fails_is_kept_with_its_error_and_fails() -> None:
    world = World()
    world.engine.playback.tick = fail  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        world.engine.play(NOW_NS, ("arm",), NOW_NS - 1)
    *_, entry = taken(world)
    assert entry == Entry(0, PLAY, (NOW_NS, ("arm",), NOW_NS - 1), error="ZeroDivisionError")


def test_a_call_within_a_call_is_part_of_it() -> None:
    world = World()
    world.engine.cycle.see = lambda *_, **__: world.engine.pause(cause="within")  # type: ignore[method-assign]
    world.engine.take_sensors({}, None, NOW_NS, stamps={})
    assert world.engine.pause_cause == "within"
    *_, entry = taken(world)
    assert (entry.method, entry.named) == ("take_sensors", {"stamps": {}})
    assert [entry.method for entry in taken(world)] == []


def test_an_input_is_kept_where_it_fell() -> None:
    world = World()
    world.run(0.1)
    number = world.engine.lock.number
    assert number > 0
    taken(world)
    world.engine.pause_at_once("called")
    assert taken(world) == [Entry(number, "pause_at_once", ("called",))]
    assert world.engine.lock.number == number, "an input is no operation of the engine's thread"


@pytest.mark.parametrize("samples", [[], ["not a sample"]])
def test_an_argument_that_holds_no_sample_is_kept(samples: list[Any]) -> None:
    world = World()
    world.engine.cycle.take_sample = lambda *_, **__: None  # type: ignore[method-assign]
    world.engine.take_sensors({}, None, NOW_NS, samples)
    *_, entry = taken(world)
    assert entry.arguments[3] is samples


def test_a_sample_is_kept_without_its_messages() -> None:
    world = World()
    arrivals = dict.fromkeys(world.contract.topics, NOW_NS)
    world.engine.take_sensors({}, None, NOW_NS, [TickSample("messages", arrivals, tick_ns=3)])
    *_, entry = taken(world)
    assert entry.arguments[3] == (TickSample(None, arrivals, tick_ns=3),)


def fail(*_: object, **__: object) -> None:
    raise ZeroDivisionError
