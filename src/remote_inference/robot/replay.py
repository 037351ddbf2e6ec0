# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Replays a journal: repeats the calls of an engine, interleaved as its threads made them.

With the configuration of the journal each tick commands what it did. With another one it commands what it
would have, as far as the recorded answers fit its requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from remote_inference.base.exchange import Chunk
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.engine import Engine
from remote_inference.robot.journal import BEGIN, CALLS, INPUTS, PLAY, Begin, Entry
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.safety.effects import Effect
from remote_inference.robot.step_lock import StepLock


class JournalError(ValueError):
    """An entry is none of a journal's."""


@dataclass(frozen=True)
class Played:
    """A control tick of the replay. index: since the start."""

    index: int
    now_ns: int
    tick: Tick


@dataclass(frozen=True)
class Called:
    """A call of the replay, and what the engine asked its node to do."""

    entry: Entry
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class Diverged:
    """The replay went another way than the engine of then. field: what of a call shows it."""

    entry: Entry
    field: str
    recorded: int | str
    replayed: int | str


Outcome = Played | Called | Diverged


class _ReplayedLock(StepLock):
    """Replays what fell before an operation, before it is counted."""

    def __init__(self, catch_up: Callable[[], None]) -> None:
        super().__init__()
        self._catch_up = catch_up

    def __enter__(self) -> None:
        if not self._depth and self._caller is not None:
            self._depth = 1
            try:
                self._catch_up()
            finally:
                self._depth = 0
        super().__enter__()


class Replay:
    """One engine of a journal. Feed it the entries in order, and finish it."""

    def __init__(self, begin: Begin, config: RobotConfig | None = None) -> None:
        """config: other parameters than those of then; None: the same."""
        self._is_exact = config is None
        self._lock = lock = _ReplayedLock(self._catch_up)
        config = config or begin.config
        self.engine = Engine(
            begin.contract, config, begin.client, begin.robot_namespace, begin.seed, lock=lock
        )
        self._waiting: deque[Entry] = deque()  # ticks and inputs that come with a call not read yet
        self._outcomes: deque[Outcome] = deque()
        self._ticks = 0
        self._answered: set[int] = set()  # requests, with other parameters than those of then
        self.borrowed_chunks = 0  # that were the answer to another request than the one in flight

    def feed(self, entry: Entry) -> Iterator[Outcome]:
        """Yield what follows from the next entry. Raises JournalError for one that is none of a journal's."""
        if entry.method == PLAY or entry.method in INPUTS:
            self._waiting.append(entry)
        elif entry.method in CALLS:
            if entry.method == "take_chunk" and not isinstance(next(iter(entry.arguments), None), Chunk):
                raise JournalError("found an entry 'take_chunk' without a chunk")
            self._call(entry)
        else:
            raise JournalError(f"found entry {entry.method!r}, expected one of the engine's methods")
        yield from self._take_outcomes()

    def finish(self) -> Iterator[Outcome]:
        """Yield what follows from the ticks and inputs after the last call."""
        while self._waiting:
            self._happen(self._waiting.popleft())
        yield from self._take_outcomes()

    def _take_outcomes(self) -> Iterator[Outcome]:
        while self._outcomes:
            yield self._outcomes.popleft()

    def _call(self, entry: Entry) -> None:
        if self._is_exact and entry.number != self._lock.number:
            self._outcomes.append(Diverged(entry, "operations before it", entry.number, self._lock.number))
        self._lock.number = entry.number
        self._catch_up()
        self._lock.begin_call()
        effects = self._do(entry)
        self._lock.end_call()
        found = effects[1] if isinstance(effects, tuple) else effects
        self._outcomes.append(Called(entry, tuple(found or ())))

    def _catch_up(self) -> None:
        while self._waiting and self._waiting[0].number <= self._lock.number:
            self._happen(self._waiting.popleft())

    def _happen(self, entry: Entry) -> None:
        """Repeat what another thread than the engine's did."""
        outcome = self._do(entry)
        if entry.method == PLAY:
            if isinstance(outcome, Tick):
                self._outcomes.append(Played(self._ticks, entry.arguments[0], outcome))
            self._ticks += 1

    def _do(self, entry: Entry) -> Any:
        arguments = entry.arguments
        if not self._is_exact and entry.method == "take_chunk":
            arguments = (self._readdress(arguments[0]), *arguments[1:])
        error = ""
        try:
            return getattr(self.engine, entry.method)(*arguments, **entry.named)
        except Exception as failure:  # as of then: the node stopped itself for it
            error = type(failure).__name__
            return None
        finally:
            if error != entry.error:
                self._outcomes.append(Diverged(entry, "error", entry.error or "none", error or "none"))

    def _readdress(self, chunk: Chunk) -> Chunk:
        """Let a chunk answer the request in flight, if that one was never made then."""
        request = self.engine.cycle.request_in_flight
        if request is None or request.seq_id == chunk.seq_id or chunk.seq_id in self._answered:
            return chunk
        asked = (request.session_id, request.session_epoch, request.episode_id)
        if (chunk.session_id, chunk.session_epoch, chunk.episode_id) != asked:
            return chunk
        self._answered.add(chunk.seq_id)
        self.borrowed_chunks += 1
        return replace(chunk, seq_id=request.seq_id)


def is_begin(entry: Entry) -> bool:
    """Return whether an engine's journal begins with this entry."""
    return entry.method == BEGIN and len(entry.arguments) == 1 and isinstance(entry.arguments[0], Begin)
