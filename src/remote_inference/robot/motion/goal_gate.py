# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When an action server, of a gripper for example, gets a goal, and what becomes of the goals.

The control thread says in each tick what the robot commands; the thread that talks to the server asks whether
that is a goal. One goal at most waits for its answer, so that goals arrive in order and the last one wins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.robot.command import Float64Array

MAX_RATE_HZ = 5.0
CHANGED_PART = 0.01  # of an action's range
ANSWER_TIMEOUT_S = 1.0
RETRY_S = 1.0  # after a rejection, while the robot goes on commanding
PATIENCE_S = 2.0  # with a server that is not there: discovery takes a moment
LATE_S = 0.1  # what was commanded longer ago than this and two periods is no goal any more
LONGEST_WAIT_S = 10.0  # of a robot that ends, for the last goal of a tiny rate
MOST_NEWS = 100


class GoalEvent(Enum):
    """What may go wrong with a goal."""

    NO_SERVER = "no server"
    REJECTED = "rejected"
    UNANSWERED = "unanswered"
    ABORTED = "aborted"
    CANCELED = "canceled"  # by somebody else
    LOST = "lost"  # the server does not know it any more


# What the server goes on with is no reason to send the same goal again: a gripper that closed on an object.
SENT_AGAIN = frozenset((GoalEvent.REJECTED, GoalEvent.UNANSWERED))
MEANINGS = {
    GoalEvent.NO_SERVER: "no goal can be sent, its joints stay",
    GoalEvent.REJECTED: f"sent again after {RETRY_S:g} s, while the robot commands it",
    GoalEvent.UNANSWERED: f"no answer within {ANSWER_TIMEOUT_S:g} s; sent again, while the robot commands it",
    GoalEvent.ABORTED: "it stalled, on an object perhaps; the next goal is that of the next change",
    GoalEvent.CANCELED: "by somebody else; the next goal is that of the next change",
    GoalEvent.LOST: "the server knows it no more; the next goal is that of the next change",
}


@dataclass(frozen=True)
class Goal:
    """A goal to send: `action` is the robot's command `[action_dim]`, of which the server takes its own."""

    number: int  # from 1
    action: Float64Array


@dataclass(frozen=True)
class _Wanted:
    action: Float64Array
    now_ns: int
    presence: int


@dataclass(frozen=True)
class _Server:
    """What is known of the server.

    refuses: since a goal that it rejected or did not answer. changes: how often it began or ceased to take
    goals; odd: it takes them. absent_ns: since then commands have had no server, which is reported once.
    """

    is_present: bool = False
    refuses: bool = False
    changes: int = 0
    absent_ns: int | None = None
    is_absence_reported: bool = False


@dataclass(frozen=True)
class _LastGoal:
    """The last goal: its values `[n]`, None unless the server has it. asked_ns: while it waits for an answer.

    next_ns: before this, no other goal is sent.
    """

    number: int = 0
    values: Float64Array | None = None
    asked_ns: int | None = None
    next_ns: float = 0.0


def last_goal_s(contract: Contract) -> float:
    """Return how long [s] the last command must last so that each action server gets it as a goal.

    The goal before it may have been sent just now, and the next one waits for its answer and for the rate.
    """
    rates = [sink.max_rate_hz or MAX_RATE_HZ for sink in contract.action_commands]
    if not rates:
        return 0.0
    return min(LONGEST_WAIT_S, max(ANSWER_TIMEOUT_S, 1.0 / min(rates)) + LATE_S)


class GoalGate:
    """The goals of one action server. `command` and `is_subscribed` are the control thread's.

    Nothing is shared between the threads but values that are swapped whole.
    """

    def __init__(self, sink: CommandSink, contract: Contract) -> None:
        names, limits = contract.actions.names, contract.actions.limits
        self._sink = sink
        self._index = np.array([names.index(name) for name in sink.names], np.intp)
        ranges = np.array([limits[name].max - limits[name].min for name in sink.names])
        self._min_change = CHANGED_PART * ranges if sink.min_change is None else sink.min_change
        self._least_ns = 1e9 / (sink.max_rate_hz or MAX_RATE_HZ)  # of a tiny rate: infinite
        self._fresh_ns = round((2.0 * contract.period_s + LATE_S) * 1e9)
        self._server = _Server()
        self._presence = 0  # changes of the server at the begin of the control tick
        self._wanted: _Wanted | None = None
        self._dropped: _Wanted | None = None  # commanded before a stop
        self._last = _LastGoal()
        self._news: deque[str] = deque(maxlen=MOST_NEWS)
        self.counts = dict.fromkeys(GoalEvent, 0)

    # -- control thread ------------------------------------------------------------------------------------

    def is_subscribed(self) -> bool:
        """Return whether the server takes goals. To be called before what `command` takes is decided.

        One that rejects or does not answer a goal counts as away: its joint stays where it is, and so the
        first goal that it takes again is a step from where the joint is measured. So does one that was away
        between two ticks, for one of them.
        """
        changes = self._server.changes
        was_away = changes % 2 == 1 and changes - self._presence > 1
        self._presence = changes - was_away
        return self._presence % 2 == 1

    def command(self, action: Float64Array | None, now_ns: int) -> None:
        """Store a control tick's command `[action_dim]`, None when the server is to keep its last goal."""
        self._wanted = None if action is None else _Wanted(action.copy(), now_ns, self._presence)

    # -- the thread that talks to the server ---------------------------------------------------------------

    @property
    def awaits_answer(self) -> bool:
        """Whether the last goal has been neither answered nor given up."""
        return self._last.asked_ns is not None

    def update(self, now_ns: int, *, is_present: bool, since_ns: int | None) -> Goal | None:
        """Return the goal to send now, if any. is_present: whether the server is there.

        since_ns: what was commanded before is not sent, nor later: a person has taken over since then. None:
        the robot is stopped or paused, whatever its last tick commanded.
        """
        if is_present != self._server.is_present:
            self._server = _Server(is_present, changes=self._server.changes)
            self._last = replace(self._last, values=None, asked_ns=None)
        asked_ns = self._last.asked_ns
        if asked_ns is not None and now_ns - asked_ns >= ANSWER_TIMEOUT_S * 1e9:
            self._fail(GoalEvent.UNANSWERED)
        self._count_presence()
        wanted = self._wanted
        if since_ns is None or (wanted is not None and wanted.now_ns < since_ns):
            self._dropped = wanted
        if wanted is self._dropped or wanted is None or now_ns - wanted.now_ns > self._fresh_ns:
            return None
        if not is_present:
            self._miss_server(now_ns)
            return None
        if wanted.presence != self._server.changes:  # decided before the server came
            return None
        values = wanted.action[self._index]
        if self.awaits_answer or now_ns < self._last.next_ns or not self._is_change(values):
            return None
        self._last = _LastGoal(self._last.number + 1, values, now_ns, now_ns + self._least_ns)
        return Goal(self._last.number, wanted.action)

    def take_answer(self, number: int, now_ns: int, *, accepted: bool) -> bool:
        """Handle the answer to a goal; return whether its end is of interest. Late answers are ignored."""
        if number != self._last.number or not self.awaits_answer:
            return False
        self._last = replace(self._last, asked_ns=None)
        if accepted:
            self._server = replace(self._server, refuses=False)
        else:
            self._fail(GoalEvent.REJECTED)
            next_ns = max(self._last.next_ns, now_ns + round(RETRY_S * 1e9))
            self._last = replace(self._last, next_ns=next_ns)
        self._count_presence()
        return accepted

    def take_end(self, number: int, event: GoalEvent | None) -> None:
        """Handle the end of an accepted goal. event: what went wrong, None for nothing.

        That a newer goal ended an older one is no event.
        """
        if number == self._last.number and self._last.values is not None and event is not None:
            self._fail(event)

    def take_news(self) -> list[str]:
        """Return a sentence for each event since the last call."""
        news = []
        while self._news:
            news.append(self._news.popleft())
        return news

    def summary(self) -> str:
        """Return what became of the goals, for people. Any thread may call this."""
        found = [f"{count} {event.value}" for event, count in self.counts.items() if count]
        return ", ".join([f"{self._last.number} sent", *found])

    def _count_presence(self) -> None:
        server = self._server
        if (server.is_present and not server.refuses) != (server.changes % 2 == 1):
            self._server = replace(server, changes=server.changes + 1)

    def _is_change(self, values: Float64Array) -> bool:
        last = self._last.values
        return last is None or bool((np.abs(values - last) > self._min_change).any())

    def _miss_server(self, now_ns: int) -> None:
        absent_ns = now_ns if self._server.absent_ns is None else self._server.absent_ns
        is_reported = now_ns - absent_ns >= PATIENCE_S * 1e9
        must_report = is_reported and not self._server.is_absence_reported
        self._server = replace(self._server, absent_ns=absent_ns, is_absence_reported=is_reported)
        if must_report:
            self._fail(GoalEvent.NO_SERVER)

    def _fail(self, event: GoalEvent) -> None:
        self.counts[event] += 1
        what = "" if event is GoalEvent.NO_SERVER else f"goal {self._last.number} ({self._describe()}) "
        if event in SENT_AGAIN:
            self._last = replace(self._last, values=None, asked_ns=None)
            self._server = replace(self._server, refuses=True)
        self._news.append(f"{what}{event.value}, {self.counts[event]} since the start: {MEANINGS[event]}")

    def _describe(self) -> str:
        values: Sequence[float] = () if self._last.values is None else self._last.values.tolist()
        return ", ".join(
            f"{name} = {value:.6g}" for name, value in zip(self._sink.names, values, strict=False)
        )
