# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The action queue: two ways to merge, three delay policies, and what two threads may do to it."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from remote_inference.robot.queue.action_queue import ActionQueue, DelayPolicy, MergeMode
from remote_inference.robot.queue.plan import QueuedAction
from remote_inference.robot.step_lock import StepLock
from support.builders import make_rows, make_source
from support.robot.steps import drop_old

A_THOUSAND = 1000  # executed rows that a queue remembers


def merge(
    queue: ActionQueue,
    rows: np.ndarray,
    mode: MergeMode = MergeMode.REPLACE,
    *,
    seq_id: int = 1,
    capture_ns: int = 0,
    latency_steps: int = 0,
    executed_before: int = 0,
    horizon: int | None = None,
) -> int:
    return queue.merge(
        make_source(seq_id, capture_ns),
        rows,
        rows + 100,
        mode,
        latency_steps=latency_steps,
        executed_before=executed_before,
        horizon=horizon,
    )


def drain(queue: ActionQueue) -> list[QueuedAction]:
    taken = []
    while (action := queue.get()) is not None:
        taken.append(action)
    return taken


def steps_of(actions: list[QueuedAction]) -> list[tuple[int, int]]:
    return [(action.source.seq_id, action.step_index) for action in actions]


def test_reading_the_queue_waits_while_another_thread_has_the_lock():
    lock = StepLock()
    queue = ActionQueue(lock=lock)
    with ThreadPoolExecutor(1) as pool:
        with lock:
            looked = pool.submit(len, queue)
            assert not wait([looked], timeout=0.1).done
        assert looked.result() == 0


def test_a_new_queue_is_drained():
    queue = ActionQueue()
    assert queue.get() is None
    assert len(queue) == 0
    assert queue.left_over() is None
    assert queue.left_over_robot() is None


@pytest.mark.parametrize(("at_ns", "executed"), [(9, 0), (10, 1), (11, 1), (19, 1), (20, 3), (30, 3)])
def test_an_action_was_executed_by_an_instant_when_it_was_taken_by_then(at_ns: int, executed: int):
    queue = ActionQueue()
    merge(queue, make_rows(5))
    for taken_ns in (10, 20, 20):
        queue.get(taken_ns)
    assert queue.executed_by({"a": at_ns, "b": 30}) == {"a": executed, "b": 3}


def test_where_nobody_has_a_clock_an_action_is_taken_at_time_zero():
    queue = ActionQueue()
    merge(queue, make_rows(1))
    queue.get()
    assert queue.executed_by({"before": -1, "then": 0}) == {"before": 0, "then": 1}


def test_an_action_that_is_forgotten_was_executed_by_any_instant():
    queue = ActionQueue()
    merge(queue, make_rows(A_THOUSAND + 2))
    for taken_ns in range(1, A_THOUSAND + 3):
        queue.get(taken_ns)
    assert queue.executed_by({"old": 0, "third": 3, "fourth": 4}) == {"old": 2, "third": 3, "fourth": 4}


def test_replace_drops_what_was_queued():
    queue = ActionQueue(DelayPolicy.NONE)
    merge(queue, make_rows(5), seq_id=1)
    merge(queue, make_rows(3), seq_id=2)
    assert steps_of(drain(queue)) == [(2, 0), (2, 1), (2, 2)]


@pytest.mark.parametrize("policy", DelayPolicy)
def test_append_keeps_the_unread_rows_and_never_trims(policy: DelayPolicy):
    queue = ActionQueue(policy)
    merge(queue, make_rows(3), MergeMode.APPEND, seq_id=1)
    queue.get()
    dropped = merge(queue, make_rows(3), MergeMode.APPEND, seq_id=2, latency_steps=2, executed_before=0)
    assert dropped == 0
    assert steps_of(drain(queue)) == [(1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]


@pytest.mark.parametrize(
    ("policy", "latency_steps", "executed", "dropped"),
    [
        (DelayPolicy.CONSUMED, 4, 2, 2),
        (DelayPolicy.CONSUMED, 2, 4, 2),
        (DelayPolicy.CONSUMED, 4, 0, 0),  # the robot was held still: trimming would command a jump
        (DelayPolicy.LATENCY, 4, 0, 4),
        (DelayPolicy.LATENCY, 2, 4, 2),
        (DelayPolicy.NONE, 4, 4, 0),
    ],
)
def test_rows_dropped_by_delay_policy(policy: DelayPolicy, latency_steps: int, executed: int, dropped: int):
    queue = ActionQueue(policy)
    merge(queue, make_rows(6))
    before = queue.executed
    for _ in range(executed):
        queue.get()
    assert merge(queue, make_rows(6), latency_steps=latency_steps, executed_before=before) == dropped
    assert [action.step_index for action in drain(queue)] == list(range(dropped, 6))


@pytest.mark.parametrize(("row_period_s", "dropped"), [(None, 1), (0.2, 1), (0.1, 2), (0.05, 3)])
def test_rows_that_were_taken_after_the_merger_looked_at_its_clock_are_past(
    row_period_s: float | None, dropped: int
) -> None:
    """A thread may stand still between the two, and the control thread goes on."""
    queue = ActionQueue()
    merge(queue, make_rows(6))
    for taken_ns in (20_000_000, 70_000_000, 120_000_000):
        queue.get(taken_ns)
    source = make_source(2, capture_ns=10_000_000)
    rows = make_rows(6, first=10.0)
    found = queue.merge(
        source,
        rows,
        rows,
        MergeMode.REPLACE,
        latency_steps=1,
        executed_before=0,
        row_period_s=row_period_s,
    )
    assert found == dropped
    assert queue.plan.head is not None
    assert queue.plan.head.step_index == dropped


def test_rows_too_old_to_be_executed_are_in_no_prefix():
    """Neither when they wait at the head, nor in either space; one of the oldest age is executed."""
    queue = ActionQueue()
    merge(queue, make_rows(2), MergeMode.APPEND, capture_ns=9)
    merge(queue, make_rows(3, first=1.0), MergeMode.APPEND, capture_ns=10)
    assert queue.prefixes(oldest_ns=10).model == pytest.approx(make_rows(3, first=1.0))
    assert queue.prefixes(oldest_ns=9).robot == pytest.approx(
        np.vstack([make_rows(2), make_rows(3, 1.0)]) + 100
    )
    assert queue.prefixes(oldest_ns=11).model is None


@pytest.mark.parametrize(("latency_steps", "left"), [(-3, 4), (0, 4), (4, 0), (5, 0), (1000, 0)])
def test_the_delay_is_clamped_to_the_chunk(latency_steps: int, left: int):
    queue = ActionQueue(DelayPolicy.LATENCY)
    assert merge(queue, make_rows(4), latency_steps=latency_steps) == 4 - left
    assert len(queue) == left


def test_a_chunk_trimmed_to_nothing_leaves_no_prefix():
    """An empty prefix is never sent."""
    queue = ActionQueue(DelayPolicy.LATENCY)
    merge(queue, make_rows(4), latency_steps=4)
    assert queue.left_over() is None
    assert queue.left_over_robot() is None


def test_left_overs_are_the_unread_rows_of_each_space():
    queue = ActionQueue()
    rows = make_rows(4)
    merge(queue, rows)
    queue.get()
    model, robot = queue.left_over(), queue.left_over_robot()
    assert model is not None
    assert robot is not None
    assert model.dtype == robot.dtype == np.float32
    assert model.tobytes() == rows[1:].tobytes()
    assert robot.tobytes() == (rows + 100)[1:].tobytes()
    drain(queue)
    assert queue.left_over() is None


def test_a_prefix_may_begin_with_rows_taken_already():
    """They were taken between the capture of an observation and the request that carries it."""
    queue = ActionQueue()
    merge(queue, make_rows(4), seq_id=1)
    queue.get()
    before = queue.executed
    queue.get()
    merge(queue, make_rows(6, first=1.0), latency_steps=2, executed_before=0)
    queue.get()
    prefixes = queue.prefixes(before)
    expected = np.concatenate([make_rows(4)[1:2], make_rows(6, first=1.0)[2:]])
    assert prefixes.model is not None
    assert prefixes.robot is not None
    assert prefixes.model.tobytes() == expected.tobytes()
    assert prefixes.robot.tobytes() == (expected + 100).astype(np.float32).tobytes()
    assert len(queue) == 3


def test_a_drained_queue_has_no_prefix_whatever_was_taken():
    queue = ActionQueue()
    merge(queue, make_rows(4))
    drain(queue)
    assert queue.prefixes(0).model is None


def test_a_prefix_that_would_begin_before_memory_does_is_not_sent():
    """Beginning later it would say of every row that it belongs to an earlier tick."""
    queue = ActionQueue()
    merge(queue, make_rows(A_THOUSAND + 2))
    for _ in range(A_THOUSAND):
        queue.get()
    assert queue.prefixes(0).model is not None
    queue.get()
    assert queue.prefixes(0).model is None
    assert len(queue.prefixes(1).model) == A_THOUSAND + 1


def test_rows_dropped_for_age_do_not_count_as_executed():
    """Only a tick in which the robot moved lets a row of the next chunk be skipped."""
    queue = ActionQueue(DelayPolicy.CONSUMED)
    merge(queue, make_rows(4), capture_ns=10)
    before = queue.executed
    assert drop_old(queue, 11) == 4
    assert merge(queue, make_rows(4), latency_steps=4, executed_before=before) == 0


def test_dropping_old_actions_spares_the_instant_itself_and_later_ones():
    queue = ActionQueue()
    merge(queue, make_rows(2), MergeMode.APPEND, seq_id=1, capture_ns=10)
    merge(queue, make_rows(2), MergeMode.APPEND, seq_id=2, capture_ns=20)
    assert drop_old(queue, 10) == 0
    assert drop_old(queue, 20) == 2
    assert steps_of(drain(queue)) == [(2, 0), (2, 1)]


@pytest.mark.parametrize("mode", MergeMode)
def test_the_horizon_bounds_the_rows_that_join(mode: MergeMode):
    queue = ActionQueue(DelayPolicy.NONE)
    merge(queue, make_rows(10), mode, horizon=3)
    assert [action.step_index for action in drain(queue)] == [0, 1, 2]


def test_each_action_knows_where_it_comes_from():
    queue = ActionQueue(DelayPolicy.LATENCY)
    merge(queue, make_rows(3), seq_id=7, capture_ns=5, latency_steps=1)
    action = queue.get()
    assert action is not None
    assert action.source == make_source(7, 5)
    assert action.step_index == 1


def test_clear_empties_but_keeps_the_count_of_executed_actions():
    queue = ActionQueue()
    merge(queue, make_rows(3))
    queue.get()
    queue.clear()
    assert len(queue) == 0
    assert queue.executed == 1


class QueueAgainstLists(RuleBasedStateMachine):
    """Every sequence of operations gives what the design's sentences give on plain lists."""

    @initialize(policy=st.sampled_from(DelayPolicy))
    def start(self, policy: DelayPolicy):
        self.policy = policy
        self.queue = ActionQueue(policy)
        self.rows: list[tuple[bytes, bytes, int, int]] = []  # model, robot, capture, step
        self.executed = 0
        self.snapshot = 0
        self.now = 0

    @rule(
        mode=st.sampled_from(MergeMode),
        length=st.integers(0, 8),
        latency=st.integers(0, 12),
        horizon=st.none() | st.integers(1, 5),
    )
    def merge_chunk(self, mode: MergeMode, length: int, latency: int, horizon: int | None):
        self.now += 1
        rows = make_rows(length, first=float(self.now), step=0.001)
        dropped = merge(
            self.queue,
            rows,
            mode,
            capture_ns=self.now,
            latency_steps=latency,
            executed_before=self.snapshot,
            horizon=horizon,
        )
        new = [(rows[i].tobytes(), (rows + 100)[i].tobytes(), self.now, i) for i in range(length)]
        if mode is MergeMode.APPEND:
            self.rows = self.rows + (new if horizon is None else new[:horizon])
            assert dropped == 0
            return
        delay = {"latency": latency, "consumed": min(latency, self.executed - self.snapshot), "none": 0}
        drop = max(0, min(delay[self.policy.value], length))
        self.rows = new[drop:] if horizon is None else new[drop : drop + horizon]
        assert dropped == drop

    @rule()
    def get(self):
        action = self.queue.get()
        if not self.rows:
            assert action is None
            return
        self.executed += 1
        assert action is not None
        found = (action.model.tobytes(), action.robot.tobytes(), action.source.capture_ns, action.step_index)
        assert found == self.rows.pop(0)

    @rule()
    def request(self):
        self.snapshot = self.queue.executed
        assert self.snapshot == self.executed

    @rule(age=st.integers(0, 4))
    def drop_old(self, age: int):
        kept = [row for row in self.rows if row[2] >= self.now - age]
        assert drop_old(self.queue, self.now - age) == len(self.rows) - len(kept)
        self.rows = kept

    @rule()
    def clear(self):
        self.queue.clear()
        self.rows = []

    @invariant()
    def left_overs_are_equal(self):
        assert len(self.queue) == len(self.rows)
        for found, column in ((self.queue.left_over(), 0), (self.queue.left_over_robot(), 1)):
            expected = b"".join(row[column] for row in self.rows)
            assert (None if found is None else found.tobytes()) == (expected or None)


QueueAgainstLists.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestQueueAgainstLists = QueueAgainstLists.TestCase


@pytest.mark.parametrize("mode", MergeMode)
def test_two_threads_neither_lose_duplicate_nor_reorder_steps(mode: MergeMode):
    queue = ActionQueue(DelayPolicy.NONE)
    merged = threading.Event()
    taken: list[QueuedAction] = []

    def consume() -> None:
        while not merged.is_set() or len(queue):
            if (action := queue.get()) is not None:
                taken.append(action)

    consumer = threading.Thread(target=consume)
    consumer.start()
    chunks, length = 300, 8
    rows = make_rows(length)
    for seq_id in range(chunks):
        merge(queue, rows, mode, seq_id=seq_id)
    merged.set()
    consumer.join(timeout=30)
    assert not consumer.is_alive()
    order = steps_of(taken)
    assert queue.executed == len(order)
    assert order == sorted(set(order))
    if mode is MergeMode.APPEND:
        assert len(order) == chunks * length
    for before, after in itertools.pairwise(taken):
        if before.source.seq_id == after.source.seq_id:
            assert after.step_index == before.step_index + 1
        else:
            assert after.step_index == 0
