# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The worker with threads: requests are prepared while the policy computes, and answers do not hold it up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from remote_inference.base.exchange import Chunk, ChunkStatus, SessionKind
from remote_inference.base.policy import PolicyObservation, ServingMode
from remote_inference.server.schedulers import MicroBatch, RoundRobin, Scheduler
from remote_inference.server.sessions import SessionExpiry
from support.builders import ShiftProcessors, SteadyPolicy, make_request
from support.server.bench import Bench, serialize
from support.waiting import wait_until

DEADLINE_S = 20.0
POOL = "pool"
FINISH = "finish"
DEVICE = "device"


class Gate:
    """A place where a thread stops until the test lets it pass; open at first."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.waiting = 0

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def pass_through(self) -> None:
        self.waiting += 1
        assert self._open.wait(DEADLINE_S)
        self.waiting -= 1


class WatchedProcessors(ShiftProcessors):
    """Note the states that they prepare, and the threads; no two threads may be within at once."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.seen: list[float] = []
        self.threads: set[str] = set()
        self.overlaps = 0
        self._within = threading.Lock()

    def pre(self, observation: PolicyObservation) -> Any:
        self.seen.append(float(observation.state[0]))
        return self._guarded(lambda: super(WatchedProcessors, self).pre(observation))

    def post(self, chunk_model: Any) -> Any:
        return self._guarded(lambda: super(WatchedProcessors, self).post(chunk_model))

    def reset(self) -> None:
        self._guarded(super().reset)

    def _guarded(self, work: Callable[[], Any]) -> Any:
        self.threads.add(threading.current_thread().name.partition("_")[0])
        free = self._within.acquire(blocking=False)
        self.overlaps += not free
        try:
            self.gate.pass_through()
            return work()
        finally:
            if free:
                self._within.release()


class WatchedPolicy(SteadyPolicy):
    """Notes its calls and their threads, and stops at a gate."""

    def __init__(self, **spec_changes: Any) -> None:
        super().__init__(**spec_changes)
        self.gate = Gate()
        self.calls: list[Any] = []  # sizes of the batches, and "reset"
        self.threads: set[str] = set()

    def make_processors(self) -> WatchedProcessors:
        return WatchedProcessors()

    def predict(self, batch: Sequence[Any]) -> Any:
        self._note(len(batch))
        self.gate.pass_through()
        return super().predict(batch)

    def reset(self) -> None:
        self._note("reset")
        super().reset()

    def _note(self, call: Any) -> None:
        self.calls.append(call)
        self.threads.add(threading.current_thread().name)


class Server:
    """A worker on a device thread of its own, with a pool and a thread for the answers."""

    def __init__(self, scheduler: Scheduler, policy: WatchedPolicy, robots: int, threads: int) -> None:
        self.policy = policy
        self.slow = 0  # times that a thread of the pool was taken for long
        self.out = Gate()
        self._pools = [ThreadPoolExecutor(threads, POOL), ThreadPoolExecutor(1, FINISH)]
        prepare, finish = (pool.submit for pool in self._pools)
        self._work = threading.Event()
        self._stop = threading.Event()
        self.bench = Bench(
            policy,
            scheduler,
            robots,
            prepare=prepare,
            on_ready=self._work.set,
            finish=finish,
            on_slow=self._count_slow,
            on_free=self._tell_worker,
        )
        self.bench.refuse = lambda what, _: self.out.pass_through() if what == "chunk" else None
        self.sessions = self.bench.sessions
        self._device = threading.Thread(target=self._serve, name=DEVICE)
        self._device.start()

    @property
    def chunks(self) -> list[Chunk]:
        return [chunk for _, chunk in self.bench.chunks]

    def processors(self, index: int) -> WatchedProcessors:
        processors = self.sessions[index].processors
        assert isinstance(processors, WatchedProcessors)
        return processors

    def ask(self, index: int, state: float = 0.5, **changes: Any) -> None:
        self.bench.put(index, (state, 0.0), **changes)
        self._tell_worker()

    def wait_for_answers(self, count: int) -> None:
        wait_until(lambda: len(self.bench.records) >= count, f"{count} answers", DEADLINE_S)

    def close(self) -> None:
        for gate in (
            self.policy.gate,
            self.out,
            *(self.processors(i).gate for i in range(len(self.sessions))),
        ):
            gate.open()
        self._stop.set()
        self._work.set()
        self._device.join(DEADLINE_S)
        for pool in self._pools:
            pool.shutdown()
        assert not self._device.is_alive()

    def _count_slow(self) -> None:
        self.slow += 1

    def _tell_worker(self) -> None:
        self._work.set()
        self.bench.worker.intake.prepare(self.sessions)

    def _serve(self) -> None:
        while not self._stop.is_set():
            self._work.wait(self.bench.worker.intake.wait_ns / 1e9 or 0.1)
            self._work.clear()
            while not self._stop.is_set() and self.bench.worker.step(self.sessions):
                pass


Start = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[Start]:
    servers = []

    def make(
        scheduler: Scheduler | None = None,
        policy: WatchedPolicy | None = None,
        robots: int = 3,
        threads: int = 3,
    ) -> Server:
        servers.append(Server(scheduler or RoundRobin(), policy or WatchedPolicy(), robots, threads))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


def hold_the_device(server: Server) -> None:
    """Let robot 0 ask, and stop the policy within its request."""
    server.policy.gate.shut()
    server.ask(0)
    wait_until(lambda: server.policy.gate.waiting == 1, "the policy computes", DEADLINE_S)


def test_the_next_batch_is_prepared_while_the_policy_computes(start: Start):
    server = start()
    hold_the_device(server)
    server.ask(1)
    wait_until(lambda: server.processors(1).seen == [0.5], "robot 1's request prepared", DEADLINE_S)
    assert server.policy.calls == [1]
    server.policy.gate.open()
    server.wait_for_answers(2)
    assert server.processors(1).threads == {POOL, FINISH}


def test_only_the_device_s_thread_calls_the_policy(start: Start):
    server = start(policy=WatchedPolicy(serving_mode=ServingMode.EXCLUSIVE), robots=1)
    for episode_id in range(4):
        server.ask(0, episode_id=episode_id, episode_start=True)
        server.wait_for_answers(episode_id + 1)
    assert server.policy.calls == ["reset", 1] * 4
    assert server.policy.threads == {DEVICE}


def test_at_most_one_batch_is_ahead(start: Start):
    """A request that waits can still be replaced by a newer one, and the scheduler still has the choice."""
    server = start(robots=4)
    hold_the_device(server)
    for index in (1, 2, 3):
        server.ask(index)
    wait_until(lambda: len(server.processors(1).seen) == 1, "the next batch prepared", DEADLINE_S)
    assert [session.in_service for session in server.sessions] == [True, True, False, False]
    server.policy.gate.open()
    server.wait_for_answers(4)
    assert [chunk.session_id for chunk in server.chunks] == ["s0", "s1", "s2", "s3"]


def test_an_evaluation_is_not_taken_ahead_of_a_robot_that_may_still_ask(start: Start):
    """Two calls of the policy would stand between a robot's request and its answer."""
    server = start(robots=2)
    server.sessions[0].offer = replace(server.sessions[0].offer, kind=SessionKind.EVALUATION)
    hold_the_device(server)
    server.ask(0)
    server.ask(1)
    wait_until(lambda: server.processors(1).seen == [0.5], "the robot's request prepared", DEADLINE_S)
    server.policy.gate.open()
    server.wait_for_answers(3)
    assert [chunk.session_id for chunk in server.chunks] == ["s0", "s1", "s0"]


def test_evaluations_alone_are_taken_ahead(start: Start):
    server = start(robots=2)
    for session in server.sessions:
        session.offer = replace(session.offer, kind=SessionKind.EVALUATION)
    hold_the_device(server)
    server.ask(1)
    wait_until(lambda: server.processors(1).seen == [0.5], "the other's request prepared", DEADLINE_S)
    server.policy.gate.open()
    server.wait_for_answers(2)


def test_requests_that_come_while_the_policy_computes_make_one_batch(start: Start):
    server = start(MicroBatch(3, window_ns=0), WatchedPolicy(max_batch=3), robots=5)
    hold_the_device(server)
    for index in (1, 2, 3, 4):
        server.ask(index)
    server.policy.gate.open()
    server.wait_for_answers(5)
    assert server.policy.calls == [1, 3, 1]


@pytest.mark.parametrize("ahead", [False, True])
def test_the_requests_of_a_batch_are_prepared_at_once(start: Start, ahead: bool):
    scheduler = MicroBatch(3, window_ns=0 if ahead else 10**15)
    server = start(scheduler, WatchedPolicy(max_batch=3), robots=4)
    if ahead:
        hold_the_device(server)
    gates = [server.processors(index).gate for index in (1, 2, 3)]
    for gate in gates:
        gate.shut()
    for index in (1, 2, 3):
        server.ask(index)
    wait_until(
        lambda: [gate.waiting for gate in gates] == [1, 1, 1], "all three prepared at once", DEADLINE_S
    )
    for gate in (*gates, server.policy.gate):
        gate.open()
    server.wait_for_answers(3 + ahead)


def test_a_session_is_not_selected_again_before_its_answer_is_out(start: Start):
    """`post` reads what `pre` cached: the next request must not come between."""
    server = start()
    server.out.shut()
    server.ask(0, state=0.1)
    wait_until(lambda: server.out.waiting == 1, "the chunk on its way", DEADLINE_S)
    server.ask(0, state=0.2)
    server.ask(1)
    wait_until(lambda: server.policy.calls == [1, 1], "robot 1 served", DEADLINE_S)
    assert server.processors(0).seen == pytest.approx([0.1])
    server.out.open()
    server.wait_for_answers(3)
    assert server.processors(0).seen == pytest.approx([0.1, 0.2])


def test_a_superseded_request_is_never_prepared(start: Start):
    server = start()
    hold_the_device(server)
    server.ask(1)
    for state in (0.1, 0.2, 0.3):
        server.ask(2, state=state)
    server.policy.gate.open()
    server.wait_for_answers(3)
    assert server.processors(2).seen == pytest.approx([0.3])
    assert server.chunks[-1].superseded_seqs == 2


def test_an_answer_that_is_slow_to_leave_does_not_hold_up_the_policy(start: Start):
    server = start()
    server.out.shut()
    server.ask(0)
    wait_until(lambda: server.out.waiting == 1, "the chunk on its way", DEADLINE_S)
    server.ask(1)
    wait_until(lambda: server.policy.calls == [1, 1], "the next call of the policy", DEADLINE_S)
    assert server.chunks == []


def test_answers_that_do_not_leave_show_as_a_device_that_hangs(start: Start):
    """Otherwise a server that answers nobody would report no load, and admit more robots."""
    server = start(robots=4)
    server.out.shut()
    for index in range(4):
        server.ask(index)
    wait_until(lambda: len(server.policy.calls) >= 3, "as many as may be on their way", DEADLINE_S)
    wait_until(lambda: server.bench.worker.busy.running_s(2 * 10**12) > 100, "the device busy", DEADLINE_S)
    server.bench.now_ns += 31 * 10**9
    assert "has not ended for 31 s" in server.bench.watch.unhealthy_reason(server.bench.now_ns)
    assert len(server.policy.calls) == 3


def test_a_processor_that_hangs_keeps_nobody_else_waiting_and_costs_its_session(start: Start):
    server = start(threads=2)
    server.processors(0).gate.shut()
    server.ask(0)
    wait_until(lambda: server.processors(0).gate.waiting == 1, "the processor hangs", DEADLINE_S)
    server.bench.now_ns += 11 * 10**9
    server.ask(1)
    server.ask(2)
    server.wait_for_answers(2)
    assert {chunk.session_id for chunk in server.chunks} == {"s1", "s2"}
    assert server.bench.watch.unhealthy_reason(server.bench.now_ns) == ""
    expiry = SessionExpiry(grace_s=60.0, idle_timeout_s=600.0)
    ((session, reason),) = expiry.expired(server.sessions, lambda _: True, server.bench.now_ns)
    assert session is server.sessions[0]
    assert reason == "its request has been prepared for 11 s without end"


def test_a_slow_preparation_gets_a_thread_of_its_own_from_then_on(start: Start):
    """The pool has one thread: while it is taken, a thread is added; the next slow request needs none."""
    server = start(threads=1)
    slow = server.processors(0)
    for count in (1, 2):
        slow.gate.shut()
        server.ask(0)
        wait_until(lambda: slow.gate.waiting == 1, "the slow preparation", DEADLINE_S)
        if count == 1:
            server.bench.now_ns += 200_000_000
            server.ask(1)
            wait_until(lambda: server.slow == 1, "a thread is asked for", DEADLINE_S)
        else:  # from now on nobody waits for it at all
            server.ask(1)
            server.wait_for_answers(3)
        slow.gate.open()
        server.wait_for_answers(2 * count)
    assert server.slow == 1
    assert slow.threads == {POOL, "prepare", FINISH}


def test_a_request_whose_preparation_took_long_is_served_when_it_is_ready(start: Start):
    server = start(MicroBatch(2, window_ns=0), WatchedPolicy(max_batch=2), threads=3)
    server.processors(0).gate.shut()
    server.ask(0)
    wait_until(lambda: server.processors(0).gate.waiting == 1, "a slow preparation", DEADLINE_S)
    server.bench.now_ns += 200_000_000
    server.ask(1)
    server.wait_for_answers(1)
    server.processors(0).gate.open()
    server.wait_for_answers(2)
    assert [chunk.session_id for chunk in server.chunks] == ["s1", "s0"]


def test_an_exchange_of_weights_that_hangs_shows_as_an_inference_that_does_not_end(start: Start):
    server = start()
    gate = Gate()
    gate.shut()
    server.bench.worker._update_weights = lambda: gate.pass_through() or 0
    try:
        server.ask(0)
        wait_until(lambda: gate.waiting == 1, "the exchange hangs", DEADLINE_S)
        server.bench.now_ns += 31 * 10**9
        assert "has not ended for 31 s" in server.bench.watch.unhealthy_reason(server.bench.now_ns)
    finally:
        gate.open()
    server.wait_for_answers(1)
    assert server.bench.watch.unhealthy_reason(server.bench.now_ns) == ""


def test_a_postprocessor_that_hangs_shows_although_its_only_robot_asks_no_more(start: Start):
    """The device is idle: the robot waits for its chunk."""
    server = start()
    hold_the_device(server)
    server.processors(0).gate.shut()
    server.policy.gate.open()
    wait_until(lambda: server.processors(0).gate.waiting == 1, "the postprocessor hangs", DEADLINE_S)
    wait_until(lambda: not server.bench.watch.busy.running_s(server.bench.now_ns), "idle", DEADLINE_S)
    server.bench.now_ns += 31 * 10**9
    hung = "postprocessing has not ended for 31 s"
    assert server.bench.watch.unhealthy_reason(server.bench.now_ns) == hung
    server.processors(0).gate.open()
    server.wait_for_answers(1)
    wait_until(lambda: not server.bench.watch.unhealthy_reason(server.bench.now_ns), "healthy", DEADLINE_S)


def test_a_request_that_cannot_be_prepared_ahead_costs_only_its_sender(start: Start):
    server = start(MicroBatch(3, window_ns=0), WatchedPolicy(max_batch=3), robots=4)
    hold_the_device(server)
    server.sessions[1].mailbox.put(serialize(make_request(session_id="s1"), (1.0,)), server.bench.now_ns)
    server.sessions[2].mailbox.put(b"{truncated", server.bench.now_ns)
    server.ask(3)
    server.policy.gate.open()
    server.wait_for_answers(4)
    assert {chunk.session_id: chunk.status for chunk in server.chunks} == {
        "s0": ChunkStatus.OK,
        "s1": ChunkStatus.ERROR,
        "s3": ChunkStatus.OK,
    }
    assert server.policy.calls == [1, 1]


def test_a_session_that_ends_while_its_request_is_ahead_costs_no_inference(start: Start):
    server = start()
    hold_the_device(server)
    server.ask(1)
    wait_until(lambda: server.processors(1).seen == [0.5], "robot 1's request prepared", DEADLINE_S)
    server.sessions[1].ended = True
    server.policy.gate.open()
    server.wait_for_answers(2)
    assert server.policy.calls == [1]
    assert server.bench.records[-1].outcome == "not answered: its session has ended"


def test_the_wait_for_the_device_is_queue_wait_and_no_inference(start: Start):
    server = start()
    hold_the_device(server)
    server.ask(1)
    wait_until(lambda: server.processors(1).seen == [0.5], "robot 1's request prepared", DEADLINE_S)
    server.bench.now_ns += 40_000_000
    server.policy.gate.open()
    server.wait_for_answers(2)
    first, second = server.chunks
    assert (first.queue_wait_ms, first.inference_ms) == (0.0, 40.0)
    assert (second.queue_wait_ms, second.inference_ms) == (40.0, 0.0)


@pytest.mark.parametrize("batch", [1, 4])
def test_processors_see_their_session_s_requests_in_order_and_one_at_a_time(start: Start, batch: int):
    robots, rounds = 6, 30
    policy = WatchedPolicy(max_batch=batch)
    server = start(MicroBatch(batch, 0) if batch > 1 else RoundRobin(), policy, robots, threads=4)

    def ask_all_the_time(index: int) -> None:
        for seq in range(1, rounds + 1):
            server.ask(index, state=seq / 1000, seq_id=seq)
            wait_until(partial(answered, index, seq), f"robot {index}'s answer {seq}", DEADLINE_S)

    def answered(index: int, seq: int) -> bool:
        return any(chunk.session_id == f"s{index}" and chunk.seq_id == seq for chunk in server.chunks)

    with ThreadPoolExecutor(robots) as askers:
        list(askers.map(ask_all_the_time, range(robots)))
    for index in range(robots):
        processors = server.processors(index)
        assert processors.seen == pytest.approx([seq / 1000 for seq in range(1, rounds + 1)])
        assert processors.overlaps == 0
    for chunk in server.chunks:  # each answer is of its own request: `post` adds what `pre` saw
        assert chunk.robot[0, 0] == pytest.approx(2 * chunk.seq_id / 1000)
    assert policy.threads == {DEVICE}
    assert max(policy.calls) <= batch
    assert not any(session.in_service for session in server.sessions)
