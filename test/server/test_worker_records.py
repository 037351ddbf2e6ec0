# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is known of each request: its times, its share of the device, its record and its capture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from remote_inference.base.exchange import Chunk, ChunkStatus
from remote_inference.base.policy import PolicyError
from remote_inference.server.requests.job import Job
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.schedulers import Selection
from remote_inference.server.sessions import Session
from support.builders import SteadyPolicy
from support.server.bench import MS, AllAtOnce, Bench
from support.server.misbehaviour import SlowProcessors, out_of_memory


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

    def note(job: Job, chunk: Chunk, staleness_ms: float, unsent: str) -> RequestRecord:
        costs[job.session.session_id] = job.prepare_ns // MS, job.device_ns // MS
        return record(job, chunk, staleness_ms, unsent)

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
