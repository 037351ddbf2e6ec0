# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`--lerobot-v3`: a data set that LeRobot trains from, in the layout of its version 3.0.

A frame is a control tick. Ticks before the first command of an episode are left out: a policy that learns
from them learns to wait. In a later tick without a command the action is the one before, which the controller
still holds. State and actions are in the policy's units, as they are under the policy's names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from remote_inference.bags.export.camera import Camera
from remote_inference.bags.export.format import (
    DATA_PATH,
    EPISODES_PATH,
    FILES_IN_FOLDER,
    MAX_DATA_FILE_MB,
    MAX_VIDEO_FILE_MB,
    VIDEO_PATH,
    ControlTick,
    Format,
    file_place,
    place_columns,
)
from remote_inference.bags.export.statistics import Statistics, combine, vector_statistics
from remote_inference.bags.timeline.robot_bag import FloatArray
from remote_inference.base.contract.contract import Contract
from remote_inference.base.lerobot_format import ACTION, STATE, VERSION, joint_features
from remote_inference.robot.command import CommandSource

# LeRobot's own columns, then those of the executed command.
INDICES = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
COMMAND: Mapping[str, tuple[str, Callable[[ControlTick], Any]]] = {  # type and value
    "command.source": ("int64", lambda tick: tick.source),  # values of CommandSource
    "command.phase": ("int64", lambda tick: int(tick.phase)),  # values of Phase
    "command.is_human": ("bool", lambda tick: tick.source == CommandSource.HUMAN),
    "command.is_guarded": ("bool", lambda tick: bool(tick.interventions)),  # a rule altered or refused it
    "command.seq_id": ("int64", lambda tick: tick.seq_id),
    "command.step_index": ("int64", lambda tick: tick.step_index),
}


class LeRobotDataSet(Format):
    """Writes Parquet files, a video per camera, and what describes them."""

    needs_images = True
    takes_rows = True
    # Beside LeRobot's, with their types.
    own_columns: Mapping[str, str] = {name: kind for name, (kind, _) in COMMAND.items()}

    def __init__(self, out: Path, contract: Contract, *, images: bool) -> None:
        super().__init__(out, contract, images=images)
        out.mkdir()
        self._cameras = Camera.all_of(contract, out) if images else []
        self._joints = {STATE: contract.policy_state_names, ACTION: contract.policy_action_names}
        self._state_units, self._action_units = contract.state_units, contract.action_units
        self._statistics: dict[str, Statistics] = {}  # of all episodes, by feature
        self._schema = _schema(self._joints, {**INDICES, **self.own_columns})
        self._tasks: dict[str, int] = {}
        self._rows: dict[str, list[Any]] = {name: [] for name in self._schema.names}
        self._episodes: list[dict[str, Any]] = []
        self._entry: dict[str, Any] = {}  # of the episode: its part of each video, and its statistics
        self._last_action: FloatArray | None = None
        self._data: pq.ParquetWriter | None = None
        self._file_index = -1

    # -- ticks ---------------------------------------------------------------------------------------------

    def add(self, tick: ControlTick) -> None:
        if tick.shadow:  # what would have been sent: the arm followed another
            self.written.leave_out("in shadow mode")
            return
        action = tick.action if tick.action is not None else self._last_action
        if action is None:
            self.written.leave_out("before the episode's first command")
            return
        if tick.state is None or any(tick.images.get(camera.name) is None for camera in self._cameras):
            self.written.leave_out("before each sensor was heard")
            return
        state = self._state_units.to_policy(tick.state)
        if not np.isfinite(state).all():  # in doubles: the reader of the sensors has refused all else
            self.written.leave_out("a quaternion of length 0")
            return
        if not self._rows["index"]:
            self._entry = {}
            for camera in self._cameras:
                self._entry |= camera.begin_episode()
        for camera in self._cameras:
            camera.add(tick.images[camera.name])
        self._last_action = action
        self._add_row(tick, state, self._action_units.to_policy(action))
        self.written.ticks += 1

    def _add_row(self, tick: ControlTick, state: FloatArray, action: FloatArray) -> None:
        """Add a row. state, action: as the policy has them."""
        task_index = self._tasks.setdefault(tick.task, len(self._tasks))
        frame_index = len(self._rows["index"])
        values = {
            STATE: state.astype(np.float32).squeeze(),  # of one joint a number
            ACTION: action.astype(np.float32).squeeze(),
            "timestamp": frame_index / self.contract.row_fps,
            "frame_index": frame_index,
            "episode_index": self.written.episodes,
            "index": self.written.ticks,
            "task_index": task_index,
            **self.own_values(tick),
        }
        for name, value in values.items():
            self._rows[name].append(value)

    def own_values(self, tick: ControlTick) -> dict[str, Any]:
        return {name: value(tick) for name, (_, value) in COMMAND.items()}

    def end_episode(self) -> None:
        self._last_action = None
        length = len(self._rows["index"])
        if not length:
            return
        self._open_data_file()
        assert self._data is not None
        rows = {name: np.array(values) for name, values in self._rows.items()}
        columns = {name: list(values) for name, values in rows.items()}
        self._data.write_table(pa.Table.from_pydict(columns, schema=self._schema))  # a row group per episode
        statistics = {name: vector_statistics(values) for name, values in rows.items()}
        for camera in self._cameras:
            self._entry |= camera.end_episode()
            statistics[camera.key] = camera.statistics.result()
        for key, found in statistics.items():
            self._entry |= {f"stats/{key}/{name}": values.tolist() for name, values in found.items()}
            self._statistics[key] = combine(self._statistics.get(key), found)
        self._episodes.append(
            {
                "episode_index": self.written.episodes,
                "tasks": [task for task, index in self._tasks.items() if index in rows["task_index"]],
                "length": length,
                "dataset_from_index": self.written.ticks - length,
                "dataset_to_index": self.written.ticks,
                **place_columns("data", self._file_index),
                **self._entry,
                **place_columns("meta/episodes", 0),
            }
        )
        self._rows = {name: [] for name in self._rows}
        super().end_episode()

    def _open_data_file(self) -> None:
        if self._data is not None:
            if self._data_path().stat().st_size < MAX_DATA_FILE_MB << 20:
                return
            self._data.close()
        self._file_index += 1
        path = self._data_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._data = pq.ParquetWriter(str(path), self._schema, compression="snappy")

    def _data_path(self) -> Path:
        return self.out / DATA_PATH.format(**file_place(self._file_index))

    # -- what describes them -------------------------------------------------------------------------------

    def close(self) -> None:
        if self._data is not None:
            self._data.close()
        for camera in self._cameras:
            camera.close()
        meta = self.out / "meta"
        meta.mkdir()
        _write_json(meta / "info.json", self._info())
        if not self._episodes:
            return
        _write_tasks(meta / "tasks.parquet", self._tasks)
        episodes = self.out / EPISODES_PATH
        episodes.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(self._episodes), str(episodes))
        _write_json(meta / "stats.json", self._statistics)

    def _info(self) -> dict[str, Any]:
        fps = self.contract.row_fps
        return {
            "codebase_version": VERSION,
            "robot_type": self.contract.robot_type,
            "total_episodes": self.written.episodes,
            "total_frames": self.written.ticks,
            "total_tasks": len(self._tasks),
            "chunks_size": FILES_IN_FOLDER,
            "data_files_size_in_mb": MAX_DATA_FILE_MB,
            "video_files_size_in_mb": MAX_VIDEO_FILE_MB,
            "fps": int(fps) if fps == int(fps) else fps,
            "splits": {"train": f"0:{self.written.episodes}"},
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH if self._cameras else None,
            "features": self._features(),
        }

    def _features(self) -> dict[str, Any]:
        features: dict[str, Any] = joint_features(self.contract)
        features |= {camera.key: camera.feature for camera in self._cameras}
        others = {**INDICES, **self.own_columns}.items()
        return features | {name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in others}


def _schema(joints: Mapping[str, tuple[str, ...]], columns: Mapping[str, str]) -> pa.Schema:
    vectors = {key: pa.list_(pa.float32(), len(names)) for key, names in joints.items() if len(names) > 1}
    scalars = {name: pa.type_for_alias(alias) for name, alias in columns.items()}
    return pa.schema(dict.fromkeys(joints, pa.float32()) | vectors | scalars)  # LeRobot has no list of one


def _write_tasks(path: Path, tasks: Mapping[str, int]) -> None:
    """Write the instructions as pandas writes a table whose index is the instruction: LeRobot reads it so."""
    columns = [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": dtype, "metadata": None}
        for name, kind, dtype in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    ]
    index = {"index_columns": ["task"], "column_indexes": [], "columns": columns, "pandas_version": "2.0.0"}
    table = pa.table({"task_index": list(tasks.values()), "task": list(tasks)})
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(index)}), str(path))


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=4, default=np.ndarray.tolist) + "\n", encoding="utf-8")
