# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot of which nothing exists but its request cycle and its queue."""

from __future__ import annotations

from typing import Any

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.base.exchange import Request, SessionReply
from remote_inference.robot.queue.action_queue import ActionQueue, DelayPolicy, MergeMode
from remote_inference.robot.queue.ensemble import Ensemble
from remote_inference.robot.requests.request_cycle import Rejection, RequestCycle
from remote_inference.robot.safety.guard import Guard
from support.builders import (
    CHUNK_SIZE,
    PERIOD_NS,
    answer,
    make_config,
    make_contract,
    make_rows,
    make_source,
    ns,
)

BEGIN_NS = ns(100)


class Robot:
    """A request cycle with its queue. Its sensors deliver when `sense` is called."""

    def __init__(
        self,
        delay_policy: DelayPolicy = DelayPolicy.CONSUMED,
        contract: Contract | None = None,
        **config: Any,
    ) -> None:
        contract = contract or make_contract()
        parameters = make_config(**config)
        ensemble = Ensemble(parameters.ensemble_coeff) if parameters.ensembles else None
        self.queue = ActionQueue(delay_policy, ensemble=ensemble)
        self.guard = Guard(contract.actions, PERIOD_NS / 1e9)
        self.cycle = RequestCycle(contract, parameters, self.queue, self.guard)
        self.session = SessionReply(accepted=True, session_id="session", chunk_size=CHUNK_SIZE, rtc=True)
        self.topics = contract.topics
        self.measured: np.ndarray | None = None  # where it is, for relative rows
        self.now_ns = BEGIN_NS
        self.sense()

    def sense(self) -> None:
        self.cycle.see(dict.fromkeys(self.topics, self.now_ns))
        self.cycle.update_stale_sources(self.now_ns)

    def wait(self, duration_ns: int) -> None:
        self.now_ns += duration_ns
        self.sense()

    def ask(self, epoch: int = 1) -> Request:
        return self.cycle.begin(
            self.session,
            self.now_ns,
            epoch=epoch,
            episode_id=0,
            episode_start=False,
            task="wave",
            measured=self.measured,
        )

    def finish(self, request: Request, rows: np.ndarray | None = None, **changes: Any) -> Rejection | None:
        chunk = answer(request, rows, **changes)
        assert self.cycle.is_answered_by(chunk)
        return self.cycle.finish(chunk, self.session, self.now_ns)

    def cycles(self, latency_ns: int, count: int) -> None:
        """Let requests be answered after a time, and their rows be executed."""
        for _ in range(count):
            request = self.ask()
            self.wait(latency_ns)
            assert self.finish(request) is None
            self.queue.clear()
            self.wait(1)

    def may_ask(self) -> bool:
        return self.cycle.awaits_observation(self.now_ns)

    def queue_rows(self, count: int) -> None:
        rows = make_rows(count)
        self.queue.merge(
            make_source(capture_ns=self.now_ns),
            rows,
            rows,
            MergeMode.REPLACE,
            latency_steps=0,
            executed_before=0,
        )
