# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The fallbacks that the parameter `fallback` may name: one class and one line each."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from remote_inference.base.contract.action_kinds import GOING_ON, STAYING
from remote_inference.base.documents.registry import Registry
from remote_inference.robot.command import CommandSource, Float64Array


class Fallback(Protocol):
    """Called by the control thread only, after the first command.

    A returned command `[action_dim]` passes the guard if it is a position; of other kinds it must be safe as
    it is. None means silence: controllers that take a horizon get a command that ends it, others nothing.
    """

    action_kinds: ClassVar[tuple[str, ...]]  # kinds of action for which it is safe, as in a contract
    source: ClassVar[CommandSource]  # of its commands in ExecutedAction; its own: CommandSource(100) to (255)

    def command(self, last: Float64Array, reference: Float64Array | None) -> Float64Array | None:
        """Return what to command in a tick that has nothing to execute.

        last: the last command. reference: the same, but the measured position for joints that do not follow;
        None when the robot may be elsewhere by now.
        """

    def stop(self, last: Float64Array) -> Float64Array | None:
        """Return what stops a robot that is paused or gives up; None when silence stops it."""


class Hold:
    """Command nothing: a position controller keeps its last target.

    For positions and poses only: it would also keep the last velocity or effort.
    """

    action_kinds: ClassVar[tuple[str, ...]] = STAYING
    source: ClassVar[CommandSource] = CommandSource.NONE

    def command(self, last: Float64Array, reference: Float64Array | None) -> Float64Array | None:  # noqa: ARG002
        return None

    def stop(self, last: Float64Array) -> None:  # noqa: ARG002
        return None


class RepeatLast(Hold):
    """The last command while the robot is known to be there, then silence.

    Joints without a controller are commanded to stay where they are, for the moment in which one comes back.
    """

    source: ClassVar[CommandSource] = CommandSource.REPEAT_LAST

    def command(self, last: Float64Array, reference: Float64Array | None) -> Float64Array | None:  # noqa: ARG002
        return reference


class Zero:
    """Command zeros, which stop velocities and efforts; for positions they are a target."""

    action_kinds: ClassVar[tuple[str, ...]] = GOING_ON
    source: ClassVar[CommandSource] = CommandSource.ZERO

    def command(self, last: Float64Array, reference: Float64Array | None) -> Float64Array:  # noqa: ARG002
        return np.zeros_like(last)

    def stop(self, last: Float64Array) -> Float64Array:
        return np.zeros_like(last)


FALLBACKS = Registry[type[Fallback]]("fallback")
FALLBACKS.add("hold", Hold)
FALLBACKS.add("repeat_last", RepeatLast)
FALLBACKS.add("zero", Zero)
