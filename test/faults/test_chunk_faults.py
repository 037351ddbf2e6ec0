# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Chunks that must not be executed unchanged: late, repeated, foreign, malformed or absurd.

The wrong chunks carry a mark, by which the judge finds any command from one of them.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from remote_inference.msg import ActionChunk, Observation
from support.faults.arm import GAP_S, NAMES, POLICY, Arm
from support.faults.fault import Fault
from support.faults.judge import MAX_ACTION_AGE_S
from support.faults.scripted_server import Behaviour, Reply, ScriptedServer, poisoned, right_answer

ROWS, COLUMNS = POLICY["chunk_size"], len(NAMES)
LATE_S = 1.3  # after request_timeout_s of 1.0
WRONG_CHUNKS = 3  # number that the robot receives in each test


@pytest.fixture
def streaming(arm: Arm, scripted: ScriptedServer) -> Arm:
    arm.start_arm(servers=[scripted.name])
    return arm


def count(arm: Arm, counter: str) -> int:
    return getattr(arm.states[-1], counter)


def misbehave(
    arm: Arm,
    scripted: ScriptedServer,
    behaviour: Behaviour,
    counter: str,
    fault: Fault,
    until_held: bool = False,
) -> None:
    """Make the server misbehave until the robot has seen enough wrong chunks or its queue is drained."""
    good, before = scripted.behaviour, count(arm, counter)
    fault.begins()
    scripted.behaviour = behaviour
    arm.wait_for(lambda: count(arm, counter) >= before + WRONG_CHUNKS, counter)
    if until_held:
        arm.wait_until_held()
    scripted.behaviour = good
    fault.ends()
    fault.wait_for_recovery()


def by_turns(first: Callable[[Observation], list[Reply]], second: Behaviour) -> Behaviour:
    """Return a behaviour that answers observations with `first` and `second` in turn."""
    turn = 0

    def behaviour(observation: Observation) -> list[Reply]:
        nonlocal turn
        turn += 1
        return (first if turn % 2 else second)(observation)

    return behaviour


def send_when_executed(
    arm: Arm, scripted: ScriptedServer, observation: Observation, chunk: ActionChunk, sent: list[ActionChunk]
) -> None:
    """Send a chunk as soon as the arm executes an answer to an observation, or to a newer one; note it then.

    Before, the question may be open, which the robot asks again when the answer is overdue.
    """
    capture = observation.state[NAMES.index("capture")]

    def is_executed() -> bool:
        if arm.record.commands[-1].capture < capture:
            return False
        sent.append(chunk)
        return True

    scripted.send_when(is_executed, chunk)


@pytest.mark.fault("answers that come after the request's timeout")
def test_a_late_answer_is_dropped(streaming: Arm, scripted: ScriptedServer, fault: Fault) -> None:
    """The late answer arrives while the robot waits for the next one."""
    behaviour = by_turns(
        lambda observation: [(LATE_S, poisoned(right_answer(observation)))],
        lambda observation: [(0.5, right_answer(observation))],
    )
    misbehave(streaming, scripted, behaviour, "chunks_dropped", fault)


@pytest.mark.fault("one answer in five is lost")
def test_a_lost_answer_is_asked_for_again(streaming: Arm, scripted: ScriptedServer, fault: Fault) -> None:
    good, before = scripted.behaviour, count(streaming, "request_timeouts")
    asked = lost = 0

    def lose_one_in_five(observation: Observation) -> list[Reply]:
        nonlocal asked, lost
        asked += 1
        if asked % 5:
            return good(observation)
        lost += 1
        return []

    fault.begins()
    scripted.behaviour = lose_one_in_five
    streaming.wait_for(lambda: lost >= WRONG_CHUNKS, "lost answers")
    scripted.behaviour = good
    fault.ends()
    fault.wait_for_recovery()
    assert fault.longest_measured_gap_s < GAP_S
    told = len(streaming.states)  # of the last one lost, too: three states span more than request_timeout_s
    streaming.wait_for(lambda: len(streaming.states) > told + 2, "newer states")
    assert count(streaming, "request_timeouts") == before


@pytest.mark.fault("chunks older than the age bound when they arrive")
def test_chunks_that_arrive_too_old_lose_the_session(
    arm: Arm, scripted: ScriptedServer, fault: Fault
) -> None:
    """The robot holds, tells the server off, and streams again with the first chunk in time."""
    arm.start_arm(servers=[scripted.name], request_timeout_s=5.0)
    good, before = scripted.behaviour, count(arm, "chunks_rejected")
    first_state = len(arm.states)
    fault.begins()
    scripted.behaviour = lambda observation: [(MAX_ACTION_AGE_S + 0.3, right_answer(observation))]
    arm.wait_until_held()
    arm.wait_for(lambda: count(arm, "chunks_rejected") > before, "a chunk that is rejected")
    arm.wait_for_state("RECONNECTING", first_state)
    scripted.behaviour = good
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("answers that come twice")
def test_a_second_copy_of_an_answer_is_dropped(
    streaming: Arm, scripted: ScriptedServer, fault: Fault
) -> None:
    """The copies arrive when the answer is being executed, and again while the robot waits for the next.

    Not earlier: a topic of depth 1 lets a copy take the place of an answer that was not read yet.
    """
    copies: list[ActionChunk] = []

    def behaviour(observation: Observation) -> list[Reply]:
        chunk = right_answer(observation)
        send_when_executed(streaming, scripted, observation, poisoned(chunk), copies)
        return [*((0.0, copy) for copy in copies[-1:]), (0.05, chunk)]

    misbehave(streaming, scripted, behaviour, "chunks_dropped", fault)
    assert fault.longest_measured_gap_s < GAP_S


@pytest.mark.fault("answers out of order")
def test_the_answer_to_an_older_request_is_dropped(
    streaming: Arm, scripted: ScriptedServer, fault: Fault
) -> None:
    """The older answer arrives when the newer one is being executed, and again while the robot waits."""
    kept: list[ActionChunk] = []
    overtaken: list[ActionChunk] = []

    def keep(observation: Observation) -> list[Reply]:
        kept.append(poisoned(right_answer(observation)))
        return [(0.0, chunk) for chunk in overtaken[-1:]]

    def overtake(observation: Observation) -> list[Reply]:
        send_when_executed(streaming, scripted, observation, kept[-1], overtaken)
        return [(0.0, right_answer(observation))]

    behaviour = by_turns(keep, overtake)
    misbehave(streaming, scripted, behaviour, "chunks_dropped", fault)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"episode_id": 0}, marks=pytest.mark.fault("chunks of another episode"), id="another episode"
        ),
        pytest.param(
            {"session_id": "stranger"},
            marks=pytest.mark.fault("chunks of another session"),
            id="another session",
        ),
        pytest.param(
            {"session_epoch": 1000},
            marks=pytest.mark.fault("chunks of another epoch of the session"),
            id="another epoch",
        ),
    ],
)
def test_a_chunk_for_another_session_or_request_is_dropped(
    streaming: Arm, scripted: ScriptedServer, fault: Fault, changes: dict[str, Any]
) -> None:
    """The wrong chunk arrives before the right one, while the robot waits."""

    def behaviour(observation: Observation) -> list[Reply]:
        chunk = right_answer(observation)
        return [(0.0, poisoned(chunk, **changes)), (0.1, chunk)]

    streaming.reset()  # into episode 1
    misbehave(streaming, scripted, behaviour, "chunks_dropped", fault)
    assert fault.longest_measured_gap_s < GAP_S


def _not_a_number(chunk: ActionChunk) -> ActionChunk:
    spoilt = poisoned(chunk)
    spoilt.chunk_robot[-COLUMNS] = math.nan  # one joint of the last row
    return spoilt


def _too_wide(chunk: ActionChunk) -> ActionChunk:
    values = array("f", [*chunk.chunk_robot, *chunk.chunk_robot[:ROWS]])
    return poisoned(chunk, action_dim=COLUMNS + 1, chunk_model=values, chunk_robot=values)


def _too_short_for_its_shape(chunk: ActionChunk) -> ActionChunk:
    spoilt = poisoned(chunk)
    spoilt.chunk_robot = spoilt.chunk_robot[:-1]
    return spoilt


def _too_few_rows(chunk: ActionChunk) -> ActionChunk:
    values = poisoned(chunk).chunk_robot[: ROWS // 2 * COLUMNS]
    return poisoned(chunk, horizon=ROWS // 2, chunk_model=values, chunk_robot=values)


def _error(chunk: ActionChunk) -> ActionChunk:
    """Return a failing server's chunk, but with rows, which the robot must not execute."""
    return poisoned(chunk, status=ActionChunk.ERROR, message="out of memory")


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_not_a_number, marks=pytest.mark.fault("chunks with a NaN"), id="NaN"),
        pytest.param(_too_wide, marks=pytest.mark.fault("chunks with a dimension too many"), id="too wide"),
        pytest.param(
            _too_short_for_its_shape,
            marks=pytest.mark.fault("chunks shorter than their shape says"),
            id="shorter than its shape",
        ),
        pytest.param(_too_few_rows, marks=pytest.mark.fault("chunks of another horizon"), id="horizon"),
        pytest.param(_error, marks=pytest.mark.fault("ERROR answers"), id="ERROR"),
    ],
)
def test_an_invalid_chunk_is_refused_as_a_whole(
    streaming: Arm,
    scripted: ScriptedServer,
    fault: Fault,
    spoil: Callable[[ActionChunk], ActionChunk],
) -> None:
    misbehave(
        streaming,
        scripted,
        lambda observation: [(0.0, spoil(right_answer(observation)))],
        "chunks_rejected",
        fault,
        until_held=True,
    )


@pytest.mark.fault("chunks with absurd values (1e30)")
def test_absurd_values_are_clamped(streaming: Arm, scripted: ScriptedServer, fault: Fault) -> None:
    """Each joint in turn is sent to infinity and back; the arm moves to its limits, at a limited speed."""

    def absurd(observation: Observation, value: float) -> list[Reply]:
        chunk = right_answer(observation)
        for joint in range(COLUMNS - 2):  # the markers stay honest
            for index in range(joint, ROWS * COLUMNS, COLUMNS):
                chunk.chunk_robot[index] = value
        return [(0.0, chunk)]

    behaviour = by_turns(
        lambda observation: absurd(observation, 1e30), lambda observation: absurd(observation, -1e30)
    )
    misbehave(streaming, scripted, behaviour, "chunks_merged", fault)
    assert fault.longest_measured_gap_s < GAP_S
