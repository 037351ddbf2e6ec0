# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What sensors say that is not true, each kind as a value: which columns, from when, until when.

A lie makes one function of time of another: where the arm is `[action_dim]`, and where its sensors say that
it is. So lies can tell of what other lies say. None of them remembers anything.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

Place = Callable[[int], np.ndarray]
"""Where the arm is, or is said to be, at a time [ns]: `[action_dim]`."""
TURN = 2.0 * math.pi


@dataclass(frozen=True)
class Lie:
    """A lie about columns of what is measured. Times in nanoseconds, the end is not part of it."""

    columns: tuple[int, ...]
    begin_ns: int
    end_ns: int

    def lasts(self, now_ns: int) -> bool:
        return self.begin_ns <= now_ns < self.end_ns

    def distort(self, now_ns: int, truth: Place) -> np.ndarray:
        """Return what is measured at a time."""
        measured = truth(now_ns).copy()
        if self.lasts(now_ns):
            measured[list(self.columns)] = self.say(now_ns, truth)
        return measured

    def say(self, now_ns: int, truth: Place) -> np.ndarray:
        """Return what it says of its columns, while it lasts."""
        return self.true(now_ns, truth)

    def true(self, now_ns: int, truth: Place) -> np.ndarray:
        """Return where its columns are."""
        return truth(now_ns)[list(self.columns)]

    def is_silent(self, now_ns: int) -> bool:
        """Return whether no message comes."""
        return False

    def age_ns(self, now_ns: int) -> int:
        """Return how old a message is that comes now, also by its stamp."""
        return 0


@dataclass(frozen=True)
class Wrong(Lie):
    """The same value in each message; one interval long it is a single wrong one."""

    value: tuple[float, ...]

    def say(self, now_ns: int, truth: Place) -> np.ndarray:
        return np.array(self.value)


@dataclass(frozen=True)
class Wild(Wrong):
    """Another value in each message: as far from the truth as `value` in either direction at most."""

    def say(self, now_ns: int, truth: Place) -> np.ndarray:
        part = random.Random(f"wild {now_ns}").uniform(-1.0, 1.0)
        return self.true(now_ns, truth) + part * np.array(self.value)


@dataclass(frozen=True)
class Restarted(Wrong):
    """A driver that is silent and then says where it starts, until it has read its encoders."""

    silent_ns: int

    def is_silent(self, now_ns: int) -> bool:
        return self.lasts(now_ns) and now_ns < self.begin_ns + self.silent_ns


@dataclass(frozen=True)
class Second(Wrong):
    """Another publisher, in turns with the true one: `wrong` of each `wrong` + `right` messages are its."""

    interval_ns: int  # between two messages
    wrong: int
    right: int

    def say(self, now_ns: int, truth: Place) -> np.ndarray:
        number = (now_ns - self.begin_ns) // self.interval_ns
        is_wrong = number % (self.wrong + self.right) < self.wrong
        return np.array(self.value) if is_wrong else self.true(now_ns, truth)


@dataclass(frozen=True)
class Shifted(Lie):
    """An encoder that counts on from elsewhere: TURN for one that lost a turn."""

    by: float

    def say(self, now_ns: int, truth: Place) -> np.ndarray:
        return self.true(now_ns, truth) + self.by


@dataclass(frozen=True)
class Drifting(Lie):
    """An encoder that slips."""

    speed: float  # [1/s]

    def say(self, now_ns: int, truth: Place) -> np.ndarray:
        return self.true(now_ns, truth) + self.speed * (now_ns - self.begin_ns) / 1e9


@dataclass(frozen=True)
class Wrapping(Lie):
    """A continuous joint that is said to be between minus pi and pi."""

    def say(self, now_ns: int, truth: Place) -> np.ndarray:
        return (self.true(now_ns, truth) + math.pi) % TURN - math.pi


@dataclass(frozen=True)
class Frozen(Lie):
    """Values that stand still while their stamps go on."""

    def say(self, now_ns: int, truth: Place) -> np.ndarray:
        return self.true(self.begin_ns, truth)


@dataclass(frozen=True)
class Late(Lie):
    """Messages of some time ago, with their own stamps."""

    delay_ns: int

    def say(self, now_ns: int, truth: Place) -> np.ndarray:
        return self.true(now_ns - self.delay_ns, truth)

    def age_ns(self, now_ns: int) -> int:
        return self.delay_ns if self.lasts(now_ns) else 0


def tell(lies: Iterable[Lie], truth: Place) -> Place:
    """Return what is measured when lies are told, each of what those before it say."""
    said = truth
    for lie in lies:
        said = partial(lie.distort, truth=said)
    return said
