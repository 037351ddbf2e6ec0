# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `remote-inference explain` says of a run: commands, ages, requests, the guard and the longest hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remote_inference.bags.report.summary import describe, summarise
from remote_inference.bags.timeline.timeline_reader import load_timeline
from remote_inference.msg import ClientState, ExecutedAction, WatchdogState
from support.recording.explained_run import write_explained_run
from support.recording.synthetic_run import NS, TOPICS, Recording

TICK_MS = 33.0


def add_ticks(recording: Recording, ticks: range, seq_id: int = 0, **fields: Any) -> None:
    """Add ticks that command rows of a chunk, or nothing without a seq_id."""
    if seq_id:
        fields = {"seq_id": seq_id, "action_age_s": 0.2, **fields}
    for tick in ticks:
        recording.executed(TICK_MS * tick, tick, [0.1] * 6 if seq_id else None, **fields)


def numbers_of(recording: Recording, folder: Path) -> dict[str, Any]:
    return summarise(load_timeline(recording.write(folder / "run"), NS))


@pytest.fixture
def recording() -> Recording:
    """A stall of 20 ticks between two chunks, then a pause of 30 and another chunk."""
    recording = Recording()
    recording.state(0, ClientState.STREAMING, "chunk merged")
    recording.state(600, ClientState.STALLED, "queue empty")
    recording.state(980, ClientState.STREAMING, "chunk merged")
    recording.state(1310, ClientState.STREAMING, "chunk merged", paused=True)
    recording.state(2300, ClientState.STREAMING, "chunk merged")
    for seq_id, at_ms in ((1, 1.0), (2, 400.0), (3, 2200.0)):
        recording.observation(at_ms, seq_id, cameras=0)
    recording.chunk(101, 1)
    recording.chunk(500, 2)
    add_ticks(recording, range(10), 1, interventions=["velocity_limit"])
    add_ticks(recording, range(10, 30))
    add_ticks(recording, range(30, 40), 2)
    add_ticks(recording, range(40, 70))
    add_ticks(recording, range(70, 80), 2)
    return recording


def test_a_run_is_told_in_sentences_with_its_numbers(recording: Recording, tmp_path: Path) -> None:
    lines = describe("/arm", numbers_of(recording, tmp_path))
    assert max(map(len, lines)) <= 80
    said = " ".join(line.strip() for line in lines)
    assert "/arm, 2.6 s: of 80 control ticks, 30 commanded actions of 2 chunks, 50 nothing." in said
    assert "was 0.20 s old in the median, 0.20 s at p95, 0.20 s at most." in said
    assert "3 requests, 1 unanswered; an answer took 100 ms in the median" in said
    assert "The guard intervened: velocity_limit in 10 ticks." in said
    assert "The longest hold took 0.66 s, from 0.3 s on: STREAMING (chunk merged), then STALLED" in said
    assert "; paused for 1.0 s." in said


def test_the_stops_of_the_watchdog_and_the_causes_of_pauses_are_told(tmp_path: Path) -> None:
    """Of this run: a watchdog counts its stops from its own start on."""
    topics = {**TOPICS, f"{NS}/remote_inference/watchdog": "remote_inference/msg/WatchdogState"}
    recording = Recording(topics)
    add_ticks(recording, range(60), 1)
    cause = "the robot node's control thread has been silent for 0.31 s"
    states = (
        (0, WatchdogState.ARMED, 1, ""),
        (700, WatchdogState.TRIPPED, 2, cause),
        (1200, WatchdogState.RETURNED, 2, ""),
    )
    for at_ms, state, trips, why in states:
        recording.add("watchdog", at_ms, WatchdogState(state=state, trips=trips, cause=why, instance=7))
    recording.state(0, ClientState.STREAMING, "chunk 1 merged")
    paused = {"paused": True, "pause_cause": f"the command watchdog has stopped the controllers: {cause}"}
    recording.state(800, ClientState.STREAMING, "chunk 1 merged", **paused)
    recording.state(1300, ClientState.STALLED, "queue empty", **paused)
    numbers = numbers_of(recording, tmp_path)
    assert numbers["watchdog_stops"] == [{"t_s": pytest.approx(0.7), "cause": cause}]
    [pause] = numbers["pauses"]
    assert (pause["begin_s"], pause["seconds"]) == (pytest.approx(0.8), pytest.approx(1.147, abs=1e-3))
    said = " ".join(line.strip() for line in describe("/arm", numbers))
    assert f"The command watchdog stopped the controllers at 0.7 s: {cause}." in said
    assert f"It was paused for 1.1 s from 0.8 s on: {paused['pause_cause']}." in said


def test_the_longest_hold_is_no_pause_and_names_its_states(recording: Recording, tmp_path: Path) -> None:
    hold = numbers_of(recording, tmp_path)["longest_hold"]
    assert (hold["begin_s"], hold["seconds"]) == (pytest.approx(0.33), pytest.approx(0.66))
    assert [state["state"] for state in hold["states"]] == ["STREAMING", "STALLED", "STREAMING"]
    assert hold["states"][1]["cause"] == "queue empty"


def test_how_far_a_policy_asked_beyond_the_limits_is_told_by_joint(tmp_path: Path) -> None:
    """Which the rule's count does not say: a closed gripper is clamped often, by next to nothing."""
    numbers = summarise(load_timeline(write_explained_run(tmp_path / "run"), NS))
    assert numbers["interventions"]["joint_limit"] == 1
    assert numbers["clamped"] == {"shoulder": {"unit": "rad", "ticks": 1, "largest": 0.5}}
    said = " ".join(line.strip() for line in describe(NS, numbers))
    assert "The policy asked for more than the joints' limits: shoulder by up to 0.5 rad in 1 tick." in said


def test_a_mean_of_chunks_says_of_none_how_far(tmp_path: Path) -> None:
    bag = write_explained_run(tmp_path / "run", earlier_seq_ids=[7])
    assert summarise(load_timeline(bag, NS))["clamped"] == {}


def test_without_a_contract_nobody_knows_how_far(tmp_path: Path) -> None:
    bag = write_explained_run(tmp_path / "run", has_contract=False)
    assert summarise(load_timeline(bag, NS))["clamped"] == {}


def test_what_lies_between_two_episodes_is_no_hold(tmp_path: Path) -> None:
    recording = Recording()
    add_ticks(recording, range(10), 1)
    add_ticks(recording, range(10, 40))
    add_ticks(recording, range(40, 50), 2, episode_id=2)
    numbers = numbers_of(recording, tmp_path)
    assert numbers["longest_hold"] is None
    assert "Within its episodes the robot was never held." in describe("/arm", numbers)


def test_a_person_and_the_way_home_are_no_holds_and_have_their_words(tmp_path: Path) -> None:
    recording = Recording()
    add_ticks(recording, range(10), 1)
    add_ticks(recording, range(10, 20), 1, source=ExecutedAction.HUMAN)
    add_ticks(recording, range(20, 30), 1, source=ExecutedAction.HOMING)
    numbers = numbers_of(recording, tmp_path)
    assert numbers["longest_hold"] is None
    said = " ".join(line.strip() for line in describe("/arm", numbers))
    assert "10 commanded actions of 1 chunk, 10 a person's commands, 10 the way home." in said


def test_a_run_in_which_nothing_happened_is_told_too(tmp_path: Path) -> None:
    recording = Recording()
    recording.executed(0, 1)
    lines = describe("/arm", numbers_of(recording, tmp_path))
    assert lines == [
        "/arm, 0.0 s: of 1 control tick, 1 commanded nothing.",
        "0 requests, none unanswered.",
        "The guard did not intervene.",
    ]
