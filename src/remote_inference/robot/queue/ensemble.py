# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Temporal ensembling: an action is the mean of what the chunks so far say of its instant.

The i-th of these chunks from the oldest has the weight exp(-coeff i), as in Zhao et al. 2023, *Learning
Fine-Grained Bimanual Manipulation with Low-Cost Hardware*, arXiv:2304.13705, and in LeRobot's ACT. Means are
of points in the robot's units, all of which say where to. An angle that wraps goes the shorter way from the
mean before. A quaternion that joins has length 1 and the sign that is nearer to the mean, to which the guard
gives the length 1. Of a switch the newest chunk alone counts.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.contract.actions import Actions
from remote_inference.robot.command import BoolArray, Float64Array
from remote_inference.robot.pose_geometry import LEAST_LENGTH, Poses, align
from remote_inference.robot.queue.plan import Plan


class Ensemble:
    """Joins a chunk with those before it. Holds no state: actions know of which chunks they are means."""

    def __init__(self, coeff: float, actions: Actions | None = None) -> None:
        """coeff: above 0, older chunks count more; below 0, newer ones. actions: None: all are numbers."""
        self._coeff = coeff
        self._is_switch = self._wraps = np.zeros(1, bool)
        self._turns = np.empty((0, 4), np.intp)
        if actions is not None:
            self._is_switch = np.array([kind == "switch" for kind in actions.kinds])
            self._wraps = np.array([actions.limit_of(name).wraps for name in actions.names])
            self._turns = Poses(actions.poses, actions.names).turns

    def join(self, before: Plan, chunk: Plan, oldest_ns: int = 0) -> Plan:
        """Return the plan of a chunk, joined with the plan that it replaces: both begin at one instant.

        An action stands alone after another episode, task or policy, after a mean to which an observation
        from before `oldest_ns` belongs, and where one of the two is not finite or says no orientation.
        """
        said, actions = chunk.points[chunk.begin :].copy(), list(chunk.ahead)
        others, sound = before.ahead[: len(actions)], self._find_sound(said)
        lengths = np.linalg.norm(said[:, self._turns], axis=2, keepdims=True)
        said[:, self._turns] /= np.where(sound[:, np.newaxis, np.newaxis], lengths, 1.0)
        if others and _origin(others[0].source) == _origin(actions[0].source):
            count = len(others)
            means = before.points[before.begin :][:count]
            captures_ns = np.array([(*other.earlier, other.source)[0].capture_ns for other in others])
            joins = self._find_sound(means) & sound[:count] & (captures_ns >= oldest_ns)
            numbers = np.array([1 + len(other.earlier) for other in others])
            said[:count][joins] = self._go_on(means[joins], said[:count][joins], numbers[joins])
            for place in np.flatnonzero(joins).tolist():
                other = others[place]
                actions[place] = replace(actions[place], earlier=(*other.earlier, other.source))
        return Plan(tuple(actions), said, chunk.capture_ns[chunk.begin :])

    def _go_on(self, means: Float64Array, said: Float64Array, numbers: NDArray[np.int64]) -> Float64Array:
        """Return means `[rows, action_dim]` with one more chunk. numbers `[rows]`: of the chunks so far."""
        turns, nearer = said[:, self._turns], said.copy()
        aligned = align(turns.reshape(-1, 4), means[:, self._turns].reshape(-1, 4))
        nearer[:, self._turns] = aligned.reshape(turns.shape)
        ways = nearer - means
        ways = np.where(self._wraps, (ways + np.pi) % (2.0 * np.pi) - np.pi, ways)
        with np.errstate(over="ignore"):  # of an infinite sum the share is 0
            sums = np.exp(self._coeff * np.arange(numbers.max(initial=0) + 1)).cumsum()
        shares = 1.0 / sums[numbers, np.newaxis]  # exp(-coeff n) of the sum of exp(-coeff i), i = 0 to n
        found: Float64Array = np.where(self._is_switch, said, means + shares * ways)
        return found

    def _find_sound(self, points: Float64Array) -> BoolArray:
        """Return the mask `[rows]` of points that are finite and whose quaternions say orientations."""
        are_long = np.linalg.norm(points[:, self._turns], axis=2) >= LEAST_LENGTH
        return np.asarray(np.isfinite(points).all(axis=1) & are_long.all(axis=1), bool)


_origin = attrgetter("episode_id", "task", "policy_version", "policy_fingerprint")  # of a source
