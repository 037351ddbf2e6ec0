# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Aligns chunks with the control ticks of their robot: which action was executed for each action of a chunk.

Action k of a chunk is for the k-th control tick after its observation. An executed action anchors its chunk;
a chunk of which nothing was executed begins at the first tick after its request.

Where control is faster than the policy, an action lasts several ticks. These count as one here, and what was
executed in it is the action of its first tick.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from remote_inference.bags.timeline.messages import TickNumbers
from remote_inference.bags.timeline.robot_bag import FloatArray
from remote_inference.base.wire.sensors.content_time import stamp_ns
from remote_inference.robot.command import CommandSource

KEPT = 20_000  # control ticks that are remembered
MOST_WAITING = 1_000  # requests of which no action was executed yet
EXECUTED = frozenset({CommandSource.CHUNK, CommandSource.HUMAN})  # where the action is one to be learned


@dataclass(frozen=True)
class _Tick:
    stamp_ns: int
    episode_id: int
    action: FloatArray | None  # [action_dim], None where nothing was executed


@dataclass
class _Waiting:
    """A request whose chunk is not aligned yet."""

    key: tuple[str, int]  # session and seq_id
    stamp_ns: int  # of the request, by the robot's node
    rows: int
    payload: Any
    begin: int | None = None  # tick of the first action
    anchor: int = 0  # action that is known to lie on its tick
    is_over: bool = False  # none of its actions will be executed any more


@dataclass(frozen=True)
class AlignedChunk:
    """What was executed for a chunk's actions: their places in it, and `[len(places), action_dim]`."""

    payload: Any
    begin: int | None  # tick of the first action, None where it is unknown
    places: list[int]
    actions: FloatArray


class Alignment:
    """Aligns chunks with control ticks, from a robot's requests and ticks in the order of their reception."""

    def __init__(self, ticks_per_row: int = 1) -> None:
        """ticks_per_row: of control."""
        self._ticks_per_row = ticks_per_row
        self._ticks: OrderedDict[int, _Tick] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, int], _Waiting] = OrderedDict()
        self._newest = -1
        self._numbers = TickNumbers()

    def add_request(self, session_id: str, seq_id: int, stamp_ns: int, rows: int, payload: Any) -> None:
        """Store a request. stamp_ns: of its message. rows: of the chunk. payload: comes back with it."""
        key = session_id, seq_id
        self._waiting[key] = _Waiting(key, stamp_ns, rows, payload)

    def add_tick(self, message: Any) -> Iterator[AlignedChunk]:
        """Store an ExecutedAction; yield the chunks that are aligned now."""
        if self._numbers.detect_restart(int(message.tick), stamp_ns(message) * 1e-9):
            yield from self.finish()
        number = int(message.tick) // self._ticks_per_row
        if self._is_within_a_row(number, message):
            return
        self._newest = max(self._newest, number)
        is_action = message.source in EXECUTED and len(message.action) and not message.shadow
        action = np.array(message.action, np.float64) if is_action else None
        self._ticks[number] = _Tick(stamp_ns(message), int(message.episode_id), action)
        if len(self._ticks) > KEPT:
            self._ticks.popitem(last=False)
        if message.source == CommandSource.CHUNK:
            self._anchor(number, message)
        for waiting in list(self._waiting.values()):
            if waiting.begin is None and (waiting.is_over or len(self._waiting) > MOST_WAITING):
                waiting.begin = self._first_after(waiting.stamp_ns)
            if waiting.begin is not None and self._newest >= waiting.begin + waiting.rows - 1:
                yield self._align(waiting)

    def finish(self) -> Iterator[AlignedChunk]:
        """Align what is left, as far as there are ticks; yield it."""
        for waiting in list(self._waiting.values()):
            if waiting.begin is None:
                waiting.begin = self._first_after(waiting.stamp_ns)
            yield self._align(waiting)
        self._ticks.clear()
        self._newest = -1
        self._numbers = TickNumbers()

    def _is_within_a_row(self, number: int, message: Any) -> bool:
        """Return whether a tick only interpolates towards an action, of which it is not the first."""
        if self._ticks_per_row == 1:
            return False
        if message.source == CommandSource.CHUNK:
            return bool(message.row_fraction > 0.0)
        return number in self._ticks

    def _anchor(self, number: int, message: Any) -> None:
        """Anchor a chunk at a tick that executed one of its actions: no action of earlier chunks follows."""
        key, row = (message.session_id, int(message.seq_id)), int(message.step_index)
        if key not in self._waiting or self._waiting[key].begin is not None:
            return
        self._waiting[key].begin, self._waiting[key].anchor = number - row, row
        for earlier in takewhile(lambda waiting: waiting.key != key, self._waiting.values()):
            earlier.is_over = True

    def _first_after(self, stamp_ns: int) -> int | None:
        return next((number for number, tick in self._ticks.items() if tick.stamp_ns > stamp_ns), None)

    def _align(self, waiting: _Waiting) -> AlignedChunk:
        del self._waiting[waiting.key]
        executed: dict[int, _Tick] = {}  # by place
        if waiting.begin is not None and waiting.anchor < waiting.rows:
            self._extend(executed, waiting.begin, range(waiting.anchor, waiting.rows))
            self._extend(executed, waiting.begin, range(waiting.anchor - 1, -1, -1))
        places = sorted(executed)
        actions = np.array([executed[place].action for place in places], np.float64)
        return AlignedChunk(waiting.payload, waiting.begin, places, actions)

    def _extend(self, executed: dict[int, _Tick], begin: int, rows: range) -> None:
        """Add the ticks of rows, up to the first tick without an action or of another episode.

        A tick that the bag lacks is left out: its message was lost.
        """
        for row in rows:
            tick = self._ticks.get(begin + row)
            if tick is None:
                continue
            beside = next(iter(executed.values()), tick)
            if tick.action is None or tick.episode_id != beside.episode_id:
                break
            executed[row] = tick
