# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Answers to calls that take long: the outcome, or after a while that it is pending: ask again.

A caller that hears nothing then knows that the node or the network is gone, however long the work takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

Response = TypeVar("Response")
Result = TypeVar("Result")

HOLD_S = 0.5  # until a call that is not done yet is answered with "pending"


class _Held(Generic[Response]):
    """One call. Its answer is given once, by whoever comes first."""

    def __init__(self, give: Callable[[Response], None], pending: Response, until_s: float) -> None:
        self.until_s = until_s
        self._give, self._pending = give, pending
        self._lock = threading.Lock()
        self._is_given = False

    @property
    def is_given(self) -> bool:
        return self._is_given

    def give(self, response: Response) -> None:
        with self._lock:
            was_given, self._is_given = self._is_given, True
        if not was_given:
            self._give(response)

    def give_up(self) -> None:
        self.give(self._pending)


class HeldAnswers:
    """The calls that are not answered yet. `hold` and `answer_late` are for one thread."""

    def __init__(self, hold_s: float = HOLD_S, now_s: Callable[[], float] = time.monotonic) -> None:
        """Begin with no calls. hold_s: until one is answered "pending". now_s: a monotonic clock [s]."""
        self._hold_s = hold_s
        self._now_s = now_s
        self._held: list[_Held[Any]] = []

    def hold(
        self,
        outcome: Future[Result],
        make: Callable[[Future[Result]], Response],
        pending: Response,
        give: Callable[[Response], None],
    ) -> None:
        """Answer when the outcome is there, on its thread, or with `pending` by `answer_late`.

        make: returns the response to a future that is done. give: sends a response; from any thread.
        """
        held = _Held(give, pending, self._now_s() + self._hold_s)
        outcome.add_done_callback(partial(_answer, held, make))
        if not held.is_given:
            self._held.append(held)

    def answer_late(self) -> None:
        """Answer the calls that have waited long enough."""
        now_s = self._now_s()
        for held in self._held:
            if held.until_s <= now_s:
                held.give_up()
        self._held = [held for held in self._held if not held.is_given]


def _answer(
    held: _Held[Response], make: Callable[[Future[Result]], Response], outcome: Future[Result]
) -> None:
    if not held.is_given:  # else it was pending, and was asked for again
        held.give(make(outcome))
