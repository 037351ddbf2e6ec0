# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A group as files: a Parquet table with a row per control tick, or a data set of LeRobot's version 3.0."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from remote_inference.bags.export.format import ControlTick
from remote_inference.bags.export.lerobot_v3 import LeRobotDataSet
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.problems import finite
from remote_inference.base.errors import UserError
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.learn.environment import EnvironmentObservation, EnvironmentSpec, FeatureKind
from remote_inference.learn.environments.robot_contract import make_data_set_contract
from remote_inference.learn.rollouts.group import Group, Trajectory
from remote_inference.robot.command import CommandSource

ROLLOUTS_FILE = "meta/rollouts.json"  # what LeRobot's own files have no place for
# Columns of a data set's frames, with their types.
REWARD, DONE, SUCCESS = "next.reward", "next.done", "next.success"
OUTCOME: Mapping[str, str] = {REWARD: "float32", DONE: "bool", SUCCESS: "bool"}
ADVANTAGE, LOG_PROBABILITY = "rollout.advantage", "rollout.log_probability"


class SavingError(UserError):
    """A group cannot be saved; the message has the reason."""


@dataclass(frozen=True)
class OutcomeTick(ControlTick):
    """One control tick of a simulated episode. own: the values of the data set's own columns."""

    own: Mapping[str, Any]


# -- one table -----------------------------------------------------------------------------------------------


def save_parquet(group: Group, path: Path) -> None:
    """Write a row per control tick, compressed by zstd. Raises SavingError when the path is taken."""
    require_new(path)
    rows = [row for number in range(len(group)) for row in _rows(group, number)]
    pq.write_table(pa.Table.from_pylist(rows), str(path), compression="zstd")


def _rows(group: Group, number: int) -> Iterator[dict[str, Any]]:
    one, advantage = group.trajectories[number], float(group.advantages[number])
    fixed = {
        "environment": group.environment.name,
        "task": group.task,
        "seed": group.seed,
        "rollout": number,
        "slot": one.slot,
        "noise_seed": one.sampling.noise_seed,
        "temperature": one.sampling.temperature,
        "success": one.is_success,
        "total_reward": one.total_reward,
        "advantage": advantage,
        "is_mixed": group.is_mixed,
    }
    state_name = group.environment.feature_of(FeatureKind.STATE)
    state = [shown.values[state_name] for shown in one.observations or ()]  # none where it was not kept
    for chunk in one.chunks:
        for row in range(chunk.steps):
            step = chunk.first_step + row
            last = step == len(one) - 1
            yield {
                **fixed,
                "step": step,
                "reward": float(one.rewards[step]),
                "terminated": last and one.is_terminated,
                "truncated": last and one.is_truncated,
                "chunk_id": chunk.chunk_id,
                "chunk_row": row,
                "policy_version": chunk.policy_version,
                "log_probability": _log_probability(one, step),
                **(_by_name("state", group.environment.state_names, state[step]) if state else {}),
                **_by_name("action", group.environment.actions.names, one.actions[step]),
            }


# -- LeRobot -------------------------------------------------------------------------------------------------


def save_lerobot(group: Group, folder: Path) -> None:
    """Write an episode per rollout, with state, cameras, actions, rewards and advantages.

    Raises SavingError when the folder exists or the group was played without keeping observations.
    """
    require_new(folder)
    if any(one.observations is None for one in group.trajectories):
        raise SavingError("rollouts: found no observations, expected a group that was played with them")
    columns = {**OUTCOME, ADVANTAGE: "float32"}
    if all(one.log_probabilities is not None for one in group.trajectories):
        columns[LOG_PROBABILITY] = "float32"
    contract = make_data_set_contract(group.environment, group.task, _cameras(group))
    with OutcomeDataSet(folder, contract, columns) as target:
        for number in range(len(group)):
            for tick in _ticks(group, number):
                target.add(tick)
            target.end_episode()
    text = json.dumps(describe(group), indent=1) + "\n"
    (folder / ROLLOUTS_FILE).write_text(text, encoding="utf-8")


def describe(group: Group) -> dict[str, Any]:
    """Return a group without what it has for each control tick."""
    return {
        "environment": group.environment.name,
        "task": group.task,
        "seed": group.seed,
        "policy_versions": list(group.policy_versions),
        "is_mixed": group.is_mixed,
        "is_degenerate": group.is_degenerate,
        "rollouts": [
            {
                "slot": one.slot,
                "process_id": one.process_id,
                "noise_seed": one.sampling.noise_seed,
                "temperature": one.sampling.temperature,
                "steps": len(one),
                "success": one.is_success,
                "total_reward": one.total_reward,
                "advantage": float(advantage),
                "terminated": one.is_terminated,
                "truncated": one.is_truncated,
                "metrics": finite(one.metrics.values),
                "chunks": [vars(chunk) for chunk in one.chunks],
            }
            for one, advantage in zip(group.trajectories, group.advantages, strict=True)
        ],
    }


class OutcomeDataSet(LeRobotDataSet):
    """A data set whose frames have the outcome of each action, and what learning from it needs."""

    def __init__(self, out: Path, contract: Contract, columns: Mapping[str, str] = OUTCOME) -> None:
        self.own_columns = columns
        super().__init__(out, contract, images=True)

    def own_values(self, tick: ControlTick) -> dict[str, Any]:
        assert isinstance(tick, OutcomeTick)
        return {name: tick.own[name] for name in self.own_columns}


def describe_tick(
    spec: EnvironmentSpec,
    cameras: Sequence[str],
    shown: EnvironmentObservation,
    action: NDArray[np.floating[Any]],
) -> dict[str, Any]:
    """Return the fields of a ControlTick for an action `[A]` in a simulator, and what was shown before it."""
    state = shown.values[spec.feature_of(FeatureKind.STATE)]
    return {
        "t_ns": round(shown.time_s * 1e9),
        "client_state": "",
        "paused": False,
        "source": CommandSource.CHUNK,
        "action": action,
        "state": state.astype(np.float64),
        "images": {name: image_to_message(shown.values[name]) for name in cameras},
        "interventions": (),
        "row_fraction": 0.0,
        "age_s": 0.0,
        "queue_wait_ms": math.nan,
        "inference_ms": math.nan,
        "shadow": False,
    }


def _ticks(group: Group, number: int) -> Iterator[OutcomeTick]:
    one = group.trajectories[number]
    assert one.observations is not None, "save_lerobot has checked"
    cameras = _cameras(group)
    for chunk_number, chunk in enumerate(one.chunks):
        for row in range(chunk.steps):
            step = chunk.first_step + row
            is_last = step == len(one) - 1
            yield OutcomeTick(
                **describe_tick(group.environment, cameras, one.observations[step], one.actions[step]),
                tick=step,
                episode_id=number,
                task=group.task,
                session_id=chunk.chunk_id,
                seq_id=chunk_number,
                step_index=row,
                policy_version=chunk.policy_version,
                own={
                    REWARD: float(one.rewards[step]),
                    DONE: is_last,
                    SUCCESS: one.is_success and is_last,
                    ADVANTAGE: float(group.advantages[number]),
                    LOG_PROBABILITY: _log_probability(one, step),
                },
            )


def require_new(path: Path) -> None:
    """Make the folder in which a path lies. Raises SavingError where it cannot, or for one that is taken."""
    if path.exists():
        raise SavingError(f"{path}: exists, expected a new path")
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SavingError(f"{path.absolute().parent}: {error.strerror}, expected a folder") from error


def _cameras(group: Group) -> list[str]:
    """Return the colour images that the group has kept."""
    (shown, *_) = group.trajectories[0].observations or ()
    features = group.environment.features
    return [name for name in shown.values if features[name].kind is FeatureKind.RGB]


def _log_probability(one: Trajectory, step: int) -> float | None:
    return None if one.log_probabilities is None else float(one.log_probabilities[step])


def _by_name(kind: str, names: Sequence[str], values: NDArray[np.floating[Any]]) -> dict[str, float]:
    return {f"{kind}.{name}": float(value) for name, value in zip(names, values, strict=True)}
