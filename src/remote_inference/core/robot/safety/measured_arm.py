# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the robot is measured, as far as that can be true: its steps are bounded from where it is measured.

A driver that publishes degrees or joints in another order, another publisher of the same joints, or an
encoder's broken number would have the robot led on from there. What is not believed counts as not measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.robot.command import Float64Array
from remote_inference.core.robot.queue.observation_history import TickSample
from remote_inference.core.robot.safety.effects import Effect, Warn
from remote_inference.core.robot.safety.guard import IMPLAUSIBLE, Guard
from remote_inference.core.robot.safety.measurement_gate import TURN, Belief, MeasurementGate

WARNING_PERIOD_NS = 5_000_000_000  # at most one warning in this time
OFTEN, OFTEN_NS = 5, 2_000_000_000  # more contradicting messages than this in this time are named
TURN_TOLERANCE = 0.5  # from a whole turn [rad]


@dataclass(frozen=True)
class Implausible:
    """A topic whose messages contradict one another, and how, in words."""

    topic: str
    problem: str


class MeasuredArm:
    """Where the robot was measured last. For the engine's thread."""

    def __init__(self, contract: Contract, guard: Guard) -> None:
        self.topics = contract.measured_topics
        self.position: Float64Array | None = None
        """Positions and poses `[action_dim]` that are believed, None when one of them is not known."""
        self.time_ns = 0
        """When the oldest of them was captured; 0 while one of them is doubted."""
        self.times_ns = np.zeros(contract.action_dim, np.int64)
        """When each of them was, 0 of those that are doubted."""
        self._contract = contract
        self._guard = guard
        self._names = np.array(contract.actions.names)
        self._topics = _topics_of_actions(contract)
        self._holds = guard.masks.holds
        self._gate = MeasurementGate(contract.actions, guard.masks, contract.period_s)
        self._belief = Belief.none(contract.action_dim)
        self._doubts = self._gate.doubted(self._belief)  # mask `[action_dim]`
        self.doubted: tuple[str, ...] = ()
        """Joints whose newest measurement is not believed."""
        self._contradicted_ns: deque[int] = deque(maxlen=OFTEN + 1)  # when the last messages were
        self._contradiction = ("", "")  # topic of the newest one, and what it is in words
        self._leaps: dict[str, float] = {}  # that were confirmed, by joint, and nobody has accepted yet ...
        self._leap: tuple[str, ...] = ()  # ... and the joints of those that are told
        self._told_ns = -WARNING_PERIOD_NS

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

        Those that leap after it was told are told once it is accepted.
        """
        self._leap = self._leap or tuple(self._leaps)
        return self._describe_leaps() if self._leap else ""

    def accept_leap(self) -> None:
        """Take that a person has looked at what leapt: what is measured of it from now on may be true."""
        leapt = np.isin(self._names, self._leap)
        self._believe(self._belief.without(leapt))
        self._leaps = {name: leap for name, leap in self._leaps.items() if name not in self._leap}
        self._leap = ()

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
        judged: bool,
        stamps: Mapping[str, int] | None = None,
        command: Float64Array | None = None,
        by_hand: bool = False,
    ) -> tuple[Mapping[str, int], list[Effect]]:
        """Take what the sensors say; return the arrivals that count, and what a person must know.

        Positions that are needed, and are doubted or none, make their topics silent: since they were believed
        last. judged, stamps: as of `Engine.take_sensors`. command, by_hand: as of
        `MeasurementGate.judge`.
        """
        is_judged = judged and bool(self._holds.any())
        if is_judged and measured is None:
            arrivals = {topic: at_ns for topic, at_ns in arrivals.items() if topic not in self.topics}
        self.position = measured
        self.time_ns = min((arrivals.get(topic, 0) for topic in self.topics), default=0)
        self.times_ns = self._times_of(arrivals)
        if not is_judged or measured is None or stamps is None:
            return arrivals, []
        self._judge(measured, self.times_ns, self._times_of(stamps), command, by_hand=by_hand)
        return self._doubt(arrivals, measured), self._tell(measured, now_ns)

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
        self._believe(self._gate.judge(before, measured, times_ns, stamps_ns, command, by_hand=by_hand))
        if (contradictions := self._belief.implausible - before.implausible) > 0:
            self._guard.refuse(IMPLAUSIBLE, contradictions)
            self._contradicted_ns.append(int(times_ns.max()))
            self._contradiction = self._describe(before)
        self._leaps |= dict(self._belief.leaps)

    def _believe(self, belief: Belief) -> None:
        self._belief, self._doubts = belief, self._gate.doubted(belief)
        self.doubted = tuple(self._names[self._doubts].tolist()) if belief.seen_ns.any() else ()

    def _describe_leaps(self) -> str:
        actions = self._contract.actions
        leaps = [(name, self._leaps[name]) for name in self._leap]
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
        """Take what is believed in place of what is measured; return the arrivals that count."""
        doubted = self._doubts
        believed = np.where(self._holds, self._belief.position, measured)
        self.position = None if np.isnan(believed[self._holds]).any() else believed
        if not doubted.any():
            return arrivals
        self.time_ns = 0
        counts = dict(arrivals)
        believed_ns = np.where(doubted, self._belief.at_ns, -1).tolist()
        for topic, at_ns in zip(self._topics, believed_ns, strict=True):
            if topic in counts and at_ns >= 0:
                counts[topic] = min(counts[topic], at_ns)
        self.times_ns = np.where(doubted, 0, self.times_ns)
        return {topic: at_ns for topic, at_ns in counts.items() if at_ns or topic not in self.topics}

    def _tell(self, measured: Float64Array, now_ns: int) -> list[Effect]:
        """Return what a person must know of measurements that are not believed, now and then."""
        problem = self._find_problem(measured)
        if (implausible := self.find_implausible(now_ns)) is not None:
            problem = (
                problem or f"{implausible.topic}: {implausible.problem}: two publishers, or a broken sensor"
            )
        if not problem or now_ns < self._told_ns + WARNING_PERIOD_NS:
            return []
        self._told_ns = now_ns
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


def _topics_of_actions(contract: Contract) -> list[str]:
    """Return the topic on which each action is measured, empty where none is."""
    topics = {
        action: measurement.source.topic
        for measurement in contract.measurements
        for action in measurement.actions
    }
    return [topics.get(name, "") for name in contract.actions.names]
