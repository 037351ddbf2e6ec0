# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's telemetry: ClientState and ExecutedAction from the engine's data."""

from __future__ import annotations

import math
import random
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.time import Time
from std_msgs.msg import Header

from remote_inference.base.nodes.diagnostics import make_status, show_milliseconds
from remote_inference.base.wire.arrays import bytes_field, float64_field
from remote_inference.base.wire.qos import DECISIONS_QOS, DECISIONS_TOPIC
from remote_inference.msg import ClientState, Decisions, ExecutedAction
from remote_inference.robot.decisions import DecisionEncoder
from remote_inference.robot.engine import Engine
from remote_inference.robot.journal import Journal
from remote_inference.robot.motion.state import Tick


class ExecutedBacklog:
    """What makes the messages of ticks that wait for the worker; ticks that find no place are counted."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ticks: deque[Callable[[], ExecutedAction]] = deque()
        self._told = 0
        self.dropped = 0

    def append(self, tick: Callable[[], ExecutedAction]) -> None:
        """Keep a tick, or count it as dropped. The control thread calls it."""
        if len(self._ticks) < self._size:
            self._ticks.append(tick)
        else:
            self.dropped += 1

    def take(self) -> Iterator[ExecutedAction]:
        """Remove the ticks that are kept, and yield their messages, oldest first."""
        while self._ticks:
            yield self._ticks.popleft()()

    def take_news(self) -> str:
        """Return how many ticks were dropped, or an empty string when none were since the last call."""
        dropped = self.dropped
        if dropped == self._told:
            return ""
        new, self._told = dropped - self._told, dropped
        return f"{new} control ticks are missing on remote_inference/executed, {dropped} since the start"


def executed_message(
    tick: Tick, index: int, stamp_ns: int, episode_id: int, joint_names: Sequence[str], *, queue_length: int
) -> ExecutedAction:
    """Return one tick as a message. Without a source chunk, the age is NaN and the ids are empty.

    stamp_ns: of the node's clock. episode_id: of a tick without a source chunk. queue_length: actions that
    are left after it.
    """
    message = ExecutedAction(
        header=Header(stamp=Time(nanoseconds=stamp_ns).to_msg()),
        tick=index,
        source=int(tick.source),
        joint_names=list(joint_names),
        episode_id=episode_id,
        action_age_s=tick.age_s,
        interventions=list(tick.interventions),
        shadow=tick.shadow,
        queue_length=queue_length,
    )
    if tick.command is not None:
        message.action = float64_field(tick.command)
    if tick.queued is not None:
        source = tick.queued.source
        message.episode_id = source.episode_id
        message.session_id = source.session_id
        message.seq_id = source.seq_id
        message.step_index = tick.queued.step_index
        message.row_fraction = tick.row_fraction
        message.earlier_seq_ids = array("Q", [chunk.seq_id for chunk in tick.queued.earlier])
        message.policy_version = source.policy_version
    return message


def state_message(engine: Engine, joint_names: Sequence[str], stamp: Time, now_ns: int) -> ClientState:
    """Return the engine's state and counters at a monotonic instant as a message.

    joint_names: those of the actions, by the robot.
    """
    session, latency = engine.handshake.session, engine.cycle.latency
    guard_counts = dict(engine.guard.counts)
    state = ClientState(
        header=Header(stamp=stamp.to_msg()),
        state=int(engine.machine.state),
        state_name=engine.machine.state.name,
        cause=engine.cause,
        paused=engine.paused,
        pause_cause=engine.pause_cause,
        server=engine.handshake.server if session else "",
        session_id=engine.session_id,
        policy=engine.handshake.policies.wanted,
        kept_sessions=engine.handshake.kept_sessions,
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
        **asdict(engine.counters),
        **asdict(latency.newest),
        guard_names=list(guard_counts),
        guard_counts=array("Q", guard_counts.values()),
        stop=engine.stops.latched,
        taken_over=engine.taken_over,
        shadow=engine.playback.shadow is not None,
        capture_skew_ms=engine.cycle.capture_skew_s * 1e3,
        sets_refused=engine.cycle.sets.refused,
        apart=engine.cycle.sets.find_problem(now_ns),
    )
    if (shadow := engine.playback.shadow) is not None and (error := shadow.error).ticks:
        state.shadow_ticks = error.ticks
        state.shadow_names = list(joint_names)
        state.shadow_error_mean = float64_field(error.mean)
        state.shadow_error_max = float64_field(error.largest)
    return state


def _milliseconds(duration_s: float | None) -> float:
    return math.nan if duration_s is None else duration_s * 1e3


# -- Publishes the engine's journal, from which a recorded run is replayed. For the worker's thread -----

PERIOD_S = 0.25
# Without a subscriber a message is larger, so that those which the middleware keeps for one reach back to the
# node's start for minutes.
LARGE = 32 * 1024  # [bytes]


class DecisionLog:
    """Encodes what the journal holds four times per second, and publishes it when somebody listens."""

    def __init__(self, node: Node, journal: Journal) -> None:
        self._clock = node.get_clock()
        self._journal = journal
        self._encoder = DecisionEncoder()
        self._instance = random.getrandbits(64)
        self._next_s = 0.0
        self._data = bytearray()  # encoded, not published yet
        self._first = self._count = 0  # entries of it
        self.publisher: Publisher = node.create_publisher(Decisions, DECISIONS_TOPIC, DECISIONS_QOS)

    def publish(self) -> None:
        """Publish what is due."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + PERIOD_S
        self._encode()
        if len(self._data) >= LARGE or self.publisher.get_subscription_count():
            self._send()

    def finish(self) -> None:
        """Publish the rest."""
        self._encode()
        self._send()

    def _encode(self) -> None:
        first, entries = self._journal.take()
        if first != self._first + self._count:  # some were dropped: a message holds none beside a gap
            self._send()
            self._first = first
        self._data += self._encoder.encode(entries)
        self._count += len(entries)

    def _send(self) -> None:
        if not self._count:
            return
        message = Decisions(
            header=Header(stamp=self._clock.now().to_msg()),
            instance=self._instance,
            first=self._first,
            count=self._count,
            data=bytes_field(self._encoder.seal(self._data)),
        )
        self.publisher.publish(message)
        self._first, self._count = self._first + self._count, 0
        self._data.clear()


# -- The robot's status on /diagnostics -----------------------------------------------------------------

# RECONNECTING is an error only once the queue is drained.
ROBOT_LEVELS: Mapping[int, bytes] = {
    ClientState.CONNECTING: DiagnosticStatus.WARN,
    ClientState.STREAMING: DiagnosticStatus.OK,
    ClientState.DEGRADED: DiagnosticStatus.WARN,
    ClientState.STALLED: DiagnosticStatus.ERROR,
    ClientState.RECONNECTING: DiagnosticStatus.ERROR,
    ClientState.DEAD: DiagnosticStatus.ERROR,
}


def robot_diagnostic(
    state: ClientState, hardware_id: str, goals: Mapping[str, str] | None = None, absent: Iterable[str] = ()
) -> DiagnosticStatus:
    """Return the robot's status by its safety state: at least WARN when it is paused or lacks a sensor.

    goals: what became of those of each action server. absent: why controllers do not hear, in words.

    A robot that an operator has paused is an ERROR only when DEAD, for the pause is intended. One that a stop
    input stopped is an ERROR.
    """
    level, message = ROBOT_LEVELS[state.state], f"{state.state_name}: {state.cause}"
    if state.state == ClientState.RECONNECTING and state.queue_length:
        level = DiagnosticStatus.WARN
    remarks = [f"waits for {', '.join(state.stale_sources)}"] if state.stale_sources else []
    remarks += [f"no set fits: {state.apart}"] if state.apart else []
    remarks += [f"not believed: {state.implausible}"] if state.implausible else []
    if remarks := [*remarks, *absent]:
        level, message = max(level, DiagnosticStatus.WARN), "; ".join([message, *remarks])
    if state.taken_over:
        level, message = max(level, DiagnosticStatus.WARN), f"taken over by a person; {message}"
    if state.injected_fault:
        level = max(level, DiagnosticStatus.WARN)
        message = f"injected fault ({state.injected_fault}); {message}"
    if state.shadow:
        message = f"shadow mode; {message}"
    if state.stop:
        level, message = DiagnosticStatus.ERROR, f"stopped by {state.stop}; {message}"
    elif state.paused and state.state != ClientState.DEAD:
        why = f": {state.pause_cause}" if state.pause_cause else ""
        level, message = DiagnosticStatus.WARN, f"paused{why}; {message}"
    guard_counts = zip(state.guard_names, state.guard_counts, strict=True)
    errors = zip(state.shadow_names, state.shadow_error_mean, state.shadow_error_max, strict=True)
    values = {
        "state": state.state_name,
        **_show(state, "cause", "paused", "pause_cause", "stop", "taken_over", "shadow", "injected_fault"),
        **_show(state, "server", "session_id", "policy_version"),
        "latency_p50_ms": show_milliseconds(state.latency_p50_ms),
        "latency_p95_ms": show_milliseconds(state.latency_p95_ms),
        "playback_left_s": f"{state.playback_left_s:.2f}",
        "stale_sources": ", ".join(state.stale_sources),
        "capture_skew_ms": show_milliseconds(state.capture_skew_ms),
        **_show(state, "sets_refused", "apart", "implausible", "requests", "request_timeouts"),
        **_show(state, "chunks_rejected", "reconnects", "control_ticks", "late_ticks"),
        **{f"guard_{name}": str(count) for name, count in guard_counts},
        **{f"shadow_error_{name}": f"mean {mean:.4f}, max {most:.4f}" for name, mean, most in errors},
        **{f"goals_{name}": found for name, found in (goals or {}).items()},
    }
    return make_status(level, message, hardware_id, values)


def _show(state: ClientState, *names: str) -> dict[str, str]:
    """Return some fields by name, as text."""
    found = {name: getattr(state, name) for name in names}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()
    }
