# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which run of the robot's node sent a recorded message: the journal and other topics are recorded apart.

A message of a run may stand in the bag before the journal's begin, and one of the run before behind it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from remote_inference.recording.decisions.comparison import RequestRecord, request_key
from remote_inference.recording.timeline.tick_times import TickNumbers

EARLY = 20_000  # messages that may come before the journal's begin


class Stage(Enum):
    """What is known of the run of the next message."""

    BETWEEN = auto()  # it is of the next run
    GIVEN_UP = auto()  # it may still be of a run whose journal cannot be read
    WITHIN = auto()  # it is of the run that is replayed
    AHEAD = auto()  # numbers began anew within a run: it is of the next one, if one comes


class Event(Enum):
    """What the journal, or a message's number, tells."""

    BEGIN = auto()  # of a run's journal
    MORE = auto()  # of the journal that was read before
    UNREADABLE = auto()  # is what follows of the journal
    END = auto()  # of a run: the next journal is of another
    ANEW = auto()  # is what a message's number says


NEXT = {
    (Stage.BETWEEN, Event.BEGIN): Stage.WITHIN,
    (Stage.BETWEEN, Event.UNREADABLE): Stage.GIVEN_UP,
    (Stage.GIVEN_UP, Event.BEGIN): Stage.WITHIN,
    (Stage.GIVEN_UP, Event.ANEW): Stage.BETWEEN,
    (Stage.WITHIN, Event.UNREADABLE): Stage.GIVEN_UP,
    (Stage.WITHIN, Event.END): Stage.BETWEEN,
    (Stage.WITHIN, Event.ANEW): Stage.AHEAD,
    (Stage.AHEAD, Event.MORE): Stage.WITHIN,
    (Stage.AHEAD, Event.UNREADABLE): Stage.GIVEN_UP,
    (Stage.AHEAD, Event.END): Stage.BETWEEN,
}  # what is not here changes nothing


@dataclass(frozen=True)
class Recorded:
    """A message of another topic than the journal's, for a method of the run that sent it."""

    method: str
    arguments: tuple[Any, ...]


class Assignment:
    """Keeps messages until it is known which run sent them."""

    def __init__(self) -> None:
        self._stage = Stage.BETWEEN
        self._waiting: deque[Recorded] = deque(maxlen=EARLY)
        self._ticks = TickNumbers()
        self._last_request: RequestRecord | None = None

    @property
    def is_ahead(self) -> bool:
        """Return whether messages wait for another run while one is replayed."""
        return self._stage is Stage.AHEAD

    def note(self, event: Event) -> tuple[Recorded, ...]:
        """Take what the journal tells; return the messages that have waited for it, for `take` again."""
        before = self._move(event)
        if self._stage is not Stage.WITHIN or before is Stage.WITHIN:
            return ()
        waited = () if before is Stage.GIVEN_UP else tuple(self._waiting)
        self._waiting.clear()
        self._ticks, self._last_request = TickNumbers(), None
        return waited

    def take(self, recorded: Recorded) -> bool:
        """Return whether a message is of the run that is replayed; keep one of the next."""
        if self._begins_anew(recorded) and self._move(Event.ANEW) is not self._stage:
            self._waiting.clear()
        if self._stage is Stage.WITHIN:
            return True
        self._waiting.append(recorded)
        return False

    def _move(self, event: Event) -> Stage:
        """Go to the next stage; return the one before."""
        before, self._stage = self._stage, NEXT.get((self._stage, event), self._stage)
        return before

    def _begins_anew(self, recorded: Recorded) -> bool:
        """Return whether a message's number says that another run of the node has sent it."""
        if recorded.method == "take_tick":
            time_s, number, _ = recorded.arguments
            return self._ticks.begin_anew(number, time_s)
        if recorded.method == "take_request":
            _, request = recorded.arguments
            last, self._last_request = self._last_request, request
            is_of_another = last is not None and request.session_id != last.session_id
            return is_of_another and request_key(request) <= request_key(last)
        return False
