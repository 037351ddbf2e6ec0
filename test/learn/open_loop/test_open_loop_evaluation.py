# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A data set takes the place of a simulator, and its actions that of a policy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from remote_inference.bags.lerobot_dataset import DatasetError, LeRobotDatasetReader
from remote_inference.base.errors import UserError
from remote_inference.base.policy import PolicyError
from remote_inference.learn.environment import EnvError
from remote_inference.learn.environments.recorded_environment import RecordedEnvironment
from remote_inference.learn.evaluation.policies import PolicyPlace
from remote_inference.learn.evaluation.policies.local_policies import open_trajectory
from remote_inference.tools.cli import main
from support.environments.drawer import FRONT, STATE
from support.evaluation.drawer_evaluation import play, write_evaluation
from support.importable import python_path

EPISODES = 3


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes of a policy whose noise is the seed's, by `evaluate --save`."""
    folder = tmp_path_factory.mktemp("saved")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", python_path())
        path = write_evaluation(folder, episodes=EPISODES)
        assert (
            main(["evaluate", str(path), "--out", str(folder / "out"), "--save", str(folder / "data")]) == 0
        )
    return folder / "data"


@pytest.fixture
def data(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "data"))


def write_open_loop(folder: Path, data: Path, **changes: Any) -> Path:
    source = {"name": "recording", "options": {"path": str(data)}}
    return write_evaluation(folder, **{"environment": source, "episodes": EPISODES, **changes})


def test_a_policy_has_no_error_against_what_it_did_itself(data: Path, tmp_path: Path) -> None:
    """Images are shown as the video has them, which this policy does not look at."""
    policies = {"pull": {"path": "pull.manifest.yaml"}, "same": {"kind": "trajectory", "path": str(data)}}
    _, results = play(write_open_loop(tmp_path, data, policies=policies), tmp_path / "out")
    assert len(results) == 2 * EPISODES
    for one in results:
        assert one.success
        assert one.metrics["action_error_max"] == pytest.approx(0.0, abs=1e-6)
        assert one.steps == LeRobotDatasetReader(data).episodes[one.seed].length


@pytest.mark.parametrize(("tolerance", "success"), [(0.151, True), (0.149, False)])
def test_an_error_is_the_distance_to_what_was_recorded(data: Path, tolerance: float, success: bool) -> None:
    recorded = RecordedEnvironment(str(data), tolerance)
    names = recorded.spec.actions.names
    recorded.reset(1, "open", [STATE])
    episode = LeRobotDatasetReader(data).read(LeRobotDatasetReader(data).episodes[1])
    for row in episode.actions:
        step = recorded.step(row + np.array([0.1, -0.2]))
    assert step.truncated
    assert step.reward == pytest.approx(-0.15)
    metrics = recorded.metrics()
    assert metrics.success is success
    assert metrics.values["action_error_mean"] == pytest.approx(0.15)
    assert metrics.values["action_error_rms"] == pytest.approx(np.sqrt(0.025))
    assert metrics.values["action_error_max"] == pytest.approx(0.2)
    assert metrics.values[f"action_error.{names[0]}"] == pytest.approx(0.1)
    with pytest.raises(EnvError, match="expected a reset"):
        recorded.step(episode.actions[0])


@pytest.mark.parametrize(("tolerance", "success"), [(0.21, True), (0.19, False)])
def test_errors_in_different_units_are_not_averaged(data: Path, tolerance: float, success: bool) -> None:
    file = data / "meta" / "info.json"
    info = json.loads(file.read_text())
    info["features"]["action"]["units"] = ["rad", "m/s"]
    file.write_text(json.dumps(info))
    recorded = RecordedEnvironment(str(data), tolerance)
    recorded.reset(0, "open", [STATE])
    reader = LeRobotDatasetReader(data)
    step = recorded.step(reader.read(reader.episodes[0]).actions[0] + np.array([0.1, -0.2]))
    assert step.reward == pytest.approx(-0.2), "of the worst unit"
    metrics = recorded.metrics()
    assert metrics.success is success
    means = {name: value for name, value in metrics.values.items() if "mean" in name}
    assert means == pytest.approx({"action_error_mean.rad": 0.1, "action_error_mean.m/s": 0.2})
    assert metrics.values["action_error_max.m/s"] == pytest.approx(0.2)


def test_what_was_recorded_is_shown_whatever_is_commanded(data: Path) -> None:
    recorded, other = RecordedEnvironment(str(data)), RecordedEnvironment(str(data))
    shown = recorded.reset(2, "open", [STATE, FRONT])
    assert shown.values[FRONT].shape == (4, 6, 3)
    other.reset(2, "open", [STATE, FRONT])
    for _ in range(3):
        one, two = recorded.step(np.zeros(2)), other.step(np.ones(2))
        for feature in (STATE, FRONT):
            assert np.array_equal(one.observation.values[feature], two.observation.values[feature])
    assert one.reward != two.reward


def test_seeds_take_the_episodes_in_turn(data: Path) -> None:
    recorded = RecordedEnvironment(str(data))
    first, again = (recorded.reset(seed, "open", [STATE]).values[STATE] for seed in (1, 1 + EPISODES))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, recorded.reset(2, "open", [STATE]).values[STATE])


def test_pictures_may_be_images_in_the_table(data: Path, tmp_path: Path) -> None:
    """As LeRobot writes them without videos."""
    file = next((data / "data").rglob("*.parquet"))
    table = pq.read_table(str(file))
    content = BytesIO()
    Image.fromarray(np.full((4, 6, 3), 77, np.uint8)).save(content, "PNG")
    column = [{"bytes": content.getvalue(), "path": None}] * table.num_rows
    pq.write_table(table.append_column(FRONT, pa.array(column)), str(file))
    path = data / "meta" / "info.json"
    info = json.loads(path.read_text())
    info["features"][FRONT]["dtype"] = "image"
    path.write_text(json.dumps(info))
    shown = RecordedEnvironment(str(data)).reset(0, "open", [FRONT]).values[FRONT]
    assert np.array_equal(shown, np.full((4, 6, 3), 77, np.uint8))


def _cut(pattern: str) -> Callable[[Path], None]:
    def cut(data: Path) -> None:
        file = next(data.glob(pattern))
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    return cut


def _remove(pattern: str) -> Callable[[Path], None]:
    return lambda data: next(data.glob(pattern)).unlink()


def _change_info(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def apply(data: Path) -> None:
        path = data / "meta" / "info.json"
        info = json.loads(path.read_text())
        change(info)
        path.write_text(json.dumps(info))

    return apply


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_remove("meta/info.json"), r"info\.json: cannot be read"),
        (_change_info(lambda info: info.update(codebase_version="v2.1")), r"found 'v2\.1', expected 'v3\.0'"),
        (
            _change_info(lambda info: info["features"]["action"].update(names=None)),
            r"features\.action\.names",
        ),
        (_change_info(lambda info: info["features"][FRONT].update(shape=[4, 6, 1])), r"expected \[height"),
        (_remove("meta/episodes/*/*.parquet"), "found no episode"),
        (_cut("meta/episodes/*/*.parquet"), "cannot be read"),
        (_remove("data/*/*.parquet"), r"file-000\.parquet: cannot be read"),
        (_cut("data/*/*.parquet"), r"file-000\.parquet: cannot be read"),
        (_remove(f"videos/{FRONT}/*/*.mp4"), r"file-000\.mp4: cannot be read"),
        (_cut(f"videos/{FRONT}/*/*.mp4"), r"file-000\.mp4"),
    ],
)
def test_what_is_wrong_with_a_data_set_is_named(
    data: Path, spoil: Callable[[Path], None], problem: str
) -> None:
    spoil(data)
    with pytest.raises(UserError, match=problem):
        RecordedEnvironment(str(data)).reset(0, "open", [STATE, FRONT])


def test_an_episode_that_is_shorter_than_it_says_is_named(data: Path) -> None:
    file = next((data / "meta" / "episodes").rglob("*.parquet"))
    table = pq.read_table(str(file)).to_pylist()
    table[0]["length"] += 1
    pq.write_table(pa.Table.from_pylist(table), str(file))
    with pytest.raises(DatasetError, match=r"episode 0: found \d+ ticks, expected \d+"):
        RecordedEnvironment(str(data)).reset(0, "open", [STATE])


def test_recorded_actions_of_other_joints_are_refused(data: Path, tmp_path: Path) -> None:
    recorded = RecordedEnvironment(str(data)).spec
    _change_info(lambda info: info["features"]["action"].update(names=["slide", "turn"]))(data)
    with pytest.raises(PolicyError, match="found slide, turn, expected"):
        open_trajectory(PolicyPlace(data), recorded, 1)
    with pytest.raises(PolicyError, match=r"info\.json: cannot be read"):
        open_trajectory(PolicyPlace(tmp_path), recorded, 1)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("inf")])
def test_a_tolerance_is_a_number_above_0(data: Path, tolerance: float) -> None:
    with pytest.raises(EnvError, match="tolerance: found"):
        RecordedEnvironment(str(data), tolerance)
