# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether a robot's timing parameters, its rate and a policy's chunks can work together.

Each rule names the value to change. Latencies are in seconds, None while they are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from remote_inference.robot.config import RobotConfig


@dataclass(frozen=True)
class Timing:
    """What the timing of a session follows from."""

    config: RobotConfig
    fps: float  # of the policy's actions: that of control, or the contract's policy_fps
    chunk_size: int  # actions
    latency_s: float | None = None  # from request to chunk
    rtc: bool = False  # chunks continue prefixes

    @property
    def period_s(self) -> float:
        return 1.0 / self.fps

    @property
    def chunk_s(self) -> float:
        """How long a chunk can move the robot: to its last row, or to the age bound."""
        rows = min(self.chunk_size, self.config.execution_horizon or self.chunk_size)
        return min(rows * self.period_s, self.config.max_action_age_s)

    @property
    def buffer_s(self) -> float | None:
        """The fixed buffer; None when it follows the latency, or the robot asks with no queue, or always."""
        config = self.config
        fixed = config.request_mode == "overlap" and config.buffer_time_s != "auto" and not config.ensembles
        return float(config.buffer_time_s) if fixed else None


def find_timing_problem(timing: Timing) -> str:
    """Return why a robot with this timing cannot work; empty when it can."""
    return next((problem for rule in PROBLEMS if (problem := rule(timing))), "")


def find_timing_warnings(timing: Timing) -> tuple[str, ...]:
    """Return why a robot with this timing will stutter."""
    return tuple(warning for rule in WARNINGS if (warning := rule(timing)))


def _age_within_a_period(timing: Timing) -> str:
    age_s = timing.config.max_action_age_s
    if age_s > timing.period_s:
        return ""
    return f"max_action_age_s: found {age_s:g}, expected more than an action lasts, {timing.period_s:g} s"


def _age_or_timeout_within_the_latency(timing: Timing) -> str:
    for key in ("max_action_age_s", "request_timeout_s"):
        bound_s, latency_s = getattr(timing.config, key), timing.latency_s
        if latency_s is not None and latency_s >= bound_s:
            return f"{key}: found {bound_s:g}, expected more than an answer takes, {latency_s:.3g} s"
    return ""


def _buffer_that_never_fills(timing: Timing) -> str:
    age_s, buffer_s = timing.config.max_action_age_s, timing.buffer_s
    if not timing.config.appends or buffer_s is None or buffer_s < age_s:
        return ""
    return (
        f"buffer_time_s: found {buffer_s:g}, expected less than max_action_age_s, {age_s:g}: "
        "appended chunks would pile up and each wait until it is too old"
    )


def _means_that_cannot_be(timing: Timing) -> str:
    age_s = timing.config.max_action_age_s
    if not timing.config.ensembles:
        return ""
    if timing.rtc:
        return "merge_mode: found 'ensemble', expected another with a policy that continues its chunks (RTC)"
    if timing.chunk_s < age_s:
        return ""
    return f"max_action_age_s: found {age_s:g}, expected more than a chunk lasts (merge_mode is ensemble)"


def _no_buffer(timing: Timing) -> str:
    if timing.buffer_s != 0.0:
        return ""
    return (
        "buffer_time_s is 0: the robot asks when its queue is empty and waits at each seam; "
        "raise it above the latency, or say auto"
    )


def _buffer_within_the_latency(timing: Timing) -> str:
    latency_s, buffer_s = timing.latency_s, timing.buffer_s
    if latency_s is None or not buffer_s or latency_s < buffer_s + timing.period_s:
        return ""
    return (
        f"buffer_time_s is {buffer_s:g}, an answer takes {latency_s:.3g} s: the robot waits at each seam; "
        "raise buffer_time_s, or say auto"
    )


def _chunk_within_the_latency(timing: Timing) -> str:
    latency_s, rows = timing.latency_s, timing.config.execution_horizon
    if latency_s is None or timing.config.request_mode == "blocking":
        return ""
    # What replaces the queue is played from where it is not stale, until the next chunk comes.
    if latency_s * (1.0 if timing.config.appends else 2.0) < timing.chunk_s:
        return ""
    short = f"chunks of {timing.chunk_size} actions"
    if timing.chunk_s == timing.config.max_action_age_s:
        short = "max_action_age_s"
    elif 0 < rows < timing.chunk_size:
        short = "execution_horizon"
    return (
        f"a chunk moves the robot for {timing.chunk_s:.3g} s at {timing.fps:g} Hz, an answer takes "
        f"{latency_s:.3g} s: the robot waits for each chunk; {short}: too short"
    )


def _sensors_older_than_actions(timing: Timing) -> str:
    sensor_s, age_s = timing.config.max_sensor_age_s, timing.config.max_action_age_s
    if sensor_s < age_s:
        return ""
    return (
        f"max_sensor_age_s is {sensor_s:g}, max_action_age_s {age_s:g}: the actions of an observation that "
        "may still be sent are too old already; lower max_sensor_age_s"
    )


Rule = Callable[[Timing], str]
PROBLEMS: tuple[Rule, ...] = (
    _age_within_a_period,
    _age_or_timeout_within_the_latency,
    _buffer_that_never_fills,
    _means_that_cannot_be,
)
WARNINGS: tuple[Rule, ...] = (
    _no_buffer,
    _buffer_within_the_latency,
    _chunk_within_the_latency,
    _sensors_older_than_actions,
)
