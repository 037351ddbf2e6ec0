# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The journal of an engine: each call that changes it, in order, for a replay that reproduces each command.

An entry is a call of one of the engine's public methods. Its number is that of the lock's operations when the
call began: it says between which two operations of the engine's thread a control tick or an input fell.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import Any, NamedTuple

from remote_inference.base.contract.contract import Contract
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.engine import Engine
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.step_lock import StepLock

# Public methods of the engine by the threads that call them; all others change nothing.
CALLS = (
    "take_sensors",
    "take_status_reply",
    "take_session_reply",
    "take_presence",
    "take_server_status",
    "take_duplicate_node",
    "take_reset_reply",
    "take_instruction",
    "take_controllers",
    "take_chunk",
    "take_back_request",
    "take_dropped_chunks",
    "take_malformed_chunk",
    "pause",
    "resume",
    "reset",
    "clear_stop",
    "take_over",
    "release",
    "tick",
    "close",
)
INPUTS = (  # of any thread
    "pause_at_once",
    "take_over_at_once",
    "take_outside_stop",
    "take_back_command",
    "halt_at_once",
    "hear_stop",
    "hear_person",
)
PLAY = "play"  # of the control thread
BEGIN = "begin"  # the first entry

MAX_WAITING = 50_000  # entries that nobody has taken: minutes of a robot


@dataclass(frozen=True)
class Begin:
    """What an engine was built from."""

    contract: Contract
    config: RobotConfig
    client: str
    robot_namespace: str
    seed: int
    version: str  # of this package


class Entry(NamedTuple):
    """One call. error: name of the exception that ended it, empty when it returned."""

    number: int
    method: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any] = {}
    error: str = ""


def time_of(entry: Entry) -> int | None:
    """Return the time of a call [ns, the robot's monotonic clock]; None for one that has none."""
    place = _place_of_time(entry.method) if entry.method in CALLS else None
    if place is None:
        return None
    time_ns = entry.named.get("now_ns", entry.arguments[place] if place < len(entry.arguments) else None)
    return time_ns if type(time_ns) is int else None


@cache
def _place_of_time(method: str) -> int | None:
    _, *parameters = inspect.signature(getattr(Engine, method)).parameters
    return parameters.index("now_ns") if "now_ns" in parameters else None


class Journal:
    """The entries that nobody has taken yet. Any thread adds, one takes.

    Entries are kept as they are, for another thread to encode. When too many wait, the oldest go.
    """

    def __init__(self, begin: Begin, lock: StepLock) -> None:
        self._lock = lock
        self._entries = deque([Entry(0, BEGIN, (begin,))])
        self._first = 0  # place of the oldest entry kept

    def add(self, entry: Entry) -> None:
        """Append an entry."""
        with self._lock:
            self._entries.append(entry)
            if len(self._entries) > MAX_WAITING:
                self._entries.popleft()
                self._first += 1

    def take(self) -> tuple[int, deque[Entry]]:
        """Remove and return the entries that wait, and the place of the first of them since the start."""
        with self._lock:
            first, entries = self._first, self._entries
            self._entries = deque()
            self._first += len(entries)
        return first, entries


class JournalledEngine(Engine):
    """An engine that writes each call into a journal."""

    def __init__(self, begin: Begin, lock: StepLock | None = None) -> None:
        super().__init__(
            begin.contract, begin.config, begin.client, begin.robot_namespace, begin.seed, lock=lock
        )
        self.journal = Journal(begin, self.lock)
        self._is_called = False  # by the engine's thread

    def play(self, now_ns: int, unsubscribed: tuple[str, ...], heard_ns: int | None = None) -> Tick:
        error = ""
        with self.lock:
            try:
                return super().play(now_ns, unsubscribed, heard_ns)
            except Exception as failure:
                error = type(failure).__name__
                raise
            finally:
                self.journal.add(Entry(self.lock.number, PLAY, (now_ns, unsubscribed, heard_ns), error=error))


def _journalled_call(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of the engine's thread whose outermost call makes an entry, once it has ended.

    The ticks and inputs that fell into the call then come before it, and a replay reads the journal once.
    """

    @wraps(method)
    def call(self: JournalledEngine, *arguments: Any, **named: Any) -> Any:
        if self._is_called:
            return method(self, *arguments, **named)
        self._is_called, number, error = True, self.lock.number, ""
        self.lock.begin_call()
        try:
            return method(self, *arguments, **named)
        except Exception as failure:
            error = type(failure).__name__
            raise
        finally:
            self.lock.end_call()
            self._is_called = False
            self.journal.add(Entry(number, name, tuple(map(_without_content, arguments)), named, error))

    return call


def _journalled_input(name: str, method: Callable[..., None]) -> Callable[..., None]:
    @wraps(method)
    def call(self: JournalledEngine, *arguments: Any) -> None:
        with self.lock:
            self.journal.add(Entry(self.lock.number, name, arguments))
            method(self, *arguments)

    return call


def _without_content(argument: Any) -> Any:
    """Return an argument without the sensors' messages, which no decision is made of."""
    if isinstance(argument, list) and argument and isinstance(argument[0], TickSample):
        return tuple(replace(sample, content=None) for sample in argument)
    return argument


for _name in CALLS:
    setattr(JournalledEngine, _name, _journalled_call(_name, getattr(Engine, _name)))
for _name in INPUTS:
    setattr(JournalledEngine, _name, _journalled_input(_name, getattr(Engine, _name)))
