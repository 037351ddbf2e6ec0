# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the robot is measured, as far as that can be true: its steps are bounded from where it is measured.

A driver that publishes degrees or joints in another order, another publisher of the same joints, or an
encoder's broken number would have the robot led on from there. What is not believed counts as not measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.robot.command import BoolArray, Float64Array
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.safety.effects import Effect, Warn
from remote_inference.robot.safety.guard import IMPLAUSIBLE, Guard
from remote_inference.robot.safety.measurement_gate import TURN, Belief, MeasurementGate

WARNING_PERIOD_NS = 5_000_000_000  # at most one warning in this time
OFTEN, OFTEN_NS = 5, 2_000_000_000  # more contradicting messages than this in this time are named
TURN_TOLERANCE = 0.5  # from a whole turn [rad]


@dataclass(frozen=True)
class Implausible:
    """A topic whose messages contradict one another, and how, in words."""

    topic: str
    problem: str


@dataclass(frozen=True)
class Measured:
    """Where the robot was measured last, arrays `[action_dim]`, times of the contents [ns].

    position: positions and poses that are believed, None when one of them is not known. time_ns: of the
    oldest of them, 0 while one of them is doubted. times_ns: of each of them, 0 of those that are doubted.
    """

    position: Float64Array | None
    time_ns: int
    times_ns: np.ndarray


@dataclass(frozen=True)
class _Leaps:
    """Leaps that were confirmed and nobody has accepted yet, by joint; and the joints of those reported."""

    confirmed: Mapping[str, float] = field(default_factory=dict)
    reported: tuple[str, ...] = ()


class MeasuredArm:
    """What is believed of the joints' measurements. For the engine's thread."""

    def __init__(self, contract: Contract, guard: Guard) -> None:
        self.topics = contract.measured_topics
        self.measured = Measured(None, 0, np.zeros(contract.action_dim, np.int64))
        self._contract = contract
        self._guard = guard
        self._names = np.array(contract.actions.names)
        self._topics = topics_of_actions(contract)
        self._holds = guard.masks.holds
        self._gate = MeasurementGate(contract.actions, guard.masks, contract.period_s)
        self._belief = Belief.none(contract.action_dim)
        self._contradicted_ns: deque[int] = deque(maxlen=OFTEN + 1)  # when the last messages were
        self._contradiction = ("", "")  # topic of the newest one, and what it is in words
        self._leaps = _Leaps()
        self._warned_ns = -WARNING_PERIOD_NS

    @property
    def doubted(self) -> tuple[str, ...]:
        """Joints whose newest measurement is not believed."""
        return tuple(self._names[self._doubts].tolist()) if self._belief.seen_ns.any() else ()

    @property
    def _doubts(self) -> BoolArray:
        return self._gate.doubted(self._belief)

    def find_implausible(self, now_ns: int) -> Implausible | None:
        """Return which topic measures a joint again and again where it cannot be, if one does."""
        often = self._contradicted_ns
        if len(often) <= OFTEN or now_ns - often[0] > OFTEN_NS:
            return None
        topic, problem = self._contradiction
        return Implausible(topic, f"{problem}, more than {OFTEN} times within {OFTEN_NS / 1e9:g} s")

    @property
    def leap(self) -> str:
        """Which joints have leapt as no hand and no drive moves them, in words; empty when none has.

        Those that leap after a report are reported once that is accepted.
        """
        leaps = self._leaps
        self._leaps = replace(leaps, reported=leaps.reported or tuple(leaps.confirmed))
        return self._describe_leaps() if self._leaps.reported else ""

    def accept_leap(self) -> None:
        """Believe from now on what is measured of joints whose leap was reported: a person has checked it."""
        confirmed, reported = self._leaps.confirmed, self._leaps.reported
        self._belief = self._belief.without(np.isin(self._names, reported))
        self._leaps = _Leaps({name: leap for name, leap in confirmed.items() if name not in reported})

    def believed(
        self, sample: TickSample, command: Float64Array | None, *, by_hand: bool
    ) -> TickSample | None:
        """Return what a control tick held, with its joints where they are believed to be; None if one is not.

        What is newer comes after. command, by_hand: as of `MeasurementGate.judge`.
        """
        if not self._holds.any():
            return sample
        if sample.measured is None:
            return None
        times_ns, stamps_ns = self._times_of(sample.arrivals), self._times_of(sample.stamps)
        self._judge(sample.measured, times_ns, stamps_ns, command, by_hand=by_hand)
        is_newest = (times_ns == self._belief.seen_ns)[self._holds].all()
        if self._doubts.any() or not is_newest:
            return None
        return replace(sample, measured=np.where(self._holds, self._belief.position, sample.measured))

    def take(
        self,
        arrivals: Mapping[str, int],
        measured: Float64Array | None,
        now_ns: int,
        *,
        stamps: Mapping[str, int] | None = None,
        command: Float64Array | None = None,
        by_hand: bool = False,
    ) -> tuple[Mapping[str, int], list[Effect]]:
        """Store what the sensors measure; return the arrivals that count, and the warnings that are due.

        Positions that are needed, and are doubted or none, make their topics silent: since they were believed
        last. stamps: as of `Engine.take_sensors`. command, by_hand: as of `MeasurementGate.judge`.
        """
        is_needed = bool(self._holds.any())
        if is_needed and measured is None:
            arrivals = {topic: at_ns for topic, at_ns in arrivals.items() if topic not in self.topics}
        time_ns = min((arrivals.get(topic, 0) for topic in self.topics), default=0)
        times_ns = self._times_of(arrivals)
        self.measured = Measured(measured, time_ns, times_ns)
        if not is_needed or measured is None or stamps is None:
            return arrivals, []
        self._judge(measured, times_ns, self._times_of(stamps), command, by_hand=by_hand)
        return self._doubt(arrivals, measured), self._warn(measured, now_ns)

    def _times_of(self, times: Mapping[str, int]) -> np.ndarray:
        return np.array([times.get(topic, 0) for topic in self._topics], np.int64)

    def _judge(
        self,
        measured: Float64Array,
        times_ns: np.ndarray,
        stamps_ns: np.ndarray,
        command: Float64Array | None,
        *,
        by_hand: bool,
    ) -> None:
        before = self._belief
        self._belief = self._gate.judge(before, measured, times_ns, stamps_ns, command, by_hand=by_hand)
        if (contradictions := self._belief.implausible - before.implausible) > 0:
            self._guard.refuse(IMPLAUSIBLE, contradictions)
            self._contradicted_ns.append(int(times_ns.max()))
            self._contradiction = self._describe(before)
        confirmed = {**self._leaps.confirmed, **dict(self._belief.leaps)}
        self._leaps = replace(self._leaps, confirmed=confirmed)

    def _describe_leaps(self) -> str:
        actions = self._contract.actions
        leaps = [(name, self._leaps.confirmed[name]) for name in self._leaps.reported]
        named = ", ".join(f"{name} by {leap:.2f} {actions.unit(name)}" for name, leap in leaps)
        is_turn = any(
            abs(leap - TURN) < TURN_TOLERANCE and actions.unit(name) == "rad" for name, leap in leaps
        )
        others = "an encoder lost a turn, a driver restarted, or another publishes it"
        cause = "is the joint continuous, which wraps: true says?" if is_turn else others
        return f"measurement: {named} between two messages, as no hand and no drive moves it: {cause}"

    def _describe(self, before: Belief) -> tuple[str, str]:
        """Return the topic that measures a joint where it cannot be by now, and how far that is, in words."""
        belief = self._belief
        place = int(np.argmax(belief.other_ns != before.other_ns))
        name = self._contract.actions.names[place]
        unit = self._contract.actions.unit(name)
        if np.isnan(belief.other[place]):
            return self._topics[place], f"the quaternion of {name} says no orientation"
        known = belief.position[place]
        begin = before.other[place] if np.isnan(known) else known
        there = f"{name} is measured at {belief.other[place]:.3g} {unit}"
        return self._topics[place], f"{there}, where it cannot have moved to from {begin:.3g}"

    def _doubt(self, arrivals: Mapping[str, int], measured: Float64Array) -> Mapping[str, int]:
        """Put what is believed in place of what is measured; return the arrivals that count."""
        doubted = self._doubts
        believed = np.where(self._holds, self._belief.position, measured)
        position = None if np.isnan(believed[self._holds]).any() else believed
        if not doubted.any():
            self.measured = replace(self.measured, position=position)
            return arrivals
        self.measured = Measured(position, 0, np.where(doubted, 0, self.measured.times_ns))
        counts = dict(arrivals)
        believed_ns = np.where(doubted, self._belief.at_ns, -1).tolist()
        for topic, at_ns in zip(self._topics, believed_ns, strict=True):
            if topic in counts and at_ns >= 0:
                counts[topic] = min(counts[topic], at_ns)
        return {topic: at_ns for topic, at_ns in counts.items() if at_ns or topic not in self.topics}

    def _warn(self, measured: Float64Array, now_ns: int) -> list[Effect]:
        """Return the warning of measurements that are not believed, if it is due."""
        problem = self._find_problem(measured)
        if (implausible := self.find_implausible(now_ns)) is not None:
            problem = (
                problem or f"{implausible.topic}: {implausible.problem}: two publishers, or a broken sensor"
            )
        if not problem or now_ns < self._warned_ns + WARNING_PERIOD_NS:
            return []
        self._warned_ns = now_ns
        return [Warn(problem)]

    def _find_problem(self, measured: Float64Array) -> str:
        """Return which position `[action_dim]` cannot be, and why; empty when all can."""
        if not self._guard.masks.poses.say_orientations(measured):
            return "a pose is measured with a quaternion of length 0, expected an orientation"
        outside = self._gate.find_impossible(measured)
        if not outside.any():
            return ""
        place = int(np.argmax(outside))
        actions, name = self._contract.actions, self._contract.actions.names[place]
        limit = actions.limit_of(name)
        return (
            f"{name}: measured at {measured[place]:g}, expected near its limits, {limit.min:g} to "
            f"{limit.max:g} {actions.unit(name)}: in another unit, or of a broken sensor"
        )


def topics_of_actions(contract: Contract) -> list[str]:
    """Return the topic on which each action is measured, empty where none is."""
    topics = {
        action: measurement.source.topic
        for measurement in contract.measurements
        for action in measurement.actions
    }
    return [topics.get(name, "") for name in contract.actions.names]
