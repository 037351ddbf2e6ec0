# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policies of this process: of manifests, random actions, which any must beat, and recorded trajectories."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from remote_inference.base.calls import Calls
from remote_inference.base.errors import UserError
from remote_inference.base.fingerprint import make_fingerprint
from remote_inference.base.policy import (
    Float32Array,
    Policy,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    Processors,
    ServingMode,
    find_chunk_problem,
    find_task_problem,
    predict_all,
)
from remote_inference.learn.environment import EnvironmentSpec
from remote_inference.learn.evaluation.policies import (
    EpisodePolicy,
    EvaluatedPolicy,
    PolicyAnswer,
    PolicyPlace,
)
from remote_inference.server.manifest.manifest import Manifest, load_manifest
from remote_inference.server.policies import load_policy

Result = TypeVar("Result")

LOAD_S = 1800.0  # until a policy that is not loaded is an error
ANSWER_S = 60.0  # until a policy that does not answer is an error


def open_manifest(place: PolicyPlace, _: EnvironmentSpec, num_envs: int) -> ManifestPolicy:
    """Load a manifest's policy. Raises PolicyError or DocumentError, without a path, too."""
    place.check("path", "a policy server's manifest")
    assert place.path is not None, "it was checked"
    return ManifestPolicy(place.path.name, load_manifest(place.path), num_envs)


class ManifestPolicy(EvaluatedPolicy):
    """A loaded policy, called on a thread of its own. While it computes it cannot be stopped.

    Each request is computed alone: in a batch a network may round by the batch's size, and then an episode
    would depend on which others are played beside it.
    """

    def __init__(self, name: str, manifest: Manifest, num_envs: int, answer_s: float = ANSWER_S) -> None:
        """name: for errors. answer_s: how long one chunk may take. Raises PolicyError or DocumentError."""
        self._name, self._manifest, self._answer_s = name, manifest, answer_s
        self._calls = Calls()
        self._moved_s = time.monotonic()  # when a call last began or ended
        self._calls.start(f"policy_{name}")
        try:
            self._policy: Policy = self.call(partial(load_policy, manifest.model), LOAD_S)
        except BaseException:
            self._calls.close()
            raise
        self.spec = self._policy.spec
        if self.spec.serving_mode is ServingMode.EXCLUSIVE and num_envs > 1:
            self.close()
            raise PolicyError(
                f"{name}: it serves one episode at a time; num_envs: found {num_envs}, expected 1"
            )

    def begin(self, seed: int) -> EpisodePolicy:
        del seed  # each request has its own, made of the episode's
        if self.spec.serving_mode is ServingMode.EXCLUSIVE:
            self.call(self._policy.reset, self._answer_s)
        processors = self._policy.make_processors()
        return lambda observation, _: self.call(
            partial(self._answer, processors, observation), self._answer_s
        )

    def close(self) -> None:
        """Free the device, unless the policy hangs, and end the thread."""
        try:
            self.call(self._policy.close, self._answer_s)
        finally:
            self._calls.close()

    def call(self, call: Callable[[], Result], timeout_s: float) -> Result:
        """Return what a call on the policy's thread returns.

        timeout_s: of a call since its begin; those of other threads before it have their own. Raises
        PolicyError when one takes too long.
        """

        def run() -> Result:
            self._moved_s = time.monotonic()
            try:
                return call()
            finally:
                self._moved_s = time.monotonic()

        asked_s = time.monotonic()
        future = self._calls.submit(run)
        while not future.done():
            left_s = max(asked_s, self._moved_s) + timeout_s - time.monotonic()
            if left_s <= 0:
                raise PolicyError(f"{self._name}: it has not answered for {timeout_s:g} s")
            wait([future], left_s)
        return future.result()

    def _answer(self, processors: Processors, observation: PolicyObservation) -> PolicyAnswer:
        begin_s = time.monotonic()
        if problem := find_task_problem(self._policy.spec, observation.task or self._manifest.default_task):
            raise PolicyError(f"{self._name}: {problem}")
        asked = replace(observation, task=self._manifest.instruct(observation.task))
        (chunk_model,) = predict_all(self._policy, [processors.pre(asked)])
        chunk_robot = processors.post(chunk_model)
        if problem := find_chunk_problem(self._policy.spec, chunk_model, chunk_robot):
            raise PolicyError(f"{self._name}: {problem}")
        version = self._policy.spec.fingerprint
        return PolicyAnswer(chunk_model, chunk_robot, version, time.monotonic() - begin_s)


CHUNK_S = 1.0  # that a chunk lasts
ACTIONS, NAMES = "actions", "names"  # arrays of a trajectory's file

ChunkAt = Callable[[int], Float32Array]  # returns the chunk `[H, A]` at a step of an episode


def open_random(place: PolicyPlace, environment: EnvironmentSpec, _: int) -> ScriptedPolicy:
    """Open actions uniform within bounds. Raises PolicyError for a path, and for actions without bounds."""
    place.check()
    lower, upper = bounds = np.array([environment.actions.lower, environment.actions.upper], np.float32)
    if not np.isfinite(bounds).all():
        name = environment.actions.names[int(np.argmin(np.isfinite(bounds).all(axis=0)))]
        raise PolicyError(f"{environment.name}: action {name} has no bounds to draw random actions from")
    spec = _make_spec("random", "uniform", environment)
    shape = (spec.chunk_size, spec.action_dim)

    def begin(seed: int) -> ChunkAt:
        rng = np.random.default_rng([seed, 7])
        return lambda _: rng.uniform(lower, upper, shape).astype(np.float32)

    return ScriptedPolicy(spec, begin)


def open_trajectory(place: PolicyPlace, environment: EnvironmentSpec, _: int) -> ScriptedPolicy:
    """Open recorded actions: the seeds play their episodes in turn, which end with the last action held.

    Raises PolicyError naming the file, and without a path.
    """
    place.check("path", "an .npz file with the array 'actions' [T, A], or the folder of a data set")
    assert place.path is not None, "it was checked"
    if place.path.is_dir():
        episodes, files = load_episodes(place.path, environment)
    else:
        episodes, files = [load_actions(place.path, environment)], [place.path]
    spec = _make_spec("trajectory", make_fingerprint(files, {}), environment)

    def begin(seed: int) -> ChunkAt:
        actions = episodes[seed % len(episodes)]
        ahead = np.arange(spec.chunk_size)
        return lambda step: actions[np.minimum(step + ahead, len(actions) - 1)]

    return ScriptedPolicy(spec, begin)


class ScriptedPolicy(EvaluatedPolicy):
    """A policy without a network."""

    def __init__(self, spec: PolicySpec, begin: Callable[[int], ChunkAt]) -> None:
        """begin: returns the chunks of an episode, by its seed."""
        self.spec = spec
        self._begin = begin

    def begin(self, seed: int) -> EpisodePolicy:
        chunk_at, version = self._begin(seed), self.spec.fingerprint

        def answer(_: PolicyObservation, step: int) -> PolicyAnswer:
            chunk = chunk_at(step)
            return PolicyAnswer(chunk, chunk, version, 0.0)

        return answer


def load_episodes(folder: Path, environment: EnvironmentSpec) -> tuple[list[Float32Array], list[Path]]:
    """Return episodes' actions `[T, A]` in the environment's order, and the files. Raises PolicyError."""
    from remote_inference.bags.lerobot_dataset import LeRobotDatasetReader  # noqa: PLC0415  needs PyAV and pyarrow

    try:
        data = LeRobotDatasetReader(folder)
        episodes = [data.read(place).actions for place in data.episodes]
    except UserError as error:
        raise PolicyError(str(error)) from error
    files = sorted({place.data for place in data.episodes})
    return [_in_order(one, data.action_names, environment, folder) for one in episodes], files


def load_actions(path: Path, environment: EnvironmentSpec) -> Float32Array:
    """Return a file's actions `[T, A]` in the environment's order.

    The file's array `names` `[A]`, where it has one, names the columns. Raises PolicyError.
    """
    names = environment.actions.names
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in (ACTIONS, NAMES) if name in file}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, AttributeError) as error:
        raise PolicyError(f"{path}: cannot be read as an .npz file: {error}") from error
    if ACTIONS not in arrays:
        raise PolicyError(f"{path}: found no array {ACTIONS!r}, expected one of shape [T, {len(names)}]")
    actions = arrays[ACTIONS]
    if actions.ndim != 2 or not len(actions) or actions.shape[1] != len(names):
        raise PolicyError(
            f"{path}: {ACTIONS}: found shape {list(actions.shape)}, expected [T, {len(names)}], T at least 1"
        )
    if actions.dtype.kind not in "fiu" or not np.isfinite(actions).all():
        raise PolicyError(f"{path}: {ACTIONS}: expected finite numbers")
    found = [str(name) for name in arrays.get(NAMES, names)]
    return _in_order(actions.astype(np.float32), found, environment, path)


def _in_order(
    actions: Float32Array, found: Sequence[str], environment: EnvironmentSpec, path: Path
) -> Float32Array:
    """Return actions `[T, A]`, whose columns are named, in the environment's order."""
    names = environment.actions.names
    if sorted(found) != sorted(names):
        raise PolicyError(f"{path}: {NAMES}: found {', '.join(found)}, expected {', '.join(names)}")
    ordered: Float32Array = actions[:, [list(found).index(name) for name in names]]
    return ordered


def _make_spec(name: str, fingerprint: str, environment: EnvironmentSpec) -> PolicySpec:
    return PolicySpec(
        name=name,
        revision="",
        fingerprint=fingerprint,
        state_names=environment.state_names,
        action_names=environment.actions.names,
        image_shapes={},
        chunk_size=max(1, round(CHUNK_S * environment.control_rate_hz)),
        trained_fps=environment.control_rate_hz,
    )
