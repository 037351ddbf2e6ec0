# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Environments of gymnasium through a mapping: names, bounds, success, and mistakes in the mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

import yaml  # noqa: E402  after what is optional

from remote_inference.base.documents.document import DocumentError  # noqa: E402
from remote_inference.learn.environment import EnvError, require_promised  # noqa: E402
from remote_inference.learn.environments import make_environment  # noqa: E402

MAPPING = {
    "control_rate_hz": 10.0,
    "action_kind": "position",
    "action_names": ["x", "y"],
    "state": [{"key": "agent/position", "names": ["x", "y"]}, {"key": "goal", "names": ["goal"]}],
    "images": {"observation.images.top": "pixels"},
    "tasks": ["reach the goal"],
    "success": "is_success",
    "metrics": ["distance"],
    "episode_limit_s": 1.0,
}


class Reach(gymnasium.Env[dict[str, Any], Any]):
    """A point that goes where it is told; done within 0.1 of the goal."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  as gymnasium declares it

    def __init__(self, render_mode: str = "rgb_array", speed: float = 1.0) -> None:
        box = gymnasium.spaces.Box
        self.render_mode = render_mode
        self.speed = speed
        self.action_space = box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = gymnasium.spaces.Dict(
            {
                "agent": gymnasium.spaces.Dict({"position": box(-1.0, 1.0, (2,), np.float64)}),
                "goal": box(-1.0, 1.0, (1,), np.float64),
                "pixels": box(0, 255, (4, 6, 3), np.uint8),
            }
        )

    def _see(self) -> dict[str, Any]:
        pixels = np.full((4, 6, 3), 7, np.uint8)
        return {"agent": {"position": self._position}, "goal": np.array([self._goal]), "pixels": pixels}

    def _tell(self) -> dict[str, Any]:
        distance = float(np.abs(self._position[0] - self._goal))
        return {"is_success": distance < 0.1, "distance": distance}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._position, self._goal = np.zeros(2), self.np_random.uniform(0.5, 0.9)
        return self._see(), self._tell()

    def step(self, action: Any) -> Any:
        self._position = self.speed * np.asarray(action, np.float64)
        return self._see(), -self._tell()["distance"], False, False, self._tell()

    def render(self) -> Any:
        return np.zeros((8, 8, 3), np.uint8)


@pytest.fixture(autouse=True)
def _registered() -> None:
    if "test/Reach-v0" not in gymnasium.registry:
        gymnasium.register("test/Reach-v0", entry_point=Reach, disable_env_checker=True)


def write(folder: Path, **changes: Any) -> str:
    path = folder / "mapping.yaml"
    content = {key: value for key, value in {**MAPPING, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_a_mapped_environment_is_reset_stepped_and_judged(tmp_path: Path) -> None:
    environment = make_environment("gymnasium:test/Reach-v0", {"mapping": write(tmp_path)})
    wanted = list(environment.spec.features)
    observation = environment.reset(3, "reach the goal", wanted)
    require_promised(environment.spec, wanted, observation)
    goal = observation.values["observation.state"][2]
    step = environment.step(np.array([goal - 0.5, 0.0]))
    assert not step.ended
    step = environment.step(np.array([goal, 0.0]))
    assert (step.terminated, step.truncated) == (True, False)
    assert step.observation.time_s == pytest.approx(0.2)
    metrics = environment.metrics()
    assert metrics.success
    assert metrics.values["distance"] == pytest.approx(0.0, abs=1e-6)
    assert environment.render().shape == (8, 8, 3)
    environment.close()


def test_the_same_seed_gives_the_same_goal_and_another_another(tmp_path: Path) -> None:
    environment = make_environment("gymnasium:test/Reach-v0", {"mapping": write(tmp_path)})
    goals = [
        environment.reset(seed, "reach the goal", ["observation.state"]).values["observation.state"][2]
        for seed in (1, 1, 2)
    ]
    assert goals[0] == goals[1] != goals[2]


def test_an_episode_without_success_is_truncated_at_its_limit(tmp_path: Path) -> None:
    environment = make_environment("gymnasium:test/Reach-v0", {"mapping": write(tmp_path)})
    environment.reset(0, "reach the goal", [])
    steps = [environment.step(np.zeros(2)) for _ in range(10)]
    assert [step.truncated for step in steps] == [False] * 9 + [True]
    assert not environment.metrics().success


def test_actions_are_held_within_the_space(tmp_path: Path) -> None:
    environment = make_environment("gymnasium:test/Reach-v0", {"mapping": write(tmp_path)})
    environment.reset(0, "reach the goal", ["observation.state"])
    step = environment.step(np.array([9.0, -9.0]))
    assert step.observation.values["observation.state"][:2].tolist() == [1.0, -1.0]


def test_limits_of_the_mapping_replace_those_of_the_space(tmp_path: Path) -> None:
    """As gym-aloha's, whose space ends at 1 rad, before the arm's first position."""
    mapping = write(tmp_path, action_limits={"y": [-0.5, 3.0]})
    environment = make_environment("gymnasium:test/Reach-v0", {"mapping": mapping})
    assert (environment.spec.actions.lower, environment.spec.actions.upper) == ((-1.0, -0.5), (1.0, 3.0))
    environment.reset(0, "reach the goal", ["observation.state"])
    for action, reached in ((9.0, [1.0, 3.0]), (-9.0, [-1.0, -0.5])):
        step = environment.step(np.array([action, action]))
        assert step.observation.values["observation.state"][:2].tolist() == reached


def test_options_reach_the_environment(tmp_path: Path) -> None:
    mapping = write(tmp_path, options={"speed": 0.5})
    environment = make_environment("gymnasium:test/Reach-v0", {"mapping": mapping})
    environment.reset(0, "reach the goal", ["observation.state"])
    step = environment.step(np.array([1.0, 0.0]))
    assert step.observation.values["observation.state"][0] == 0.5


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"action_names": ["x"]}, "expected a Box of 1 entries, as action_names has"),
        ({"state": [{"key": "agent/speed", "names": ["x"]}]}, "found no speed in the observation, which has"),
        (
            {"state": [{"key": "goal", "names": ["x", "y"]}]},
            "found 1 entries, expected one for each of the 2",
        ),
        ({"images": {"observation.images.top": "agent/position"}}, r"rgb: found shape \[2\]"),
        (
            {"action_limits": {"z": [0, 1]}},
            r"action_limits: found z: \[0, 1\], expected a name of action_names",
        ),
        ({"action_limits": {"x": [1, 1]}}, r"action_limits: found x: \[1, 1\], expected a name"),
        ({"options": {"weight": 3}}, "unexpected keyword argument 'weight'"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(EnvError, match=problem):
        make_environment("gymnasium:test/Reach-v0", {"mapping": write(tmp_path, **changes)})


def test_a_mapping_without_a_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="success"):
        make_environment("gymnasium:test/Reach-v0", {"mapping": write(tmp_path, success=None)})


def test_a_metric_that_is_not_told_is_named(tmp_path: Path) -> None:
    mapping = write(tmp_path, metrics=["coverage"])
    environment = make_environment("gymnasium:test/Reach-v0", {"mapping": mapping})
    environment.reset(0, "reach the goal", [])
    environment.step(np.zeros(2))
    with pytest.raises(EnvError, match="metrics: found no coverage in info, which has is_success, distance"):
        environment.metrics()


def test_an_episode_without_a_step_has_no_metrics_that_only_steps_compute(tmp_path: Path) -> None:
    """As gym-pusht's coverage: a policy that cannot answer at all has failed the episode all the same."""
    mapping = write(tmp_path, metrics=["coverage", "distance"])
    environment = make_environment("gymnasium:test/Reach-v0", {"mapping": mapping})
    environment.reset(0, "reach the goal", [])
    assert set(environment.metrics().values) == {"distance"}


def test_the_last_reward_may_be_a_metric(tmp_path: Path) -> None:
    environment = make_environment(
        "gymnasium:test/Reach-v0", {"mapping": write(tmp_path, metrics=["reward"])}
    )
    environment.reset(0, "reach the goal", [])
    rewards = [environment.step(np.array([x, 0.0])).reward for x in (0.1, 0.3)]
    assert environment.metrics().values == {"reward": rewards[-1]}


@pytest.mark.parametrize("name", ["gymnasium:nobody/Knows-v0", "gymnasium:Pendulum-v9999"])
def test_an_environment_that_gymnasium_does_not_know_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(EnvError, match=name.removeprefix("gymnasium:")[:6]):
        make_environment(name, {"mapping": write(tmp_path)})
