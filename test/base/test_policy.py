# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a policy may ask for, and the steps of an observation in the order in which they were seen."""

from __future__ import annotations

import math

import numpy as np
import pytest

from remote_inference.base.policy import PastStep, PolicyError, PolicyObservation, find_chunk_problem
from support.builders import CAMERA, make_spec


@pytest.mark.parametrize("steps", [0, -1, 17])
def test_a_policy_that_wants_too_many_or_no_steps_is_refused(steps: int):
    with pytest.raises(PolicyError, match=rf"waver: observation_steps: found {steps}, expected 1 to 16"):
        make_spec(observation_steps=steps)


@pytest.mark.parametrize(
    ("key", "number"), [("trained_fps", 0.0), ("trained_fps", math.nan), ("chunk_size", 0), ("max_batch", 0)]
)
def test_a_number_that_no_policy_can_have_is_refused(key: str, number: float):
    with pytest.raises(PolicyError, match=rf"waver: {key}: found {number}, expected"):
        make_spec(**{key: number})


def test_a_unit_of_a_joint_that_the_policy_does_not_have_is_refused():
    with pytest.raises(PolicyError, match=r"waver: units: found 'wrist', expected .*: elbow, shoulder"):
        make_spec(units={"wrist": "degrees"})


def test_a_precision_that_no_policy_has_is_refused():
    with pytest.raises(PolicyError, match=r"waver: dtype: found 'int8', expected float32, bfloat16, float16"):
        make_spec(dtype="int8")


def step(value: float) -> PastStep:
    return PastStep(np.full(2, value, np.float32), {CAMERA: np.full((2, 2, 3), value, np.uint8)})


def test_the_steps_of_an_observation_are_in_the_order_of_time():
    present = step(3)
    observation = PolicyObservation(present.state, present.images, "wave", past=(step(1), step(2)))
    assert observation.states.tolist() == [[1, 1], [2, 2], [3, 3]]
    assert observation.states.dtype == np.float32
    assert [image.max() for image in observation.image_steps(CAMERA)] == [1, 2, 3]


def test_an_observation_without_a_history_is_its_only_step():
    present = step(3)
    observation = PolicyObservation(present.state, present.images, "wave")
    assert observation.states.tolist() == [[3, 3]]
    assert observation.image_steps(CAMERA)[0] is present.images[CAMERA]


@pytest.mark.parametrize("dtype", [object, complex, bool, "U3"])
def test_a_chunk_of_what_is_no_real_number_is_refused(dtype: object):
    spec = make_spec()
    rows = np.zeros((spec.chunk_size, spec.action_dim), np.float32)
    assert find_chunk_problem(spec, rows, rows) == ""
    found = find_chunk_problem(spec, rows.astype(dtype), rows)
    assert found.startswith("chunk_model: found an array of ")
    assert found.endswith("expected real numbers")
