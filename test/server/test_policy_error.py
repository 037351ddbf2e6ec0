# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy's error names the line of its author's code, whatever library it came out of."""

import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from remote_inference.base.policy import PolicyError, predict_all
from remote_inference.server.policy_error import explain_policy_error, trace_policy_error

AUTHORS_FILE = """
import json
from remote_inference.base.policy import PolicyError

class Policy:
    def predict(self, batch):
        return self._decode(batch)

    def _decode(self, batch):
        return json.loads("{")

class Careful:
    def predict(self, batch):
        raise PolicyError("camera front: found no image")
"""


@pytest.fixture
def written(tmp_path: Path) -> dict:
    path = tmp_path / "my_policy.py"
    path.write_text(AUTHORS_FILE)
    return runpy.run_path(str(path), run_name="my_policy")


def failure_of(policy: object) -> Exception:
    with pytest.raises(Exception) as failure:  # noqa: PT011  whichever
        predict_all(policy, [np.zeros(2)])
    return failure.value


def test_the_innermost_frame_of_the_author_is_named(written: dict):
    reason = explain_policy_error(failure_of(written["Policy"]()))
    assert reason.startswith("JSONDecodeError: ")
    assert reason.endswith("(my_policy.py:10, in _decode)")


def test_what_was_raised_on_another_thread_names_the_author_s_line_too(written: dict):
    """The server loads a policy on the thread that serves it."""
    with ThreadPoolExecutor() as threads, pytest.raises(ValueError) as failure:  # noqa: PT011  JSON's
        threads.submit(written["Policy"]().predict, [np.zeros(2)]).result()
    assert explain_policy_error(failure.value).endswith("(my_policy.py:10, in _decode)")


def test_what_the_author_words_for_users_is_not_cluttered(written: dict):
    assert explain_policy_error(failure_of(written["Careful"]())) == "camera front: found no image"


def test_a_reason_of_several_lines_becomes_one():
    error = PolicyError("no compiler:\n\n  expected c++\nset CXX")
    assert explain_policy_error(error) == "no compiler: expected c++ set CXX"


def test_the_place_is_that_of_the_first_cause(written: dict):
    """A failed warm-up is a PolicyError; what its author has to mend is what the policy raised."""
    cause = failure_of(written["Policy"]())
    error = PolicyError("warm-up failed")
    error.__cause__ = cause
    assert explain_policy_error(error) == "warm-up failed (my_policy.py:10, in _decode)"
    assert "my_policy.py" in trace_policy_error(error)
