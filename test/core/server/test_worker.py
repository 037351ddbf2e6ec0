# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The inference loop: one chunk per request; a failure costs one ERROR chunk and affects no other robot."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from remote_inference.core.exchange import Chunk, ChunkStatus, SessionOffer
from remote_inference.core.policy import PolicyError, PolicyObservation, ServingMode
from remote_inference.core.server.policy_watch import CHECK_PERIOD_NS
from remote_inference.core.server.requests.job import Job
from remote_inference.core.server.requests.request_record import RequestRecord
from remote_inference.core.server.requests.worker import ALONE_NS
from remote_inference.core.server.schedulers.scheduler import Selection
from remote_inference.core.server.sessions.session import Session
from support.builders import CHUNK_SIZE, ShiftProcessors, SteadyPolicy
from support.server.bench import MS, AllAtOnce, Bench


def test_without_requests_a_step_does_nothing():
    bench = Bench()
    assert bench.worker.step(bench.sessions) is False
    assert bench.worker.step([]) is False
    assert bench.chunks == []
    assert bench.records == []


def test_each_request_gets_one_chunk_that_echoes_its_ids():
    bench = Bench()
    requests = [
        bench.put(0, seq_id=7, episode_id=3, session_epoch=2, client_mono_ns=-5),
        bench.put(1, seq_id=9, client_mono_ns=2**62),
    ]
    chunks = bench.serve()
    fields = ("session_id", "session_epoch", "seq_id", "episode_id", "client_mono_ns")
    assert [tuple(getattr(c, f) for f in fields) for c in chunks] == [
        tuple(getattr(r, f) for f in fields) for r in requests
    ]
    assert [chunk.status for chunk in chunks] == [ChunkStatus.OK] * 2
    assert [session.session_id for session, _ in bench.chunks] == ["s0", "s1"]
    assert all(chunk.policy_version == "f1" for chunk in chunks)


def test_both_spaces_travel_and_processors_are_linked_per_session():
    """`post` reads what `pre` cached: another session's state must not leak in."""
    bench = Bench(SteadyPolicy(max_batch=2), AllAtOnce())
    bench.put(0, state=(0.1, 0.2))
    bench.put(1, state=(0.3, 0.4))
    first, second = bench.serve()
    assert first.model.shape == first.robot.shape == (CHUNK_SIZE, 2)
    assert first.robot[0] == pytest.approx([0.2, 0.4])
    assert second.robot[0] == pytest.approx([0.6, 0.8])
    assert second.model[0] == pytest.approx([0.3, 0.4])


class SlowProcessors(ShiftProcessors):
    """Take their time to prepare a request."""

    def __init__(self, bench: Bench, duration_ns: int) -> None:
        super().__init__()
        self._bench = bench
        self._duration_ns = duration_ns

    def pre(self, observation: PolicyObservation) -> Any:
        self._bench.now_ns += self._duration_ns
        return super().pre(observation)


def nan_rows(batch: Sequence[Any]) -> list[np.ndarray]:
    return [np.full((CHUNK_SIZE, 2), np.nan, np.float32) for _ in batch]


def rows_too_large_for_the_wire(batch: Sequence[Any]) -> list[np.ndarray]:
    return [np.full((CHUNK_SIZE, 2), 1e39) for _ in batch]


def short_rows(batch: Sequence[Any]) -> list[np.ndarray]:
    return [np.zeros((3, 2), np.float32) for _ in batch]


def out_of_memory(batch: Sequence[Any]) -> list[np.ndarray]:
    raise MemoryError("no room on the device")


def too_few(batch: Sequence[Any]) -> list[np.ndarray]:
    return []


def no_arrays(batch: Sequence[Any]) -> list[Any]:
    return [None for _ in batch]


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
    assert (bench.worker.counters.requests, bench.worker.counters.errors) == (1, 1)
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
    assert bench.worker.counters.errors == 1


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
    assert {name: len(those) for name, those in taken.items()} == {**dict.fromkeys(taken, 3), what: 2}
    assert bench.worker.counters.undelivered == 1
    assert bench.worker.counters.last_undelivered == f"{what} of /robot_1: OSError: no space left"


def test_a_request_log_that_fails_does_not_end_the_worker_over_a_request_without_an_answer():
    bench = Bench(robots=1)
    bench.refuse = lambda what, _: 1 / 0 if what == "request record" else None  # type: ignore[assignment, return-value]
    for session_id in ("elsewhere", "s0"):
        bench.put(0, session_id=session_id)
        bench.serve()
    assert len(bench.chunks) == 1
    assert bench.worker.counters.undelivered == 2


def test_a_request_for_another_server_is_never_answered_here():
    """Both servers hear the robot's topic: it would take this ERROR for the other server's answer."""
    bench = Bench()
    bench.put(0, session_id="elsewhere", seq_id=7, episode_id=3, episode_start=True)
    assert bench.serve() == []
    (record,) = bench.records
    assert (record.session_id, record.seq_id, record.episode_id) == ("elsewhere", 7, 3)
    assert (record.robot, record.status, record.batch_size) == ("/robot_0", "error", 0)
    assert record.outcome == "not answered: it names session 'elsewhere', expected 's0'"
    assert (bench.worker.counters.requests, bench.worker.counters.errors) == (1, 1)
    assert bench.sessions[0].processors.resets == 0  # type: ignore[attr-defined]


def test_a_session_knows_how_many_requests_in_a_row_named_another_and_when_the_last_named_it():
    bench = Bench(robots=1)
    (session,) = bench.sessions
    bench.put(0)
    asked_ns = bench.now_ns
    bench.serve()
    for count in (1, 2):
        bench.now_ns += 50 * MS
        bench.put(0, session_id="elsewhere")
        bench.serve()
        assert (session.foreign_requests, session.last_asked_ns) == (count, asked_ns)
    bench.put(0)
    assert session.last_asked_ns == bench.now_ns  # the waiting request may name this session
    bench.serve()
    assert (session.foreign_requests, session.last_asked_ns) == (0, bench.now_ns)


def test_a_request_that_cannot_be_parsed_counts_as_the_session_s_own():
    bench = Bench(robots=1)
    bench.sessions[0].mailbox.put(b"{truncated", bench.now_ns)
    bench.serve()
    assert bench.sessions[0].last_asked_ns == bench.now_ns


def test_a_draining_server_says_so_in_a_valid_chunk():
    bench = Bench()
    bench.worker.draining = True
    bench.put(0)
    (chunk,) = bench.serve()
    assert chunk.status is ChunkStatus.DRAINING
    assert chunk.robot.shape == (CHUNK_SIZE, 2)
    assert chunk.message


def test_superseded_requests_are_reported_once_and_never_served():
    bench = Bench()
    for seq_id in (1, 2, 3):
        bench.put(0, seq_id=seq_id)
    (chunk,) = bench.serve()
    assert (chunk.seq_id, chunk.superseded_seqs) == (3, 2)
    bench.put(0, seq_id=4)
    (chunk,) = bench.serve()
    assert chunk.superseded_seqs == 0
    assert bench.worker.counters.superseded == 2


def test_durations_are_measured_on_the_servers_clock():
    bench = Bench()
    bench.put(0)
    bench.now_ns += 30 * MS
    bench.let_inference_take(20 * MS)
    (chunk,) = bench.serve()
    assert chunk.queue_wait_ms == pytest.approx(30)
    assert chunk.inference_ms == pytest.approx(20)


def test_the_inference_time_of_a_chunk_leaves_out_the_sending_of_other_chunks():
    bench = Bench(SteadyPolicy(max_batch=3), AllAtOnce(), robots=3)
    bench.let_inference_take(20 * MS)
    bench.each_send_takes_ns = 5 * MS
    for index in range(3):
        bench.put(index)
    assert [chunk.inference_ms for chunk in bench.serve()] == pytest.approx([20] * 3)
    assert [record.staleness_ms for record in bench.records] == pytest.approx([20] * 3)


def test_a_job_knows_its_own_time_of_preparation_and_its_share_of_the_device(
    monkeypatch: pytest.MonkeyPatch,
):
    """A batch that fails is tried again in parts; what that costs is the jobs' own."""
    bench = Bench(SteadyPolicy(max_batch=2), AllAtOnce())
    healthy = bench.policy.answer
    costs: dict[str, tuple[int, int]] = {}

    def refuse_batches(batch: Sequence[Any]) -> Any:
        bench.now_ns += 6 * MS
        return healthy(batch) if len(batch) == 1 else 1 / 0

    def note(job: Job, chunk: Chunk, staleness_ms: float) -> RequestRecord:
        costs[job.session.session_id] = job.prepare_ns // MS, job.device_ns // MS
        return record(job, chunk, staleness_ms)

    record = Job.record
    monkeypatch.setattr(Job, "record", note)
    bench.policy.answer = refuse_batches
    bench.sessions[1].processors = SlowProcessors(bench, 4 * MS)
    bench.put(0)
    bench.put(1)
    bench.serve()
    assert costs == {"s0": (0, 3 + 6), "s1": (4, 3 + 6)}


def test_a_session_is_charged_for_what_its_request_cost_also_when_it_failed():
    bench = Bench(SteadyPolicy(max_batch=2), AllAtOnce())
    bench.let_inference_take(20 * MS)
    bench.sessions[1].processors = SlowProcessors(bench, 50 * MS)
    bench.put(0)
    bench.put(1)
    bench.serve()
    assert [session.account.virtual_ns for session in bench.sessions] == [10 * MS, 60 * MS]
    bench.policy.answer = out_of_memory
    bench.put(1)
    assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.ERROR]
    assert bench.sessions[1].account.virtual_ns == 110 * MS


def test_a_request_that_replaces_another_as_it_is_taken_has_not_waited():
    """A negative wait would let the sum of a histogram fall."""

    class Interrupted(AllAtOnce):
        def select(self, ready: Sequence[Session], joinable: int, now_ns: int, chosen: int = 0) -> Selection:
            bench.now_ns += MS
            bench.put(0, seq_id=2)
            return super().select(ready, joinable, now_ns, chosen)

    bench = Bench(scheduler=Interrupted(), robots=1)
    bench.put(0, seq_id=1)
    bench.worker.step(bench.sessions)
    assert [(chunk.seq_id, chunk.queue_wait_ms) for _, chunk in bench.chunks] == [(2, 0.0)]


def test_every_request_leaves_one_audit_record():
    bench = Bench()
    bench.put(0, seq_id=4, episode_id=2)
    bench.put(0, seq_id=5, episode_id=2)
    bench.put(1, state=())
    bench.serve()
    good, bad = bench.records
    assert (good.session_id, good.client, good.seq_id, good.episode_id) == ("s0", "/robot_0", 5, 2)
    assert (good.robot, good.superseded, good.status, good.outcome) == ("/robot_0", 1, "ok", "ok")
    assert bad.status == "error"
    assert "malformed observation" in bad.outcome
    line = json.loads(good.to_json())
    assert line == vars(good)
    assert "\n" not in replace(bad, outcome="two\nlines").to_json()


def test_an_episode_begins_with_fresh_processors():
    bench = Bench()
    for start in (True, False, True):
        bench.put(0, episode_start=start)
        bench.serve()
    assert [session.processors.resets for session in bench.sessions] == [2, 0]  # type: ignore[attr-defined]


def test_a_session_that_begins_within_an_episode_begins_with_fresh_processors():
    """A robot that comes from another server began its episode there, and every robot counts from 0."""
    bench = Bench(SteadyPolicy(serving_mode=ServingMode.EXCLUSIVE), robots=1)
    bench.put(0, episode_id=0, episode_start=False)
    bench.serve()
    bench.put(0, episode_id=0, episode_start=False)
    bench.serve()
    assert bench.sessions[0].processors.resets == 1  # type: ignore[attr-defined]
    assert bench.policy.resets == 1


@pytest.mark.parametrize("part", ["processors", "policy"])
@pytest.mark.parametrize("start", [True, False])
def test_no_request_of_an_episode_is_served_before_a_reset_has_succeeded(part: str, start: bool):
    bench = Bench(SteadyPolicy(serving_mode=ServingMode.EXCLUSIVE), robots=1)
    bench.put(0, episode_id=3)
    bench.serve()
    broken = bench.policy if part == "policy" else bench.sessions[0].processors
    with pytest.MonkeyPatch.context() as breaking:
        breaking.setattr(broken, "reset", lambda: 1 / 0)
        bench.put(0, episode_id=3 if start else 4, episode_start=start)
        assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.ERROR]
    resets = broken.resets  # type: ignore[attr-defined]
    bench.put(0, episode_id=3 if start else 4)
    assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.OK]
    assert broken.resets == resets + 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(("mode", "resets"), [(ServingMode.EXCLUSIVE, 1), (ServingMode.SHARED, 0)])
def test_only_an_exclusive_policy_forgets_the_episode(mode: ServingMode, resets: int):
    """In shared mode a reset would wipe the other robots' state; in exclusive mode it is intended."""
    bench = Bench(SteadyPolicy(serving_mode=mode), robots=1)
    bench.put(0, episode_start=True)
    bench.serve()
    bench.put(0, seq_id=2)
    bench.serve()
    assert bench.policy.resets == resets


def test_a_new_episode_is_known_by_its_id_when_its_first_request_was_lost():
    bench = Bench(robots=1)
    bench.put(0, seq_id=1, episode_id=1, episode_start=True)
    bench.serve()
    bench.put(0, seq_id=5, episode_id=2)
    bench.serve()
    assert bench.sessions[0].processors.resets == 2  # type: ignore[attr-defined]


def test_a_request_that_fails_while_draining_is_answered_draining_without_rows():
    bench = Bench()
    bench.worker.draining = True
    bench.policy.answer = lambda _: 1 / 0
    bench.put(0)
    (chunk,) = bench.serve()
    assert chunk.status is ChunkStatus.DRAINING
    assert "ZeroDivisionError" in chunk.message
    assert chunk.robot.size == 0


def test_records_say_how_many_were_served_together():
    bench = Bench(SteadyPolicy(max_batch=3), AllAtOnce(), robots=3)
    for index in range(3):
        bench.put(index)
    bench.serve()
    bench.put(0)
    bench.serve()
    assert [record.batch_size for record in bench.records] == [3, 3, 3, 1]


def test_staleness_counts_from_the_first_request_since_the_last_chunk():
    """The robot has waited since its superseded request, not since the later request that is served."""
    bench = Bench(robots=1)
    bench.put(0, seq_id=1)
    bench.now_ns += 70 * MS
    bench.put(0, seq_id=2)
    bench.now_ns += 30 * MS
    bench.serve()
    bench.put(0, seq_id=3)
    bench.now_ns += 5 * MS
    bench.serve()
    assert [record.queue_wait_ms for record in bench.records] == pytest.approx([30, 5])
    assert [record.staleness_ms for record in bench.records] == pytest.approx([100, 5])


def refuse_large_states(bench: Bench) -> None:
    """Make every batch with a large state fail: the robot's fault, not the policy's."""
    healthy = bench.policy.answer

    def answer(batch: Sequence[Any]) -> Any:
        if any(abs(state).max() > 10 for state in batch):
            raise PolicyError("state is out of range")
        return healthy(batch)

    bench.policy.answer = answer


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


class Counting(SteadyPolicy):
    """Answers with the number of its requests since the last reset, as a policy with a history would."""

    def __init__(self) -> None:
        super().__init__(serving_mode=ServingMode.EXCLUSIVE)
        self.history = 0
        self.answer = self._count

    def _count(self, batch: Sequence[Any]) -> list[Any]:
        if any(abs(state).max() > 10 for state in batch):
            raise PolicyError("state is out of range")
        self.history += 1
        return [np.full((CHUNK_SIZE, 2), self.history, np.float32)]

    def reset(self) -> None:
        super().reset()
        self.history = 0


def test_the_history_of_an_episode_survives_requests_that_fail():
    """The server's own probe would be one more request of the episode, and end it."""
    bench = Bench(Counting(), robots=1, max_consecutive_failures=3)
    answers, statuses = [], []
    for state in (0.5, 0.5, 99.0, 99.0, 99.0, 99.0, 0.5, 0.5):
        bench.put(0, state=(state, 0.0))
        (chunk,) = bench.serve()
        statuses.append(chunk.status)
        answers += [float(chunk.model[0, 0])] if len(chunk.model) else []
    assert answers == [1, 2, 3, 4]
    assert statuses[5] is ChunkStatus.DRAINING  # the robot is told to try another server, as by a probe
    assert statuses[6:] == [ChunkStatus.OK, ChunkStatus.OK]


def test_an_exclusive_policy_is_probed_as_soon_as_no_episode_runs():
    bench = Bench(Counting(), robots=1, max_consecutive_failures=1)
    bench.put(0, state=(99.0, 0.0))
    bench.serve()
    bench.serve()
    assert "a probe would end a robot's episode" in bench.watch.unready_reason(bench.now_ns)
    bench.sessions.clear()
    bench.serve()
    assert bench.watch.unready_reason(bench.now_ns) == ""


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


def test_every_record_bears_the_tags_of_its_session():
    bench = Bench(robots=1)
    session = bench.sessions[0]
    session.offer = replace(session.offer, tags={"site": "lab_2"})
    bench.put(0)
    bench.serve()
    bench.put(0, session_id="elsewhere")
    bench.serve()
    session.mailbox.put(b"{truncated", bench.now_ns)
    bench.serve()
    assert [record.tags for record in bench.records] == [{"site": "lab_2"}] * 3


def test_what_a_request_names_is_not_echoed_at_any_length():
    """It would travel back to the robot, and into the log and the request log."""
    bench = Bench(robots=1)

    def refuse(batch: Sequence[Any]) -> Any:
        raise PolicyError("T" * 3_000_000)

    bench.policy.answer = refuse
    bench.put(0)
    (chunk,) = bench.serve()
    bench.put(0, session_id="S" * 3_000_000)
    bench.serve()
    assert chunk.message.startswith("inference failed: PolicyError: TTT")
    assert len(chunk.message) < 2_000
    assert all(len(record.to_json()) < 4_000 for record in bench.records)
    assert "SSS" in bench.records[-1].outcome


def test_the_worker_captures_answered_requests_only():
    captured: list[Any] = []
    bench = Bench(capture=lambda *taken: captured.append(taken))
    bench.put(0, seq_id=7)
    (chunk,) = bench.serve()
    ((offer, _, answer, _),) = captured
    assert answer is chunk
    assert offer is bench.sessions[0].offer
    bench.put(0, state=(1.0,))
    bench.serve()
    assert len(captured) == 1
