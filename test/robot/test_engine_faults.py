# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the engine does when answers are wrong, late or missing, and what the robot is commanded meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from remote_inference.base.exchange import Chunk, ChunkStatus, StatusReply
from remote_inference.robot.command import CommandSource
from remote_inference.robot.safety.effects import CloseSession, GetStatus, Inform, Report, SendRequest, Warn
from remote_inference.robot.safety.state_machine import State
from support.builders import CHUNK_SIZE, TOPICS, answer, make_config, make_rows, ns
from support.robot.simulation import World, stopped, streaming


def lose_chunks(chunk: Chunk) -> list[tuple[int, Chunk]]:
    return []


@pytest.mark.parametrize(
    "change",
    [
        {"seq_id": 10_000},
        {"session_id": "somebody else's"},
        {"session_epoch": 99},
        {"episode_id": 7},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_chunk_that_answers_something_else_is_dropped_and_counted(change: dict[str, Any]):
    world = World()
    world.fate = lose_chunks
    world.run(0.3)
    (request,) = world.sent
    effects = world.engine.take_chunk(replace(answer(request), **change), world.now_ns)
    assert effects == []
    assert world.engine.counters.chunks_dropped == 1
    assert len(world.engine.queue) == 0
    world.deliver(answer(request))  # the right answer still counts
    assert world.engine.counters.chunks_merged == 1


def test_a_duplicate_is_dropped_and_counted():
    world = World()
    world.fate = lambda chunk: [(0, chunk), (ns(0.005), chunk), (ns(0.8), chunk)]
    world.run(5)
    assert world.engine.counters.chunks_merged >= 4
    assert world.engine.counters.chunks_dropped >= 2 * (world.engine.counters.chunks_merged - 2)
    assert world.state is State.STREAMING


def test_an_answer_after_the_timeout_is_dropped_and_counted():
    world = World(make_config(request_timeout_s=0.5, max_timeouts=100))
    streaming(world)
    world.inference_ns = ns(0.7)
    merged = world.engine.counters.chunks_merged
    world.run(3)
    assert world.engine.counters.request_timeouts >= 3
    assert world.engine.counters.chunks_dropped >= 2
    assert world.engine.counters.chunks_merged <= merged + 1


def test_the_reordered_answer_of_an_older_request_is_dropped():
    world = World(make_config(request_timeout_s=0.3, max_timeouts=100))
    world.fate = lambda chunk: [(ns(0.35) if chunk.seq_id == 1 else 0, chunk)]
    world.run(1)
    assert world.engine.counters.chunks_dropped == 1
    assert world.engine.counters.chunks_merged >= 1


def _with(rows: np.ndarray, value: float) -> np.ndarray:
    spoiled = rows.copy()
    spoiled[7, 1] = value
    return spoiled


ROWS = make_rows(CHUNK_SIZE)
EMPTY = np.empty((0, 0), np.float32)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"robot": _with(ROWS, np.nan)}, ["chunk_robot[7, 1]", "nan"]),
        ({"model": _with(ROWS, np.inf)}, ["chunk_model[7, 1]", "inf"]),
        ({"robot": ROWS[:5]}, ["chunk_robot", "[5, 2]", f"[{CHUNK_SIZE}, 2]"]),
        ({"model": ROWS[:, :1]}, ["chunk_model", f"[{CHUNK_SIZE}, 1]"]),
        ({"model": EMPTY, "robot": EMPTY}, ["[0, 0]"]),
        ({"status": ChunkStatus.ERROR, "message": "out of memory"}, ["ERROR", "out of memory"]),
    ],
)
def test_a_chunk_that_must_not_be_executed_is_rejected_whole(change: dict[str, Any], words: list[str]):
    world = World()
    world.fate = lambda chunk: [(0, replace(chunk, **change))]
    world.run(0.25)
    assert world.engine.counters.chunks_rejected == 1
    assert len(world.engine.queue) == 0
    assert all(word in world.warnings() for word in words)
    world.fate = lambda chunk: [(0, chunk)]
    world.run(1)
    assert world.state is State.STREAMING


def test_a_rejected_chunk_leaves_the_queue_alone_and_keeps_the_session():
    world = streaming(World())
    world.fate = lambda chunk: [(0, replace(chunk, status=ChunkStatus.ERROR, message="no"))]
    rejected_ns = world.now_ns
    world.run(0.5)
    assert world.commands_since(rejected_ns)
    world.run(10)
    assert world.engine.counters.reconnects == 0
    assert 2 <= world.engine.counters.chunks_rejected <= 60  # it asks again, without hammering the server


def test_a_malformed_chunk_is_reported_and_its_request_times_out():
    world = World(make_config(request_timeout_s=0.5))
    world.fate = lose_chunks
    world.run(0.3)
    world.carry_out(world.engine.take_malformed_chunk("chunk_model: found 3 values, expected 40"))
    assert "found 3 values" in world.warnings()
    assert world.engine.counters.chunks_rejected == 1
    world.run(0.5)
    assert world.engine.counters.request_timeouts == 1


def test_late_chunks_degrade_then_stall_then_a_merge_recovers():
    world = World(make_config(buffer_time_s=0.8, degraded_after_s=0.5))
    streaming(world)
    world.fate = lose_chunks
    lost_ns = world.now_ns
    world.run_until(lambda: world.state is State.DEGRADED)
    assert len(world.engine.queue) > 0
    world.run_until(lambda: world.state is State.STALLED)
    assert len(world.engine.queue) == 0
    assert world.now_ns - lost_ns < ns(3)
    world.fate = lambda chunk: [(0, chunk)]
    world.run_until(lambda: world.state is State.STREAMING)
    assert world.states() == [State.STREAMING, State.DEGRADED, State.STALLED, State.STREAMING]
    assert all(report.transition.cause for report in world.all(Report))


@pytest.mark.parametrize(
    ("fallback", "source"), [("hold", CommandSource.NONE), ("repeat_last", CommandSource.REPEAT_LAST)]
)
def test_the_fallback_runs_while_stalled(fallback: str, source: CommandSource):
    world = streaming(World(make_config(fallback=fallback)))
    world.fate = lose_chunks
    world.run_until(lambda: world.state is State.STALLED)
    world.run(0.5)
    assert {tick.source for _, tick in world.ticks[-8:]} == {source}


def test_the_age_bound_stalls_the_robot_though_the_queue_is_not_empty():
    world = streaming(World(make_config(max_action_age_s=0.3, buffer_time_s=0.3)))
    world.fate = lose_chunks
    world.run_until(lambda: State.STALLED in world.states())
    causes = [r.transition.cause for r in world.all(Report) if r.transition.after is State.STALLED]
    assert "max_action_age_s" in causes[0]
    assert world.engine.guard.counts["age"] > 0


def test_one_timeout_does_not_lose_the_session_and_an_answer_ends_the_streak():
    world = World(make_config(request_timeout_s=0.5, max_timeouts=2))
    counters = world.engine.counters

    def lose_until_the_timeout(chunk: Chunk) -> list[tuple[int, Chunk]]:
        return [(0, chunk)] if counters.chunks_merged <= counters.request_timeouts else []

    world.fate = lose_until_the_timeout
    world.run(10)
    assert world.engine.counters.request_timeouts >= 5
    assert world.engine.counters.reconnects == 0
    assert State.RECONNECTING not in world.states()


def test_a_timeout_streak_loses_the_session():
    world = World(make_config(request_timeout_s=0.5, max_timeouts=3))
    streaming(world)
    world.server.hung = True
    sent_before = len(world.sent)
    world.run_until(lambda: world.state is State.RECONNECTING)
    assert len(world.sent) - sent_before >= 3
    assert world.engine.counters.request_timeouts == 3
    assert "3 request timeouts" in world.all(Report)[-1].transition.cause
    assert world.all(CloseSession)


def test_only_a_merged_chunk_ends_reconnecting_not_the_handshake():
    world = World(make_config(request_timeout_s=0.5))
    streaming(world)
    world.server.hung = True
    world.run_until(lambda: world.engine.handshake.epoch >= 3 and world.engine.handshake.open)
    assert world.state is State.RECONNECTING
    world.server.hung = False
    merged = world.engine.counters.chunks_merged
    world.run_until(lambda: world.state is State.STREAMING)
    assert world.engine.counters.chunks_merged == merged + 1


def test_a_restarted_server_is_known_by_its_instance_id():
    world = streaming(World())
    first = world.engine.handshake.session
    assert first is not None
    world.presence = True
    restarted_ns = world.now_ns
    world.server.restart()
    world.carry_out(
        world.engine.take_server_status(
            "/server_a", world.server.instance_id, (first.session_id,), world.now_ns
        )
    )
    assert world.state is State.RECONNECTING
    assert "restarted" in world.engine.machine.cause
    world.run_until(lambda: world.state is State.STREAMING)
    assert world.now_ns - restarted_ns < ns(1)
    assert world.sent[-1].session_epoch == 2
    assert world.engine.handshake.session != first


def test_a_session_that_the_server_dropped_is_opened_again():
    world = streaming(World())
    world.carry_out(
        world.engine.take_server_status("/server_a", world.server.instance_id, ("another",), world.now_ns)
    )
    assert world.state is State.RECONNECTING
    world.run_until(lambda: world.state is State.STREAMING)


def test_a_status_from_before_the_session_does_not_lose_it():
    """Topic and service are not ordered: the answer to open_session may overtake an older status."""
    world = World()
    world.run_until(lambda: world.engine.handshake.open)
    world.carry_out(world.engine.take_server_status("/server_a", world.server.instance_id, (), world.now_ns))
    assert world.engine.handshake.open


def test_the_status_of_another_server_says_nothing_about_ours():
    world = streaming(World())
    assert world.engine.take_server_status("/server_b", "b#1", (), world.now_ns) == []
    assert world.state is State.STREAMING


def test_lost_presence_loses_the_session_while_the_queue_still_feeds():
    world = streaming(World(make_config(max_action_age_s=5.0)))
    world.run_until(lambda: len(world.engine.queue) > 15)
    world.server.up = False
    world.run_until(lambda: world.state is State.RECONNECTING, limit_s=0.5)
    lost_ns = world.now_ns
    world.run(0.5)
    assert len(world.commands_since(lost_ns)) >= 9
    world.server.restart()
    world.run_until(lambda: world.state is State.STREAMING, limit_s=30)


def test_the_answer_of_the_lost_session_is_dropped_after_reconnecting():
    world = streaming(World())
    world.inference_ns = ns(1)
    sent = len(world.sent)
    world.run_until(lambda: len(world.sent) > sent)
    old = world.sent[-1]
    world.carry_out(world.engine.take_presence(False, world.now_ns))
    world.run_until(lambda: world.engine.handshake.open)
    dropped = world.engine.counters.chunks_dropped
    assert world.engine.take_chunk(answer(old), world.now_ns) == []
    assert world.engine.counters.chunks_dropped == dropped + 1


def test_reconnecting_does_not_reuse_an_observation_or_a_seq_id():
    """The world checks both at every request."""
    world = streaming(World())
    for _ in range(3):
        world.server.restart()
        world.run_until(lambda: world.state is State.RECONNECTING, limit_s=2)
        world.run_until(lambda: world.state is State.STREAMING)
    assert world.engine.counters.reconnects == 3


def test_a_stalled_sensor_is_no_timeout_of_the_server():
    world = streaming(World(make_config(request_timeout_s=0.5, max_timeouts=1)))
    world.run_until(lambda: not world.engine.cycle.wants_chunk(world.now_ns))
    world.sensors = dict.fromkeys(TOPICS, False)
    world.run(10)
    assert world.engine.counters.request_timeouts == 0
    assert world.engine.counters.reconnects == 0


def test_chunks_that_were_dropped_unread_are_counted():
    world = streaming(World())
    assert world.engine.take_dropped_chunks(7) == []
    assert world.engine.counters.chunks_dropped == 7


def test_a_dead_engine_emits_nothing_though_answers_still_arrive():
    """Nobody may open a session for a robot that has given up."""
    world = World(make_config(max_offline_s=1.0, service_timeout_s=3.0))
    streaming(world)
    world.server.up = False
    world.run_until(lambda: stopped(world))
    assert isinstance([e for _, e in world.effects if isinstance(e, GetStatus | SendRequest)][-1], GetStatus)
    assert world.engine.take_status_reply("/server_a", StatusReply(accepting=True), world.now_ns) == []
    assert world.engine.tick(world.now_ns + ns(100)) == []


def test_a_dead_engine_does_not_die_twice():
    world = World(make_config(max_offline_s=1.0, service_timeout_s=3.0))
    streaming(world)
    world.server.up = False
    world.run_until(lambda: stopped(world))
    world.server.alter_reply = lambda reply: replace(reply, action_names=("other",))
    world.server.restart()
    world.carry_out(world.engine.take_status_reply("/server_a", StatusReply(accepting=True), world.now_ns))
    world.run(5)
    assert len([effect for _, effect in world.effects if type(effect).__name__ == "Stop"]) == 1


def test_a_source_that_falls_silent_is_named_and_counted_once():
    world = streaming(World())
    world.sensors["front/image_raw"] = False
    world.run(3)
    assert world.engine.cycle.stale_sources == ("front/image_raw",)
    assert world.warnings().count("front/image_raw: nothing new for 0.5 s") == 1
    assert world.engine.guard.counts["sensor_age"] == 1
    world.sensors["front/image_raw"] = True
    world.run_until(lambda: world.state is State.STREAMING)
    assert world.engine.cycle.stale_sources == ()
    assert [note.text for note in world.all(Inform)][1:] == ["front/image_raw: delivers again"]


def test_the_last_word_about_a_source_is_true():
    """It falls silent, delivers again and falls silent for good: that is said, if later."""
    world = streaming(World())
    for delivers in (False, True, False):
        world.sensors["front/image_raw"] = delivers
        world.run(0.8)
    world.run(12)
    said = [
        effect.text
        for _, effect in world.effects
        if isinstance(effect, Warn | Inform) and effect.text.startswith("front/image_raw: ")
    ]
    assert [text.split(": ")[1].split(" for")[0] for text in said] == [
        "nothing new",
        "delivers again",
        "nothing new",
    ]


def test_the_measured_position_is_forgotten_when_the_joints_fall_silent():
    world = streaming(World())
    assert world.engine.playback.control.operator.measured is not None
    world.sensors["joint_states"] = False
    world.run(1)
    assert world.engine.playback.control.operator.measured is None
    world.sensors["joint_states"] = True
    world.run(0.1)
    assert world.engine.playback.control.operator.measured is not None


def test_a_rejected_chunk_is_counted_by_the_guards_rule():
    world = streaming(World())
    world.fate = lambda chunk: [(0, replace(chunk, robot=_with(ROWS, np.nan)))]
    world.run(1)
    counts = world.engine.guard.counts
    assert counts["non_finite"] == world.engine.counters.chunks_rejected > 0
    world.carry_out(world.engine.take_malformed_chunk("no CDR"))
    assert counts["shape"] == 1


def test_chunks_that_are_too_old_on_arrival_are_rejected_and_lose_the_session():
    """A server that answers later than the age bound cannot move this robot: the streak ends at the next."""
    world = World(make_config(servers=("/server_a", "/server_b"), degraded_after_s=10.0))
    world.inference_ns = ns(4.0)
    world.run_until(lambda: world.engine.counters.reconnects == 1, limit_s=30)
    assert world.engine.counters.chunks_merged == 0
    assert world.engine.counters.chunks_rejected == 2
    assert world.engine.guard.counts["age"] == 2 * CHUNK_SIZE
    assert "max_action_age_s" in world.warnings()
    assert "max_action_age_s" in world.engine.machine.cause
    assert world.engine.handshake.server == "/server_b"
    assert world.state is State.RECONNECTING


def test_a_robot_whose_chunks_are_all_too_old_gives_up():
    world = World(make_config(max_offline_s=20.0))
    world.inference_ns = ns(4.0)
    world.run_until(lambda: stopped(world), limit_s=60)
    assert world.commands_since(0) == []


def test_one_chunk_in_time_ends_the_streak_of_old_ones():
    world = World(make_config(max_action_age_s=0.5, buffer_time_s=0.3))
    counters = world.engine.counters

    def delay_every_other(chunk: Chunk) -> list[tuple[int, Chunk]]:
        return [(ns(0.6) if counters.chunks_rejected < counters.chunks_merged else 0, chunk)]

    world.fate = delay_every_other
    world.run(20)
    assert world.engine.counters.chunks_rejected >= 5
    assert world.engine.counters.reconnects == 0


def test_an_old_chunk_of_a_draining_server_ends_the_session_once():
    world = streaming(
        World(make_config(servers=("/server_a", "/server_b"), max_timeouts=1, max_action_age_s=0.3))
    )
    world.inference_ns = ns(0.4)
    world.server.accepting = False
    world.fate = lambda chunk: [(0, replace(chunk, status=ChunkStatus.DRAINING))]
    world.run_until(lambda: world.engine.counters.reconnects > 0, limit_s=10)
    assert world.engine.counters.reconnects == 1
    assert world.engine.handshake.server == "/server_b"


def test_chunks_without_rows_lose_the_session():
    world = World(make_config(max_offline_s=5.0))
    world.fate = lambda chunk: [(0, replace(chunk, model=EMPTY, robot=EMPTY))]
    world.run_until(lambda: stopped(world), limit_s=20)
    assert world.engine.counters.chunks_merged == 0
    assert world.engine.counters.reconnects >= 1
