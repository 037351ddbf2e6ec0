# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What an action may command: one line for each kind, with all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

MotionKind = Literal["position", "velocity", "effort"]  # of what moves, and the fields of a JointState
LimitKind = Literal["position", "velocity", "effort", "switch"]  # of actions with bounds of their own
Kind = Literal["position", "velocity", "effort", "switch", "pose"]


@dataclass(frozen=True)
class ActionKind:
    """The properties of a kind of action.

    unit, linear_unit: of a command where the contract says none, and where it moves along a line. field: of a
    JointState in which a person, a bag or a driver has it. stays: measured in the command's unit, a step
    begins where it is measured, and in silence it stays at its last target. goes_on: in silence it goes on
    until it gets zero. may_be_angle, may_have_range, may_have_offset: units that a policy may have for it.
    """

    unit: str
    linear_unit: str
    field: MotionKind
    stays: bool = False
    goes_on: bool = False
    may_be_angle: bool = False
    may_have_range: bool = False
    may_have_offset: bool = False


ACTION_KINDS: Mapping[str, ActionKind] = {
    "position": ActionKind(
        "rad", "m", "position", stays=True, may_be_angle=True, may_have_range=True, may_have_offset=True
    ),
    "velocity": ActionKind("rad/s", "m/s", "velocity", goes_on=True, may_be_angle=True),
    "effort": ActionKind("Nm", "N", "effort", goes_on=True),
    "switch": ActionKind("", "", "position", may_have_range=True),
    "pose": ActionKind("", "m", "position", stays=True, may_have_range=True, may_have_offset=True),
}
MOTIONS: tuple[MotionKind, ...] = get_args(MotionKind)
ANY_KIND: tuple[Kind, ...] = get_args(Kind)  # each says where to go, and not how far
STAYING: tuple[Kind, ...] = tuple(kind for kind in ANY_KIND if ACTION_KINDS[kind].stays)
GOING_ON: tuple[Kind, ...] = tuple(kind for kind in ANY_KIND if ACTION_KINDS[kind].goes_on)
