# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which task to play next: that whose groups teach most, by the results recorded so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remote_inference.errors import UserError
from remote_inference.rollouts.group import Group

RECENT = 0.3  # weight of the newest group in a task's rate of success


class CurriculumError(UserError):
    """A curriculum cannot take a result or a state; the message says why."""


@dataclass(frozen=True)
class TaskRecord:
    """What is known of a task. success_rate: over recent groups; before the first, unknown: a half."""

    groups: int = 0
    success_rate: float = 0.5

    @property
    def promise(self) -> float:
        """Variance of success, 0 to 0.25: a group that always or never succeeds has no advantages."""
        return self.success_rate * (1.0 - self.success_rate)


class Curriculum:
    """Tasks of one environment and their results. `record` is all that changes it."""

    def __init__(self, tasks: Sequence[str]) -> None:
        """Raise CurriculumError without a task."""
        if not tasks:
            raise CurriculumError("curriculum: found no task, expected one or more")
        self._records = dict.fromkeys(tasks, TaskRecord())

    @property
    def records(self) -> Mapping[str, TaskRecord]:
        return dict(self._records)

    def choose(self) -> str:
        """Return the task with the most promise; of equals that with the fewest groups, then the first."""
        return max(self._records, key=lambda task: (self._records[task].promise, -self._records[task].groups))

    def record(self, group: Group) -> TaskRecord:
        """Take the outcome of a group; return what is known of its task now."""
        if group.task not in self._records:
            expected = " or ".join(map(repr, self._records))
            raise CurriculumError(f"curriculum: found a group of task {group.task!r}, expected {expected}")
        before = self._records[group.task]
        rate = float(group.successes.mean())
        if before.groups:
            rate = (1.0 - RECENT) * before.success_rate + RECENT * rate
        self._records[group.task] = TaskRecord(before.groups + 1, rate)
        return self._records[group.task]

    def as_json(self) -> dict[str, Any]:
        """Return what is known of each task."""
        return {task: vars(record) for task, record in self._records.items()}
