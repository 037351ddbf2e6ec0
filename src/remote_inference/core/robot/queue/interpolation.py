# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where each control tick leads: to the next row of the queue, or to a point between two of its rows.

A row lasts `ticks_per_row` control ticks. In its first tick the command is the row itself; in the others it
moves in even steps to the row after it, and arrives there when that one begins. When a chunk changes that
row meanwhile, the way goes on from the present point, in the ticks that are left.

No way leads to or from a row that says no orientation: the points between it and a good one would pass
the guard, and lead the arm after a row that must not be executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from remote_inference.core.contract.policy_units import UnitMap
from remote_inference.core.robot.action_masks import ActionMasks
from remote_inference.core.robot.command import Float64Array
from remote_inference.core.robot.pose_geometry import Poses
from remote_inference.core.robot.queue.action_queue import ActionQueue, QueuedAction

MOST_AHEAD = 100  # points between rows that are foreseen: each costs a trajectory controller's message


@dataclass(frozen=True)
class Step:
    """Where one tick leads: a point `[action_dim]`, before the guard and in the robot's units.

    row: whose time it is. fraction: of its time that has passed, 0.0 when it begins.
    """

    row: QueuedAction
    fraction: float
    point: Float64Array


@dataclass(frozen=True)
class Foresight:
    """Points of the next ticks if nothing new arrives `[ticks, action_dim]`, and the row of each."""

    points: Float64Array
    rows: Sequence[QueuedAction]


_Point = tuple[Float64Array, QueuedAction]  # with the row whose time it is


@dataclass(frozen=True)
class _Way:
    """A straight way to the next row, from a point that was commanded in tick `since` of the present one.

    poses: those whose orientations go along an arc; None: none.
    """

    begin: Float64Array
    since: int
    goal: QueuedAction
    goal_point: Float64Array
    poses: Poses | None = None

    def at(self, tick: int, ticks_per_row: int) -> Float64Array:
        fraction = (tick - self.since) / (ticks_per_row - self.since)
        point = self.begin + fraction * (self.goal_point - self.begin)
        if self.poses is None:
            return point
        return self.poses.turn(point, self.begin, self.goal_point, fraction)


class Interpolation:
    """Takes rows from the queue, and leads from one to the next. For the control thread."""

    def __init__(
        self,
        queue: ActionQueue,
        units: UnitMap,
        ticks_per_row: int,
        *,
        is_linear: bool,
        masks: ActionMasks | None = None,
    ) -> None:
        """units: of the queue's rows. is_linear: False repeats each row instead of moving to the next.

        masks: of the actions: a switch keeps its row's number all its time, and orientations go along arcs;
        None: all go straight.
        """
        self._queue = queue
        self._units = units
        self._ticks_per_row = ticks_per_row
        self._is_linear = is_linear
        self._is_stepped = None if masks is None else masks.is_switch
        self._poses = masks.poses if masks is not None and masks.poses.exist else None
        self._row: QueuedAction | None = None  # begun last
        self._tick = 0  # of that row, the last one that was asked for
        self._point = np.empty(0)  # of that tick
        self._way: _Way | None = None

    @property
    def can_step(self) -> bool:
        """Whether there is a row in progress, or one to begin."""
        return self._row_in_progress is not None or self._queue.head is not None

    @property
    def _row_in_progress(self) -> QueuedAction | None:
        return self._row if self._tick + 1 < self._ticks_per_row else None

    def end_row(self) -> None:
        """Let the next step begin a row: the robot may be elsewhere by now."""
        self._row = None

    def drop_captured_before(self, oldest_ns: int) -> int:
        """Drop rows whose observation was captured before an instant; return how many.

        The row in progress is one of them: the next row then begins at once.
        """
        dropped = self._queue.drop_captured_before(oldest_ns)
        row = self._row_in_progress
        if row is None or row.source.capture_ns >= oldest_ns:
            return dropped
        self.end_row()
        return dropped + 1

    def step(self, now_ns: int) -> Step | None:
        """Return where the tick of now leads; None when the time of the last row is over and none follows."""
        row = self._row_in_progress
        if row is None:
            row = self._row = self._queue.get(now_ns)
            if row is None:
                return None
            self._tick, self._way = 0, None
            self._point = self._units.to_robot(row.robot)
        else:
            self._way = self._find_way(self._queue.head)
            self._tick += 1
            if self._way is not None:
                self._point = self._way.at(self._tick, self._ticks_per_row)
        return Step(row, self._tick / self._ticks_per_row, self._point)

    def skip(self, ticks_ns: Iterable[int], episode_id: int) -> None:
        """Take the next ticks as executed at these instants; rows of another episode stay."""
        for tick_ns in ticks_ns:
            head = self._queue.head
            if self._row_in_progress is None and (head is None or head.source.episode_id != episode_id):
                return
            self.step(tick_ns)

    def foresee(self) -> Foresight:
        """Return the next ticks, up to the last row of the queue; nothing is taken."""
        rows = self._queue.upcoming()
        count = self._ticks_per_row
        if count > 1:
            rows = rows[: 1 + MOST_AHEAD // count]
        if not rows:
            return Foresight(np.empty((0, 0)), ())
        points = self._units.to_robot(np.stack([row.robot for row in rows]))
        if count == 1:
            return Foresight(points, rows)
        ahead: list[_Point] = []
        if (present := self._row_in_progress) is not None:
            ahead += self._between(present, self._point, self._find_way(rows[0]), self._tick)
        for place, row in enumerate(rows[:-1]):
            way = self._make_way(points[place], 0, rows[place + 1], points[place + 1])
            ahead += [(points[place], row), *self._between(row, points[place], way, 0)]
        ahead.append((points[-1], rows[-1]))
        return Foresight(np.stack([point for point, _ in ahead]), [row for _, row in ahead])

    def _between(self, row: QueuedAction, point: Float64Array, way: _Way | None, tick: int) -> list[_Point]:
        """Return the points of a row's ticks after one of them that commands `point`."""
        ticks = range(tick + 1, self._ticks_per_row)
        return [(point if way is None else way.at(after, self._ticks_per_row), row) for after in ticks]

    def _find_way(self, goal: QueuedAction | None) -> _Way | None:
        """Return the way from the present point to the row that follows; None: the point is kept."""
        if goal is None or not self._is_linear:
            return None
        if self._way is not None and self._way.goal is goal:
            return self._way
        return self._make_way(self._point, self._tick, goal, self._units.to_robot(goal.robot))

    def _make_way(
        self, begin: Float64Array, since: int, goal: QueuedAction, point: Float64Array
    ) -> _Way | None:
        """Return the way from a point to a row's; None: the point is kept."""
        if not self._is_linear:
            return None
        poses = self._poses
        if poses is not None and not (poses.say_orientations(begin) and poses.say_orientations(point)):
            return None
        if self._is_stepped is not None:
            point = np.where(self._is_stepped, begin, point)
        return _Way(begin, since, goal, point, poses)
