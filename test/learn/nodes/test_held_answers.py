# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Who asks is answered once: with the outcome, or after a while that it is pending."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from remote_inference.learn.nodes.environment_pool import PoolAnswers


class Desk:
    """Held answers on a clock of the test's, of no pool."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.given: list[str] = []
        self.held = PoolAnswers(None, hold_s=0.5, now_s=lambda: self.now_s)  # type: ignore[arg-type]

    def ask(self, outcome: Future[str]) -> None:
        self.held.hold(outcome, lambda done: done.result(), "pending", self.given.append)

    def answer_late(self, now_s: float) -> None:
        self.now_s = now_s
        self.held.answer_late()


def test_what_is_done_is_answered_at_once() -> None:
    desk, outcome = Desk(), Future[str]()
    outcome.set_result("done")
    desk.ask(outcome)
    assert desk.given == ["done"]
    desk.answer_late(9.0)
    assert desk.given == ["done"]


def test_what_takes_long_is_pending_and_its_outcome_answers_the_next_request() -> None:
    desk, outcome = Desk(), Future[str]()
    desk.ask(outcome)
    desk.answer_late(0.4)
    assert desk.given == []
    desk.answer_late(0.5)
    assert desk.given == ["pending"]
    desk.ask(outcome)
    outcome.set_result("done")
    assert desk.given == ["pending", "done"], "the first request has had its answer"
    desk.answer_late(9.0)
    assert desk.given == ["pending", "done"]
    assert not desk.held._held


def test_every_request_is_answered_once_whichever_thread_comes_first() -> None:
    for _ in range(200):
        desk, outcome = Desk(), Future[str]()
        for _ in range(3):
            desk.ask(outcome)
        other = threading.Thread(target=outcome.set_result, args=("done",))
        other.start()
        desk.answer_late(1.0)
        other.join(10.0)
        assert len(desk.given) == 3
