# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The belt arm as an environment: features as their kinds promise, episodes that repeat, metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest

from belt_arm import expert
from remote_inference.learn.environment import (
    FORMS,
    EnvError,
    EnvironmentObservation,
    Feature,
    FeatureKind,
    NotFiniteError,
    require_promised,
)
from remote_inference.learn.environments.belt_arm.environment import SPEC, TASK, BeltArmEnvironment

FRONT = "observation.images.front"


@pytest.fixture(scope="module")
def environment() -> Iterator[BeltArmEnvironment]:
    made = BeltArmEnvironment()
    yield made
    made.close()


def play(environment: BeltArmEnvironment, seed: int, ticks: int) -> list[EnvironmentObservation]:
    """Move all joints by a known pattern; return what was shown."""
    shown = [environment.reset(seed, TASK, ["observation.state", FRONT])]
    start = shown[0].values["observation.state"].astype(np.float64)
    steps = (environment.step(start + 0.05 * np.sin(tick / 5.0)) for tick in range(ticks))
    return [*shown, *(step.observation for step in steps)]


def test_every_feature_is_as_its_kind_promises(environment: BeltArmEnvironment) -> None:
    assert {feature.kind for feature in SPEC.features.values()} == set(FeatureKind)
    wanted = list(SPEC.features)
    observation = environment.reset(3, TASK, wanted)
    require_promised(SPEC, wanted, observation)
    assert set(np.unique(observation.values[f"{FRONT}.robot_mask"])) == {0, 1}


def test_what_is_not_wanted_is_not_built(
    environment: BeltArmEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment._arm, "render", lambda _: pytest.fail("rendered"))
    observation = environment.reset(0, TASK, ["observation.state"])
    assert list(observation.values) == ["observation.state"]


def test_the_same_seed_and_actions_give_the_same_observations_bit_for_bit(
    environment: BeltArmEnvironment,
) -> None:
    first, second, other = (play(environment, seed, 10) for seed in (5, 5, 6))
    for one, two in zip(first, second, strict=True):
        assert all(np.array_equal(one.values[name], two.values[name]) for name in one.values)
    assert not np.array_equal(first[0].values[FRONT], other[0].values[FRONT])


def test_the_point_cloud_has_the_cube_where_the_simulator_has_it(environment: BeltArmEnvironment) -> None:
    cloud = environment.reset(3, TASK, ["observation.point_cloud"]).values["observation.point_cloud"]
    centre = environment._arm.cube_position
    near = cloud[np.abs(cloud - centre).max(axis=1) < 0.0176]
    assert len(near) > 20
    assert near[:, 2].max() == pytest.approx(centre[2] + 0.0175, abs=0.002)  # the upper face


def test_depth_and_intrinsics_agree_with_the_cube_s_distance(environment: BeltArmEnvironment) -> None:
    wanted = [FRONT + suffix for suffix in (".depth", ".intrinsics", ".extrinsics")]
    values = environment.reset(3, TASK, wanted).values
    world_to_camera = np.linalg.inv(values[f"{FRONT}.extrinsics"].astype(np.float64))
    cube = world_to_camera @ [*environment._arm.cube_position, 1.0]
    column, row, _ = values[f"{FRONT}.intrinsics"] @ (cube[:3] / cube[2])
    depth_m = values[f"{FRONT}.depth"][int(row), int(column)]
    assert depth_m == pytest.approx(cube[2], abs=0.03)  # its face is nearer than its centre


def test_an_episode_of_the_expert_ends_in_success_and_the_metrics_say_so(
    environment: BeltArmEnvironment,
) -> None:
    environment.reset(11, TASK, [])
    rewards = []
    ended = False
    while not ended:
        step = environment.step(expert.plan_from(environment._arm, 1)[0])
        rewards.append(step.reward)
        ended = step.ended
    assert (step.terminated, step.truncated, sum(rewards)) == (True, False, 1.0)
    metrics = environment.metrics()
    assert metrics.success
    assert metrics.values["largest_height_m"] > 0.07
    assert 0.0 < metrics.values["success_s"] < SPEC.episode_limit_s


def test_an_arm_that_stands_still_is_truncated_at_the_limit(environment: BeltArmEnvironment) -> None:
    start = environment.reset(1, TASK, ["observation.state"]).values["observation.state"]
    steps = 0
    while not (step := environment.step(start)).ended:
        steps += 1
    assert (step.truncated, step.terminated) == (True, False)
    assert steps + 1 == round(SPEC.episode_limit_s * SPEC.control_rate_hz)
    assert not environment.metrics().success


@pytest.mark.parametrize(
    ("task", "wanted", "problem"),
    [
        ("fly", (), "belt_arm: found task 'fly', expected 'pick up the red cube'"),
        (TASK, ("observation.smell",), "asked for observation.smell, which it does not show"),
    ],
)
def test_what_the_arm_does_not_have_is_refused(
    environment: BeltArmEnvironment, task: str, wanted: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(EnvError, match=problem):
        environment.reset(0, task, wanted)


@pytest.mark.parametrize("action", [[0.0] * 5, [0.0] * 5 + [np.nan], [[0.0] * 6]])
def test_an_action_of_another_shape_or_not_finite_is_refused(
    environment: BeltArmEnvironment, action: list[float]
) -> None:
    environment.reset(0, TASK, [])
    with pytest.raises(EnvError, match="belt_arm: action: found"):
        environment.step(np.array(action))


def test_a_feature_that_does_not_fit_its_kind_is_refused() -> None:
    with pytest.raises(EnvError, match=r"rgb: found shape \[4, 4\], expected \[H, W, 3\]"):
        Feature(FeatureKind.RGB, (4, 4))
    with pytest.raises(EnvError, match="point_cloud: found meaning '', expected 'world' or 'camera'"):
        Feature(FeatureKind.POINT_CLOUD, (None, 3))


@pytest.mark.parametrize("kind", FeatureKind)
def test_every_kind_has_a_form(kind: FeatureKind) -> None:
    assert FORMS[kind].axes


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "shows nothing; asked for observation.state"),
        ({"observation.state": np.zeros(6)}, "found float64, expected an array of float32"),
        ({"observation.state": [0.0] * 6}, "found list, expected an array of float32"),
        ({"observation.state": np.zeros(5, np.float32)}, r"found shape \[5\], expected \[6\]"),
        (
            {"observation.state": np.array([0, 0, np.inf, 0, np.nan, 0], np.float32)},
            r"belt_arm: observation\.state\[2\] at 0\.5 s: found inf, expected finite values",
        ),
    ],
)
def test_an_observation_that_is_not_as_promised_is_told(values: dict[str, object], problem: str) -> None:
    observation = EnvironmentObservation(values, 0.5)  # type: ignore[arg-type]
    with pytest.raises(EnvError, match=problem):
        require_promised(SPEC, ["observation.state"], observation)


@pytest.mark.parametrize("kind", [kind for kind, form in FORMS.items() if np.dtype(form.dtype).kind == "f"])
def test_nan_is_refused_except_where_it_means_that_nothing_is_seen(kind: FeatureKind) -> None:
    name = next(name for name, feature in SPEC.features.items() if feature.kind is kind)
    shape = [length or 2 for length in SPEC.features[name].shape]
    shown = EnvironmentObservation({name: np.full(shape, np.nan, FORMS[kind].dtype)}, 0.5)
    means_unseen = kind in (FeatureKind.DEPTH, FeatureKind.POINT_CLOUD)
    refusal = pytest.raises(NotFiniteError, match=r"\[0\] at 0\.5 s: found nan")
    with nullcontext() if means_unseen else refusal:
        require_promised(SPEC, [name], shown)
