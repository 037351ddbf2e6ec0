# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the request cycle keeps: the open question, and when its sources have delivered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from remote_inference.base.exchange import Chunk, Request
from remote_inference.robot.command import Float64Array


@dataclass(frozen=True)
class Asked:
    """A request, and what its rows begin with. The robot sent it at `request.client_mono_ns`.

    capture_ns: when the observation's oldest source arrived. executed: how many actions had been by row 0.

    Row k of a chunk is for the k-th period of rows after capture, so the delays and the prefix begin here and
    not with the request, which may follow a tick later. Relative rows count from where the robot was
    measured, and begin then: what it has executed since an older image is in that measurement.
    """

    request: Request
    capture_ns: int
    begin_ns: int  # of row 0
    executed: int
    measured: Float64Array | None  # where the robot was `[action_dim]`; None: not known


@dataclass(frozen=True)
class Question:
    """The requests of the open question, oldest first. Empty: none.

    early: its answer, which came at `arrival_ns` and waits until `due_ns`, for which it was planned.
    """

    asked: tuple[Asked, ...] = ()
    early: Chunk | None = None
    arrival_ns: int = 0
    due_ns: int = 0


@dataclass(frozen=True)
class Arrivals:
    """Times at which the newest content of each topic arrived [ns]: of all, and of what a request would show.

    sent: of what the last request has shown. executed: actions executed when each shown one arrived.
    """

    newest: Mapping[str, int] = field(default_factory=dict)
    shown: Mapping[str, int] = field(default_factory=dict)
    sent: Mapping[str, int] = field(default_factory=dict)
    executed: Mapping[str, int] = field(default_factory=dict)
