# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Two robots at one policy whose actions are relative to the robot's own state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from remote_inference.base.admission import judge
from remote_inference.base.exchange import ImageFeature
from remote_inference.base.policy import Policy, PolicyError, PolicyObservation
from support.builders import make_offer, make_terms
from support.device import BATCH_ROUNDING
from support.lerobot.direct import Direct, ask, observe
from support.lerobot.tiny_policies import Built


@pytest.fixture(scope="module")
def pi0(policies: dict[str, Policy]) -> Policy:
    return policies["pi0"]


def at(observation: PolicyObservation, *state: float) -> PolicyObservation:
    return replace(observation, state=np.array(state, np.float32))


def test_two_robots_in_turn_get_actions_relative_to_their_own_state(pi0: Policy) -> None:
    one, two = at(observe(1), 1.0, 2.0, 0.3), at(observe(2), -1.0, -2.0, 0.1)
    expected = [ask(pi0, pi0.make_processors(), observation) for observation in (one, two)]
    first, second = pi0.make_processors(), pi0.make_processors()
    inputs = [first.pre(one), second.pre(two)]
    chunks = pi0.predict(inputs)
    np.testing.assert_allclose(first.post(chunks[0]), expected[0], atol=BATCH_ROUNDING)
    np.testing.assert_allclose(second.post(chunks[1]), expected[1], atol=BATCH_ROUNDING)


def test_a_pair_used_by_two_robots_would_move_the_wrong_one(pi0: Policy) -> None:
    """Hence a pair for each session; the test before would mean nothing otherwise."""
    shared = pi0.make_processors()
    sample = shared.pre(at(observe(1), 1.0, 2.0, 0.3))
    (chunk,) = pi0.predict([sample])
    own = shared.post(chunk)
    shared.pre(at(observe(2), -1.0, -2.0, 0.1))
    assert np.allclose((shared.post(chunk) - own)[:, :2], [-2.0, -4.0], atol=1e-5)


def test_the_gripper_stays_absolute(pi0: Policy) -> None:
    processors = pi0.make_processors()
    sample = processors.pre(at(observe(1), 1.0, 2.0, 0.3))
    (chunk,) = pi0.predict([sample])
    moved = pi0.make_processors()
    moved.pre(at(observe(1), 2.0, 3.0, 1.3))
    assert np.allclose((moved.post(chunk) - processors.post(chunk))[0], [1.0, 1.0, 0.0], atol=1e-5)


def test_a_robot_that_would_add_its_state_a_second_time_is_refused(
    pi0: Policy, policies: dict[str, Policy]
) -> None:
    for policy, rejection in ((pi0, "kinds"), (policies["act"], "")):
        names = policy.spec.action_names
        offer = make_offer(
            state_names=policy.spec.state_names,
            action_names=names,
            images=tuple(ImageFeature(feature, "jpeg") for feature in policy.spec.image_shapes),
            action_kinds=("relative_position",) * len(names),
            max_observation_steps=policy.spec.observation_steps,
        )
        verdict = judge(offer, policy.spec, make_terms())
        assert verdict.rejection == rejection, verdict.reason
        assert judge(
            replace(offer, action_kinds=("position",) * len(names)), policy.spec, make_terms()
        ).accepted


def forget_names(pipeline: dict) -> None:
    for step in pipeline["steps"]:
        if step["registry_name"] == "relative_actions_processor":
            assert step["config"].pop("action_names")


def test_names_that_the_processor_lacks_come_from_the_configuration(
    built: dict[str, Built], tmp_path
) -> None:
    checkpoint = built["pi0"].copy(tmp_path)
    checkpoint.edit("policy_preprocessor.json", forget_names)
    test_the_gripper_stays_absolute(checkpoint.load())


def test_a_gripper_that_cannot_be_told_from_the_joints_is_refused(built: dict[str, Built], tmp_path) -> None:
    checkpoint = built["pi0"].copy(tmp_path)
    checkpoint.edit("policy_preprocessor.json", forget_names)
    checkpoint.edit("config.json", lambda config: config.update(action_feature_names=None))
    with pytest.raises(
        PolicyError, match=r"policy_preprocessor\.json: relative_actions_processor\.action_names: "
    ):
        checkpoint.load()


def test_a_prefix_refers_to_the_state_of_the_new_observation(built: dict[str, Built], pi0: Policy) -> None:
    """The rows that still run are absolute; the policy continues them from where the robot is now."""
    prefix = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    now = at(observe(1), 1.0, 2.0, 0.3)
    continued = replace(now, prefix_model=0 * prefix, prefix_robot=prefix, inference_delay_steps=2)
    expected = Direct(built["pi0"]).answer(continued)
    np.testing.assert_allclose(ask(pi0, pi0.make_processors(), continued), expected, atol=1e-5)


def test_what_a_robot_sends_is_checked(built: dict[str, Built], pi0: Policy) -> None:
    processors = pi0.make_processors()
    with pytest.raises(PolicyError, match=r"state: found shape \[4\], expected \[3\]"):
        processors.pre(at(observe(1), 1.0, 2.0, 3.0, 4.0))
    with pytest.raises(PolicyError, match=r"observation\.images\.front: missing; found \[\]"):
        processors.pre(replace(observe(1), images={}))
    with pytest.raises(PolicyError, match=r"prefix_robot: found shape \[2, 4\], expected \[actions, 3\]"):
        processors.pre(replace(observe(1), prefix_robot=np.zeros((2, 4), np.float32)))
