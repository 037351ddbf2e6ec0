# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares the messages on a controller's topic with those that the replay would have sent there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from remote_inference.recording.decisions.comparison import KEPT, Add
from remote_inference.recording.decisions.exact import exact, first_difference, show
from remote_inference.recording.decisions.report import Difference

LOOK_AHEAD = 50  # recorded messages among which the one expected next is looked for
IsStop = Callable[[float, Any], bool]


class Commands:
    """Finds each recorded message of a topic among the replayed ones, in order; some may be unrecorded.

    A recorded message that was not replayed is the command watchdog's stop, or another sender's where the
    journal covers its time: before the node began, and in its last moment, it may be the node's own.
    """

    def __init__(self, topic: str, names: tuple[str, ...], add: Add, is_stop: IsStop) -> None:
        """names: of the elements of arrays. is_stop: whether a message of a time [s] is the watchdog's."""
        self._topic = topic
        self._names = list(names)
        self._add = add
        self._is_stop = is_stop
        self._recorded: deque[tuple[float, Any]] = deque()
        self._replayed: deque[tuple[int, Any]] = deque()  # with the tick
        self.compared = 0
        self.unrecorded = 0
        self.watchdog_stops = 0
        self._unreplayed = 0

    def record(self, time_s: float, message: Any) -> None:
        """Take a recorded message."""
        self._recorded.append((time_s, message))

    def replay(self, tick: int, message: Any) -> None:
        """Take a replayed message."""
        self._replayed.append((tick, message))

    def compare(self, covered_s: tuple[float, float], *, is_last: bool = False) -> None:
        """Compare what can be. covered_s: times that the journal covers. is_last: nothing more follows.

        A recorded message that is none of the replayed ones differs, once enough later ones were replayed.
        """
        while self._recorded and (self._replayed or is_last):
            time_s, message = self._recorded[0]
            if time_s > covered_s[1] and not is_last:  # nor may the watchdog's word of its stop be there yet
                break
            if self._is_stop(time_s, message):  # first: the node's own stops after it may be equal to it
                self._recorded.popleft()
                self.watchdog_stops += 1
                continue
            wanted = exact(message)
            ahead = next((n for n, (_, other) in enumerate(self._replayed) if exact(other) == wanted), None)
            if ahead is None and len(self._replayed) < KEPT // 100 and not is_last:
                break
            self._recorded.popleft()
            if ahead is not None:
                self.compared += 1
                for _ in range(ahead + 1):
                    self._replayed.popleft()
                self.unrecorded += ahead
            elif self._replayed and not self._is_expected_next():
                self.compared += 1
                tick, other = self._replayed.popleft()
                field, before, after = first_difference(self._names, message, other)
                self._add(Difference(f"{self._topic} of tick {tick}", time_s, field, before, after))
            elif covered_s[0] <= time_s <= covered_s[1]:
                self._add(
                    Difference(self._topic, time_s, "a message of another sender", show(message), "none")
                )
            else:
                self._unreplayed += 1
        while len(self._replayed) > KEPT and not self._recorded:
            self._replayed.popleft()
            self.unrecorded += 1

    def finish(self, covered_s: tuple[float, float]) -> int:
        """Compare the rest; return how many recorded messages may be the node's, and were not replayed."""
        self.compare(covered_s, is_last=True)
        self.unrecorded += len(self._replayed)
        self._replayed.clear()
        return self._unreplayed

    def _is_expected_next(self) -> bool:
        """Return whether what must come next comes soon: the message before it is then one too many."""
        wanted = exact(self._replayed[0][1])
        return any(exact(message) == wanted for _, message in islice(self._recorded, LOOK_AHEAD))
