# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The capacity formula of a fleet: docs/explanation/fleet.md explains it, fleet.py measures against it."""

from __future__ import annotations

import math
from dataclasses import dataclass

FREE = 0.2  # of a server's time, for what comes unevenly


@dataclass(frozen=True)
class Cost:
    """What a request costs a server's worker.

    prepare_s: of each request, decoding and sending included. call_s, request_s: of the device, for each call
    of the policy and for each request in it. batch: the most requests of a call.
    """

    prepare_s: float
    call_s: float = 0.0
    request_s: float = 0.0
    batch: int = 1

    @property
    def each_s(self) -> float:
        """Time of one request in a full batch [s]: `t`."""
        return self.prepare_s + self.request_s + self.call_s / self.batch

    @property
    def most_per_s(self) -> float:
        """Requests that a server answers in a second when it never rests: `1 / t`."""
        return 1.0 / self.each_s


def robots_per_server(cost: Cost, rate_hz: float, deadline_s: float, hops_s: float = 0.0) -> int:
    """Return how many robots a server holds: `min(0.8 / (r t), (D - 2 h) / t)`.

    rate_hz: requests of a robot. deadline_s: the playback that is left when a robot asks. hops_s: both ways.
    """
    by_load = (1.0 - FREE) / (rate_hz * cost.each_s)
    by_deadline = (deadline_s - hops_s) / cost.each_s
    return max(0, math.floor(min(by_load, by_deadline) + 1e-9))


def servers_for(robots: int, per_server: int, listed: int) -> int:
    """Return how many servers hold all robots, also when one of them is dead: `N L / ((L - 1) M)`.

    per_server: `M`. listed: servers that each robot knows, `L`; it finds no other. Raises ValueError when a
    robot has nowhere else to go.
    """
    if per_server < 1 or listed < 2:
        raise ValueError(
            f"found {per_server} robots per server and {listed} listed servers, expected at least 1 and 2"
        )
    return max(listed, math.ceil(robots * listed / ((listed - 1) * per_server)))


def room_after_a_death(robots: int, servers: int, per_server: int, listed: int) -> int:
    """Return for how many robots more there is room on the listed servers when one has died; may be negative.

    The robots are spread evenly: `(L - 1) (M - N / S) - N / S`.
    """
    each = robots / servers
    return math.floor((listed - 1) * (per_server - each) - each + 1e-9)
