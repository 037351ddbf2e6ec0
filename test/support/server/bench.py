# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A worker on a test bench, with robots, a JSON decoder and a clock that only the test moves."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from remote_inference.base.exchange import Chunk, Request, SessionOffer
from remote_inference.base.policy import PolicyObservation
from remote_inference.server.policy_watch import PolicyWatch
from remote_inference.server.requests.job import Consumers
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.requests.worker import Worker
from remote_inference.server.schedulers import RoundRobin, Scheduler, Selection
from remote_inference.server.sessions import Session
from remote_inference.server.warmup import Rehearsal
from support.builders import SteadyPolicy, make_offer, make_request

MS = 1_000_000


class AllAtOnce:
    """A scheduler that serves all waiting sessions in one batch."""

    def note_call(self, requests: int, took_ns: int) -> None:
        """Its choice depends on no duration."""

    def select(self, ready: Sequence[Session], joinable: int, now_ns: int, chosen: int = 0) -> Selection:
        return Selection(ready)


class JsonDecoder:
    """Decodes requests in JSON: the request's fields, and the state beside them."""

    def request(self, data: bytes) -> tuple[Request, Any]:
        message = json.loads(data)
        return Request(**message["request"]), message

    def observation(self, message: Any, offer: SessionOffer) -> PolicyObservation:
        state = np.array(message["state"], np.float32)
        if state.shape != (len(offer.state_names),):
            raise ValueError(f"state: found {state.size} values, expected {len(offer.state_names)}")
        return PolicyObservation(state=state, images={}, task=message["request"]["task"])


def serialize(request: Request, state: Sequence[float] = (0.0, 0.0)) -> bytes:
    return json.dumps({"request": vars(request), "state": list(state)}).encode()


class Bench:
    """A worker with its robots, on a clock that the policy may advance."""

    def __init__(
        self,
        policy: SteadyPolicy | None = None,
        scheduler: Scheduler | None = None,
        robots: int = 2,
        capture: Callable[[SessionOffer, bytes, Chunk, int], None] | None = None,
        max_consecutive_failures: int = 10,
        decoder: JsonDecoder | None = None,
        **pools: Any,
    ):
        """pools: `prepare`, `finish` and `on_free` of the worker."""
        self.policy = policy or SteadyPolicy()
        self.now_ns = 1_000 * MS
        self.each_send_takes_ns = 0
        self.chunks: list[tuple[Session, Chunk]] = []
        self.records: list[RequestRecord] = []
        self.refuse: Callable[[str, Session | RequestRecord], None] = lambda what, whose: None
        self.sessions = [
            Session(
                f"s{index}",
                make_offer(client=f"/robot_{index}", robot_namespace=f"/robot_{index}"),
                self.policy.make_processors(),
            )
            for index in range(robots)
        ]
        self.watch = PolicyWatch(
            Rehearsal(self.policy, JsonDecoder(), [serialize(make_request())], make_offer()).run,
            max_consecutive_failures=max_consecutive_failures,
            inference_timeout_s=30.0,
        )
        self.worker = Worker(
            self.policy,
            lambda: scheduler or RoundRobin(),
            decoder or JsonDecoder(),
            Consumers(self._deliver, self._note, capture),
            clock_ns=lambda: self.now_ns,
            watch=self.watch,
            **pools,
        )

    def _note(self, record: RequestRecord) -> None:
        self.refuse("request record", record)
        self.records.append(record)

    def _deliver(self, session: Session, chunk: Chunk) -> None:
        self.refuse("chunk", session)
        self.now_ns += self.each_send_takes_ns
        self.chunks.append((session, chunk))

    def let_inference_take(self, duration_ns: int) -> None:
        """Make every later call of the policy last `duration_ns`."""
        answer = self.policy.answer

        def slow(batch: Sequence[Any]) -> Any:
            self.now_ns += duration_ns
            return answer(batch)

        self.policy.answer = slow

    def put(self, index: int, state: Sequence[float] = (0.5, -0.5), **changes: Any) -> Request:
        request = make_request(**{"session_id": f"s{index}", **changes})
        self.sessions[index].mailbox.put(serialize(request, state), self.now_ns)
        return request

    def serve(self) -> list[Chunk]:
        """Serve until no request waits; return the chunks of this call."""
        done = len(self.chunks)
        for _ in range(100):
            if not self.worker.step(self.sessions):
                return [chunk for _, chunk in self.chunks[done:]]
        raise AssertionError("the worker does not finish")
