# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The measuring rig of capacity.py: the server's process, its resources, and a window in which robots ask."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from capacity_robots import SERVER, Fleet, Record
from numpy.typing import NDArray
from request_cycle_rig import START_TIMEOUT_S, Case, Echo, Pinger
from typing_extensions import Self

from remote_inference.base.paths import share_path
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessGroup

CASE = Case(cameras=2, quality=90)
RATE_HZ = 5.0  # of each robot: three times the demo's, so that 64 robots are too many for two cores
SCHEDULERS = ("round_robin", "micro_batch")
SETTLE_S = 1.0  # between the first request and the window
MAX_SESSIONS = 64


def write_manifest(folder: Path, policy: str, scheduler: str) -> Path:
    if policy == "hold":
        model = {"backend": "hold", "path": "policy"}
    else:
        model = {"backend": "chunk_network", "path": str(share_path("config", "models", policy))}
    path = folder / f"{policy}_{scheduler}.yaml"
    path.write_text(yaml.safe_dump({"model": model, "scheduler": scheduler, "max_sessions": MAX_SESSIONS}))
    return path


@dataclass(frozen=True)
class Usage:
    """The resources that a process has used so far."""

    cpu_s: float
    resident_bytes: int

    @classmethod
    def of(cls, pid: int) -> Self:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])  # user and system time
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return cls(ticks / os.sysconf("SC_CLK_TCK"), resident * os.sysconf("SC_PAGE_SIZE"))


@contextmanager
def serving(folder: Path, manifest: Path) -> Iterator[tuple[int, Pinger]]:
    """Run server and echo; yield the server's process id and a function that runs a ping-pong."""
    with ProcessGroup(folder / "logs") as group:
        group.start(Echo("echo", "echo"))
        server = group.start(bringup.server(manifest, name=SERVER[1:]))
        pinger = Pinger(CASE)
        try:
            end_s = time.monotonic() + START_TIMEOUT_S
            while pinger.measure() is None:
                group.check()
                if time.monotonic() > end_s:
                    raise SystemExit(f"the echo's answer: not within {START_TIMEOUT_S:g} s")
            yield server.pid, pinger
        finally:
            pinger.close()


def run_window(fleet: Fleet, server_pid: int, seconds: float) -> tuple[list[Record], Usage, Usage]:
    """Make all robots ask; return their records and the server's use at the window's begin and end."""
    start_s = time.monotonic()
    begin_s, end_s = start_s + SETTLE_S, start_s + SETTLE_S + seconds
    fleet.ask(start_s, begin_s, end_s)
    time.sleep(max(0.0, begin_s - time.monotonic()))
    before = Usage.of(server_pid)
    time.sleep(max(0.0, end_s - time.monotonic()))
    return fleet.records(), before, Usage.of(server_pid)


def jain_index(shares: NDArray[Any]) -> float:
    return float(shares.sum() ** 2 / (len(shares) * (shares.astype(float) ** 2).sum()))
