# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A watched robot whose sensors lie, are late and come in bursts. Its drives and controllers do as told.

`lie_judge` says what is asked of it.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from remote_inference.base.exchange import Request
from remote_inference.robot.motion.state import Tick
from support.builders import ns
from support.robot.command_judge import judge_command
from support.robot.controllers import Controlled
from support.robot.lie_judge import LieJudge
from support.robot.lying_sensors import Lie, tell
from support.robot.watched_world import WatchedWorld


@dataclass(frozen=True)
class Timing:
    """How messages come: how late one may be [ns], how often they wait for one another and for how long."""

    jitter_ns: int = 0
    burst: float = 0.0  # probability, of each message, that it and all within `burst_ns` come together
    burst_ns: int = 0
    is_stamped: bool = True


class LyingWorld(WatchedWorld):
    """Adds lies to the sensors. What the arm does is kept, for lies that tell of the past."""

    def __init__(self, *arguments: Any, timing: Timing, timing_seed: int, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.lies: list[Lie] = []
        self.is_honest = False  # none will be told
        self.timing = timing
        self._timing_rng = random.Random(f"timing {timing_seed}")
        self._arrives_ns = 0  # the last message that was sent
        self._burst_ns = 0  # until then messages wait
        self._times_ns = [self.now_ns]
        self._places = [self.position]
        names = self.contract.actions.names
        self.columns = {topic: [] for topic in self.contract.topics}
        for measurement in self.measurements:
            taken = [names.index(name) for name in measurement.actions if name]
            self.columns[measurement.source.topic] += taken
        self.lie_judge = LieJudge(self)

    def place(self, time_ns: int) -> np.ndarray:
        """Return where the arm was at a time."""
        return self._places[max(0, bisect_right(self._times_ns, time_ns) - 1)]

    def move(self) -> None:
        super().move()
        if self._ready:
            self._times_ns.append(self.now_ns)
            self._places.append(self.position)

    # -- sensors -------------------------------------------------------------------------------------------

    def _receive_sensors(self) -> None:
        self.move()
        rng, timing = self._timing_rng, self.timing
        if rng.random() < timing.burst and self.now_ns > self._burst_ns:
            self._burst_ns = self.now_ns + rng.randint(0, timing.burst_ns)
        late_ns = rng.randint(0, timing.jitter_ns)
        self._arrives_ns = max(self._arrives_ns, self.now_ns + late_ns, self._burst_ns)
        for topic, delivers in self.sensors.items():
            if not delivers:
                continue
            if self._arrives_ns == self.now_ns:
                self._arrive(topic, self.now_ns)
            else:
                self.after(self._arrives_ns - self.now_ns, partial(self._arrive, topic, self.now_ns))

    def _arrive(self, topic: str, sent_ns: int) -> None:
        """Take a message that was sent at a time."""
        columns = self.columns[topic]
        lies = [lie for lie in self.lies if not set(columns).isdisjoint(lie.columns)]
        if any(lie.is_silent(sent_ns) for lie in lies):
            return
        age_ns = max((lie.age_ns(sent_ns) for lie in lies), default=0)
        stamp_ns = sent_ns - age_ns if self.timing.is_stamped else 0
        content_ns = self._clocks[topic].content_ns(stamp_ns, self.now_ns)
        if content_ns is None:
            return
        self.arrivals[topic] = content_ns
        if columns:
            self.said_stamps = {**self.said_stamps, topic: stamp_ns}
            self.seen = self.seen.copy()
            self.seen[columns] = tell(lies, self.place)(sent_ns)[columns]
            self.lie_judge.see(columns)
        if not (self.hung or self.deaf):
            self._look_at_sensors()

    # -- what is asked -------------------------------------------------------------------------------------

    def _judge(self, tick: Tick, arm: Controlled, rows: np.ndarray) -> None:
        if arm.kind in ("position", "pose"):
            self.lie_judge.judge_command(tick, arm, rows)
        else:
            judge_command(self, tick, arm, rows, self.astray)

    def _check_request(self, request: Request, shown: dict[str, int]) -> None:
        super()._check_request(request, shown)
        self.lie_judge.judge_request()

    def _stop_controllers(self) -> None:
        super()._stop_controllers()
        for arm in self.arms:
            if arm.kind == "position" and self.stops[arm.sink.topic].action is not None:
                self.lie_judge.judge_watchdog(arm, self.stops[arm.sink.topic].action[arm.joints])

    def clear_stop(self, stops: int | None = None) -> str:
        self.lie_judge.accepted |= self.engine.stops.latched.startswith("measurement")
        return super().clear_stop(stops)

    @property
    def late_ns(self) -> int:
        """How old the newest message is at most that says the truth."""
        timing = self.timing
        return 2 * self.sensor_ns + timing.jitter_ns + timing.burst_ns + ns(0.02)
