# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The actions ahead of a robot, and how far it has come in them: immutable values, and where each tick leads.

An action lasts `ticks_per_action` control ticks. In its first tick the command is the action itself; in the
others it moves in even steps to the next action, and arrives there when that one begins. When a chunk changes
that one meanwhile, the way goes on from the present point, in the ticks that are left.

No way leads to or from an action that says no orientation: the points between it and a good one would pass
the guard, and lead the arm after an action that must not be executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.policy import Float32Array
from remote_inference.robot.command import Float64Array
from remote_inference.robot.pose_geometry import ActionMasks, Poses

MOST_AHEAD = 100  # points between actions that are foreseen: each costs a trajectory controller's message


@dataclass(frozen=True)
class ChunkSource:
    """Where an action comes from; shared by the actions of a chunk."""

    capture_ns: int  # robot's monotonic clock at capture of the observation
    session_id: str
    seq_id: int
    episode_id: int
    policy_version: str
    task: str
    policy_fingerprint: str = ""  # of the session in which it came


@dataclass(frozen=True)
class QueuedAction:
    """One action of a chunk: `model` and `robot` are float32 `[policy_dim]`, `step_index` its place in it.

    Both are as the server sent them, in the policy's units, and go back so in prefixes: no rounding of a
    conversion comes between what a policy said and what it has to continue. earlier: of the chunks, oldest
    first, of which the plan's point is a mean besides this one (`Ensemble`).
    """

    source: ChunkSource
    step_index: int
    model: Float32Array
    robot: Float32Array
    earlier: tuple[ChunkSource, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The actions ahead, the next one first, from `begin` on.

    points `[actions, action_dim]`: in the robot's units, before the guard. capture_ns `[actions]`: of each
    one's observation.
    """

    actions: tuple[QueuedAction, ...] = ()
    points: Float64Array = field(default_factory=lambda: np.empty((0, 0)))
    capture_ns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    begin: int = 0

    def __len__(self) -> int:
        return len(self.actions) - self.begin

    @property
    def head(self) -> QueuedAction | None:
        """The next action, None when there is none."""
        return self.actions[self.begin] if self else None

    @property
    def head_point(self) -> Float64Array:
        """The point `[action_dim]` of the next action."""
        point: Float64Array = self.points[self.begin]
        return point

    @property
    def ahead(self) -> tuple[QueuedAction, ...]:
        """The actions, without those that are gone."""
        return self.actions[self.begin :]

    def after(self, count: int) -> Plan:
        """Return the plan without its next `count` actions."""
        return replace(self, begin=self.begin + count)

    def first(self, count: int | None) -> Plan:
        """Return the plan of the next `count` actions, None for all."""
        if count is None or count >= len(self):
            return self
        end = self.begin + count
        return Plan(self.actions[:end], self.points[:end], self.capture_ns[:end], self.begin)

    def count_older(self, oldest_ns: int) -> int:
        """Return how many of the next actions have an observation from before an instant."""
        is_fresh = self.capture_ns[self.begin :] >= oldest_ns
        return int(np.argmax(is_fresh)) if is_fresh.any() else len(self)

    def join(self, other: Plan) -> Plan:
        """Return this plan with another one behind it."""
        if not self:
            return other
        return Plan(
            self.ahead + other.ahead,
            np.concatenate([self.points[self.begin :], other.points[other.begin :]]),
            np.concatenate([self.capture_ns[self.begin :], other.capture_ns[other.begin :]]),
        )


@dataclass(frozen=True)
class Step:
    """Where one tick leads: a point `[action_dim]`, before the guard and in the robot's units.

    action: whose time it is. fraction: of its time that has passed, 0.0 when it begins.
    """

    action: QueuedAction
    fraction: float
    point: Float64Array


@dataclass(frozen=True)
class Foresight:
    """Points of the next ticks if nothing new arrives `[ticks, action_dim]`, and their captures `[ticks]`."""

    points: Float64Array
    capture_ns: NDArray[np.int64]


@dataclass(frozen=True)
class _Way:
    """A straight way to the next action, from a point that was commanded in tick `since` of the present one.

    poses: those whose orientations go along an arc; None: none.
    """

    begin: Float64Array
    since: int
    goal: QueuedAction
    goal_point: Float64Array
    poses: Poses | None = None

    def at(self, tick: int, ticks_per_action: int) -> Float64Array:
        fraction = (tick - self.since) / (ticks_per_action - self.since)
        point = self.begin + fraction * (self.goal_point - self.begin)
        if self.poses is None:
            return point
        return self.poses.turn(point, self.begin, self.goal_point, fraction)


@dataclass(frozen=True)
class Progress:
    """How far a robot has come in its plan.

    action: begun last. tick: of it, the last one that was commanded, at `point` `[action_dim]`. taken: what
    was begun in this tick, and when [ns].
    """

    plan: Plan = field(default_factory=Plan)
    action: QueuedAction | None = None
    tick: int = 0
    point: Float64Array = field(default_factory=lambda: np.empty(0))
    way: _Way | None = None
    taken: tuple[tuple[QueuedAction, int], ...] = ()

    def go_on(self, plan: Plan) -> Progress:
        """Return the same with the plan as it is by now."""
        return replace(self, plan=plan, taken=())

    def end_action(self) -> Progress:
        """Return the same, but the next step begins an action: the robot may be elsewhere by now."""
        return replace(self, action=None)


class Interpolation:
    """Leads from one action to the next. Holds no state."""

    def __init__(self, ticks_per_action: int, *, is_linear: bool, masks: ActionMasks | None = None) -> None:
        """is_linear: False repeats each action instead of moving to the next.

        masks: of the actions: a switch keeps its number all its time, and orientations go along arcs; None:
        all go straight.
        """
        self._ticks = ticks_per_action
        self._is_linear = is_linear
        self._is_stepped = None if masks is None else masks.is_switch
        self._poses = masks.poses if masks is not None and masks.poses.exist else None

    def can_step(self, progress: Progress) -> bool:
        """Return whether there is an action in progress, or one to begin."""
        return self._in_progress(progress) is not None or bool(progress.plan)

    def _in_progress(self, progress: Progress) -> QueuedAction | None:
        return progress.action if progress.tick + 1 < self._ticks else None

    def drop_captured_before(self, progress: Progress, oldest_ns: int) -> tuple[Progress, int]:
        """Drop actions whose observation was captured before an instant; return how many, too.

        The action in progress is one of them: the next one then begins at once.
        """
        dropped = progress.plan.count_older(oldest_ns)
        if dropped:
            progress = replace(progress, plan=progress.plan.after(dropped))
        action = self._in_progress(progress)
        if action is None or action.source.capture_ns >= oldest_ns:
            return progress, dropped
        return progress.end_action(), dropped + 1

    def step(self, progress: Progress, now_ns: int) -> tuple[Progress, Step | None]:
        """Return where the tick of now leads; None when the last action is over and none follows."""
        plan, action = progress.plan, self._in_progress(progress)
        if action is None:
            action = plan.head
            if action is None:
                return progress.end_action(), None
            taken = (*progress.taken, (action, now_ns))
            progress = Progress(plan.after(1), action, 0, plan.head_point, None, taken)
        else:
            way, tick = self._find_way(progress), progress.tick + 1
            point = progress.point if way is None else way.at(tick, self._ticks)
            progress = replace(progress, tick=tick, way=way, point=point)
        return progress, Step(action, progress.tick / self._ticks, progress.point)

    def points_after(self, before: Progress, progress: Progress, ticks: Sequence[int]) -> Float64Array | None:
        """Return where some of the next ticks will lead `[ticks, action_dim]`, if nothing new arrives.

        ticks: from now on. When the last action has begun the plan goes on as `before`; None: it just began.
        """
        known = max(0, self._ticks * len(progress.plan) - progress.tick)
        if not known and before.action is None:
            return None
        last = self._point_at(progress, known)
        step = last - (self._point_at(progress, known - 1) if known else before.point)
        return np.stack(
            [
                self._point_at(progress, tick) if tick <= known else last + (tick - known) * step
                for tick in ticks
            ]
        )

    def _point_at(self, progress: Progress, ticks: int) -> Float64Array:
        """Return the point of a tick from now on, of a known action."""
        row, tick = divmod(progress.tick + ticks, self._ticks)
        if not row:
            way = self._find_way(progress) if ticks else None
            return progress.point if way is None else way.at(tick, self._ticks)
        place = progress.plan.begin + row - 1
        point: Float64Array = progress.plan.points[place]
        if not tick or place + 1 == len(progress.plan.actions):
            return point
        way = self._make_way(point, 0, progress.plan.actions[place + 1], progress.plan.points[place + 1])
        return point if way is None else way.at(tick, self._ticks)

    def skip(self, progress: Progress, ticks_ns: Iterable[int], episode_id: int) -> Progress:
        """Count the next ticks as executed at these instants; actions of another episode stay."""
        for tick_ns in ticks_ns:
            head = progress.plan.head
            if self._in_progress(progress) is None and (head is None or head.source.episode_id != episode_id):
                break
            progress, _ = self.step(progress, tick_ns)
        return progress

    def foresee(self, progress: Progress) -> Foresight:
        """Return the next ticks, up to the last action."""
        plan, count = progress.plan, self._ticks
        begin = plan.begin
        end = len(plan.actions) if count == 1 else min(len(plan.actions), begin + 1 + MOST_AHEAD // count)
        if begin == end:
            return Foresight(np.empty((0, 0)), np.empty(0, np.int64))
        points, capture_ns = plan.points[begin:end], plan.capture_ns[begin:end]
        if count == 1:
            return Foresight(points, capture_ns)
        ahead: list[Float64Array] = []
        captures: list[int] = []
        if (present := self._in_progress(progress)) is not None:
            between = self._between(progress.point, self._find_way(progress), progress.tick)
            ahead += between
            captures += len(between) * [present.source.capture_ns]
        for place in range(end - begin - 1):
            way = self._make_way(points[place], 0, plan.actions[begin + place + 1], points[place + 1])
            ahead += [points[place], *self._between(points[place], way, 0)]
            captures += count * [int(capture_ns[place])]
        ahead.append(points[-1])
        captures.append(int(capture_ns[-1]))
        return Foresight(np.stack(ahead), np.array(captures, np.int64))

    def _between(self, point: Float64Array, way: _Way | None, tick: int) -> list[Float64Array]:
        """Return the points of an action's ticks after one of them that commands `point`."""
        ticks = range(tick + 1, self._ticks)
        return [point if way is None else way.at(after, self._ticks) for after in ticks]

    def _find_way(self, progress: Progress) -> _Way | None:
        """Return the way from the present point to the action that follows; None: the point is kept."""
        goal = progress.plan.head
        if goal is None or not self._is_linear:
            return None
        if progress.way is not None and progress.way.goal is goal:
            return progress.way
        return self._make_way(progress.point, progress.tick, goal, progress.plan.head_point)

    def _make_way(
        self, begin: Float64Array, since: int, goal: QueuedAction, point: Float64Array
    ) -> _Way | None:
        """Return the way from a point to an action's; None: the point is kept."""
        if not self._is_linear:
            return None
        poses = self._poses
        if poses is not None and not (poses.say_orientations(begin) and poses.say_orientations(point)):
            return None
        if self._is_stepped is not None:
            point = np.where(self._is_stepped, begin, point)
        return _Way(begin, since, goal, point, poses)
