# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Random actions stay within bounds, trajectories are played as recorded, manifests as their server does."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from remote_inference.base.policy import PolicyError, PolicyObservation
from remote_inference.learn.environment import ActionSpec
from remote_inference.learn.evaluation.policies import POLICIES, PolicyPlace
from remote_inference.learn.evaluation.policies.local_policies import (
    ManifestPolicy,
    open_manifest,
    open_random,
    open_trajectory,
)
from support.environments.drawer import Drawer
from support.evaluation.drawer_evaluation import write_evaluation

SPEC = Drawer().spec
SEEN = PolicyObservation(np.zeros(2, np.float32), {}, "open")
ROWS = np.linspace(-1, 1, 30).reshape(15, 2)


def save(folder: Path, **arrays: object) -> Path:
    path = folder / "way.npz"
    np.savez(path, **arrays)
    return path


def test_every_kind_can_be_found() -> None:
    assert [callable(POLICIES.get(name)) for name in POLICIES.names] == [True] * 4


def test_random_actions_are_within_bounds_and_belong_to_the_seed() -> None:
    policy = open_random(PolicyPlace(), SPEC, 1)
    one, again, other = (policy.begin(seed)(SEEN, 0).chunk_robot for seed in (3, 3, 4))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert (one >= SPEC.actions.lower).all()
    assert (one <= SPEC.actions.upper).all()
    episode = policy.begin(3)
    episode(SEEN, 0)
    assert not np.array_equal(episode(SEEN, 10).chunk_robot, one)


def test_random_actions_need_bounds_and_no_path() -> None:
    wide = ActionSpec("position", ("turn", "pull"), (-1.0, -np.inf), (1.0, 1.0), (1.0, 1.0))
    with pytest.raises(PolicyError, match="action pull has no bounds"):
        open_random(PolicyPlace(), replace(SPEC, actions=wide), 1)
    with pytest.raises(PolicyError, match=r"path: found 'way\.npz', expected none"):
        open_random(PolicyPlace(Path("way.npz")), SPEC, 1)


def test_a_trajectory_goes_on_from_the_episodes_step_and_ends_at_its_last_row(tmp_path: Path) -> None:
    policy = open_trajectory(PolicyPlace(save(tmp_path, actions=ROWS)), SPEC, 1)
    assert policy.spec.chunk_size == 10  # a second
    rows = ROWS.astype(np.float32)
    assert np.array_equal(policy.begin(0)(SEEN, 0).chunk_robot, rows[:10])
    assert np.array_equal(policy.begin(0)(SEEN, 12).chunk_robot, rows[[12, 13, *[14] * 8]])


def test_the_columns_of_a_trajectory_go_by_name(tmp_path: Path) -> None:
    policy = open_trajectory(PolicyPlace(save(tmp_path, actions=ROWS, names=["pull", "turn"])), SPEC, 1)
    assert np.array_equal(policy.begin(0)(SEEN, 0).chunk_robot, ROWS[:10, ::-1].astype(np.float32))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"action": ROWS}, "found no array 'actions'"),
        ({"actions": ROWS[:, :1]}, r"actions: found shape \[15, 1\], expected \[T, 2\]"),
        ({"actions": ROWS[:0]}, r"found shape \[0, 2\]"),
        ({"actions": np.full((3, 2), np.nan)}, "expected finite numbers"),
        ({"actions": np.full((3, 2), "a")}, "expected finite numbers"),
        ({"actions": np.full((3, 2), None)}, "cannot be read"),
        ({"actions": ROWS, "names": ["pull", "push"]}, "names: found pull, push, expected turn, pull"),
    ],
)
def test_a_file_that_is_no_trajectory_is_named(tmp_path: Path, arrays: dict[str, object], said: str) -> None:
    path = save(tmp_path, **arrays)
    with pytest.raises(PolicyError, match=said) as error:
        open_trajectory(PolicyPlace(path), SPEC, 1)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 torn", b"text"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "way.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PolicyError, match=r"way\.npz: cannot be read"):
        open_trajectory(PolicyPlace(path), SPEC, 1)


def open_drawer_policy(folder: Path, policy: str, num_envs: int = 2, task: str = "") -> ManifestPolicy:
    write_evaluation(folder, policy)
    path = folder / "pull.manifest.yaml"
    if task:
        path.write_text(path.read_text() + f"default_task: {task}\n")
    return open_manifest(PolicyPlace(path), SPEC, num_envs)


def test_a_manifests_policy_is_called_on_one_thread_and_told_the_manifests_task(tmp_path: Path) -> None:
    policy = open_drawer_policy(tmp_path, "support.evaluation.told_policy:load", task="open it")
    seen = PolicyObservation(np.zeros(2, np.float32), {}, "")
    versions = set()
    threads = [
        threading.Thread(target=lambda: versions.add(policy.begin(0)(seen, 0).policy_version))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    policy.close()
    assert versions == {"open it on 1 thread"}


def test_an_answer_that_is_not_finite_is_the_policys_error(tmp_path: Path) -> None:
    policy = open_drawer_policy(tmp_path, "support.evaluation.failing_policy:endless")
    with pytest.raises(PolicyError, match="non-finite"):
        policy.begin(0)(SEEN, 0)
    policy.close()


def test_a_policy_of_one_session_plays_one_episode_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="num_envs: found 2, expected 1"):
        open_drawer_policy(tmp_path, "support.evaluation.failing_policy:selfish")
    policy = open_drawer_policy(tmp_path, "support.evaluation.failing_policy:selfish", num_envs=1)
    policy.begin(0)(SEEN, 0)
    policy.close()


def test_a_policy_that_hangs_is_an_error_in_time(tmp_path: Path) -> None:
    write_evaluation(tmp_path, "support.evaluation.told_policy:hanging")
    from remote_inference.server.manifest.manifest import load_manifest

    manifest = load_manifest(tmp_path / "pull.manifest.yaml")
    policy = ManifestPolicy("pull", manifest, 1, answer_s=0.2)
    with pytest.raises(PolicyError, match=r"pull: it has not answered for 0\.2 s"):
        policy.begin(0)(SEEN, 0)


def test_the_calls_of_other_episodes_are_not_counted_against_a_call(tmp_path: Path) -> None:
    policy = open_drawer_policy(tmp_path, "support.evaluation.told_policy:load")
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(policy.call, partial(time.sleep, 0.5), 2.0) for _ in range(6)]
        assert [one.result(30.0) for one in asked] == [None] * 6
    policy.close()


def test_a_missing_path_is_named() -> None:
    for name, key in (("manifest", "path"), ("trajectory", "path"), ("server", "server")):
        with pytest.raises(PolicyError, match=f"{key}: missing"):
            POLICIES.get(name)(PolicyPlace(), SPEC, 1)


def test_a_place_of_another_kind_is_named() -> None:
    for name in ("manifest", "trajectory", "random"):
        with pytest.raises(PolicyError, match="server: found '/policy_server', expected none"):
            POLICIES.get(name)(PolicyPlace(server="/policy_server"), SPEC, 1)
