# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the operator, a person and the stop inputs want of the robot.

The operator's command is one immutable value, swapped whole and read once per tick. Two flags that were set
one after the other could be read between the two, and a robot would be released before its old command is
forgotten. One value has no order of statements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.contract.action_kinds import ACTION_KINDS
from remote_inference.base.contract.actions import Actions
from remote_inference.base.contract.operator_inputs import StopInput, TakeoverInput
from remote_inference.robot.command import Float64Array
from remote_inference.robot.step_lock import StepLock

# -- A person's commands during a takeover: the newest one, while it is young ----------------------------


TREND_NS = 100_000_000  # of a person's commands that say how fast they move: several joined topics take turns
GAP_NS = 50_000_000  # between them, beyond twice the mean of which they have ended


class HumanCommands:
    """One thread deposits, the control thread reads: the last commands are swapped whole."""

    def __init__(self, silent_s: float, lock: StepLock | None = None) -> None:
        """silent_s: a command is not executed for longer than this."""
        self._silent_ns = int(silent_s * 1e9)
        self._lock = lock or StepLock()
        self._last: tuple[tuple[Float64Array, int], ...] = ()

    def deposit(self, action: Float64Array, now_ns: int) -> None:
        """Store a command `[action_dim]` and the monotonic time of its arrival [ns]."""
        with self._lock:
            recent = tuple(said for said in self._last if now_ns - said[1] <= TREND_NS)
            self._last = (*(recent or self._last[-1:]), (action, now_ns))

    def newest(self, now_ns: int, since_ns: int) -> Float64Array | None:
        """Return the command `[action_dim]` to execute now, None when the topic is silent.

        since_ns: monotonic time [ns] from which on commands count; those from before were for another moment.
        """
        with self._lock:
            last = self._last
        if not last or last[-1][1] < since_ns or now_ns - last[-1][1] > self._silent_ns:
            return None
        return last[-1][0]

    def before(self, now_ns: int, since_ns: int) -> tuple[Float64Array, float] | None:
        """Return an earlier command, and how long [s] before the newest it came, while they go on; else None.

        As of `newest`.
        """
        with self._lock:
            last = [said for said in self._last if said[1] >= since_ns]
        if len(last) < 2 or (time_ns := last[-1][1] - last[0][1]) <= 0:
            return None
        gap_ns = 2 * time_ns // (len(last) - 1)
        return (last[0][0], time_ns / 1e9) if now_ns - last[-1][1] <= max(gap_ns, GAP_NS) else None


class TakeoverTopics:
    """Joins what a person says on several topics to whole commands. One thread calls it."""

    def __init__(self, takeover: TakeoverInput, actions: Actions) -> None:
        """actions: of the contract."""
        shares = takeover.share(actions.names)
        self._places = [[actions.names.index(name) for name in share] for share in shares]
        # Of a device that says velocities alone, silence means rest: who lets go of a joystick has stopped.
        # After half of silent_s, lest what is joined grows too old before another device speaks again.
        self._rests = [all(ACTION_KINDS[actions.kind_of(name)].goes_on for name in share) for share in shares]
        self._said: list[tuple[Float64Array, int] | None] = [None] * len(shares)
        self._silent_ns = int(takeover.silent_s * 1e9)
        self._rests_after_ns = self._silent_ns // 2
        self._width = len(actions.names)

    def join(self, topic: int, values: Float64Array, now_ns: int) -> tuple[Float64Array, int] | None:
        """Take the values of one topic; return a command `[action_dim]` and since when it counts [ns].

        That is the oldest time of what it holds. None while a topic that cannot rest has said nothing.
        now_ns: when the values came, on the monotonic clock.
        """
        self._said[topic] = values, now_ns
        command, since_ns = np.zeros(self._width), now_ns
        for places, rests, said in zip(self._places, self._rests, self._said, strict=True):
            if rests and (said is None or now_ns - said[1] > self._rests_after_ns):
                continue
            if said is None:
                return None
            command[places] = said[0]
            since_ns = min(since_ns, said[1])
        return command, since_ns

    def silent(self, now_ns: int) -> list[str]:
        """Return the places in the contract of the topics that hold a command back, all if none does."""
        places = ["takeover", *(f"takeover.also.{number}" for number in range(len(self._said) - 1))]
        silent = [
            place
            for place, rests, said in zip(places, self._rests, self._said, strict=True)
            if not rests and (said is None or now_ns - said[1] > self._silent_ns)
        ]
        return silent or places


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


# -- Stop inputs of the contract: what stops the robot, latched until an operator clears it ---------------


@dataclass
class _Received:
    """What one input sent last."""

    source: StopInput
    at_ns: int | None = None  # None: never received
    stops: bool = False

    def is_silent(self, now_ns: int) -> bool:
        """Return whether this input was heard, and then too long not."""
        if self.at_ns is None or self.source.silent_s is None:
            return False
        return (now_ns - self.at_ns) / 1e9 > self.source.silent_s

    def find_reason(self, now_ns: int) -> str:
        """Return why this input stops the robot now, or an empty string; one never heard does not."""
        if self.stops:
            return f"{self.source.topic} says {str(self.source.stop_when).lower()}"
        if not self.is_silent(now_ns):
            return ""
        return f"{self.source.topic} is silent, expected a message every {self.source.silent_s:g} s"


class StopInputs:
    """The inputs and the latch.

    Safe for three threads: one receives messages, the control thread checks in each tick, one clears. No
    order of the three loses a stop. Times are monotonic [ns].
    """

    def __init__(self, stops: Mapping[str, StopInput], lock: StepLock | None = None) -> None:
        self._heard = {name: _Received(source) for name, source in stops.items()}
        self._lock = lock or StepLock()
        self._latched = ""
        self._count = 0

    @property
    def heard(self) -> int:
        """How many stops the inputs have said since the start, also while another was latched."""
        with self._lock:
            return self._count

    @property
    def latched(self) -> str:
        """What stopped the robot, and why; empty when nothing did since the last clear."""
        with self._lock:
            return self._latched

    @property
    def never_received(self) -> tuple[str, ...]:
        """Names of the inputs of which nothing was ever heard."""
        with self._lock:
            return tuple(name for name, heard in self._heard.items() if heard.at_ns is None)

    def receive(self, name: str, *, stops: bool, now_ns: int) -> None:
        """Handle a message of an input. stops: whether it stops the robot."""
        with self._lock:
            # A silence that no tick has checked yet must not go unnoticed.
            self._latch(now_ns)
            heard = self._heard[name]
            self._count += stops or heard.is_silent(now_ns)
            heard.at_ns, heard.stops = now_ns, stops
            self._latch(now_ns)

    def latch(self, reason: str) -> None:
        """Stop the robot for a reason of this node's own, unless it is stopped already."""
        with self._lock:
            self._count += not self._latched  # an order that was given before releases it no more
            self._latched = self._latched or reason

    def check(self, now_ns: int) -> str:
        """Latch the first input that stops the robot; return what is latched, or an empty string."""
        with self._lock:
            self._latch(now_ns)
            return self._latched

    def clear(self, stop: str, now_ns: int, heard: int | None = None) -> str:
        """Release a latched stop that was carried out; return why it cannot be released, or an empty string.

        stop: what was latched, "" for nothing. Another one, which came meanwhile, stays: it has
        paused nobody yet. heard: stops when this was called for; None: it is called now.
        """
        with self._lock:
            if problem := self._find_reason(now_ns):
                return f"stop input {problem}"
            if heard is not None and self._count > heard:
                return "the robot was stopped meanwhile"
            if self._latched != stop:
                return f"stopped meanwhile by {self._latched}"
            self._latched = ""
            return ""

    def find_obstacle(self, now_ns: int) -> str:
        """Return why the robot must not move, or an empty string: a latched stop, or an input never heard."""
        with self._lock:
            latched, never_received = self.check(now_ns), self.never_received
        if latched:
            return f"stopped by {latched}; clear_stop is expected first"
        sources = {name: self._heard[name].source for name in never_received}
        if not sources:
            return ""
        named = ", ".join(f"{name} ({source.topic}, {source.type})" for name, source in sources.items())
        return f"nothing was ever heard of stop input {named}; expected its first message"

    def _latch(self, now_ns: int) -> None:
        if not self._latched:
            self._latched = self._find_reason(now_ns)

    def _find_reason(self, now_ns: int) -> str:
        reasons = ((name, heard.find_reason(now_ns)) for name, heard in self._heard.items())
        return next((f"{name}: {reason}" for name, reason in reasons if reason), "")
