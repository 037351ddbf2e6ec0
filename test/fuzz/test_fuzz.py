# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whatever bytes come in, a decoder reads them or raises its documented error, soon and in little memory.

A bounded piece with fixed seeds; `make fuzz` tries a million inputs.
"""

from __future__ import annotations

import pytest
from fuzz import TARGETS, Task, fuzz, plan
from fuzz_target import Target, try_input
from mutation import spoil_bytes

SEED = "1"
INPUTS = 3_000  # of all targets together


@pytest.mark.parametrize("task", plan(list(TARGETS), INPUTS, SEED), ids=lambda task: task.target)
def test_spoiled_inputs_are_refused_with_the_documented_error(task: Task):
    result = fuzz(task)
    assert result.findings == []
    assert result.inputs == task.inputs


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_seeds_are_valid(target: Target):
    """Spoiled versions of a refused input would all be refused for the same reason."""
    target.run(target.seeds()[0])


@pytest.mark.parametrize(
    ("target", "path"),
    [(target, path) for target in TARGETS.values() for path in target.corpus_files],
    ids=lambda value: value.name,
)
def test_an_input_that_once_broke_a_promise_is_refused(target, path):
    assert not try_input(target, path.read_bytes()).problem


# -- the fuzzer itself ---------------------------------------------------------------------------------------


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda data: _raise(KeyError("x")), "raised KeyError: 'x', expected ValueError"),
        (lambda data: _raise(ValueError("")), "an error without a text"),
        (lambda data: _raise(ValueError("elsewhere: no")), "expected it to begin with 'here: '"),
        (lambda data: _raise(ValueError("here: " + "x" * 2_000)), "has 2006 characters"),
        (lambda data: len(bytearray(300 << 20)), "MiB"),
    ],
)
def test_a_broken_promise_is_found(run, words: str):
    target = Target("t", run, lambda: [b"seed"], spoil_bytes, (ValueError,), names_source="here: ")
    assert words in try_input(target, b"x").problem


def test_memory_is_found_in_a_process_that_once_took_more():
    len(bytearray(600 << 20))
    target = Target("t", lambda data: len(bytearray(300 << 20)), lambda: [b"seed"], spoil_bytes, ())
    assert "MiB" in try_input(target, b"x").problem


def test_an_input_that_keeps_every_promise_is_no_finding():
    target = Target("t", lambda data: _raise(ValueError("no")), lambda: [b"seed"], spoil_bytes, (ValueError,))
    outcome = try_input(target, b"x")
    assert not outcome.problem
    assert outcome.signature


def test_a_finding_is_made_small_and_repeats_with_its_seed(monkeypatch: pytest.MonkeyPatch):
    def run(data: bytes) -> None:
        if b"\xff" in data:
            raise KeyError

    monkeypatch.setitem(TARGETS, "t", Target("t", run, lambda: [bytes(100)], spoil_bytes, ()))
    first, second = (fuzz(Task("t", "7", 500)) for _ in range(2))
    assert [data for _, data in first.findings] == [b"\xff"]
    assert first.findings == second.findings
