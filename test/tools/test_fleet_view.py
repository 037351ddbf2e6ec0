# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What an operator sees of a robot with an injected fault."""

from __future__ import annotations

from remote_inference.msg import ClientState
from remote_inference.tools.fleet_view import describe_robot, robot_as_json, state_of

FAULT = "freeze sensors for 4 s"


def test_a_drill_is_told_beside_the_state_and_with_its_fault() -> None:
    state = ClientState(state_name="STALLED", injected_fault=FAULT)
    assert state_of(state) == "STALLED, fault injected"
    assert ["fault injected", FAULT] in [list(row) for row in describe_robot("/robot_1", state).rows]
    assert robot_as_json("/robot_1", state)["injected_fault"] == FAULT


def test_without_a_drill_nothing_is_said_of_one() -> None:
    state = ClientState(state_name="STREAMING")
    assert state_of(state) == "STREAMING"
    assert "fault injected" not in dict(describe_robot("/robot_1", state).rows)


def test_sources_that_are_too_far_apart_are_named() -> None:
    state = ClientState(state_name="STALLED", apart="front and top are 0.015 s apart", sets_refused=7)
    assert dict(describe_robot("/robot_1", state).rows)["no set fits"] == state.apart
    assert robot_as_json("/robot_1", state)["sets_refused"] == 7


def test_a_paused_robot_says_why_unless_a_stop_does() -> None:
    cause = "the command watchdog has stopped the controllers: silent for 0.3 s"
    state = ClientState(state_name="STREAMING", cause="chunk 1 merged", paused=True, pause_cause=cause)
    rows = dict(describe_robot("/robot_1", state).rows)
    assert (rows["state"], rows["paused"]) == ("STREAMING, paused", cause)
    assert rows["last change"] == "STREAMING: chunk 1 merged", "it has not paused the robot"
    assert robot_as_json("/robot_1", state)["pause_cause"] == cause
    state.stop = "/e_stop: pressed"
    rows = dict(describe_robot("/robot_1", state).rows)
    assert rows["stopped by"] == "/e_stop: pressed"
    assert "paused" not in rows


def test_a_session_says_how_often_it_was_opened() -> None:
    for epoch, words in ((1, "opened once"), (3, "opened 3 times")):
        state = ClientState(session_id="s1", session_epoch=epoch)
        assert dict(describe_robot("/robot_1", state).rows)["session"] == f"s1, {words}"


def test_a_state_whose_lists_do_not_fit_is_shown_as_far_as_they_go() -> None:
    """It would keep every other robot from being shown."""
    state = ClientState(guard_names=["age", "shape"], guard_counts=[3], shadow_names=["elbow"])
    assert robot_as_json("/evil", state)["guard"] == {"age": 3}
    assert robot_as_json("/evil", state)["shadow_error"] == {}
    assert dict(describe_robot("/evil", state).rows)["robot"] == "/evil"
