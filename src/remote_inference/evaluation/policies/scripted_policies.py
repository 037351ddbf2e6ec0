# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policies without a network: random actions, which any policy must beat, and recorded trajectories."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from remote_inference.core.environment import EnvironmentSpec
from remote_inference.core.fingerprint import make_fingerprint
from remote_inference.core.policy import Float32Array, PolicyError, PolicyObservation, PolicySpec
from remote_inference.errors import UserError
from remote_inference.evaluation.policies import EpisodePolicy, PolicyAnswer, PolicyPlace

CHUNK_S = 1.0  # that a chunk lasts
ACTIONS, NAMES = "actions", "names"  # arrays of a trajectory's file


def open_random(place: PolicyPlace, environment: EnvironmentSpec, num_envs: int) -> RandomPolicy:
    """Open random actions. Raises PolicyError for a path, and for actions without bounds."""
    del num_envs
    place.check()
    return RandomPolicy(environment)


def open_trajectory(place: PolicyPlace, environment: EnvironmentSpec, num_envs: int) -> TrajectoryPolicy:
    """Open what was recorded. Raises PolicyError naming the file, and without a path."""
    del num_envs
    place.check("path", "an .npz file with the array 'actions' [T, A], or the folder of a data set")
    assert place.path is not None, "it was looked at"
    if place.path.is_dir():
        return TrajectoryPolicy(*load_episodes(place.path, environment), environment)
    return TrajectoryPolicy([load_actions(place.path, environment)], [place.path], environment)


class RandomPolicy:
    """Draws every action on its own, uniform within the environment's bounds."""

    def __init__(self, environment: EnvironmentSpec) -> None:
        bounds = np.array([environment.actions.lower, environment.actions.upper], np.float32)
        if not np.isfinite(bounds).all():
            name = environment.actions.names[int(np.argmin(np.isfinite(bounds).all(axis=0)))]
            raise PolicyError(f"{environment.name}: action {name} has no bounds to draw random actions from")
        self._lower, self._upper = bounds
        self.spec = _make_spec("random", "uniform", environment)

    def begin(self, seed: int) -> EpisodePolicy:
        return _RandomEpisode(self, np.random.default_rng([seed, 7]))

    def abort(self) -> None:
        """Do nothing: nobody waits."""

    def close(self) -> None:
        """Do nothing: there is no device."""

    def draw(self, rng: np.random.Generator) -> Float32Array:
        """Return rows `[H, A]`."""
        shape = (self.spec.chunk_size, self.spec.action_dim)
        return rng.uniform(self._lower, self._upper, shape).astype(np.float32)


class _RandomEpisode:
    def __init__(self, policy: RandomPolicy, rng: np.random.Generator) -> None:
        self._policy, self._rng = policy, rng

    def answer(self, observation: PolicyObservation, step: int) -> PolicyAnswer:
        del observation, step
        rows = self._policy.draw(self._rng)
        return PolicyAnswer(rows, rows, self._policy.spec.fingerprint, 0.0)


class TrajectoryPolicy:
    """Plays recorded actions from each episode's begin; after the last one, the last one."""

    def __init__(
        self, episodes: Sequence[Float32Array], files: Sequence[Path], environment: EnvironmentSpec
    ) -> None:
        """episodes: actions `[T, A]` of each, in the environment's order; the seeds take them in turn.

        files: that they come from.
        """
        self._episodes = episodes
        self.spec = _make_spec("trajectory", make_fingerprint(files, {}), environment)

    def begin(self, seed: int) -> EpisodePolicy:
        return _RecordedEpisode(self.spec, self._episodes[seed % len(self._episodes)])

    def abort(self) -> None:
        """Do nothing: nobody waits."""

    def close(self) -> None:
        """Do nothing: there is no device."""


class _RecordedEpisode:
    def __init__(self, spec: PolicySpec, actions: Float32Array) -> None:
        self._spec, self._actions = spec, actions

    def answer(self, observation: PolicyObservation, step: int) -> PolicyAnswer:
        del observation
        places = np.minimum(np.arange(step, step + self._spec.chunk_size), len(self._actions) - 1)
        rows = self._actions[places]
        return PolicyAnswer(rows, rows, self._spec.fingerprint, 0.0)


def load_episodes(folder: Path, environment: EnvironmentSpec) -> tuple[list[Float32Array], list[Path]]:
    """Return the actions `[T, A]` of a data set's episodes in the environment's order, and their files.

    Raises PolicyError.
    """
    from remote_inference.recording.data_set import DataSet  # noqa: PLC0415  needs PyAV and pyarrow

    try:
        data = DataSet(folder)
        episodes = [data.read(place).actions for place in data.episodes]
    except UserError as error:
        raise PolicyError(str(error)) from error
    files = sorted({place.data for place in data.episodes})
    return [_in_order(one, data.action_names, environment, folder) for one in episodes], files


def load_actions(path: Path, environment: EnvironmentSpec) -> Float32Array:
    """Return a file's actions `[T, A]` in the environment's order.

    The file's array `names` `[A]`, where it has one, says whose columns they are. Raises PolicyError.
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
