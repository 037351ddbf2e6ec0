# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which control ticks wait for what has not been heard yet, and before which the robot may have been stopped.

A command watchdog stops a robot whose node is silent, and its word of that may be on the way: a tick that
comes late must not lead the robot on before the node has heard what came meanwhile.
"""

from __future__ import annotations

from remote_inference.core.robot.safety.hearing import UNHEARD_NS
from remote_inference.core.robot.tick import Tick

WAIT_NS = 30_000_000  # of ticks faster than this, until the executor has run what waited


class Lateness:
    """Looks at each tick's time before it is decided. For the control thread."""

    def __init__(self, given_up_after_ns: int, late_after_ns: int) -> None:
        """Build it for times without a tick [ns].

        given_up_after_ns: after which the watchdog may have stopped the controllers. late_after_ns: after
        which it may have stopped them because it had lost beats before.
        """
        self._given_up_after_ns = given_up_after_ns
        self._late_after_ns = late_after_ns
        self._ticked_ns: int | None = None  # time of the last tick
        self._commanded = False  # the last tick did, and left nothing in force that was commanded before ...
        self._may_wait = False  # ... and its command left
        self._until_ns = 0  # the wait for what is still unheard
        self.waits = False
        """Whether the tick waits: its robot goes on as it was told, for a period or WAIT_NS."""
        self.stuck_ns = 0
        """Time without a tick before this one [ns] if the watchdog may have acted in it, else 0."""
        self.keep()

    def look(self, now_ns: int, heard_ns: int, *, may_wait: bool) -> None:
        """Look at the time of a tick. heard_ns: until when all that came was run.

        may_wait: whether anything would be led on, and nobody has said that the robot was stopped.
        """
        before_ns, self._ticked_ns = self._ticked_ns, now_ns
        gap_ns = 0 if before_ns is None else now_ns - before_ns
        self.stuck_ns = gap_ns if gap_ns > self._given_up_after_ns else 0
        is_unheard = now_ns - heard_ns > UNHEARD_NS
        is_late = gap_ns > self._late_after_ns
        # Once, and not for long: where every tick is late, what was commanded before would go on.
        begins = (self._commanded and is_late) or (self._may_wait and is_unheard)
        if begins:
            self._until_ns = now_ns + WAIT_NS
        elif self.waits and is_late:  # time in which nothing ran does not count
            self._until_ns += gap_ns
        goes_on = self.waits and is_unheard and now_ns < self._until_ns
        self.waits = (begins or goes_on) and may_wait and not self.stuck_ns

    def take(self, tick: Tick) -> None:
        """Take what the tick was decided to do."""
        self._commanded = self._may_wait = tick.command is not None and not tick.in_force

    def keep(self) -> None:
        """Remember whether anything has waited, for `take_back`."""
        self._kept = self._may_wait

    def take_back(self) -> None:
        """Take that no command left since `keep`: what was commanded before has waited, or not, as then."""
        self._may_wait = self._kept
