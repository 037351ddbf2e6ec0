# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures what robots wait for beside evaluations that ask all the time.

Run `python benchmarks/evaluations.py [--blocks 5] [--seconds 4]`. Everything is in one process and without
middleware, as in prepare_pool.py: robots that ask in their rhythm, evaluations that ask again as soon as they
are answered, the server's worker, decoder and pools. Blocks of the three situations take turns.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from prepare_pool import MAX_BATCH, Case, StillPolicy, make_manifest
from worker_rig import WorkerRig, compare_schedulers

from remote_inference.base.exchange import SessionKind
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_batch
from remote_inference.server.sessions import Session
from remote_inference.server.warmup import make_scheduler

ROBOTS, OTHERS = 4, 16
ROBOT_PERIOD_S = 0.2
POLICY_S = 20e-3
THREADS = 2  # that prepare requests

METHOD = f"""\
{ROBOTS} robots ask every {ROBOT_PERIOD_S:g} s, {OTHERS} other sessions as soon as they are answered. \
A call of the policy takes {POLICY_S * 1e3:g} ms, a sleep, for up to {MAX_BATCH} requests in micro_batch."""


@dataclass(frozen=True)
class Situation:
    """Who asks beside the robots. kind: None: nobody."""

    name: str
    kind: SessionKind | None


SITUATIONS = (
    Situation("robots alone", None),
    Situation("beside evaluations", SessionKind.EVALUATION),
    Situation("beside as many eager robots", SessionKind.ROBOT),
)


@dataclass
class Times:
    """What a block has measured."""

    robots_ms: list[float] = field(default_factory=list)  # from a robot's request to its chunk
    others: int = 0  # answers


class Server:
    """A worker on threads as a server has them, and the sessions that keep it busy."""

    def __init__(self, scheduler: str, situation: Situation) -> None:
        policy = StillPolicy(Case(scheduler, cameras=0, policy_s=POLICY_S))
        manifest = make_manifest(scheduler)
        (self._data, *_), offer = sample_batch(policy.spec, "wave")
        self.times = Times()
        self._robots = [Session("", offer, policy) for _ in range(ROBOTS)]
        others = OTHERS if situation.kind else 0
        offer = replace(offer, kind=situation.kind or SessionKind.ROBOT)
        self._others = [Session("", offer, policy) for _ in range(others)]
        self._sessions = [*self._robots, *self._others]
        self._asked_s: dict[int, float] = {}
        self._rig = WorkerRig(
            policy,
            partial(make_scheduler, manifest, MAX_BATCH),
            RequestDecoder(manifest, policy.spec),
            self._sessions,
            take=self._take,
            threads=THREADS,
        )

    def run(self, seconds: float) -> Times:
        self._rig.start()
        for session in self._others:
            self._ask(session)
        begin_s = time.monotonic()
        due = [(begin_s + index * ROBOT_PERIOD_S / ROBOTS, robot) for index, robot in enumerate(self._robots)]
        while (now_s := due[0][0]) < begin_s + seconds:
            time.sleep(max(0.0, now_s - time.monotonic()))
            _, robot = due.pop(0)
            if id(robot) not in self._asked_s:  # never before the last request was answered
                self._asked_s[id(robot)] = time.monotonic()
                self._ask(robot)
            due.append((now_s + ROBOT_PERIOD_S, robot))
        self._rig.stop()
        return self.times

    def _ask(self, session: Session) -> None:
        self._rig.ask(session, self._data)

    def _take(self, session: Session) -> None:
        begin_s = self._asked_s.pop(id(session), None)
        if begin_s is not None:
            self.times.robots_ms.append((time.monotonic() - begin_s) * 1e3)
        else:
            self.times.others += 1
            self._ask(session)


def measure(scheduler: str, blocks: int, seconds: float) -> list[tuple[str, ...]]:
    """Return a row for each situation."""
    times = {situation: Times() for situation in SITUATIONS}
    for _ in range(blocks):
        for situation, all_times in times.items():
            measured = Server(scheduler, situation).run(seconds)
            all_times.robots_ms += measured.robots_ms
            all_times.others += measured.others
    alone_ms = np.quantile(times[SITUATIONS[0]].robots_ms, 0.99)
    rows: list[tuple[str, ...]] = []
    for situation, measured in times.items():
        p50, p99 = np.quantile(measured.robots_ms, (0.5, 0.99))
        more = (p99 - alone_ms) / (POLICY_S * 1e3)
        rate = measured.others / (blocks * seconds)
        rows.append((scheduler, situation.name, f"{p50:.1f}", f"{p99:.1f}", f"{more:+.2f}", f"{rate:.0f}"))
    return rows


COLUMNS = ("scheduler", "situation", "p50", "p99", "p99 above alone\ncalls of the policy", "others\n/s")

if __name__ == "__main__":
    compare_schedulers(__doc__, METHOD, measure, "Robots' answers [ms]", COLUMNS)
