# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The fallbacks that the parameter `fallback` may name: one file and one line each."""

from typing import ClassVar, Protocol

from remote_inference.core.documents.registry import Registry
from remote_inference.core.robot.command import CommandSource, Float64Array

__all__ = ["FALLBACKS", "Fallback"]


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


FALLBACKS = Registry[type[Fallback]]("fallback")
FALLBACKS.add("hold", f"{__name__}.hold:Hold")
FALLBACKS.add("repeat_last", f"{__name__}.repeat_last:RepeatLast")
FALLBACKS.add("zero", f"{__name__}.zero:Zero")
