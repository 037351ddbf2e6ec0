# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The inference loop: one chunk per request, of one server, session and episode."""

from __future__ import annotations

import pytest

from remote_inference.base.exchange import ChunkStatus
from support.builders import CHUNK_SIZE, SteadyPolicy
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


def test_a_request_for_another_server_is_never_answered_here():
    """Both servers receive the robot's topic: it would take this ERROR for the other server's answer."""
    bench = Bench()
    bench.put(0, session_id="elsewhere", seq_id=7, episode_id=3, episode_start=True)
    assert bench.serve() == []
    (record,) = bench.records
    assert (record.session_id, record.seq_id, record.episode_id) == ("elsewhere", 7, 3)
    assert (record.robot, record.status, record.batch_size) == ("/robot_0", "error", 0)
    assert record.outcome == "not answered: it names session 'elsewhere', expected 's0'"
    assert (bench.worker.finishing.counters.requests, bench.worker.finishing.counters.errors) == (1, 1)
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
    bench.worker.finishing.draining = True
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
    assert bench.worker.finishing.counters.superseded == 2


def test_a_request_that_fails_while_draining_is_answered_draining_without_rows():
    bench = Bench()
    bench.worker.finishing.draining = True
    bench.policy.answer = lambda _: 1 / 0
    bench.put(0)
    (chunk,) = bench.serve()
    assert chunk.status is ChunkStatus.DRAINING
    assert "ZeroDivisionError" in chunk.message
    assert chunk.robot.size == 0
