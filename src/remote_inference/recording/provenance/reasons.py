# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Why a control tick executed no row of a chunk, in words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TypeVar

from remote_inference.core.robot.command import OWN_SOURCE, CommandSource
from remote_inference.core.robot.safety import guard
from remote_inference.core.robot.safety.state_machine import State
from remote_inference.core.watchdog import WatchdogState
from remote_inference.recording.provenance.motion import Command, Standing, WatchdogChange

SOURCES: Mapping[str, str] = {
    CommandSource.NONE.name: "nothing was commanded: the controller keeps its last target",
    CommandSource.REPEAT_LAST.name: "the fallback repeated the last command",
    CommandSource.ZERO.name: "zeros, for velocities and efforts alone: a fallback or a stop",
    CommandSource.HOMING.name: "a point of the way home was commanded",
    CommandSource.HOLD.name: "the last command was held, to end the trajectory that its controller executes",
    CommandSource.HUMAN.name: "a person commanded, after a takeover",
}
RULES: Mapping[str, str] = {
    guard.AGE: "the queued actions were older than max_action_age_s",
    guard.NON_FINITE: "the action or its reference was not finite",
    guard.ORIENTATION: "a pose's quaternion was too short to say an orientation",
    guard.SENSOR_AGE: "a sensor had fallen silent, or no fresh joint position was known to step from",
    guard.FOLLOWING_ERROR: "a joint did not follow its commands",
    guard.JOINT_LIMIT: "the command was clamped to a joint's limits",
    guard.DWELL: "a switch that had changed a moment ago stayed as it was",
    guard.VELOCITY_LIMIT: "the command's step was cut to a joint's velocity limit",
}
_TRIPPED = {WatchdogState.TRIPPED.name, WatchdogState.RETURNED.name}

Said = TypeVar("Said", Standing, WatchdogChange)


def find_at(said: Sequence[Said], t_s: float) -> Said | None:
    """Return what held at an instant. said: their instants do not fall."""
    place = bisect_right(said, t_s, key=lambda one: one.t_s)
    return said[place - 1] if place else None


def tell_since(t_s: float | None) -> str:
    """Return since when something holds, in words: what is latched may be from before the bag."""
    return f"{t_s:.3f} s" if t_s is not None and t_s >= 0.0 else "before the recording"


def find_reasons(
    command: Command | None, standing: Standing | None, watchdog: WatchdogChange | None
) -> tuple[str, ...]:
    """Return why a tick executed no row of a chunk, or, with None, no tick came: what decides comes first."""
    found = [_name_source(command)] if command else []
    if watchdog is not None and watchdog.state in _TRIPPED:
        found.append(f"the command watchdog had stopped the controllers: {watchdog.cause}")
    if command is not None:
        found += [f"guard: {RULES.get(rule, rule)}" for rule in command.interventions]
    if standing is None:
        return tuple(found)
    if standing.stop:
        found.append(f"stopped: {standing.stop}")
    if standing.paused:
        why = f": {standing.pause_cause}" if standing.pause_cause else ""
        found.append(f"the robot was paused since {tell_since(standing.paused_s)}{why}")
    if standing.taken_over:
        found.append("a person had taken over")
    if standing.stale_sources and not standing.paused:
        found.append(f"without fresh messages: {', '.join(standing.stale_sources)}")
    if standing.state != State.STREAMING.name:
        found.append(f"the node was {standing.state}: {standing.cause or 'no cause told'}")
    if standing.injected_fault:
        found.append(f"a drill injected the fault {standing.injected_fault}")
    return tuple(found)


def _name_source(command: Command) -> str:
    unknown = f"the command's source is {command.source}"
    if command.source.startswith(OWN_SOURCE):
        unknown = f"the fallback commanded by a rule of its own ({command.source})"
    return SOURCES.get(command.source, unknown)
