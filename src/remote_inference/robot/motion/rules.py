# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What never changes while a robot moves: its limits, its controllers, its times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from remote_inference.base.contract.action_bounds import JointLimit
from remote_inference.base.contract.actions import Actions
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import count_stops, max_stopping_s
from remote_inference.robot.command import BoolArray, Float64Array
from remote_inference.robot.config import RobotConfig, to_ns
from remote_inference.robot.fallbacks import FALLBACKS, Fallback
from remote_inference.robot.motion.goal_gate import last_goal_s
from remote_inference.robot.motion.state import Homing
from remote_inference.robot.pose_geometry import ActionMasks
from remote_inference.robot.queue.plan import Interpolation
from remote_inference.robot.safety.guard import Guard
from remote_inference.robot.safety.measurement_gate import FIRST_S
from remote_inference.robot.watchdog import EXECUTOR_STALE_NS

DRIVE_SILENT_NS = 50_000_000  # without a command, after which a drive has stopped
LATE_PERIODS = 1.5  # without a tick, until the first waits for what was heard meanwhile
HURRY_NS = 5_000_000  # from a tick's decision to its command: Python's threads wait so long for each other
# By default a joint may be as far from its command as it gets at max_velocity in this time [s]: four times as
# far as the joints of the belt arm ever lag (0.06 s).
LAG_S = 0.25
END_MARGIN_S = 1.0  # beyond the time that the last commands take if every tick comes


class FollowingBounds:
    """The following errors that a contract allows. A pose counts as one, by its distance and its angle."""

    def __init__(self, actions: Actions, masks: ActionMasks, period_s: float) -> None:
        limits = [actions.limit_of(name) for name in actions.names]
        speeds = [limit.max_velocity or 0.0 for limit in limits]  # 0: of a switch, which follows always
        self._max_velocity = np.array(speeds)
        self._bound = np.array([_bound(limit) for limit in limits])
        self._least_move = self._max_velocity * period_s
        self._poses = masks.poses
        self._is_pose = masks.is_pose
        self._period_s = period_s
        poses = actions.poses.values()
        # Of the poses, `[2, poses]`: [m/s] and [rad/s], [m] and [rad].
        fastest = [(pose.max_velocity, pose.max_angular_velocity) for pose in poses]
        self._speeds = np.array(fastest).reshape(-1, 2).T
        said = [(pose.max_following_error, pose.max_following_angle) for pose in poses]
        bounds = np.array(said, np.float64).reshape(-1, 2).T  # NaN where it is left out
        self._bounds = np.where(np.isnan(bounds), LAG_S * self._speeds, bounds)

    def find_lost(
        self, command: Float64Array, measured: Float64Array, led: BoolArray, ages_s: Float64Array
    ) -> BoolArray:
        """Return the mask of those of `led` that are too far from their command, all `[action_dim]`.

        measured: each so long ago as `ages_s` says, NaN of one of which nothing is known. Quaternions of both
        have the length 1.
        """
        lost: BoolArray = led & (np.abs(command - measured) > self._bound + self._max_velocity * ages_s)
        if self._poses.exist:
            ages_s = ages_s[self._poses.columns].max(axis=1)
            apart = self._are_apart(command, measured, ages_s, self._bounds)
            lost = np.where(self._is_pose, led & apart, lost)
        return lost

    def find_moved(self, begin: Float64Array, measured: Float64Array) -> BoolArray:
        """Return the mask `[action_dim]` of what has moved by more than a step."""
        moved: BoolArray = np.abs(measured - begin) > self._least_move
        if self._poses.exist:
            moved = np.where(self._is_pose, self._are_apart(begin, measured, self._period_s), moved)
        return moved

    def _are_apart(
        self,
        begin: Float64Array,
        end: Float64Array,
        times_s: Float64Array | float,
        bounds: Float64Array | float = 0.0,
    ) -> BoolArray:
        """Return the columns of poses that are farther apart than bounds, and times at their speeds, allow.

        times_s: `[poses]`. bounds: `[2, poses]` [m] and [rad].
        """
        allowed = bounds + self._speeds * times_s
        far = self._poses.distances(begin, end) > allowed[0]
        turned = self._poses.angles(begin, end) > allowed[1]
        return self._poses.spread(far | turned, len(begin))


def _bound(limit: JointLimit) -> float:
    if limit.max_following_error == "off":
        return np.inf
    return limit.max_following_error or LAG_S * limit.fastest


@dataclass(frozen=True)
class MotionRules:
    """The rules of one robot. Times in ns, masks `[action_dim]`.

    trajectories: the joints of each trajectory controller, by destination. max_action_age_ns: no action is
    executed whose observation is older; and after so long without a command another node may have moved the
    robot. max_sensor_age_ns: an older measurement says nothing of where a joint is. given_up_after_ns: after
    so long without a tick the command watchdog may have stopped the controllers. late_after_ns: after so
    long, or when nothing was heard for UNHEARD_NS, the first tick leads no robot on that the watchdog may
    have stopped: it may have lost beats before, and its word be on the way. stops_in_all: commands in a row
    that end what was commanded. unseen_in_all: ticks in a row in which a trajectory that has ended waits for
    a measurement. ramp_ns, ramp_begin: time in which the velocity limits rise, from this fraction.
    max_changed, window: the fraction of the last commands that the guard may change, 0: any.
    """

    contract: Contract
    guard: Guard
    interpolation: Interpolation
    fallback: Fallback
    trajectories: Mapping[str, BoolArray]
    period_ns: int
    max_action_age_ns: int
    max_sensor_age_ns: int
    given_up_after_ns: int
    late_after_ns: int
    stops_in_all: int
    unseen_in_all: int
    ticks_at_home: int
    dwell_ns: np.ndarray
    ramp_ns: int = 0
    ramp_begin: float = 1.0
    max_changed: float = 0.0
    window: int = 1
    is_shadow: bool = False

    @classmethod
    def of(cls, contract: Contract, guard: Guard, config: RobotConfig) -> MotionRules:
        """Return the rules of a robot. guard: of the contract."""
        period_s = contract.period_s
        stops_in_all = count_stops(period_s)
        actions = contract.actions
        dwells_s = [actions.limit_of(name).dwell_s or 0.0 for name in actions.names]
        at_home_s = last_goal_s(contract) if contract.home else 0.0
        return cls(
            contract,
            guard,
            Interpolation(
                contract.ticks_per_row, is_linear=contract.interpolation == "linear", masks=guard.masks
            ),
            FALLBACKS.get(config.fallback)(),
            {
                sink.destination: actions_of(contract, [sink])
                for sink in contract.commands
                if sink.interface.takes_horizon
            },
            period_ns=round(period_s * 1e9),
            max_action_age_ns=to_ns(config.max_action_age_s),
            max_sensor_age_ns=to_ns(config.max_sensor_age_s),
            given_up_after_ns=to_ns(config.watchdog_timeout_s + period_s),
            late_after_ns=to_ns(LATE_PERIODS * period_s),
            stops_in_all=stops_in_all,
            # A measurement may have to be confirmed before it says where a joint is.
            unseen_in_all=math.ceil((config.max_sensor_age_s + FIRST_S) / period_s),
            ticks_at_home=max(stops_in_all, math.ceil(at_home_s / period_s)),
            dwell_ns=np.array([round(dwell_s * 1e9) for dwell_s in dwells_s]),
            ramp_ns=to_ns(config.resume_ramp_s),
            ramp_begin=config.resume_velocity_scale,
            max_changed=config.max_clamped_ratio,
            window=config.clamped_window,
            is_shadow=config.command_mode == "shadow",
        )

    @cached_property
    def masks(self) -> ActionMasks:
        """The actions by kind."""
        return self.guard.masks

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the actions."""
        return self.contract.actions.names

    @cached_property
    def following(self) -> FollowingBounds:
        """How far joints and poses may be from their last command."""
        return FollowingBounds(self.contract.actions, self.masks, self.contract.period_s)

    @cached_property
    def is_led_ahead(self) -> BoolArray:
        """Mask of the joints of trajectory controllers."""
        none = np.zeros(len(self.names), bool)
        led_ahead: BoolArray = np.logical_or.reduce([none, *self.trajectories.values()])
        return led_ahead

    @cached_property
    def is_stood_in(self) -> BoolArray:
        """Mask of the actions for which the fallback is safe; others get zeros in its place."""
        return np.array([kind in self.fallback.action_kinds for kind in self.masks.kinds])

    @cached_property
    def has_others(self) -> bool:
        """Whether some actions go on in silence until they get zero: velocities and efforts."""
        return bool(self.masks.goes_on.any())

    @property
    def moves_for_ns(self) -> int:
        """Time [ns] after a command in which the next one goes on from its motion, and begins at no rest."""
        return max(self.late_after_ns, DRIVE_SILENT_NS)

    @property
    def can_go_on(self) -> bool:
        """Whether some controllers go on when nothing is commanded any more."""
        return self.has_others or bool(self.trajectories)

    @property
    def outdated_after_ns(self) -> int:
        """From a decision to its command at most [ns]; trajectory controllers go on meanwhile."""
        goes_on_ns = max(self.period_ns // 2, HURRY_NS) if self.trajectories else EXECUTOR_STALE_NS
        return min(EXECUTOR_STALE_NS, goes_on_ns)

    @property
    def max_stopping_s(self) -> float:
        """Time [s] in which a robot has surely got its last stop."""
        return max_stopping_s(self.contract.period_s) + END_MARGIN_S

    @property
    def longest_end_s(self) -> float:
        """Time [s] in which a robot that gives up is home, from anywhere, and has got its stops."""
        home = self.contract.home
        if home is None:
            return self.max_stopping_s
        way_s = Homing.longest_s(home, self.contract.actions) + last_goal_s(self.contract)
        return way_s + self.max_stopping_s


def actions_of(contract: Contract, sinks: Iterable[CommandSink]) -> BoolArray:
    """Return the mask `[action_dim]` of the actions that go to some controllers of a contract."""
    names = {name for sink in sinks for name in sink.names}
    return np.array([name in names for name in contract.actions.names])
