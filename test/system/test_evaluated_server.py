# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An evaluation asks a running server: as the same policy here, after robots, and again when it returns."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from remote_inference.base.policy import PolicyError, PolicyObservation
from remote_inference.learn.evaluation.document import EpisodeKey
from remote_inference.learn.evaluation.policies import ServerLostError
from remote_inference.learn.evaluation.results import EpisodeResult, ResultsError
from remote_inference.learn.nodes import evaluated_server
from remote_inference.learn.nodes.evaluated_server import ServerPolicy, read_spec
from remote_inference.msg import ActionChunk, ServerStatus
from remote_inference.srv import GetStatus
from support.environments.drawer import FRONT, Drawer
from support.evaluation.drawer_evaluation import play, write_evaluation
from support.importable import python_path
from support.nodes.fleet import FleetRobot
from support.nodes.remembering_drawer_policy import NAMES
from support.nodes.rig import DEADLINE_S, Rig

SERVER = "/policy_server"
KILLS = int(os.environ.get("EVALUATION_KILLS", "3"))
LIVE = {"live": {"kind": "server", "server": SERVER}}
HERE = {"here": {"path": "remembering.manifest.yaml"}}
SLOW = {"environment": {"name": "support.evaluation.trying_drawer:TryingDrawer", "options": {"step_s": 0.02}}}


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that dies is noticed sooner."""
    wait_for(monkeypatch, call_s=15.0, answer_s=5.0, return_s=DEADLINE_S)


def wait_for(monkeypatch: pytest.MonkeyPatch, **limits_s: float) -> None:
    for name, limit_s in limits_s.items():
        monkeypatch.setattr(evaluated_server, name.upper(), limit_s)


def write_manifest(
    folder: Path, max_sessions: int = 2, weights: dict[str, Any] | None = None, **options: str | int
) -> Path:
    model = {
        "backend": "support.nodes.remembering_drawer_policy:RememberingPolicy",
        "path": ".",
        "options": options,
    }
    content = {"model": model, "max_sessions": max_sessions, "weights": weights or {}}
    path = folder / "remembering.manifest.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def start_server(rig: Rig, manifest: Path) -> None:
    """Start the server and wait until it has loaded its policy: an evaluation has less patience."""
    rig.start_server(manifest)
    rig.call(GetStatus, f"{SERVER}/get_status")


class Playing:
    """An evaluation on a thread of its own; `watch` sees how many episodes have ended."""

    def __init__(self, path: Path, out: Path, watch: Callable[[int], None] = lambda _: None) -> None:
        self.ended = 0
        self._watch = watch
        self._outcome: list[Any] = []
        self._thread = threading.Thread(target=self._play, args=(path, out), daemon=True)
        self._thread.start()

    def _play(self, path: Path, out: Path) -> None:
        try:
            self._outcome.append(play(path, out, report=self._tell))
        except BaseException as error:
            self._outcome.append(error)

    def _tell(self, key: EpisodeKey, result: EpisodeResult | None, why: str) -> None:
        self.ended += 1
        self._watch(self.ended)

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(3 * DEADLINE_S)
        assert not self._thread.is_alive()
        if isinstance(self._outcome[0], BaseException):
            raise self._outcome[0]
        return self._outcome[0]


@pytest.fixture
def playing() -> Iterator[Callable[..., Playing]]:
    made: list[Playing] = []

    def start(*arguments: Any) -> Playing:
        made.append(Playing(*arguments))
        return made[-1]

    yield start
    for one in made:
        one._thread.join(3 * DEADLINE_S)


def by_policy(results: list[EpisodeResult], policy: str) -> list[dict[str, Any]]:
    return [{**one.outcome, "policy": ""} for one in results if one.policy == policy]


def test_a_served_policy_plays_as_the_same_policy_here_bit_for_bit(rig: Rig, tmp_path: Path) -> None:
    start_server(rig, write_manifest(tmp_path))
    path = write_evaluation(
        tmp_path,
        policies={**LIVE, **HERE},
        tasks=["open", "look"],
        episodes=3,
        num_envs=2,
        modes=["stepped", "charged"],
        latencies_ms=[200],
    )
    tally, results = play(path, tmp_path / "out")
    assert (tally.played, dict(tally.failures), tally.unplayed) == (24, {}, {})
    assert by_policy(results, "live") == by_policy(results, "here")
    assert {one.policy_versions for one in results} == {("remembering-1",)}
    assert all(one.success for one in results)
    assert all(one.inference.count > 1 and one.inference.mean_ms for one in results)
    status = rig.call(GetStatus, f"{SERVER}/get_status").status
    assert (list(status.sessions), status.errors) == ([], 0)


def test_a_server_that_is_killed_costs_its_episodes_and_is_found_again(
    rig: Rig, tmp_path: Path, playing: Callable[..., Playing]
) -> None:
    manifest = write_manifest(tmp_path)
    start_server(rig, manifest)
    path = write_evaluation(tmp_path, policies=LIVE, episodes=10, num_envs=2, **SLOW)
    run = playing(path, tmp_path / "out")
    rig.wait_for(lambda: run.ended >= 3, "three episodes")
    rig.server.kill()
    rig.server.wait(DEADLINE_S)
    start_server(rig, manifest)
    tally, results = run.result()
    assert 1 <= tally.failures["network"] == len(tally.unplayed) <= 2
    assert all(why.startswith("network: ") and SERVER in why for why in tally.unplayed.values())
    assert len(results) == 10 - len(tally.unplayed)
    # Two sessions at the begin, and one or two that waited for the server: what it cost is in the timing.
    assert 3 <= sum(one.session_wait_ms > 0 for one in results) <= 4
    assert {kind for one in results for kind in one.troubles} == set(), "none is an error of what was played"
    again, results = play(path, tmp_path / "out")
    assert (again.played, again.unplayed) == (len(tally.unplayed), {})
    assert sorted(one.key for one in results if one.troubles) == sorted(tally.unplayed)
    assert all(one.troubles in ({}, {"network": 1}) for one in results)
    whole = write_evaluation(tmp_path, policies=HERE, episodes=10, num_envs=2)
    assert by_policy(results, "live") == by_policy(play(whole, tmp_path / "whole")[1], "here")


def test_a_server_that_is_killed_at_random_moments_costs_no_episode_in_the_end(
    rig: Rig, tmp_path: Path, playing: Callable[..., Playing]
) -> None:
    manifest, out, rng = write_manifest(tmp_path), tmp_path / "out", random.Random(7)
    episodes = 6 * KILLS
    path = write_evaluation(tmp_path, policies=LIVE, episodes=episodes, num_envs=2, **SLOW)
    start_server(rig, manifest)
    run = playing(path, out)
    results: list[EpisodeResult] = []
    for _ in range(KILLS):
        target = run.ended + rng.randrange(1, 4)
        rig.wait_for(lambda run=run, target=target: run.has_ended or run.ended >= target, "episodes")
        time.sleep(rng.uniform(0.0, 0.2))  # a random moment is what this test is about
        rig.server.kill()
        rig.server.wait(DEADLINE_S)
        start_server(rig, manifest)
        if run.has_ended:
            run.result()
            run = playing(path, out)
    run.result()
    while len(results) < episodes:
        tally, results = play(path, out)
        assert tally.played, "a server that runs is asked"
    whole = write_evaluation(tmp_path, policies=HERE, episodes=episodes, num_envs=2)
    assert by_policy(results, "live") == by_policy(play(whole, tmp_path / "whole")[1], "here")


def test_a_robot_takes_the_place_of_an_episode_which_waits_for_it_to_leave(
    rig: Rig, tmp_path: Path, playing: Callable[..., Playing]
) -> None:
    start_server(rig, write_manifest(tmp_path, max_sessions=1, observation_steps=1))
    path = write_evaluation(tmp_path, policies=LIVE, episodes=6, **SLOW)
    run = playing(path, tmp_path / "out")
    rig.wait_for(lambda: run.ended >= 2, "two episodes")
    robot = FleetRobot(rig, "/robot", joints=NAMES, cameras=(FRONT,))
    robot.ask_all_the_time()
    rig.wait_for(lambda: run.ended >= 3 and len(robot.chunks) >= 30, "the displaced episode, and chunks")
    sessions = rig.call(GetStatus, f"{SERVER}/get_status").status.sessions
    assert list(sessions) == [robot.session.session_id]
    robot.rest()
    assert {chunk.status for chunk in robot.chunks} == {ActionChunk.OK}
    robot.close()
    tally, results = run.result()
    assert (dict(tally.failures), len(results)) == ({"network": 1}, 5)
    (why,) = tally.unplayed.values()
    assert "has ended the session, or is gone" in why


def test_a_server_of_another_policy_is_refused(rig: Rig, tmp_path: Path) -> None:
    start_server(rig, write_manifest(tmp_path, fingerprint="remembering-2"))
    path = write_evaluation(tmp_path, policies=LIVE, episodes=2)
    assert play(path, tmp_path / "out")[0].played == 2
    rig.group.stop()
    start_server(rig, write_manifest(tmp_path))
    path = write_evaluation(tmp_path, policies=LIVE, episodes=3)
    with pytest.raises(ResultsError, match=r"policies\.live: found results of version remembering-2"):
        play(path, tmp_path / "out")


@pytest.mark.parametrize(("weights", "version"), [(-1, "first"), (0, "first"), (3, "first@3")])
def test_results_of_other_live_weights_are_of_another_version(weights: int, version: str) -> None:
    """What a run begins with is compared with the versions in earlier results."""
    told = {"action_names": NAMES, "state_names": NAMES, "image_features": [FRONT], "chunk_size": 5}
    modes = {"continuation": "none", "serving_mode": "shared", "trained_fps": 10.0}
    status = ServerStatus(policy_fingerprint="first", weights_version=weights, **told, **modes)
    assert read_spec(status, Drawer().spec).fingerprint == version


def test_a_server_whose_weights_trainers_may_change_is_refused_on_request(rig: Rig, tmp_path: Path) -> None:
    start_server(rig, write_manifest(tmp_path, weights={"accept": True, "socket": "weights.socket"}))
    path = write_evaluation(tmp_path, policies=LIVE, robot={"accept_weight_updates": False})
    expected = (
        r"policies\.live: server /policy_server: robot\.accept_weight_updates: found false, expected true"
    )
    with pytest.raises(PolicyError, match=expected):
        play(path, tmp_path / "out")
    path = write_evaluation(tmp_path, policies=LIVE, episodes=1)
    assert play(path, tmp_path / "else")[0].played == 1


def test_a_server_that_never_returns_costs_every_episode_left(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for(monkeypatch, call_s=5.0, answer_s=2.0, return_s=0.0)
    start_server(rig, write_manifest(tmp_path))
    path = write_evaluation(tmp_path, policies=LIVE, episodes=4, num_envs=2, **SLOW)

    def kill_after_the_first(key: EpisodeKey, result: EpisodeResult | None, why: str) -> None:
        rig.server.kill()

    tally, results = play(path, tmp_path / "out", report=kill_after_the_first)
    assert len(results) == tally.played >= 1
    assert len(tally.unplayed) == 4 - tally.played >= 2
    assert set(tally.failures) == {"network"}


def test_a_server_that_cannot_serve_is_named(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_server(rig, write_manifest(tmp_path))
    with pytest.raises(PolicyError, match="num_envs: found 3, expected 2 at most"):
        ServerPolicy(SERVER, Drawer().spec, 3)
    wait_for(monkeypatch, call_s=0.5)
    with pytest.raises(PolicyError, match=r"server /nobody: .*no such service within"):
        ServerPolicy("/nobody", Drawer().spec, 1)


def test_an_evaluation_that_is_stopped_does_not_wait_for_its_server(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for(monkeypatch, answer_s=3 * DEADLINE_S)
    start_server(rig, write_manifest(tmp_path, observation_steps=1))
    policy = ServerPolicy(SERVER, Drawer().spec, 1)
    seen = PolicyObservation(np.zeros(2, np.float32), {FRONT: np.zeros((4, 6, 3), np.uint8)}, "open")
    episode = policy.begin(0)
    assert episode(seen, 0).policy_version == "remembering-1"
    rig.server.send_signal(signal.SIGSTOP)
    try:
        threading.Timer(0.5, policy.abort).start()
        with pytest.raises(ServerLostError, match="the evaluation has ended"):
            episode(seen, 1)
    finally:
        rig.server.send_signal(signal.SIGCONT)
        policy.close()
