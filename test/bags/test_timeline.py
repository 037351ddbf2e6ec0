# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A timeline holds what the bag's messages said, and its summary counts it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from remote_inference.bags.report.summary import summarise
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.timeline import Timeline
from remote_inference.bags.timeline.timeline_reader import load_timeline
from remote_inference.msg import ClientState, ExecutedAction
from support.recording.synthetic_run import JOINTS, NS, START_NS, Recording, whole_run


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    """Return seven ticks, four requests of two sessions, and chunks: one lost, one twice, one unasked for."""
    recording = Recording()
    recording.state(0, ClientState.CONNECTING, "start-up", paused=True)
    recording.state(500, ClientState.CONNECTING, "start-up", paused=True)
    recording.state(1000, ClientState.STREAMING, "chunk merged", chunks_merged=1)
    recording.state(2000, ClientState.STREAMING, "chunk merged", chunks_merged=7, chunks_dropped=2)
    recording.state(3000, ClientState.CONNECTING, "start-up")
    recording.state(4000, ClientState.CONNECTING, "start-up", chunks_merged=2, chunks_dropped=1)
    for seq_id in (1, 2, 3):
        recording.observation(100.0 * seq_id, seq_id, inference_delay_steps=seq_id)
    recording.observation(400, 1, session_id="s2", cameras=1, episode_id=2)
    recording.chunk(150, 1, queue_wait_ms=10.0, inference_ms=30.0)
    recording.chunk(190, 1, queue_wait_ms=10.0, inference_ms=30.0)  # once more; seq_id 2 is lost
    recording.chunk(380, 3, inference_ms=100.0)
    recording.chunk(520, 1, session_id="s2", inference_ms=20.0, status=1)
    recording.chunk(530, 99)
    recording.executed(10, 1)
    recording.executed(43, 2, [0.0] * 6, seq_id=1, step_index=3, action_age_s=0.25)
    recording.executed(
        77, 3, [0.1] * 6, seq_id=1, step_index=4, action_age_s=0.28, interventions=["step", "limit"]
    )
    recording.executed(110, 4)
    recording.executed(143, 5, [0.4] * 6, seq_id=3, interventions=["step"])
    recording.executed(177, 7, [0.7] * 6, seq_id=3)
    recording.executed(210, 8, [0.7] * 6, source=ExecutedAction.HOMING, session_id="", episode_id=2)
    recording.joints(20, [9.0, *range(6)], ["unrelated", *reversed(JOINTS)])
    recording.joints(40, [1.0], JOINTS[:1])
    return load_timeline(recording.write(tmp_path_factory.mktemp("bags") / "run"), NS.strip("/"))


def test_executed_actions(timeline: Timeline) -> None:
    executed = timeline.executed
    assert [joint.name for joint in timeline.joints] == list(JOINTS)
    assert executed.t_s == pytest.approx([0.010, 0.043, 0.077, 0.110, 0.143, 0.177, 0.210])
    assert executed.commanded.tolist() == [False, True, True, False, True, True, True]
    assert executed.action[2] == pytest.approx(0.1)
    assert executed.source.tolist() == [0, 1, 1, 0, 1, 1, 4]
    assert executed.request[1] == ("s1", 1)
    assert executed.age_s[:2] == pytest.approx([math.nan, 0.25], nan_ok=True)
    assert executed.episode_id.tolist() == [1] * 6 + [2]
    assert executed.interventions[2] == ("step", "limit")
    assert executed.t_s[executed.begins_chunk] == pytest.approx([0.043, 0.143])


def test_joints_are_picked_by_name(timeline: Timeline) -> None:
    first, *others = (joint.value.tolist() for joint in timeline.joints)
    assert first == [5, 1]  # the second message names it alone
    assert others == [[4], [3], [2], [1], [0]]
    assert timeline.joints[0].t_s == pytest.approx([0.020, 0.040])


def test_latency_belongs_to_the_first_chunk_of_the_same_session_and_request(timeline: Timeline) -> None:
    requests = timeline.requests
    assert requests.answered.tolist() == [True, False, True, True]
    assert requests.t_s[requests.answered] == pytest.approx([0.1, 0.3, 0.4])
    assert requests.latency_ms == pytest.approx([50, 80, 120])
    assert requests.network_ms == pytest.approx([10, 0, 100])  # never negative, whatever the server claims
    assert requests.chunks == 5


def test_states_hold_changes_only(timeline: Timeline) -> None:
    states = timeline.states
    assert states.t_s == pytest.approx([0, 1, 3])
    assert states.state == ("CONNECTING", "STREAMING", "CONNECTING")
    assert states.cause == ("start-up", "chunk merged", "start-up")
    assert states.paused.tolist() == [True, False, False]


def test_summary(timeline: Timeline) -> None:
    numbers = summarise(timeline)
    assert json.loads(json.dumps(numbers)) == numbers
    assert numbers["duration_s"] == pytest.approx(4.0)
    assert (numbers["requests"], numbers["requests_unanswered"]) == (4, 1)
    latency = numbers["latency_ms"]
    assert (latency["n"], latency["p50"]) == (3, pytest.approx(80.0))
    assert latency["p99"] == pytest.approx(np.percentile([50, 80, 120], 99))
    counted = {name: count for name, count in numbers["actions"].items() if count}
    assert counted == {"none": 2, "chunk": 4, "homing": 1}
    assert numbers["states"] == [
        {"state": "CONNECTING", "seconds": pytest.approx(2.0)},
        {"state": "STREAMING", "seconds": pytest.approx(2.0)},
    ]
    assert numbers["paused_s"] == pytest.approx(1.0)
    assert numbers["longest_hold"] is None  # the tick without a command is in the pause
    assert numbers["age_s"]["max"] == pytest.approx(0.28)
    assert numbers["interventions"] == {"step": 2, "limit": 1}
    # The node was restarted: its counters of both lives add up.
    assert numbers["chunks"] == {"received": 5, "executed": 2, "merged": 9, "dropped": 3, "rejected": 0}


def test_seams_span_holds_and_skip_missing_ticks(timeline: Timeline) -> None:
    seams = summarise(timeline)["seams"]
    for name, step in (("at_boundaries", 0.3), ("within_chunks", 0.1)):
        assert seams[name] == {"unknown": {"median": pytest.approx(step), "max": pytest.approx(step), "n": 1}}


def test_statistics_of_nothing_are_none(tmp_path: Path) -> None:
    recording = Recording()
    recording.executed(0, 1)
    numbers = summarise(load_timeline(recording.write(tmp_path / "run"), NS))
    assert numbers["latency_ms"] == {"p50": None, "p95": None, "p99": None, "n": 0}
    assert numbers["seams"]["at_boundaries"] == {"unknown": {"median": None, "max": None, "n": 0}}
    assert numbers["states"] == []


@pytest.mark.parametrize("topic", ["executed", "state", "observation", "chunk"])
def test_a_missing_topic_is_named(topic: str, tmp_path: Path) -> None:
    recording = Recording()
    recording.executed(0, 1)
    path = recording.write(tmp_path / "run", leave_out=topic)
    with pytest.raises(BagError, match=f"topic {NS}/.*{topic} is not in the bag"):
        load_timeline(path, NS)


def test_a_whole_run_has_the_clock_of_its_bag(tmp_path: Path) -> None:
    timeline = load_timeline(whole_run(tmp_path / "run", 12.0), NS)
    assert START_NS > 0
    assert timeline.duration_s == pytest.approx(12.0)
    assert timeline.executed.t_s[0] == pytest.approx(0.002)
    assert list(timeline.states.state) == [
        "CONNECTING", "STREAMING", "DEGRADED", "STALLED", "RECONNECTING", "STREAMING",
    ]  # fmt: skip


@pytest.fixture
def shadowed(tmp_path: Path) -> Timeline:
    """One second of a person's commands, one of shadow mode, in which the first joint stays at 0.25."""
    recording = Recording()
    recording.joints(0, [0.25] + [0.0] * 5)
    for tick in range(60):
        fields = {"source": ExecutedAction.HUMAN} if tick < 30 else {"shadow": True}
        recording.executed(10 + 33 * tick, tick, [0.5 + 0.25 * (tick == 40), *[0.0] * 5], **fields)
    recording.observation(500, 1)
    recording.chunk(600, 1)
    recording.state(0, ClientState.STREAMING)
    return load_timeline(recording.write(tmp_path / "run"), NS)


def test_a_person_s_commands_and_shadow_mode_are_told_apart(shadowed: Timeline) -> None:
    executed = shadowed.executed
    assert executed.shadow.tolist() == [False] * 30 + [True] * 30
    assert executed.commanded.all()
    numbers = summarise(shadowed)
    assert numbers["actions"]["human"] == 30
    assert numbers["shadow"]["ticks"] == 30


def test_would_be_commands_are_compared_with_the_arm(shadowed: Timeline) -> None:
    distance = summarise(shadowed)["shadow"]["distance"]
    first, second = (distance[name] for name in JOINTS[:2])
    assert (first["n"], first["median"], first["max"]) == (30, 0.25, 0.5)
    assert second["max"] == 0.0


def test_a_run_without_shadow_has_nothing_to_compare(timeline: Timeline) -> None:
    numbers = summarise(timeline)["shadow"]
    assert numbers["ticks"] == 0
    assert {joint["n"] for joint in numbers["distance"].values()} == {0}
