# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A saved group holds what was played, and the verb plays, proves and shows one."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from remote_inference.base.lerobot_format import read_info
from remote_inference.learn.environment import Metrics
from remote_inference.learn.rollouts import Group, LocalPolicy, RolloutPool
from remote_inference.learn.rollouts.film_strip import draw_film_strip, find_camera
from remote_inference.learn.rollouts.pool import Isolation, prove_isolation
from remote_inference.learn.rollouts.saving import SavingError, save_lerobot, save_parquet
from remote_inference.tools.cli import main
from support.environments.drawer import FRONT, PullPolicy
from support.environments.drawer_pool import Drawers
from support.importable import python_path

MANIFEST = """
model: {backend: "support.environments.drawer_policy:load", path: .}
"""


def play(
    policy: PullPolicy, *, drawers: Drawers | None = None, keep: bool = True
) -> tuple[Group, Isolation | None]:
    async def run() -> tuple[Group, Isolation | None]:
        async with RolloutPool((drawers or Drawers(3)).transport, 3) as pool:
            group = await pool.run_group(LocalPolicy(policy), seed=10, keep_observations=keep)
            return group, await prove_isolation(pool, group) if keep else None

    return asyncio.run(run())


@pytest.fixture(scope="module")
def group() -> Group:
    return play(PullPolicy())[0]


def test_a_row_of_the_table_tells_what_was_executed_and_what_it_was_worth(
    group: Group, tmp_path: Path
) -> None:
    save_parquet(group, tmp_path / "group.parquet")
    rows = pq.read_table(tmp_path / "group.parquet").to_pylist()
    assert len(rows) == sum(map(len, group.trajectories))
    second = [row for row in rows if row["rollout"] == 1]
    one = group.trajectories[1]
    assert [row["action.pull"] for row in second] == one.actions[:, 1].tolist()
    assert [row["reward"] for row in second] == one.rewards.tolist()
    assert one.log_probabilities is not None
    assert [row["log_probability"] for row in second] == one.log_probabilities.tolist()
    assert [row["step"] for row in second] == list(range(len(one)))
    assert {row["advantage"] for row in second} == {group.advantages[1]}
    assert [row["terminated"] for row in second] == [False] * (len(one) - 1) + [True]
    assert second[0]["state.pull"] == pytest.approx(0.1)
    assert (second[5]["chunk_row"], second[5]["chunk_id"]) == (0, one.chunks[1].chunk_id)
    assert {row["policy_version"] for row in rows} == {"first"}


def test_a_group_without_observations_is_a_table_without_states(tmp_path: Path) -> None:
    bare, _ = play(PullPolicy(), keep=False)
    save_parquet(bare, tmp_path / "group.parquet")
    assert "state.pull" not in pq.read_table(tmp_path / "group.parquet").column_names
    with pytest.raises(SavingError, match="found no observations"):
        save_lerobot(bare, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_data_set_has_an_episode_per_rollout(group: Group, tmp_path: Path) -> None:
    out = tmp_path / "data"
    save_lerobot(group, out)
    info = read_info((out / "meta/info.json").read_bytes(), "info.json")
    assert info.features["observation.state"].joints == ("pull", "turn")
    assert info.features["action"].joints == ("turn", "pull")
    assert {
        "next.reward",
        "next.done",
        "next.success",
        "rollout.advantage",
        "rollout.log_probability",
    } <= set(info.features)
    data = pq.read_table(out / "data/chunk-000/file-000.parquet").to_pydict()
    assert len(data["index"]) == sum(map(len, group.trajectories))
    first = group.trajectories[0]
    assert data["action"][: len(first)] == pytest.approx(first.actions.astype(np.float32))
    assert sum(data["next.done"]) == sum(data["next.success"]) == 3
    assert data["next.reward"][: len(first)] == pytest.approx(first.rewards)
    with av.open(str(out / f"videos/{FRONT}/chunk-000/file-000.mp4")) as container:
        assert sum(1 for _ in container.decode(video=0)) == len(data["index"])
    told = json.loads((out / "meta/rollouts.json").read_text())
    assert [one["total_reward"] for one in told["rollouts"]] == group.rewards.tolist()
    assert told["policy_versions"] == ["first"]
    with pytest.raises(SavingError, match="exists, expected a new path"):
        save_lerobot(group, out)


def test_a_metric_that_is_not_finite_is_null_for_readers_that_know_no_nan(
    group: Group, tmp_path: Path
) -> None:
    metrics = Metrics(True, {"way": math.nan, "tries": 3})
    unknown = replace(group, trajectories=tuple(replace(one, metrics=metrics) for one in group.trajectories))
    save_lerobot(unknown, tmp_path / "data")
    text = (tmp_path / "data/meta/rollouts.json").read_text()
    told = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert [one["metrics"] for one in told["rollouts"]] == 3 * [{"way": None, "tries": 3}]


def test_statistics_of_a_policy_without_log_probabilities_are_numbers(tmp_path: Path) -> None:
    class Silent(PullPolicy):
        predict_with_log_probabilities = None  # type: ignore[assignment]

        def predict(self, batch: Any) -> Any:
            return PullPolicy.predict_with_log_probabilities(self, batch)[0]

    silent, _ = play(Silent())
    save_lerobot(silent, tmp_path / "data")
    assert "NaN" not in (tmp_path / "data/meta/stats.json").read_text()
    assert "rollout.log_probability" not in (tmp_path / "data/meta/info.json").read_text()


def test_the_film_strip_has_a_row_of_frames_per_rollout(group: Group, tmp_path: Path) -> None:
    assert find_camera(group) == FRONT
    draw_film_strip(group, FRONT, tmp_path / "strip.png")
    with Image.open(tmp_path / "strip.png") as strip:
        levels = np.asarray(strip.convert("L")).astype(int)
    right_of_label = levels[levels.shape[0] // 6, 195:]
    assert right_of_label[5] < right_of_label[-8] < 255, "the drawer opens, from dark to bright"
    assert levels.shape[0] == 3 * 111


def test_isolation_is_proven_by_repeating_each_rollout_in_another_slot(group: Group) -> None:
    _, isolation = play(PullPolicy())
    assert isolation is not None
    assert isolation.repeated == 3
    assert not isolation.is_proven, "these three share a process"


def test_slots_that_leak_are_found() -> None:
    class Leaking(Drawers):
        def make(self) -> Any:
            made = super().make()
            number = len(self.made)
            reset = made.reset

            def leak(seed: int, task: str, wanted: Any) -> Any:
                return reset(seed + (number == 2), task, wanted)

            made.reset = leak
            return made

    _, isolation = play(PullPolicy(), drawers=Leaking(3))
    assert isolation is not None
    assert isolation.repeated < 3


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path, str]:
    """Return what the verb printed for programs and wrote, and what it printed for people."""
    folder = tmp_path_factory.mktemp("rollouts")
    (folder / "pull.manifest.yaml").write_text(MANIFEST)
    command = [
        "rollouts",
        "--group",
        "3",
        "--environment",
        "support.environments.drawer:Drawer",
        "--seed",
        "10",
    ]
    command += ["--policy", str(folder / "pull.manifest.yaml")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", python_path())
        printed: list[str] = []
        for extra in (["--json", "--parquet", "group.parquet"], ["--max-steps", "5"]):
            with (folder / "out.txt").open("w") as out:
                patch.setattr("sys.stdout", out)
                assert main([*command, *extra]) == 0
            printed.append((folder / "out.txt").read_text())
    return json.loads(printed[0]), folder, printed[1]


def test_the_verb_plays_proves_and_draws_a_group(shown: tuple[dict[str, Any], Path, str]) -> None:
    told, folder, _ = shown
    assert told["isolation"] == {"rollouts": 3, "processes": 3, "repeated": 3, "is_proven": True}
    assert all(one["success"] for one in told["group"]["rollouts"])
    assert len({one["process_id"] for one in told["group"]["rollouts"]}) == 3
    assert len(pq.read_table(folder / "group.parquet")) == sum(
        one["steps"] for one in told["group"]["rollouts"]
    )
    assert (folder / told["film_strip"]).exists()


def test_the_verb_tells_people_what_came_of_each_rollout(shown: tuple[dict[str, Any], Path, str]) -> None:
    text = shown[2]
    assert "0 of 3 succeeded, 3 different rollouts" in text
    assert "3 processes; 3 of 3 rollouts came out equal" in text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--option", "mapping"], "--option: found 'mapping', expected KEY=VALUE"),
        (["--parquet", "."], "exists, expected a new path"),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rollouts", "--environment", "support.environments.drawer:Drawer", *arguments]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "found", "expected"),
    [
        ("--group", "0", 1),
        ("--max-steps", "0", 1),
        ("--execution-horizon", "0", 1),
        ("--temperature", "-1", 0),
    ],
)
def test_numbers_that_no_rollouts_can_be_played_with_are_named(
    option: str, found: str, expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["rollouts", "--environment", "support.environments.drawer:Drawer", option, found])
    assert ended.value.code == 2
    assert f"{option}: found {found}, expected {expected} or more" in capsys.readouterr().err


@pytest.mark.skipif(
    find_spec("ray") is not None, reason="Ray is installed: its own tests are in test/cluster"
)
def test_a_cluster_without_ray_is_refused_with_what_installs_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "pull.manifest.yaml").write_text(MANIFEST)
    command = ["rollouts", "--environment", "support.environments.drawer:Drawer", "--on", "auto", "--policy"]
    assert main([*command, str(tmp_path / "pull.manifest.yaml")]) == 2
    expected = "ray: found none, expected it installed: pip install 'ros-remote-inference[cluster]'"
    assert expected in capsys.readouterr().err


def test_an_environment_that_cannot_be_made_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "pull.manifest.yaml").write_text(MANIFEST)
    command = ["rollouts", "--group", "2", "--environment", "belt_harm", "--policy"]
    assert main([*command, str(tmp_path / "pull.manifest.yaml")]) == 2
    assert "did you mean 'belt_arm'" in capsys.readouterr().err
