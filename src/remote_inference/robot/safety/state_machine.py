# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's safety states and the table of their transitions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum


class State(IntEnum):
    """The values are those of ClientState.msg."""

    CONNECTING = 0
    STREAMING = 1
    DEGRADED = 2
    STALLED = 3
    RECONNECTING = 4
    DEAD = 5


class Event(Enum):
    """The events that may change the state."""

    CHUNK_MERGED = "chunk merged"
    CHUNKS_LATE = "chunks late"
    STARVED = "nothing to execute"
    SESSION_LOST = "session lost"
    OFFLINE_TOO_LONG = "offline too long"
    CONTRACT_VIOLATED = "contract violated"


# Explanations that `make docs` writes into the pages.
DESCRIPTIONS: Mapping[State | Event, str] = {
    State.CONNECTING: "looks for a server, no chunk yet",
    State.STREAMING: "chunks arrive",
    State.DEGRADED: "chunks are late, the queue still feeds the robot",
    State.STALLED: "nothing to execute, the fallback runs",
    State.RECONNECTING: "session lost: plays the queue out, then the fallback runs; looks for a server",
    State.DEAD: "given up: no chunk is executed any more, the node exits with code 1",
    Event.CHUNK_MERGED: "a chunk that answers the request in flight has joined the queue",
    Event.CHUNKS_LATE: "the robot has waited `degraded_after_s` for a chunk",
    Event.STARVED: "the queue is empty, all it held was older than `max_action_age_s`, or the arm does not "
    "follow",
    Event.SESSION_LOST: "`max_timeouts` requests in a row brought no chunk in time, or the server vanished, "
    "restarted, is draining or failing, or has dropped the session",
    Event.OFFLINE_TOO_LONG: "no chunk for `max_offline_s` since the session was lost",
    Event.CONTRACT_VIOLATED: "a server's terms do not fit the contract or the timing parameters, it serves "
    "another policy, or another process has taken the robot over",
}

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

    def to_json(self, tags: Mapping[str, str]) -> str:
        """Return the transition as one line for the log, with the robot's tags if there are any."""
        fields = {
            "before": self.before.name,
            "after": self.after.name,
            "event": self.event.value,
            "cause": self.cause,
        }
        return json.dumps({**fields, "tags": dict(tags)} if tags else fields)


class StateMachine:
    """The current state; it changes by the table only."""

    def __init__(self) -> None:
        self.state = State.CONNECTING
        self.cause = "started"
        self.event: Event | None = None  # of the last transition

    def apply(self, event: Event, cause: str) -> Transition | None:
        """Apply an event; return its transition, or None when it changes nothing."""
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            return None
        transition = Transition(self.state, after, event, cause)
        self.state, self.cause, self.event = after, cause, event
        return transition
