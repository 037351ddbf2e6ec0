# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulated controllers that do what the real ones do: also when nobody commands them any more."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from remote_inference.base.contract.commands.sink import CommandSink

Rows = np.ndarray  # `[rows, joints]`


class Switched:
    """A controller that its manager may deactivate: it is matched on, and takes no command.

    Drives keep what they were commanded last, and an active one goes on from there.
    """

    is_active = True

    def deactivate(self, now_ns: int) -> None:
        self.is_active = False

    def activate(self) -> None:
        self.is_active = True

    def forget(self) -> None:
        raise NotImplementedError


@dataclass
class Forward(Switched):
    """A forward controller: the drive goes to its target at once, and keeps it in silence.

    Also once it is inactive: a velocity goes on, and nobody can end it but its drive.
    """

    kind: str  # of the actions
    target: np.ndarray | None = None  # None: it was never commanded

    def command(
        self, rows: Rows, period_ns: int, now_ns: int, position: np.ndarray, late_ns: int = 0
    ) -> None:
        if self.is_active:
            self.target = rows[0].copy()

    def forget(self) -> None:
        """Hold the joints where they are: the controller was restarted, or its drives were."""
        self.target = None

    def lead(self, position: np.ndarray, before_ns: int, now_ns: int) -> np.ndarray:
        """Return where the drives have brought the joints."""
        if self.target is None or self.kind in ("effort", "switch"):
            return position
        if self.kind == "velocity":
            return position + self.target * (now_ns - before_ns) / 1e9
        return self.target

    def is_moving(self, now_ns: int) -> bool:
        """Return whether the joints go on from now without a further command."""
        return self.kind in ("velocity", "effort") and self.target is not None and bool(np.any(self.target))


@dataclass
class Trajectory(Switched):
    """A trajectory controller: straight from where it has led its joints through the points, one a period.

    from_measured: straight from where they are measured instead, as without `interpolate_from_desired_state`.
    late_ns: time [ns] that it has for the first one beyond a period.
    """

    from_measured: bool = False
    _times: np.ndarray = field(default_factory=lambda: np.empty(0))  # [ns]
    _points: Rows = field(default_factory=lambda: np.empty((0, 0)))

    def command(
        self, rows: Rows, period_ns: int, now_ns: int, position: np.ndarray, late_ns: int = 0
    ) -> None:
        if not self.is_active:
            return
        begin = position if self.from_measured else self.lead(position, now_ns, now_ns)
        self._times = now_ns + period_ns * np.arange(len(rows) + 1.0)
        self._times[1:] += late_ns
        self._points = np.vstack([begin, rows])

    def deactivate(self, now_ns: int) -> None:
        """End the trajectory where it has led the joints."""
        super().deactivate(now_ns)
        if len(self._times):
            self._points = self.lead(self._points[0], now_ns, now_ns)[np.newaxis]
            self._times = np.array([float(now_ns)])

    def forget(self) -> None:
        self._times = np.empty(0)

    def lead(self, position: np.ndarray, before_ns: int, now_ns: int) -> np.ndarray:
        if not len(self._times):
            return position
        return np.array([np.interp(now_ns, self._times, joint) for joint in self._points.T])

    @property
    def due_ns(self) -> int:
        """When the joints are at the first point of the last command."""
        return int(self._times[1])

    def is_moving(self, now_ns: int) -> bool:
        """Return whether the joints move for longer than a command's own period."""
        if len(self._times) < 3:
            return False
        rest = self._points[int(np.searchsorted(self._times, now_ns)) :]
        return bool(len(rest) and np.any(np.abs(rest - rest[-1]) > 1e-9))


class Controlled:
    """The controller of one sink, and the joints that it leads."""

    def __init__(self, sink: CommandSink, kind: str, names: tuple[str, ...]) -> None:
        self.sink = sink
        self.kind = kind  # of the actions that it takes
        self.joints = np.array([names.index(name) for name in sink.names])
        self.is_trajectory = sink.interface.takes_horizon
        self.controller: Forward | Trajectory = Trajectory() if self.is_trajectory else Forward(kind)
        self.is_heard = True  # it is matched, and hears what it is sent
        self.is_withdrawn = False  # its manager has said that it is inactive
        self.holds = 0  # in a row, that were sent to it
        self.has_missed_a_stop = False  # of the watchdog, which does not know that it is not matched
