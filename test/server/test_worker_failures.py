# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A failure costs one ERROR chunk and affects no other robot; a policy that fails everybody is found out."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from remote_inference.base.exchange import ChunkStatus, SessionOffer
from remote_inference.base.policy import PolicyError, PolicyObservation
from remote_inference.server.policy_watch import CHECK_PERIOD_NS
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.requests.worker import ALONE_NS
from remote_inference.server.sessions import Session
from support.builders import CHUNK_SIZE, ShiftProcessors, SteadyPolicy
from support.server.bench import MS, AllAtOnce, Bench
from support.server.misbehaviour import (
    nan_rows,
    no_arrays,
    out_of_memory,
    refuse_large_states,
    rows_too_large_for_the_wire,
    short_rows,
    too_few,
)


@pytest.mark.parametrize(
    ("misbehave", "words"),
    [
        (nan_rows, ["non-finite"]),
        (rows_too_large_for_the_wire, ["non-finite", "float32"]),
        (short_rows, ["[3, 2]", f"[{CHUNK_SIZE}, 2]"]),
        (out_of_memory, ["MemoryError", "no room on the device"]),
        (too_few, []),
        (no_arrays, []),
    ],
)
def test_a_misbehaving_policy_costs_an_error_chunk_with_a_reason(
    misbehave: Callable[[Sequence[Any]], Any], words: list[str]
):
    bench = Bench()
    bench.put(0)
    bench.policy.answer = misbehave
    (chunk,) = bench.serve()
    assert chunk.status is ChunkStatus.ERROR
    assert chunk.message
    assert all(word in chunk.message for word in words)
    assert chunk.model.size == chunk.robot.size == 0
    assert (bench.worker.finishing.counters.requests, bench.worker.finishing.counters.errors) == (1, 1)
    del bench.policy.answer
    bench.policy.answer = SteadyPolicy().answer
    bench.put(0)
    assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.OK]


@pytest.mark.parametrize("space", ["model", "robot"])
def test_a_non_finite_value_in_either_space_is_an_error(space: str):
    bench = Bench()
    if space == "robot":
        bench.sessions[0].processors.post = lambda rows: rows * np.float32(np.inf)  # type: ignore[method-assign]
    else:
        bench.policy.answer = nan_rows
        bench.sessions[0].processors.post = np.nan_to_num  # type: ignore[method-assign, assignment]
    bench.put(0)
    (chunk,) = bench.serve()
    assert chunk.status is ChunkStatus.ERROR
    assert space in chunk.message


def test_a_malformed_observation_costs_only_its_sender():
    bench = Bench(scheduler=AllAtOnce())
    bench.put(0, state=(1.0, 2.0, 3.0))
    bench.put(1)
    by_session = {chunk.session_id: chunk for chunk in bench.serve()}
    assert by_session["s0"].status is ChunkStatus.ERROR
    assert "found 3 values, expected 2" in by_session["s0"].message
    assert by_session["s1"].status is ChunkStatus.OK


@pytest.mark.parametrize("stage", ["pre", "post", "reset"])
def test_failing_processors_cost_only_their_session(stage: str):
    class Broken(ShiftProcessors):
        def pre(self, observation: PolicyObservation) -> Any:
            return self._fail("pre") if stage == "pre" else super().pre(observation)

        def post(self, chunk_model: np.ndarray) -> Any:
            return self._fail("post") if stage == "post" else super().post(chunk_model)

        def reset(self) -> None:
            if stage == "reset":
                self._fail("reset")

        def _fail(self, where: str) -> None:
            raise PolicyError(f"broken {where}")

    bench = Bench(scheduler=AllAtOnce())
    bench.sessions[0].processors = Broken()
    bench.put(0, episode_start=True)
    bench.put(1)
    by_session = {chunk.session_id: chunk for chunk in bench.serve()}
    assert by_session["s0"].status is ChunkStatus.ERROR
    assert f"broken {stage}" in by_session["s0"].message
    assert by_session["s1"].status is ChunkStatus.OK


def test_a_request_that_cannot_be_parsed_affects_no_other_robot():
    """The ids of a truncated message cannot be echoed, but the worker must survive it."""
    bench = Bench(scheduler=AllAtOnce())
    bench.sessions[0].mailbox.put(b"{truncated", bench.now_ns)
    bench.put(1)
    chunks = bench.serve()
    assert [chunk.status for chunk in chunks if chunk.session_id == "s1"] == [ChunkStatus.OK]
    assert bench.worker.finishing.counters.errors == 1


def test_the_other_requests_of_a_broken_batch_get_their_chunks():
    bench = Bench(SteadyPolicy(max_batch=3), AllAtOnce(), robots=3)
    healthy = bench.policy.answer

    def refuse_large_states(batch: Sequence[Any]) -> Any:
        if any(abs(state).max() > 10 for state in batch):
            raise PolicyError("state is out of range")
        return healthy(batch)

    bench.policy.answer = refuse_large_states
    bench.put(0)
    bench.put(1, state=(99.0, 0.0))
    bench.put(2)
    statuses = {chunk.session_id: chunk.status for chunk in bench.serve()}
    assert statuses == {"s0": ChunkStatus.OK, "s1": ChunkStatus.ERROR, "s2": ChunkStatus.OK}


ROBOTS = 16
POISON = (99.0, 0.0)


def poisoned_bench() -> tuple[Bench, list[int]]:
    """Return a bench whose policy refuses large states, and the sizes of its calls."""
    bench = Bench(SteadyPolicy(max_batch=ROBOTS), AllAtOnce(), robots=ROBOTS)
    refuse_large_states(bench)
    refuse, calls = bench.policy.answer, []

    def noted(batch: Sequence[Any]) -> Any:
        calls.append(len(batch))
        return refuse(batch)

    bench.policy.answer = noted
    return bench, calls


def ask_all(bench: Bench, poisoned: Sequence[int] = ()) -> dict[str, ChunkStatus]:
    for index in range(ROBOTS):
        bench.put(index, state=POISON if index in poisoned else (0.5, -0.5))
    return {chunk.session_id: chunk.status for chunk in bench.serve()}


def test_a_failed_batch_is_halved_until_the_culprit_is_found():
    bench, calls = poisoned_bench()
    statuses = ask_all(bench, poisoned=[5])
    assert [name for name, status in statuses.items() if status is ChunkStatus.ERROR] == ["s5"]
    assert len(statuses) == ROBOTS
    assert calls == [16, 8, 4, 4, 2, 1, 1, 2, 8]


def test_a_recent_offender_is_served_alone_and_last_for_a_while():
    """One robot that always fails must not cost all others a search in each batch."""
    bench, calls = poisoned_bench()
    for _ in range(10):
        ask_all(bench, poisoned=[0])
    assert len(calls) == 9 + 9 * 2
    assert calls[-2:] == [ROBOTS - 1, 1]
    assert [record.batch_size for record in bench.records[-ROBOTS:]] == [ROBOTS - 1] * (ROBOTS - 1) + [1]
    calls.clear()
    ask_all(bench)
    assert calls == [ROBOTS - 1, 1]
    bench.now_ns += ALONE_NS
    ask_all(bench)
    assert calls == [ROBOTS - 1, 1, ROBOTS]


def test_an_offender_that_fails_alone_goes_on_being_served_alone():
    bench, calls = poisoned_bench()
    for _ in range(4):
        ask_all(bench, poisoned=[0])
        bench.now_ns += ALONE_NS * 2 // 3
    assert len(calls) == 9 + 3 * 2


def test_a_policy_that_fails_everybody_makes_nobody_an_offender():
    """After it has recovered, the robots share its calls at once."""
    bench, calls = poisoned_bench()
    statuses = ask_all(bench, poisoned=range(ROBOTS))
    assert set(statuses.values()) == {ChunkStatus.ERROR}
    calls.clear()
    ask_all(bench)
    assert calls == [ROBOTS]


def test_a_failed_batch_is_freed_before_its_requests_are_tried_in_parts():
    """After CUDA ran out of memory, the batch's activations would leave no memory for a single request."""

    class Activations:
        """Stands for the device memory of a failed call."""

    bench = Bench(SteadyPolicy(max_batch=3), AllAtOnce(), robots=3)
    healthy = bench.policy.answer
    held: list[weakref.ref[Activations]] = []
    alive: list[bool] = []

    def run_out_of_memory(batch: Sequence[Any]) -> Any:
        if len(batch) == 1:
            alive.append(held[0]() is not None)
            return healthy(batch)
        activations = Activations()
        held.append(weakref.ref(activations))
        raise RuntimeError("CUDA out of memory")

    bench.policy.answer = run_out_of_memory
    for index in range(3):
        bench.put(index)
    assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.OK] * 3
    assert alive == [False] * 3


@pytest.mark.parametrize("what", ["chunk", "request record", "capture"])
def test_a_failed_handover_is_counted_and_affects_no_other_robot(what: str):
    """A robot's publisher may fail or a disk may be full; the worker still serves the others."""
    captured: list[Any] = []

    def refuse(taken: str, whose: Session | RequestRecord | SessionOffer) -> None:
        if taken == what and "/robot_1" in repr(whose):
            raise OSError("no space left")

    def capture(offer: SessionOffer, *taken: Any) -> None:
        refuse("capture", offer)
        captured.append(taken)

    bench = Bench(SteadyPolicy(max_batch=3), AllAtOnce(), robots=3, capture=capture)
    bench.refuse = refuse
    for index in range(3):
        bench.put(index)
    bench.serve()
    taken = {"chunk": bench.chunks, "request record": bench.records, "capture": captured}
    lost = {"chunk", "capture"} if what == "chunk" else {what}  # what was not sent is not captured
    assert {name for name, those in taken.items() if len(those) == 2} == lost
    assert {name for name, those in taken.items() if len(those) == 3} == taken.keys() - lost
    assert bench.worker.finishing.counters.undelivered == 1
    assert bench.worker.finishing.counters.last_undelivered == f"{what} of /robot_1: OSError: no space left"


@pytest.mark.parametrize("session_ends", [True, False])
def test_a_chunk_that_was_not_sent_is_recorded_so_and_not_captured(session_ends: bool):
    captured: list[Any] = []
    bench = Bench(robots=1, capture=lambda *taken: captured.append(taken))
    request = bench.put(0)
    answer = bench.policy.answer

    def answer_and_end(batch: Sequence[Any]) -> Any:
        bench.sessions[0].ended = True
        return answer(batch)

    def refuse(what: str, _: Session | RequestRecord) -> None:
        if what == "chunk":
            raise OSError("no space left")

    if session_ends:
        bench.policy.answer = answer_and_end
    else:
        bench.refuse = refuse
    assert bench.serve() == []
    (record,) = bench.records
    why = "its session has ended" if session_ends else "OSError: no space left"
    assert (record.seq_id, record.status, record.outcome) == (request.seq_id, "error", f"not sent: {why}")
    assert captured == []


def test_a_request_log_that_fails_does_not_end_the_worker_over_a_request_without_an_answer():
    bench = Bench(robots=1)
    bench.refuse = lambda what, _: 1 / 0 if what == "request record" else None  # type: ignore[assignment, return-value]
    for session_id in ("elsewhere", "s0"):
        bench.put(0, session_id=session_id)
        bench.serve()
    assert len(bench.chunks) == 1
    assert bench.worker.finishing.counters.undelivered == 2


def test_a_policy_that_also_fails_the_probe_is_failing_until_it_answers():
    bench = Bench(scheduler=AllAtOnce(), max_consecutive_failures=3)
    healthy, bench.policy.answer = bench.policy.answer, nan_rows
    verdicts = []
    for _ in range(4):
        bench.put(0)
        bench.put(1)
        bench.serve()
        verdicts.append(bench.watch.failing)
    assert verdicts == [False, False, True, True]
    bench.policy.answer = healthy
    bench.put(0)
    bench.serve()
    assert (bench.watch.failing, bench.watch.failed_batches) == (False, 0)


def test_while_the_policy_is_failing_robots_are_told_to_leave():
    """An ERROR chunk would let them ask again and again; DRAINING makes them find the next server."""
    bench = Bench(max_consecutive_failures=2)
    healthy, bench.policy.answer = bench.policy.answer, nan_rows
    statuses = []
    for _ in range(3):
        bench.put(0)
        statuses += [chunk.status for chunk in bench.serve()]
    assert statuses == [ChunkStatus.ERROR, ChunkStatus.ERROR, ChunkStatus.DRAINING]
    assert "non-finite" in bench.chunks[-1][1].message
    bench.policy.answer = healthy
    bench.put(0)
    assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.OK]


def test_a_policy_without_requests_recovers_through_the_server_s_probes():
    bench = Bench(max_consecutive_failures=1)
    healthy, bench.policy.answer = bench.policy.answer, nan_rows
    bench.put(0)
    bench.serve()
    assert bench.watch.failing
    bench.policy.answer = healthy
    bench.now_ns += CHECK_PERIOD_NS
    assert bench.serve() == []
    assert not bench.watch.failing


def test_one_robot_whose_requests_always_fail_does_not_make_the_policy_failing():
    """Alone on the server this robot fails every batch; others are still admitted and served."""
    bench = Bench(max_consecutive_failures=2)
    refuse_large_states(bench)
    for _ in range(10):
        bench.put(0, state=(99.0, 0.0))
        assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.ERROR]
        assert not bench.watch.failing
    bench.put(1)
    assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.OK]


def test_a_batch_with_one_answer_has_not_failed():
    bench = Bench(SteadyPolicy(max_batch=2), AllAtOnce())
    refuse_large_states(bench)
    bench.put(0)
    bench.put(1, state=(99.0, 0.0))
    bench.serve()
    assert bench.watch.failed_batches == 0


def test_malformed_observations_are_not_counted_against_the_policy():
    bench = Bench()
    bench.put(0, state=())
    bench.sessions[1].mailbox.put(b"{truncated", bench.now_ns)
    bench.serve()
    assert [record.status for record in bench.records] == ["error", "error"]
    assert bench.watch.failed_batches == 0


def test_a_request_that_is_refused_says_nothing_of_what_an_answer_takes():
    """A robot that joins expects its first chunk after what the server says."""
    bench = Bench()
    bench.let_inference_take(400 * MS)
    for seq_id in (1, 2, 3):
        bench.put(0, seq_id=seq_id)
        bench.put(1, state=(0.0,), seq_id=seq_id)
        bench.serve()
    assert len(bench.chunks) == 6
    assert list(bench.worker.finishing.inference_ms) == [400.0] * 3
    assert min(bench.worker.finishing.response_ms) >= 400.0
