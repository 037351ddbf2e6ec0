# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which messages of several sensors belong together: the contract and a parameter bound their time apart.

A set has of each source the content nearest to the newest common time: the newest one at which every source
with a bound had delivered. So each common time is tried once, when the slowest of these sources delivers, and
nothing that comes later could make a better set of it. As message_filters' ApproximateTime does it, without
its search for the smallest set, which costs it a message of delay.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from remote_inference.base.contract.contract import Contract
from remote_inference.robot.command import Float64Array
from remote_inference.robot.config import RobotConfig, to_ns
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.safety.measured_arm import topics_of_actions

LONGEST_S = 2.0  # samples are kept for max_sensor_age_s, and not for longer: images are large


@dataclass(frozen=True)
class Bound:
    """How far a source's content may be in time from that of others. key: what says so.

    of_cameras: from that of the other sources alone which have such a bound, too; else from any.
    """

    skew_ns: int
    key: str
    of_cameras: bool = False


Bounds = Mapping[str, tuple[Bound, ...]]  # of each source that has one, by topic


def find_bounds(contract: Contract, config: RobotConfig) -> Bounds:
    """Return the bounds of each source that has one, by topic."""
    bounds: dict[str, tuple[Bound, ...]] = {}
    if config.max_observation_skew_s:
        every = Bound(to_ns(config.max_observation_skew_s), "max_observation_skew_s")
        bounds = dict.fromkeys(contract.topics, (every,))
    for name, image in contract.images.items():
        if image.max_skew_s is not None:
            own = Bound(to_ns(image.max_skew_s), f"images.{name}.max_skew_s", of_cameras=True)
            bounds[image.topic] = (*bounds.get(image.topic, ()), own)
    return bounds


def find_misfit(times_ns: Mapping[str, int], bounds: Bounds) -> str:
    """Return which two sources are too far apart, in words; empty when all fit.

    times_ns: of the contents, by topic; each topic with a bound has one.
    """
    for one, other in combinations(bounds, 2):
        both_are_cameras = all(any(bound.of_cameras for bound in bounds[topic]) for topic in (one, other))
        shared = (
            bound for bound in (*bounds[one], *bounds[other]) if both_are_cameras or not bound.of_cameras
        )
        tightest = min(shared, key=lambda bound: bound.skew_ns, default=None)
        apart_ns = abs(times_ns[one] - times_ns[other])
        if tightest is not None and apart_ns > tightest.skew_ns:
            found = f"{one} and {other} are {apart_ns / 1e9:.3g} s apart"
            return f"{found}, {tightest.key} is {tightest.skew_ns / 1e9:g}"
    return ""


class _Kept(NamedTuple):
    """A source's content. at_ns: its time. sample: the first one that held it."""

    at_ns: int
    sample: TickSample


def _at_ns(kept: _Kept) -> int:
    return kept.at_ns


def _nearest(kept: list[_Kept], at_ns: int) -> _Kept:
    """Return what is nearest to a time; kept: not empty, oldest first."""
    place = bisect_left(kept, at_ns, key=_at_ns)
    return min(kept[max(0, place - 1) : place + 1], key=lambda one: abs(one.at_ns - at_ns))


class FittingSets:
    """The newest set of one observation's sources, of samples of what the sensors held. For one thread."""

    def __init__(self, contract: Contract, config: RobotConfig) -> None:
        self._all_bounds = find_bounds(contract, config)
        self._topics_of_actions = topics_of_actions(contract)
        self._max_age_ns = to_ns(config.max_sensor_age_s)
        self._span_ns = min(self._max_age_ns, to_ns(LONGEST_S))
        self.refused = 0
        """Common times since start-up of which no set was made."""
        self.use(contract.topics)

    def use(self, sources: Collection[str]) -> None:
        """Begin anew with the topics of an observation."""
        self._sources = tuple(sources)
        self._bounds = {topic: bound for topic, bound in self._all_bounds.items() if topic in self._sources}
        self.are_used = len(self._bounds) > 1
        """Whether sources have to fit together; else nothing is kept here, and the newest content counts."""
        self._kept: dict[str, list[_Kept]] = {topic: [] for topic in self._sources}
        self._common_ns = 0  # the newest common time
        self._fitted_ns = 0  # that of the newest set; before there is one, the first that was tried
        self._set: TickSample | None = None
        self._misfit = ""

    def find_problem(self, now_ns: int) -> str:
        """Return why no set was made for max_sensor_age_s, in words; empty when the last one did fit."""
        return "" if self.is_fresh(now_ns) else self._misfit

    def is_fresh(self, now_ns: int) -> bool:
        """Return whether none is needed, or the newest, if there is one, is within max_sensor_age_s."""
        return not self.are_used or now_ns - self._fitted_ns <= self._max_age_ns

    def add(self, sample: TickSample) -> TickSample | None:
        """Keep what the sensors hold now, and return the newest set as the same tick's sample.

        Its content is by topic: that of the sample which held the source's message. None before the first.
        """
        self._keep(sample)
        if all(self._kept.values()):
            self._choose()
        return None if self._set is None else replace(self._set, tick_ns=sample.tick_ns)

    def _keep(self, sample: TickSample) -> None:
        oldest_ns = max(sample.arrivals.values(), default=0) - self._span_ns
        for topic, kept in self._kept.items():
            at_ns = sample.arrivals.get(topic)
            if at_ns is not None and (not kept or at_ns > kept[-1].at_ns):
                kept.append(_Kept(at_ns, sample))
            del kept[: min(len(kept) - 1, bisect_left(kept, oldest_ns, key=_at_ns))]

    def _choose(self) -> None:
        common_ns = min(self._kept[topic][-1].at_ns for topic in self._bounds)
        chosen = {topic: _nearest(kept, common_ns) for topic, kept in self._kept.items()}
        times_ns = {topic: one.at_ns for topic, one in chosen.items()}
        misfit = find_misfit(times_ns, self._bounds)
        self._fitted_ns = self._fitted_ns or common_ns
        if common_ns > self._common_ns:  # else it has been judged
            self._common_ns, self._misfit = common_ns, misfit
            self.refused += bool(misfit)
            for kept in self._kept.values():  # no later common time is nearer to one of before
                del kept[: max(0, bisect_right(kept, common_ns, key=_at_ns) - 1)]
        if not misfit:
            self._fitted_ns = common_ns
            content = {topic: one.sample.content for topic, one in chosen.items()}
            self._set = TickSample(content, times_ns, measured=self._measured(chosen))

    def _measured(self, chosen: Mapping[str, _Kept]) -> Float64Array | None:
        """Return where the robot was measured by the set `[action_dim]`, each action by its own topic."""
        measured: Float64Array | None = None
        for place, topic in enumerate(self._topics_of_actions):
            if topic:
                found = chosen[topic].sample.measured
                if found is None:
                    return None
                measured = found.copy() if measured is None else measured
                measured[place] = found[place]
        return measured
