# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot node's parameters: names, defaults, ranges and descriptions, declared once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from remote_inference.base.documents.document import Document, NameIn
from remote_inference.base.tags import MAX_TAGS, check_tags
from remote_inference.robot.fallbacks import FALLBACKS


def _seconds(minimum: float, maximum: float, description: str) -> object:
    return Field(ge=minimum, le=maximum, description=f"{description} [s]")


def to_ns(duration_s: float) -> int:
    """Return a duration in whole nanoseconds, rounded down."""
    return int(duration_s * 1e9)


class RobotConfig(Document):
    """How one robot requests, merges and guards actions. Durations are in seconds."""

    servers: Annotated[tuple[str, ...], Field(min_length=1)] = ("/policy_server",)
    """fully qualified names of policy servers, in order of preference"""
    autostart: Annotated[bool, Field(description="start requesting and commanding without `resume`")] = False
    command_mode: Literal["live", "shadow"] = "live"
    """shadow: run everything and command nothing; `executed` says what would be sent"""
    request_mode: Literal["overlap", "blocking"] = "overlap"
    """overlap: request while the robot moves; blocking: only when the queue is empty"""
    merge_mode: Literal["auto", "replace", "append", "ensemble"] = "auto"
    """how a chunk joins the queue; auto: replace, without stale actions, if any is left; append: it is
    executed after what is queued, that much later than the policy meant; ensemble: it replaces, and means
    of what all chunks so far say are executed; requests never pause"""
    ensemble_coeff: Annotated[float, Field(ge=-10.0, le=10.0)] = 0.01
    """chunk i of a mean, 0 the oldest, counts exp(-coeff i)"""
    delay_policy: Literal["consumed", "latency", "none"] = "consumed"
    """stale actions of a replacing chunk: at most the executed ones, or the latency's"""
    execution_horizon: Annotated[int, Field(ge=0, le=10_000)] = 0
    """actions of each chunk that may be executed, 0 for all"""
    buffer_time_s: float | Literal["auto"] = 0.5
    """request when this much playback is left, 0 to 60 [s]; auto: twice the p95 latency, at least 0.2"""
    latency_quantile: Annotated[float, Field(ge=0.0, le=1.0)] = 0.95
    """quantile of the latency window used as delay; 1.0: maximum"""
    fallback: Annotated[str, NameIn(FALLBACKS)] = "hold"
    """command while there is nothing to execute; hold: publish nothing"""
    max_action_age_s: Annotated[
        float, _seconds(0.05, 60.0, "refuse actions whose observation was captured longer ago")
    ] = 3.0
    resume_ramp_s: Annotated[
        float,
        _seconds(
            0.0, 60.0, "time after resume, release or a reconnect in which velocity limits rise; 0: at once"
        ),
    ] = 0.0
    resume_velocity_scale: Annotated[float, Field(gt=0.0, le=1.0)] = 0.25
    """fraction of the velocity limits at the begin of that time"""
    max_clamped_ratio: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """stop when the guard changed more than this fraction of the last commands; 0: never"""
    clamped_window: Annotated[int, Field(ge=1, le=10_000)] = 100
    """number of last commands for max_clamped_ratio"""
    max_sensor_age_s: Annotated[float, _seconds(0.02, 60.0, "an older source blocks the request")] = 0.5
    max_observation_skew_s: Annotated[
        float,
        _seconds(0.0, 60.0, "time between two sources of a request, which waits for a set that fits; 0: any"),
    ] = 0.0
    request_timeout_s: Annotated[float, _seconds(0.05, 60.0, "give a request up after this time")] = 5.0
    error_pause_s: Annotated[
        float, _seconds(0.0, 60.0, "pause between a rejected chunk and the next request")
    ] = 0.25
    max_timeouts: Annotated[int, Field(ge=1, le=100)] = 2
    """requests in a row without a chunk in time that lose the session"""
    service_timeout_s: Annotated[float, _seconds(0.1, 60.0, "deadline of every call to a server")] = 2.0
    reset_timeout_s: Annotated[float, _seconds(0.1, 60.0, "deadline of the server's answer to a reset")] = 1.0
    degraded_after_s: Annotated[float, _seconds(0.1, 60.0, "chunks are late after this time")] = 1.0
    reconnect_initial_backoff_s: Annotated[float, _seconds(0.01, 60.0, "first pause between attempts")] = 0.5
    reconnect_max_backoff_s: Annotated[float, _seconds(0.01, 600.0, "longest pause between attempts")] = 10.0
    max_offline_s: Annotated[float, _seconds(1.0, 86_400.0, "give up after this time offline")] = 60.0
    watchdog_timeout_s: Annotated[
        float, _seconds(0.05, 10.0, "control tick late by this: the command watchdog stops the controllers")
    ] = 0.2
    accept_new_policy: bool = False
    """reconnect even to a server whose policy differs from the first session's"""
    accept_weight_updates: bool = True
    """use a server whose policy trainers may change while it is served"""
    tags: Annotated[
        tuple[str, ...],
        AfterValidator(check_tags),
        Field(
            description="notes for logs and metrics of robot and server, `key=value` each, "
            f"{MAX_TAGS} at most, such as `site=lab_2`"
        ),
    ] = ()
    allow_fault_injection: bool = False
    """serve `inject_fault`: whoever calls it disturbs this robot"""
    preview: bool = False
    """publish the queued actions on `remote_inference/preview` whenever a chunk joins them"""

    @model_validator(mode="after")
    def _consistent(self) -> RobotConfig:
        for server in self.servers:
            if not server.startswith("/") or server.endswith("/"):
                raise ValueError(f"servers: found {server!r}, expected a full name such as '/policy_server'")
        if len(set(self.servers)) < len(self.servers):
            raise ValueError(f"servers: found {list(self.servers)}, expected each once")
        if self.reconnect_max_backoff_s < self.reconnect_initial_backoff_s:
            found = f"found reconnect_max_backoff_s {self.reconnect_max_backoff_s}"
            least = f"reconnect_initial_backoff_s {self.reconnect_initial_backoff_s}"
            raise ValueError(f"{found}, expected at least {least}")
        if self.ensembles and self.request_mode == "blocking":
            raise ValueError("request_mode: found 'blocking' with merge_mode 'ensemble', expected 'overlap'")
        if self.buffer_time_s != "auto" and not 0.0 <= self.buffer_time_s <= 60.0:
            raise ValueError(f"found buffer_time_s {self.buffer_time_s}, expected 0 to 60 or 'auto'")
        return self

    @property
    def appends(self) -> bool:
        """A chunk is appended to the queue; else it replaces the queue, without its stale actions."""
        return self.merge_mode == "append"

    @property
    def ensembles(self) -> bool:
        """Actions are means of what several chunks say."""
        return self.merge_mode == "ensemble"

    @property
    def merging(self) -> str:
        """How chunks join the queue, and why, in words."""
        if self.appends:
            return "merge_mode is append: each chunk is executed after what is queued, late by that much"
        if self.ensembles:
            return "merge_mode is ensemble: each action is a mean of what the chunks so far say of it"
        return f"merge_mode is {self.merge_mode}: each chunk replaces the queue, without its stale actions"

    def check_fallback(self, *kinds: str) -> None:
        """Refuse a fallback that is dangerous for actions of these kinds.

        Zeros are a target, not a stop, for position controllers; silence keeps the last velocity or effort.
        Where there are positions or poses among the actions, the fallback is theirs, and the others get
        zeros. A switch stays as it is with any. Raises ValueError.
        """
        moving = dict.fromkeys(kind for kind in kinds if kind != "switch")
        for kind in [kind for kind in moving if kind in ("position", "pose")] or moving:
            if kind not in FALLBACKS.get(self.fallback).action_kinds:
                safe = [repr(name) for name in FALLBACKS.names if kind in FALLBACKS.get(name).action_kinds]
                found = f"found {self.fallback!r} for {kind} actions"
                raise ValueError(f"fallback: {found}, expected {' or '.join(safe)}")
