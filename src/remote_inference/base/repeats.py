# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Log lines that may come many times a second: the first is said, of its repetitions fewer and fewer."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass

PAUSES_S = (1.0, 10.0, 60.0)  # after the first line, the second, and each later one
MAX_SUBJECTS = 1_000  # that are remembered: names of strangers can be subjects
_NUMBER = re.compile(r"(?<![\w/.'\"-])[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b")  # no part of a name, as in joint_1


def without_numbers(text: str) -> str:
    """Return a text without the numbers that differ from one line of its kind to the next."""
    return _NUMBER.sub("#", text)


@dataclass
class _Subject:
    seen_s: float
    said_s: float
    said: int = 1  # lines
    left_out: int = 0  # since the last line


class Repeats:
    """Says which lines of each subject are logged. Any thread may ask.

    A subject of which nothing came for the longest pause is news again.
    """

    def __init__(self) -> None:
        self._subjects: OrderedDict[str, _Subject] = OrderedDict()  # the last seen at the end
        self._lock = threading.Lock()

    def line(self, text: str, now_s: float, subject: str = "") -> str:
        """Return the line to log for `text` at `now_s` [s, monotonic], with how often it was left out.

        Empty: nothing is logged. subject: what repeats; by default the text, whatever numbers are in it.
        """
        left_out = self.left_out(subject or without_numbers(text), now_s)
        if left_out is None:
            return ""
        return f"{text} ({left_out} more since the last such line)" if left_out else text

    def left_out(self, subject: str, now_s: float) -> int | None:
        """Return how many lines were left out before the one that is due now; None when none is due."""
        left_out: int | None = None
        with self._lock:
            known = self._subjects.pop(subject, None)
            if known is None or now_s - known.seen_s >= PAUSES_S[-1]:
                left_out = known.left_out if known else 0
                known = _Subject(now_s, now_s)
            elif now_s - known.said_s >= PAUSES_S[min(known.said, len(PAUSES_S)) - 1]:
                left_out = known.left_out
                known.said_s, known.said, known.left_out = now_s, known.said + 1, 0
            else:
                known.left_out += 1
            known.seen_s = now_s
            self._subjects[subject] = known
            while len(self._subjects) > MAX_SUBJECTS:
                self._subjects.popitem(last=False)
        return left_out


class Changes:
    """Says which changes of conditions are logged: fewer and fewer, and the last word is always true.

    A change that is not due yet is said once it is, if the condition is still so.
    """

    def __init__(self) -> None:
        self._said: dict[str, tuple[bool, float, int]] = {}  # what was said, when [s], and how many in a row

    def is_due(self, subject: str, *, holds: bool, now_s: float) -> bool:
        """Return whether to say now that a condition holds, or does so no more. Ask as long as it lasts."""
        said, said_s, count = self._said.get(subject, (False, -PAUSES_S[-1], 0))
        quiet_s = now_s - said_s
        if quiet_s >= PAUSES_S[-1]:
            count = 0
        if holds is said or (count and quiet_s < PAUSES_S[min(count, len(PAUSES_S)) - 1]):
            return False
        self._said[subject] = (holds, now_s, count + 1)
        return True
