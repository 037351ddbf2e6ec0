# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server's pools: tasks in order, and no thread that ends without a word."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from remote_inference.server.nodes.serving import TaskPool
from support.server.misbehaviour import PanicError
from support.waiting import DEADLINE_S


def test_one_thread_runs_tasks_in_order_and_ends_when_the_pool_is_closed() -> None:
    done: list[int] = []
    pool = TaskPool(1, "finish", done.append)  # type: ignore[arg-type]
    for number in range(5):
        pool.submit(lambda number=number: done.append(number))
    assert pool.close(DEADLINE_S)
    assert done == list(range(5))


@pytest.mark.parametrize(
    "error", [OSError("no space left"), PanicError("index out of bounds"), SystemExit(3)]
)
def test_what_ends_a_thread_is_told(error: BaseException) -> None:
    errors: list[BaseException] = []
    is_told = threading.Event()

    def note(error: BaseException) -> None:
        errors.append(error)
        is_told.set()

    def fail() -> None:
        raise error

    pool = TaskPool(1, "prepare", note)
    task: Callable[[], None] = fail
    pool.submit(task)
    assert is_told.wait(DEADLINE_S)
    assert errors == [error]
    assert pool.close(DEADLINE_S)
