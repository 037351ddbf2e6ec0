# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One fault of the table: what the robot did, and how long it took from the fault's end to control again."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from support.faults.arm import GAP_S, Arm, now_ns
from support.faults.judge import Command

SILENT_S = 0.2  # between two measurements: several are lacking, and the robot may take its arm for unmeasured


class Fault:
    """Marks the fault's time on an arm, and reports its effect from the commands and the states."""

    def __init__(self, arm: Arm, note: Callable[[str, str], None]) -> None:
        """note: takes what was observed and the time to recover."""
        self._arm = arm
        self._note = note
        self._began_ns = self._ended_ns = 0
        self._first_state = 0

    def begins(self) -> None:
        """Note the begin of the fault; call it just before causing the fault."""
        self._began_ns = now_ns()
        self._first_state = len(self._arm.states) - 1

    def ends(self) -> None:
        """Note the end of the fault; call it just after removing the last cause."""
        self._ended_ns = now_ns()

    def wait_for_recovery(self) -> None:
        """Wait until the robot streams and executes actions captured after the fault's end."""
        arm = self._arm
        arm.wait_for(
            lambda: self._first_fresh() and arm.states[-1].state_name == "STREAMING",
            "control again",
        )
        recovered = self._first_fresh()
        assert recovered is not None
        recovery_s = max(0.0, (recovered.time_ns - self._ended_ns) / 1e9)
        self._note(self._describe(recovered.time_ns), f"{recovery_s:.1f}")

    def wait_for_death(self) -> None:
        """Wait until the robot gives up, as this fault demands."""
        self._arm.wait_for_exit(1)
        self._arm.wait_for_state("DEAD", self._first_state)
        self._note(self._describe(None), "-, exit 1")

    @property
    def longest_gap_s(self) -> float:
        """Longest time without a command since the fault began [s]."""
        begin_ns, end_ns = self._longest_gap(now_ns())
        return (end_ns - begin_ns) / 1e9

    @property
    def longest_measured_gap_s(self) -> float:
        """Longest time without a command since the fault began while the arm was measured [s].

        A robot whose joints are not measured stops, and on a busy machine the arm's own process stands still.
        """
        captured_ns = [capture.time_ns for capture in self._arm.record.captures]
        silences = [(a, b) for a, b in itertools.pairwise(captured_ns) if b - a > SILENT_S * 1e9]
        return max(
            (end_ns - begin_ns - sum(max(0, min(b, end_ns) - max(a, begin_ns)) for a, b in silences)) / 1e9
            for begin_ns, end_ns in self._gaps(now_ns())
        )

    def trail(self) -> list[str]:
        """Names of the states since the fault began, the state at its begin first.

        No robot returns to CONNECTING: it is the state of another process that has been started.
        """
        names = [state.state_name for state in self._arm.states[self._first_state :]]
        names = [name for name in names if name != "CONNECTING"]
        return [name for name, before in zip(names, [None, *names], strict=False) if name != before]

    def _first_fresh(self) -> Command | None:
        """Return the first command computed from a capture after the fault's end."""
        captures = self._arm.record.captures
        times = (capture.time_ns for capture in captures)
        number = next((n for n, time_ns in enumerate(times) if time_ns > self._ended_ns), len(captures))
        commands = self._arm.record.commands
        return next((c for c in commands if number <= c.capture < len(captures)), None)

    def _longest_gap(self, end_ns: int) -> tuple[int, int]:
        return max(self._gaps(end_ns), key=lambda gap: gap[1] - gap[0])

    def _gaps(self, end_ns: int) -> list[tuple[int, int]]:
        times = [command.time_ns for command in self._arm.record.commands]
        before = [time_ns for time_ns in times if time_ns <= self._began_ns][-1:]
        within = [time_ns for time_ns in times if self._began_ns < time_ns <= end_ns]
        times = [*(before or [self._began_ns]), *within]
        return list(zip(times, [*times[1:], end_ns], strict=True))

    def _describe(self, end_ns: int | None) -> str:
        trail = " → ".join(self.trail())
        if end_ns is None:
            last_ns = self._arm.record.commands[-1].time_ns
            return f"commands for {_seconds(last_ns - self._began_ns)} more, then none; {trail}"
        begin_ns, gap_end_ns = self._longest_gap(end_ns)
        if gap_end_ns - begin_ns < GAP_S * 1e9:
            return f"commands without a gap; {trail}"
        played, held = _seconds(begin_ns - self._began_ns), _seconds(gap_end_ns - begin_ns)
        return f"commands for {played} more, then held for {held}; {trail}"


def _seconds(duration_ns: int) -> str:
    return f"{max(0.0, duration_ns / 1e9):.1f} s"
