# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The result of comparing policies with a bag, and whether it is within the bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from remote_inference.learn.open_loop.evaluation import ErrorSums, Evaluation, ReplayError

ALL = "all"
WITHIN, EXCEEDED, UNJUDGED = range(3)  # exit codes

# A joint, or ALL for each one, and its largest mean absolute error, in the joint's unit.
Bound = tuple[str, float]


def parse_bounds(texts: Iterable[str], joints: Sequence[str]) -> list[Bound]:
    """Return the bounds in texts as `joint=value`. Raises ReplayError for others, and for unknown joints."""
    bounds = []
    for text in texts:
        joint, _, value = text.partition("=")
        try:
            largest = float(value)
        except ValueError:
            largest = math.nan
        if not largest >= 0.0:
            expected = "a joint or 'all' and a number, as all=0.05"
            raise ReplayError(f"--max-error: found {text!r}, expected {expected}")
        if joint not in (ALL, *joints):
            raise ReplayError(f"--max-error: found joint {joint!r}, expected '{ALL}', {', '.join(joints)}")
        bounds.append((joint, largest))
    return bounds


@dataclass(frozen=True)
class Report:
    """The comparison of some policies with one bag."""

    bag: str
    namespace: str
    evaluations: Sequence[Evaluation]
    bounds: Sequence[Bound]
    against: str  # name of the sums of an Evaluation that the bounds are for

    @property
    def exceeded(self) -> list[str]:
        """What is beyond its bound, one line each."""
        return [line for evaluation in self.evaluations for line in self._excesses(evaluation)]

    @property
    def problems(self) -> list[str]:
        """Why something cannot be judged, one line each."""
        found = [
            f"{one.policy.source}: {one.failed} of {one.requests} requests without an answer, the first: "
            f"{one.first_failure}"
            for one in self.evaluations
            if one.failed
        ]
        for one in self.evaluations:
            if not (one.recorded.rows or one.executed.rows) and not one.failed:
                found.append(f"{one.policy.source}: the bag holds no chunk and no executed action to compare")
            elif self.bounds and not self._sums(one).rows:
                found.append(f"{one.policy.source}: nothing {self.against} in the bag for --max-error")
        return found

    @property
    def notes(self) -> list[str]:
        """What is good to know, one line each."""
        return [
            f"{one.policy.source}: {one.with_prefix} requests continue a chunk in the model space of another "
            f"policy ({', '.join(sorted(one.recorded_policies))}): the answers may suffer"
            for one in self.evaluations
            if one.with_prefix and one.policy.uses_prefix and one.recorded_policies - {one.policy.fingerprint}
        ]

    @property
    def exit_code(self) -> int:
        """The exit code: 0 within the bounds, 1 exceeded, 2 not judged, or not all of it."""
        if self.problems:
            return UNJUDGED
        return EXCEEDED if self.exceeded else WITHIN

    def to_json(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "exit_code": self.exit_code,
            "bag": self.bag,
            "namespace": self.namespace,
            "policies": [_to_json(one) for one in self.evaluations],
            "exceeded": self.exceeded,
            "problems": self.problems,
            "notes": self.notes,
        }

    def _sums(self, evaluation: Evaluation) -> ErrorSums:
        sums: ErrorSums = getattr(evaluation, self.against)
        return sums

    def _excesses(self, evaluation: Evaluation) -> Iterator[str]:
        for joint in self._sums(evaluation).by_joint():
            bounds = [largest for bounded, largest in self.bounds if bounded in (ALL, joint.name)]
            if bounds and not joint.mean_abs <= min(bounds):  # recorded values may be NaN
                yield (
                    f"{evaluation.policy.source}: {joint.name}: mean absolute error {joint.mean_abs:.4g} "
                    f"{joint.unit}, expected {min(bounds):g} at most"
                )


def _to_json(evaluation: Evaluation) -> dict[str, Any]:
    counts = ("requests", "failed", "compared_chunks", "identical_chunks", "same_policy_chunks")
    return {
        **vars(evaluation.policy),
        **{name: getattr(evaluation, name) for name in counts},
        "first_failure": evaluation.first_failure,
        **{
            name: {"rows": sums.rows, "joints": [vars(joint) for joint in sums.by_joint()]}
            for name, sums in (("executed", evaluation.executed), ("recorded", evaluation.recorded))
        },
    }
