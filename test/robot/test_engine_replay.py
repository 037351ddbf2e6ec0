# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A journal reproduces what the engine did: each tick and each effect, bit for bit."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.engine import Engine
from remote_inference.robot.journal import CALLS, INPUTS, PLAY, Entry
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.replay import JournalError
from remote_inference.robot.step_lock import StepLock
from support.builders import contract_document, make_config, make_contract, ns
from support.robot.random_world import play_world
from support.robot.replayed import divergences_of, effects_of, exact, replay, ticks_of
from support.robot.simulation import World, streaming
from support.waiting import wait_until

TICKS_PER_STEP = 100  # of the control thread, in each of the worker's
# Reads, and properties.
UNJOURNALLED = {
    "awaits_observation",
    "commands_since_ns",
    "has_ended",
    "misses_person",
}


def entries_of(world: World) -> list[Entry]:
    first, entries = world.engine.journal.take()
    assert first == 0, "a world that is replayed is short enough for its journal"
    return list(entries)


def check_replay(world: World) -> None:
    outcomes = replay(entries_of(world))
    assert divergences_of(outcomes) == []
    assert exact(ticks_of(outcomes)) == exact([tick for _, tick in world.ticks])
    assert exact(effects_of(outcomes)) == exact([effect for _, effect in world.effects])


def test_every_public_method_of_the_engine_that_changes_something_is_journalled():
    methods = {name for name, _ in inspect.getmembers(Engine, inspect.isfunction) if not name.startswith("_")}
    assert methods == {*CALLS, *INPUTS, PLAY, *UNJOURNALLED}


@pytest.mark.parametrize("seed", range(25))
def test_a_random_world_is_replayed_bit_for_bit(seed: int):
    check_replay(play_world(seed))


def trust(world: World) -> None:
    """Let a world judge no step or request: it knows of no ticks and pauses within the engine's calls."""
    world._check_step = lambda command: None  # type: ignore[method-assign]
    world._check_request = lambda request, shown: world.sent.append(request)  # type: ignore[method-assign]


class InterruptedTurn(StepLock):
    """Lets something happen right before some of the operations of the engine's thread."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng
        self.interrupt: Callable[[], None] | None = None
        self.interruptions = 0

    def __enter__(self) -> None:
        interrupt, caller = self.interrupt, self._caller
        if interrupt and caller is not None and not self._depth and self._rng.random() < 0.02:
            self.interrupt = self._caller = None
            interrupt()
            self.interruptions += 1
            self.interrupt, self._caller = interrupt, caller
        super().__enter__()


@pytest.mark.parametrize("seed", range(12))
def test_ticks_and_inputs_within_the_engine_s_calls_are_replayed_between_the_same_operations(seed: int):
    rng = random.Random(seed)
    lock = InterruptedTurn(rng)
    world = World(make_config(max_action_age_s=0.3, autostart=True), contract=make_contract(), lock=lock)

    def interrupt() -> None:
        tick = world.engine.play(world.now_ns, ())
        world.ticks.append((world.now_ns, tick))
        if tick.command is not None:
            world.position = world._last_command = tick.command
        if rng.random() < 0.1:
            world.engine.pause_at_once()

    trust(world)
    lock.interrupt = interrupt
    for _ in range(20):
        world.run(rng.random() * 0.3)
        rng.choice([world.pause, world.resume, world.reset, world.resume])()
    assert lock.interruptions > 10
    check_replay(world)


def test_a_resume_is_replayed_with_the_pauses_that_were_called_before_it():
    world = streaming(World())
    for is_older in (True, False):
        called = world.engine.pauses
        world.engine.pause_at_once()
        world.run(0.1)
        assert bool(world.resume(called if is_older else world.engine.pauses)) is is_older
        world.run(0.5)
    assert not world.engine.paused
    check_replay(world)


def test_the_clearing_of_a_stop_is_replayed_with_the_stops_that_were_heard_before_it():
    button = {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}
    document = contract_document() | {"stops": {"button": button}}
    world = World(contract=parse_document(document, Contract, "f"))
    world.engine.hear_stop("button", False, world.now_ns)
    streaming(world)
    for is_older in (True, False):
        heard = world.engine.stops.heard
        for stops in (True, False):
            world.engine.hear_stop("button", stops, world.now_ns)
        world.run(0.1)
        assert bool(world.clear_stop(heard if is_older else world.engine.stops.heard)) is is_older
    assert world.resume(world.engine.pauses) == ""
    world.run(0.5)
    check_replay(world)


def test_a_resume_of_an_older_journal_undoes_whatever_pause():
    world = streaming(World())
    world.engine.pause_at_once()
    world.run(0.1)
    assert world.resume() == ""
    world.run(0.5)
    entries = entries_of(world)
    (resume,) = (entry for entry in entries if entry.method == "resume")
    assert len(resume.arguments) == 1, "its time alone"
    outcomes = replay(entries)
    assert divergences_of(outcomes) == []
    assert exact(ticks_of(outcomes)) == exact([tick for _, tick in world.ticks])


class UntickedWorld(World):
    """A world whose control ticks another thread plays."""

    def _tick(self) -> None:
        pass


def test_two_real_threads_are_replayed_bit_for_bit():
    world = UntickedWorld(make_config(max_action_age_s=0.3))
    ticks: list[Tick] = []
    stop = threading.Event()
    due = threading.Semaphore(0)  # ticks: without a bound, one thread may do all before the other begins

    def control() -> None:
        now_ns = 0
        while due.acquire() and not stop.is_set():
            now_ns = max(now_ns, world.now_ns)
            ticks.append(world.engine.play(now_ns, ()))
            if len(ticks) % 500 == 0:
                world.engine.pause_at_once()

    trust(world)
    thread = threading.Thread(target=control)
    thread.start()
    try:
        for step in range(60):
            due.release(TICKS_PER_STEP)
            world.run(0.05)
            world.resume()
            wait_until(lambda enough=(step + 1) * TICKS_PER_STEP: len(ticks) >= enough, "the control thread")
    finally:
        stop.set()
        due.release()
        thread.join()
    outcomes = replay(entries_of(world))
    assert divergences_of(outcomes) == []
    # The arm stands still, and is led back to where it is when its commands are too far ahead.
    sources = {CommandSource.NONE, CommandSource.CHUNK, CommandSource.REPEAT_LAST}
    assert {tick.source for tick in ticks} == sources
    assert exact(ticks_of(outcomes)) == exact(ticks)
    assert exact(effects_of(outcomes)) == exact([effect for _, effect in world.effects])


def changed(entries: list[Entry], method: str, change: Callable[[Entry], Entry]) -> list[Entry]:
    """Return a journal with another entry in place of the middle one of a method."""
    places = [place for place, entry in enumerate(entries) if entry.method == method]
    place = places[len(places) // 2]
    return [*entries[:place], change(entries[place]), *entries[place + 1 :]]


def nudge_chunk(entry: Entry) -> Entry:
    chunk, now_ns = entry.arguments
    robot = chunk.robot.copy()
    robot.view(np.uint8).reshape(-1)[len(robot.tobytes()) // 2] ^= 1
    return entry._replace(arguments=(replace(chunk, robot=robot), now_ns))


def test_one_changed_bit_of_a_chunk_changes_the_replay():
    world = streaming(World()).run(2)
    entries = entries_of(world)
    found = ticks_of(replay(changed(entries, "take_chunk", nudge_chunk)))
    assert exact(found) != exact([tick for _, tick in world.ticks])


@pytest.mark.parametrize("method", ["take_sensors", "take_chunk"])
def test_a_missing_call_is_noticed_at_the_next_one(method: str):
    entries = entries_of(streaming(World()).run(2))
    places = [place for place, entry in enumerate(entries) if entry.method == method]
    del entries[places[len(places) // 2]]
    assert "operations" in divergences_of(replay(entries))[0].field


def test_an_entry_that_no_engine_knows_is_refused():
    begin, *_ = entries_of(World().run(0.1))
    with pytest.raises(JournalError, match="explode"):
        replay([begin, Entry(0, "explode", ())])


def test_another_parameter_shows_what_it_would_have_done():
    world = streaming(World(make_config(max_action_age_s=3.0)))
    world.server.hung = True
    world.run(3)
    then = [tick for _, tick in world.ticks]
    now = ticks_of(replay(entries_of(world), make_config(max_action_age_s=0.3)))
    assert len(now) == len(then)
    last_then = max(index for index, tick in enumerate(then) if tick.source is CommandSource.CHUNK)
    last_now = max(index for index, tick in enumerate(now) if tick.source is CommandSource.CHUNK)
    assert last_now < last_then, "actions are refused earlier"


def test_a_journal_that_nobody_takes_is_bounded_and_says_where_it_begins(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("remote_inference.robot.journal.MAX_WAITING", 100)
    world = World().run(5)
    first, entries = world.engine.journal.take()
    assert len(entries) == 100
    world.run(0.1)
    again, _ = world.engine.journal.take()
    assert again == first + 100


def test_sensor_messages_are_not_kept_for_the_journal():
    world = World()
    world.engine.take_sensors({}, None, ns(200), [])
    assert all("content" not in str(entry) or "content=None" in str(entry) for entry in entries_of(world))
