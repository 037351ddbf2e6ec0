# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether a computer keeps a robot's control rate: what a tick costs here, with chunks of the policy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import numpy as np
from builtin_interfaces.msg import Time

from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.wire.commands import CommandWriter, make_command_writer
from remote_inference.robot.command import Float64Array
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.motion.playback import Playback
from remote_inference.robot.motion.rules import MotionRules
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.queue.plan import ChunkSource
from remote_inference.robot.safety.guard import Guard
from remote_inference.robot.tick import Tick
from remote_inference.tools.deployment.serving.check_contract import is_installed

TICKS = 21  # that are tried
NEW_CHUNK = 7  # ticks
MOST = 0.5  # of a period: the robot's computer has more to do


def find_rate_warning(
    contract: Contract, config: RobotConfig, chunk_size: int, clock_s: Callable[[], float] = time.perf_counter
) -> str:
    """Return why this computer cannot control the robot at the contract's rate; empty when it can."""
    tick_s = measure_tick_s(contract, config, chunk_size, clock_s)
    if tick_s <= MOST * contract.period_s:
        return ""
    period_ms = contract.period_s * 1e3
    return (
        f"fps: a control tick takes {tick_s * 1e3:.2g} ms here, of the {period_ms:.3g} ms between two at "
        f"{contract.fps:g} Hz: on a robot's computer that is no faster it comes late; lower fps, or let the "
        "policy's chunks have fewer rows"
    )


def measure_tick_s(
    contract: Contract, config: RobotConfig, chunk_size: int, clock_s: Callable[[], float] = time.perf_counter
) -> float:
    """Return the time [s] in which this computer decides a command and writes its messages: the median.

    A message whose type is not installed here is not written.
    """
    sinks = [sink for sink in contract.commands if is_installed(sink.type)]
    writers = [(sink, make_command_writer(sink, contract)) for sink in sinks]
    ticks = play(contract, config, chunk_size)
    durations_s = []
    for _ in range(TICKS):
        began_s = clock_s()
        _write(next(ticks), contract, writers)
        durations_s.append(clock_s() - began_s)
    return statistics.median(durations_s)


def play(contract: Contract, config: RobotConfig, chunk_size: int) -> Iterator[Tick]:
    """Yield ticks of a robot that stays where it is, by chunks of a policy: a new one every few ticks."""
    queue = ActionQueue()
    rules = MotionRules.of(contract, Guard(contract.actions, contract.period_s), config)
    playback = Playback(rules, queue)
    playback.control.change(paused=False)
    rest = _find_rest(contract, rules)
    rows = np.tile(rest.astype(np.float32), (chunk_size, 1))
    for number in count():
        now_ns = 1 + number * rules.period_ns
        if number % NEW_CHUNK == 0:
            source = ChunkSource(now_ns, "", number, 0, "", "")
            queue.merge(source, rows, rows, MergeMode.REPLACE, latency_steps=0, executed_before=0)
        playback.control.change(measured=rest, measured_ns=now_ns)
        yield playback.tick(now_ns)


def _find_rest(contract: Contract, rules: MotionRules) -> Float64Array:
    """Return positions `[action_dim]` within the limits, for a robot that stays where it is."""
    limits = [contract.actions.limit_of(name) for name in contract.actions.names]
    rest = np.array([min(max(0.0, limit.min), limit.max) for limit in limits])
    rest[rules.masks.poses.turns] = (0.0, 0.0, 0.0, 1.0)
    return rest


def _write(tick: Tick, contract: Contract, writers: Sequence[tuple[CommandSink, CommandWriter]]) -> None:
    for sink, writer in writers:
        if tick.horizon is not None and tick.reaches(contract.kind_of(sink), sink.destination):
            writer.message(tick.horizon, Time(), tick.late_ns)
