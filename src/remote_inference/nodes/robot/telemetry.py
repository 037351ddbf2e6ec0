# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's telemetry: ClientState and ExecutedAction from the engine's data."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from builtin_interfaces.msg import Time
from std_msgs.msg import Header

from remote_inference.core.robot.engine import Engine
from remote_inference.core.robot.tick import Tick
from remote_inference.msg import ClientState, ExecutedAction
from remote_inference.nodes.robot.control_loop import ControlLoop
from remote_inference.wire import float64_field


@dataclass(frozen=True)
class ExecutedTick:
    """One control tick on its way from the control thread to the topic."""

    index: int
    stamp_ns: int  # of the node's clock
    episode_id: int
    tick: Tick


class ExecutedBacklog:
    """Ticks on their way from the control thread to the worker; those that find no place are counted."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ticks: deque[ExecutedTick] = deque()
        self._told = 0
        self.dropped = 0

    def append(self, tick: ExecutedTick) -> None:
        """Keep a tick, or count it as dropped. The control thread calls it."""
        if len(self._ticks) < self._size:
            self._ticks.append(tick)
        else:
            self.dropped += 1

    def take(self) -> Iterator[ExecutedTick]:
        """Take the ticks kept, oldest first."""
        while self._ticks:
            yield self._ticks.popleft()

    def take_news(self) -> str:
        """Return how many ticks were dropped, or an empty string when none were since the last call."""
        dropped = self.dropped
        if dropped == self._told:
            return ""
        new, self._told = dropped - self._told, dropped
        return f"{new} control ticks are missing on remote_inference/executed, {dropped} since the start"


def executed_message(executed: ExecutedTick, joint_names: Sequence[str]) -> ExecutedAction:
    """Return one tick as a message. Without a source chunk, the age is NaN and the ids are empty."""
    tick = executed.tick
    message = ExecutedAction(
        header=Header(stamp=time_message(executed.stamp_ns)),
        tick=executed.index,
        source=int(tick.source),
        joint_names=list(joint_names),
        episode_id=executed.episode_id,
        action_age_s=tick.age_s,
        interventions=list(tick.interventions),
        shadow=tick.shadow,
    )
    if tick.command is not None:
        message.action = float64_field(tick.command)
    if tick.queued is not None:
        source = tick.queued.source
        message.session_id = source.session_id
        message.seq_id = source.seq_id
        message.step_index = tick.queued.step_index
        message.row_fraction = tick.row_fraction
        message.policy_version = source.policy_version
    return message


def state_message(
    engine: Engine, control: ControlLoop, joint_names: Sequence[str], stamp: Time, now_ns: int
) -> ClientState:
    """Return the engine's state and counters at a monotonic instant as a message.

    joint_names: those of the actions, by the robot.
    """
    session, latency, counters = engine.handshake.session, engine.cycle.latency, engine.counters
    guard_counts = dict(engine.guard.counts)
    state = ClientState(
        header=Header(stamp=stamp),
        state=int(engine.machine.state),
        state_name=engine.machine.state.name,
        cause=engine.machine.cause,
        paused=engine.paused,
        pause_cause=engine.pause_cause,
        server=engine.handshake.server if session else "",
        session_id=engine.session_id,
        session_epoch=engine.handshake.epoch,
        episode_id=engine.episode.id,
        task=engine.episode.task,
        policy_version=session.policy_fingerprint if session else "",
        queue_length=len(engine.queue),
        playback_left_s=engine.cycle.playback_left_s(now_ns),
        latency_p50_ms=_milliseconds(latency.quantile_s(0.5)),
        latency_p95_ms=_milliseconds(latency.quantile_s(0.95)),
        delay_steps=engine.cycle.delay_steps,
        stale_sources=list(engine.cycle.stale_sources),
        requests=counters.requests,
        chunks_merged=counters.chunks_merged,
        chunks_dropped=counters.chunks_dropped,
        chunks_rejected=counters.chunks_rejected,
        request_timeouts=counters.request_timeouts,
        reconnects=counters.reconnects,
        guard_names=list(guard_counts),
        guard_counts=array("Q", guard_counts.values()),
        control_ticks=control.ticks,
        late_ticks=control.late_ticks,
        stop=engine.stops.latched,
        taken_over=engine.taken_over,
        shadow=engine.playback.shadow is not None,
    )
    if (shadow := engine.playback.shadow) is not None and (error := shadow.error).ticks:
        state.shadow_ticks = error.ticks
        state.shadow_names = list(joint_names)
        state.shadow_error_mean = float64_field(error.mean)
        state.shadow_error_max = float64_field(error.largest)
    return state


def _milliseconds(duration_s: float | None) -> float:
    return math.nan if duration_s is None else duration_s * 1e3


def time_message(stamp_ns: int) -> Time:
    """Return nanoseconds since the epoch as a message."""
    seconds, nanoseconds = divmod(stamp_ns, 1_000_000_000)
    return Time(sec=seconds, nanosec=nanoseconds)
