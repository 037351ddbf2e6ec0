# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the operator wants: one immutable value, swapped whole and read once per tick.

Two flags that were set one after the other could be read between the two, and a robot would be released
before its old command is forgotten. One value has no order of statements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.robot.command import Float64Array
from remote_inference.robot.step_lock import StepLock

# -- A person's commands during a takeover: the newest one, while it is young ----------------------------


class HumanCommands:
    """One thread deposits, the control thread reads: the newest command is swapped whole."""

    def __init__(self, silent_s: float, lock: StepLock | None = None) -> None:
        """silent_s: a command is not executed for longer than this."""
        self._silent_ns = int(silent_s * 1e9)
        self._lock = lock or StepLock()
        self._newest: tuple[Float64Array, int] | None = None

    def deposit(self, action: Float64Array, now_ns: int) -> None:
        """Store a command `[action_dim]` and the monotonic time of its arrival [ns]."""
        with self._lock:
            self._newest = (action, now_ns)

    def newest(self, now_ns: int, since_ns: int) -> Float64Array | None:
        """Return the command `[action_dim]` to execute now, None when the topic is silent.

        since_ns: monotonic time [ns] from which on commands count; those from before were for another moment.
        """
        with self._lock:
            newest = self._newest
        if newest is None or newest[1] < since_ns or now_ns - newest[1] > self._silent_ns:
            return None
        return newest[0]


STARTS_WHEN_SAFE = "the node starts when its stop inputs are good"


@dataclass(frozen=True)
class OperatorCommand:
    """Orders and measurements that hold for a whole tick."""

    paused: bool = True
    pause_cause: str = ""  # why, in words; empty while it is not paused
    pauses: int = 0  # rises with each pause that any thread calls: an order from before it is out of date
    halted: bool = False  # true when DEAD or at the node's end: no action is executed any more
    wants_home: bool = False  # with halted: go home first, unless somebody pauses
    taken_over: bool = False  # a person commands, not the queue ...
    person_since_ns: int = 0  # ... by what has come since: who let go before a stop says nothing after it
    forgets: int = 0  # rises when another may have moved the robot: the next step begins where it is measured
    losses: int = 0  # rises when another has stopped the controllers: no command says where the joints are
    withheld: int = 0  # rises when a tick's command did not leave: no controller got it
    blend_ins: int = 0  # rises when the next action must begin gently
    measured: NDArray[np.float64] | None = None  # joint positions `[action_dim]`, None when not fresh
    measured_ns: int | None = None  # when, on the monotonic clock; None: now
    doubted: bool = False  # what a joint was measured at last is not believed, yet
    positions: NDArray[np.float64] | None = None  # where each joint was measured last, however long ago ...
    positions_ns: NDArray[np.int64] | None = None  # ... and when, `[action_dim]`

    def measured_age_ns(self, now_ns: int) -> int:
        """Return the age of the measurement [ns]."""
        return 0 if self.measured_ns is None else max(0, now_ns - self.measured_ns)


class CommandMode:
    """Holds the newest operator command. Any thread may read and change it."""

    def __init__(self, operator: OperatorCommand, lock: StepLock | None = None) -> None:
        self._lock = lock or StepLock()
        self._operator = operator

    @property
    def operator(self) -> OperatorCommand:
        """The command now in force. Read it once for all decisions that belong together."""
        with self._lock:
            return self._operator

    def change(
        self,
        *,
        forget: bool = False,
        lose: bool = False,
        withhold: bool = False,
        blend_in: bool = False,
        **fields: Any,
    ) -> None:
        """Swap the command for one with other fields.

        forget: let the next tick forget the last command. lose: let it trust nothing but a later measurement.
        withhold: the last command did not leave. blend_in: let the next action begin gently.
        """
        with self._lock:
            before = self._operator
            self._operator = replace(
                before,
                forgets=before.forgets + forget,
                losses=before.losses + lose,
                withheld=before.withheld + withhold,
                blend_ins=before.blend_ins + blend_in,
                **fields,
            )

    def pause(self, cause: str, *, lose: bool = False, count: bool = False) -> None:
        """Let no command follow, nor a way home. cause: in words. count: called now, not carried out later.

        The first cause stands while the robot is paused: what came after it stopped nothing. But not before
        another has stopped the controllers (`lose`, as of `change`), and a robot that has waited to start by
        itself does so no more.
        """
        with self._lock:
            if self._operator.pause_cause not in ("", STARTS_WHEN_SAFE) and not lose:
                cause = self._operator.pause_cause
            pauses = self._operator.pauses + count
            self.change(paused=True, pause_cause=cause, pauses=pauses, wants_home=False, lose=lose)

    def halt(self, *, wants_home: bool = False) -> None:
        """Let no action follow, for good. wants_home: unless it is paused, or was halted before."""
        with self._lock:
            wants_home = wants_home and not (self._operator.paused or self._operator.halted)
            self.change(halted=True, wants_home=wants_home)

    def resume(self, pauses: int | None, now_ns: int) -> bool:
        """Let commands follow, gently and from where the arm is; return False if that was paused meanwhile.

        pauses: what it counted when this was called for; None: whatever it counts. now_ns: monotonic; a
        person's commands from before are forgotten.
        """
        with self._lock:
            if pauses is not None and self._operator.pauses > pauses:
                return False
            self.change(forget=True, blend_in=True, paused=False, pause_cause="", person_since_ns=now_ns)
            return True
