# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The figures of fleet.py, from the records of all robots; the same for real and virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from fleet_robot import Record


@dataclass(frozen=True)
class Span:
    """What happened between two instants, to all robots."""

    seconds: float
    asked: int
    answered: int
    round_trip_p50_ms: float
    round_trip_p99_ms: float
    fewest: int  # answers of one robot
    most: int
    jain: float
    stalled: int  # robots without an answer for longer than a second and a half

    @property
    def of_asked(self) -> float:
        return self.answered / max(1, self.asked)


@dataclass(frozen=True)
class Readmission:
    """How the robots fared that lost their session, from the failure to the next chunk [s]."""

    robots: int
    returned: int
    p50_s: float
    last_s: float
    took_s: tuple[float, ...]  # of each robot that returned


def span(records: Sequence[Record], begin_ns: int, end_ns: int) -> Span:
    asked = sum(begin_ns <= at_ns < end_ns for record in records for at_ns in record.asked_ns)
    answers = [[one for one in record.answers if begin_ns <= one[0] < end_ns] for record in records]
    took_ms = np.array([one[1] / 1e6 for each in answers for one in each])
    shares = np.array([len(each) for each in answers], float)
    stalled = 0
    for each in answers:
        instants = np.array([begin_ns, *(one[0] for one in each), end_ns])
        stalled += bool(np.diff(instants).max() > 1.5e9)
    p50, p99 = np.percentile(took_ms, [50, 99]) if took_ms.size else (np.nan, np.nan)
    return Span(
        seconds=(end_ns - begin_ns) / 1e9,
        asked=asked,
        answered=int(shares.sum()),
        round_trip_p50_ms=float(p50),
        round_trip_p99_ms=float(p99),
        fewest=int(shares.min()),
        most=int(shares.max()),
        jain=float(shares.sum() ** 2 / (len(shares) * (shares**2).sum())) if shares.any() else float("nan"),
        stalled=stalled,
    )


def readmission(records: Sequence[Record], failed_ns: int, end_ns: int, server: str = "") -> Readmission:
    """server: that died; empty for a router, whose robots are those that open a session afterwards."""
    took_s, robots = [], 0
    for record in records:
        before = [name for at_ns, name in record.opened if at_ns < failed_ns]
        after = [at_ns for at_ns, _ in record.opened if failed_ns <= at_ns < end_ns]
        if not (bool(before) and before[-1] == server if server else bool(after)):
            continue
        robots += 1
        chunks = [one[0] for one in record.answers if after and after[0] <= one[0] < end_ns]
        if chunks:
            took_s.append((chunks[0] - failed_ns) / 1e9)
    return Readmission(
        robots=robots,
        returned=len(took_s),
        p50_s=float(np.median(took_s)) if took_s else float("nan"),
        last_s=max(took_s, default=float("nan")),
        took_s=tuple(sorted(took_s)),
    )


def answers_per_second(records: Sequence[Record], begin_ns: int, end_ns: int) -> list[int]:
    """Return the answers of all robots in each whole second."""
    seconds = int((end_ns - begin_ns) / 1e9)
    instants = [one[0] for record in records for one in record.answers]
    counts, _ = np.histogram(instants, seconds, (begin_ns, begin_ns + seconds * 1e9))
    return [int(count) for count in counts]
