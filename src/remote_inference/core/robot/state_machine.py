# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's safety states and the table of their transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum


class State(IntEnum):
    """The values are those of ClientState.msg."""

    CONNECTING = 0  # no session yet
    STREAMING = 1  # chunks arrive
    DEGRADED = 2  # chunks are late, the queue still feeds the robot
    STALLED = 3  # nothing to execute, the fallback runs
    RECONNECTING = 4  # session lost
    DEAD = 5  # given up; no more commands


class Event(Enum):
    """What may change the state."""

    CHUNK_MERGED = "chunk merged"
    CHUNKS_LATE = "chunks late"
    STARVED = "nothing to execute"
    SESSION_LOST = "session lost"
    OFFLINE_TOO_LONG = "offline too long"
    CONTRACT_VIOLATED = "contract violated"


# Pairs that are not listed change nothing.
TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.CONNECTING, Event.CHUNK_MERGED): State.STREAMING,
    (State.CONNECTING, Event.SESSION_LOST): State.RECONNECTING,
    (State.CONNECTING, Event.CONTRACT_VIOLATED): State.DEAD,
    (State.STREAMING, Event.CHUNKS_LATE): State.DEGRADED,
    (State.STREAMING, Event.STARVED): State.STALLED,
    (State.STREAMING, Event.SESSION_LOST): State.RECONNECTING,
    (State.STREAMING, Event.CONTRACT_VIOLATED): State.DEAD,
    (State.DEGRADED, Event.CHUNK_MERGED): State.STREAMING,
    (State.DEGRADED, Event.STARVED): State.STALLED,
    (State.DEGRADED, Event.SESSION_LOST): State.RECONNECTING,
    (State.DEGRADED, Event.CONTRACT_VIOLATED): State.DEAD,
    (State.STALLED, Event.CHUNK_MERGED): State.STREAMING,
    (State.STALLED, Event.SESSION_LOST): State.RECONNECTING,
    (State.STALLED, Event.CONTRACT_VIOLATED): State.DEAD,
    (State.RECONNECTING, Event.CHUNK_MERGED): State.STREAMING,
    (State.RECONNECTING, Event.OFFLINE_TOO_LONG): State.DEAD,
    (State.RECONNECTING, Event.CONTRACT_VIOLATED): State.DEAD,
}


@dataclass(frozen=True)
class Transition:
    """One change of state and why it happened."""

    before: State
    after: State
    event: Event
    cause: str


class StateMachine:
    """The current state; it changes by the table only."""

    def __init__(self) -> None:
        self.state = State.CONNECTING
        self.cause = "started"

    def apply(self, event: Event, cause: str) -> Transition | None:
        """Take an event; return the transition it made, or None."""
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            return None
        transition = Transition(self.state, after, event, cause)
        self.state, self.cause = after, cause
        return transition
