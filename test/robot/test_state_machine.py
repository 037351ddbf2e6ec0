# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The safety states: each pair of state and event against the design's picture."""

from __future__ import annotations

import itertools

import pytest

from remote_inference.msg import ClientState
from remote_inference.robot.safety.state_machine import Event, State, StateMachine

WITH_SERVER = (State.CONNECTING, State.STREAMING, State.DEGRADED, State.STALLED)

# What the picture draws; every pair that it does not draw keeps the state.
PICTURE = {
    **{(state, Event.CHUNK_MERGED): State.STREAMING for state in (*WITH_SERVER, State.RECONNECTING)},
    **{(state, Event.SESSION_LOST): State.RECONNECTING for state in WITH_SERVER},
    **{(state, Event.CONTRACT_VIOLATED): State.DEAD for state in (*WITH_SERVER, State.RECONNECTING)},
    (State.STREAMING, Event.CHUNKS_LATE): State.DEGRADED,
    (State.STREAMING, Event.STARVED): State.STALLED,
    (State.DEGRADED, Event.STARVED): State.STALLED,
    (State.RECONNECTING, Event.OFFLINE_TOO_LONG): State.DEAD,
}


def machine_in(state: State) -> StateMachine:
    machine = StateMachine()
    machine.state = state
    return machine


def test_states_have_the_numbers_of_the_message():
    assert {state.name: state.value for state in State} == {
        name: getattr(ClientState, name) for name in State.__members__
    }


def test_it_starts_connecting():
    assert StateMachine().state is State.CONNECTING


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_each_pair_follows_the_picture(state: State, event: Event):
    machine = machine_in(state)
    assert (machine.apply(event, "why"), machine.state)[1] is PICTURE.get((state, event), state)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_a_transition_is_reported_with_its_cause_and_nothing_else_is(state: State, event: Event):
    machine = machine_in(state)
    cause_before = machine.cause
    transition = machine.apply(event, "why")
    if machine.state is state:
        assert transition is None
        assert machine.cause == cause_before
    else:
        assert transition is not None
        assert (transition.before, transition.after) == (state, machine.state)
        assert (transition.event, transition.cause, machine.cause) == (event, "why", "why")


@pytest.mark.parametrize("events", list(itertools.permutations(Event, 3)))
def test_dead_is_terminal(events: tuple[Event, ...]):
    machine = machine_in(State.DEAD)
    for event in events:
        assert machine.apply(event, "why") is None
    assert machine.state is State.DEAD


def test_only_a_merged_chunk_leads_back_to_streaming():
    for state, event in itertools.product(State, Event):
        machine = machine_in(state)
        transition = machine.apply(event, "why")
        if transition is not None and transition.after is State.STREAMING:
            assert event is Event.CHUNK_MERGED
