# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference export`: each control tick with what the robot saw by then, as table and as data set."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from rclpy.time import Time
from std_msgs.msg import Header

from remote_inference.bags.export.format import Phase
from remote_inference.base.lerobot_format import import_contract
from remote_inference.msg import ClientState, Observation
from remote_inference.tools.cli import main
from support.builders import CAMERA, JOINTS
from support.recording.picked_run import (
    COMMANDED_FROM,
    FPS,
    GUARDED,
    HUMAN,
    INFERENCE_MS,
    PERIOD_MS,
    SILENT,
    TICKS,
    TOPICS as PICKED_TOPICS,
    WAIT_MS,
    action_of,
    document,
    joints_seen,
    picture_seen,
    write_picked_run,
)
from support.recording.synthetic_run import NS, START_NS, Recording

FRAMES = TICKS - COMMANDED_FROM  # of an episode in a data set
KEYS = {"front": CAMERA, "wrist": "observation.images.wrist"}


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_picked_run(tmp_path_factory.mktemp("bags") / "run")


@pytest.fixture(scope="module")
def data_set(bag: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "picks"
    assert main(["export", str(bag), "--lerobot-v3", str(out), "--quiet"]) == 0
    return out


def export(*arguments: object) -> int:
    return main(["export", *map(str, arguments)])


def read_table(path: Path) -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = pq.read_table(path).to_pydict()
    return table


def read_data(folder: Path) -> dict[str, list[Any]]:
    return read_table(folder / "data/chunk-000/file-000.parquet")


def read_video(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


# -- tables --------------------------------------------------------------------------------------------------


def test_a_row_of_the_table_tells_where_its_command_came_from(bag: Path, tmp_path: Path):
    assert export(bag, "--parquet", tmp_path / "ticks.parquet") == 0
    rows = read_table(tmp_path / "ticks.parquet")
    assert len(rows["tick"]) == 2 * TICKS
    tick = TICKS + GUARDED[0]
    row = {name: values[tick] for name, values in rows.items()}
    assert row["t_ns"] == START_NS + round(tick * PERIOD_MS * 1e6)
    assert (row["episode_index"], row["episode_id"], row["task"]) == (1, 2, "point")
    assert (row["source"], row["interventions"], row["client_state"]) == ("CHUNK", "step", "STREAMING")
    assert (row["seq_id"], row["step_index"]) == (TICKS + COMMANDED_FROM, GUARDED[0] - COMMANDED_FROM)
    assert (row["queue_wait_ms"], row["inference_ms"]) == (WAIT_MS, INFERENCE_MS)
    assert [row[f"action.{name}"] for name in JOINTS] == action_of(tick)
    assert [row[f"state.{name}"] for name in JOINTS] == joints_seen(tick)
    assert rows["source"][HUMAN[0]] == "HUMAN"
    assert [rows["phase"][tick] for tick in (HUMAN[0], SILENT[0], GUARDED[0])] == ["person", "hold", "policy"]
    assert rows[f"action.{JOINTS[0]}"][SILENT[0]] is None
    assert rows["inference_ms"][HUMAN[0]] is None


def test_the_text_table_says_the_same(bag: Path, tmp_path: Path):
    assert export(bag, "--parquet", tmp_path / "ticks.parquet") == 0
    assert export(bag, "--csv", tmp_path / "ticks.csv") == 0
    expected = read_table(tmp_path / "ticks.parquet")
    with (tmp_path / "ticks.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == list(expected)
    for name, values in expected.items():
        assert [line[name] for line in lines] == ["" if value is None else str(value) for value in values]


def test_stamps_of_simulated_time_are_not_compared_with_the_recorders(tmp_path: Path):
    bag = write_picked_run(tmp_path / "run", simulated_time=True)
    assert export(bag, "--parquet", tmp_path / "ticks.parquet") == 0
    assert read_table(tmp_path / "ticks.parquet")["t_ns"][3] == START_NS + round((3 * PERIOD_MS + 20) * 1e6)


# -- data set ------------------------------------------------------------------------------------------------


def test_the_frames_of_a_data_set_are_the_ticks_from_the_first_command_on(data_set: Path):
    rows = read_data(data_set)
    assert rows["index"] == list(range(2 * FRAMES))
    assert rows["frame_index"] == 2 * list(range(FRAMES))
    assert rows["episode_index"] == [0] * FRAMES + [1] * FRAMES
    assert rows["task_index"] == [0] * FRAMES + [1] * FRAMES
    assert rows["timestamp"] == [float(np.float32(index / FPS)) for index in rows["frame_index"]]
    for row, tick in enumerate([*range(COMMANDED_FROM, TICKS), *range(TICKS + COMMANDED_FROM, 2 * TICKS)]):
        held = min(tick, tick - tick % TICKS + SILENT[0] - 1) if tick % TICKS in SILENT else tick
        assert rows["action"][row] == pytest.approx(action_of(held), abs=1e-6)
        assert rows["observation.state"][row] == pytest.approx(joints_seen(tick), abs=1e-6)
        assert rows["command.is_human"][row] == (tick % TICKS in HUMAN)
        assert rows["command.phase"][row] == (
            Phase.PERSON if tick % TICKS in HUMAN else Phase.HOLD if tick % TICKS in SILENT else Phase.POLICY
        )
        assert rows["command.is_guarded"][row] == (tick % TICKS in GUARDED)


@pytest.mark.parametrize("camera", KEYS)
def test_each_frame_of_a_video_is_what_the_camera_had_delivered_by_the_tick(data_set: Path, camera: str):
    frames = read_video(data_set / f"videos/{KEYS[camera]}/chunk-000/file-000.mp4")
    assert len(frames) == 2 * FRAMES
    for row in (0, 17, HUMAN[2] - COMMANDED_FROM, FRAMES, 2 * FRAMES - 1):
        tick = COMMANDED_FROM + row + (COMMANDED_FROM if row >= FRAMES else 0)
        difference = frames[row].astype(int) - picture_seen(tick)
        assert np.abs(difference).mean() < 3
    assert np.abs(frames[0].astype(int) - picture_seen(COMMANDED_FROM + 8)).mean() > 3, (
        "else it proves nothing"
    )


def test_what_describes_a_data_set_fits_its_files(data_set: Path):
    info = json.loads((data_set / "meta/info.json").read_text())
    assert (info["codebase_version"], info["fps"], info["robot_type"]) == ("v3.0", 20, "two_joints")
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (2, 2 * FRAMES, 2)
    assert info["features"]["action"]["names"] == list(JOINTS)
    assert info["features"][CAMERA]["shape"] == [48, 64, 3]
    episodes = read_table(data_set / "meta/episodes/chunk-000/file-000.parquet")
    assert episodes["tasks"] == [["wave"], ["point"]]
    assert episodes["dataset_from_index"] == [0, FRAMES]
    assert episodes[f"videos/{CAMERA}/from_timestamp"] == [0.0, FRAMES / FPS]
    tasks = pq.read_table(data_set / "meta/tasks.parquet").to_pydict()
    assert dict(zip(tasks["task"], tasks["task_index"], strict=True)) == {"wave": 0, "point": 1}


def test_a_data_set_is_in_the_policys_units_and_a_table_in_the_robots(tmp_path: Path):
    plain = document()
    scale = [
        {"unit": "degrees", "names": [JOINTS[0]]},
        {"unit": "percent", "names": [JOINTS[1]], "range": [-1.0, 1.0]},
    ]
    state = [{**plain["state"][0], "scale": scale}]
    bag = write_picked_run(tmp_path / "run", state=state, actions={**plain["actions"], "scale": scale})
    assert export(bag, "--lerobot-v3", tmp_path / "data", "--no-images") == 0
    rows, tick = read_data(tmp_path / "data"), COMMANDED_FROM + 7

    def in_units(joints: list[float]) -> list[float]:
        return [math.degrees(joints[0]), 50.0 * (joints[1] + 1.0)]

    assert rows["action"][7] == pytest.approx(in_units(action_of(tick)), abs=1e-4)
    assert rows["observation.state"][7] == pytest.approx(in_units(joints_seen(tick)), abs=1e-4)
    info = json.loads((tmp_path / "data/meta/info.json").read_text())
    assert info["features"]["action"]["units"] == ["degrees", "percent"]
    assert export(bag, "--parquet", tmp_path / "ticks.parquet") == 0
    table = read_table(tmp_path / "ticks.parquet")
    assert [table[f"action.{name}"][tick] for name in JOINTS] == action_of(tick)
    assert [table[f"state.{name}"][tick] for name in JOINTS] == joints_seen(tick)


def test_bags_of_robots_with_other_units_make_no_data_set(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    state = [{**document()["state"][0], "scale": [{"unit": "degrees", "names": list(JOINTS)}]}]
    other = write_picked_run(tmp_path / "other", state=state)
    assert export(bag, other, "--lerobot-v3", tmp_path / "all") == 2
    assert "its contract's state units differ" in capsys.readouterr().err


def test_a_frame_has_the_task_that_its_chunk_was_asked_for(tmp_path: Path):
    """The task changed within the episode, and the node's state told it half a second later."""
    topics = {**PICKED_TOPICS, f"{NS}/remote_inference/observation": "remote_inference/msg/Observation"}
    recording = Recording(topics, JOINTS)
    recording.state(0, ClientState.STREAMING, task="pick the cup", episode_id=1)
    for at_ms in range(0, 40 * 50, 10):
        recording.joints(at_ms, [0.0, 0.0], list(JOINTS))
    for seq_id, at_ms, task in ((1, 100, "pick the cup"), (2, 1000, "place the cup")):
        asked = Observation(session_id="s1", seq_id=seq_id, episode_id=1, task=task)
        recording.add("observation", at_ms, asked)
    recording.state(1480, ClientState.STREAMING, task="place the cup", episode_id=1)
    for tick in range(4, 40):
        stamp = Time(nanoseconds=START_NS + 50 * tick * 10**6).to_msg()
        fields = {"header": Header(stamp=stamp), "seq_id": 1 if tick < 22 else 2}
        recording.executed(50 * tick + 3, tick, [0.0, 0.0], **fields)
    bag = recording.write(tmp_path / "run", "", json.dumps(document()))
    assert export(bag, "--csv", tmp_path / "ticks.csv", "--quiet", "--no-images") == 0
    with (tmp_path / "ticks.csv").open(newline="") as file:
        told = [(row["seq_id"], row["task"]) for row in csv.DictReader(file)]
    assert told == [("1", "pick the cup")] * 18 + [("2", "place the cup")] * 18


def test_several_bags_make_one_data_set(bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    other = write_picked_run(tmp_path / "other")
    assert export(bag, other, "--lerobot-v3", tmp_path / "all", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["episodes"], printed["ticks"]) == (4, 4 * FRAMES)
    assert printed["left_out"] == {"before the episode's first command": 4 * COMMANDED_FROM}
    assert read_data(tmp_path / "all")["episode_index"][-1] == 3


# -- choice --------------------------------------------------------------------------------------------------


def test_paused_time_and_failed_episodes_are_left_out_on_request(tmp_path: Path):
    bag = write_picked_run(tmp_path / "run", stalls=True)
    assert export(bag, "--parquet", tmp_path / "kept.parquet", "--drop", "paused", "failed") == 0
    rows = read_table(tmp_path / "kept.parquet")
    assert set(rows["episode_id"]) == {1}
    assert min(rows["tick"]) == 4, "until then the robot was paused"


def test_outcomes_say_which_episodes_failed(bag: Path, tmp_path: Path):
    results = [{"episode_id": 1, "success": False}, {"episode_id": 2, "success": True}]
    (tmp_path / "summary.json").write_text(json.dumps({"episode_results": results}))
    options = ("--drop", "failed", "--outcomes", tmp_path / "summary.json")
    assert export(bag, "--parquet", tmp_path / "kept.parquet", *options) == 0
    assert set(read_table(tmp_path / "kept.parquet")["episode_id"]) == {2}


def test_resampling_gives_one_frame_in_each_period(tmp_path: Path):
    """At twice the contract's rate, every other tick is one too many; at half of it, each is repeated."""
    contract = tmp_path / "contract.yaml"
    bag = write_picked_run(tmp_path / "run")
    for fps, frames in ((FPS / 2, TICKS // 2), (2 * FPS, 2 * TICKS - 1)):
        contract.write_text(json.dumps(document(fps=fps)))
        out = tmp_path / f"at_{fps:g}.parquet"
        assert export(bag, "--parquet", out, "--resample", "--contract", contract) == 0
        times = np.array(read_table(out)["t_ns"])
        first = times[: int(np.argmax(np.array(read_table(out)["episode_id"]) == 2))]
        assert len(first) in {frames, frames + 1}
        assert set(np.diff(first)) == {round(1e9 / fps)}


@pytest.mark.parametrize("to", ["--parquet", "--lerobot-v3"])
def test_a_pause_that_is_left_out_is_not_filled_by_resampling(tmp_path: Path, to: str):
    """Whoever learned from the filling would learn to stop."""
    bag = write_picked_run(tmp_path / "run", stalls=True)
    rows = []
    for number, options in enumerate(((), ("--resample",))):
        out = tmp_path / f"out_{number}"
        assert export(bag, to, out, "--no-images", "--drop", "paused", *options) == 0
        rows.append(read_table(out) if to == "--parquet" else read_data(out))
    assert len(rows[0][next(iter(rows[0]))]) == len(rows[1][next(iter(rows[1]))])


def test_actions_of_a_damaged_name_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    names = ["should\ner", *JOINTS[1:]]
    recording = Recording(PICKED_TOPICS, names)
    recording.joints(0, [0.5, 0.5], list(JOINTS))
    recording.executed(1, 0, [0.0, 0.0])
    bag = recording.write(tmp_path / "run", "", json.dumps(document()))
    assert export(bag, "--csv", tmp_path / "out.csv") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "tick 0: found actions ['should\\ner'" in line


def test_a_robot_in_shadow_mode_drove_nothing_to_learn_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    recording = Recording(PICKED_TOPICS, JOINTS)
    recording.state(0, ClientState.STREAMING, task="wave", episode_id=1, shadow=True)
    for tick in range(40):
        recording.joints(tick * PERIOD_MS, [0.5, 0.5], list(JOINTS))
        recording.executed(tick * PERIOD_MS + 1, tick, [0.01 * tick, 0.0], shadow=tick < 30)
    bag = recording.write(tmp_path / "run", "", json.dumps(document()))
    assert export(bag, "--lerobot-v3", tmp_path / "set", "--no-images", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["ticks"], printed["left_out"]["in shadow mode"]) == (10, 30)


def test_without_the_node_s_states_nobody_knows_its_pauses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    recording = Recording(PICKED_TOPICS, JOINTS)
    for tick in range(4):
        recording.joints(tick * PERIOD_MS, [0.5, 0.5], list(JOINTS))
        recording.executed(tick * PERIOD_MS + 1, tick, [0.01 * tick, 0.0])
    bag = recording.write(tmp_path / "run", "state", json.dumps(document()))
    assert export(bag, "--parquet", tmp_path / "all.parquet") == 0
    assert read_table(tmp_path / "all.parquet")["paused"] == [None] * 4
    assert export(bag, "--parquet", tmp_path / "some.parquet", "--drop", "paused") == 2
    assert "--drop paused: found no state of the robot's node" in capsys.readouterr().err


@pytest.mark.parametrize("change", [lambda names: names.reverse(), lambda names: names.append("wrist")])
def test_a_contract_whose_actions_are_not_the_bag_s_is_refused(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[list[str]], None]
):
    """Each number would stand under another joint."""
    other = document()
    limits = other["actions"]["limits"]
    for names in (other["actions"]["names"], other["state"][0]["names"], other["commands"][0]["names"]):
        change(names)
    limits["wrist"] = limits["elbow"]
    other["actions"]["limits"] = {name: limits[name] for name in other["actions"]["names"]}
    contract = tmp_path / "other.yaml"
    contract.write_text(json.dumps(other))
    for to in ("--csv", "--lerobot-v3"):
        assert export(bag, to, tmp_path / "out", "--no-images", "--contract", contract) == 2
        error = capsys.readouterr().err
        assert "expected those of the contract in its order" in error or "found no wrist" in error


# -- bad input -----------------------------------------------------------------------------------------------


def test_a_camera_that_was_not_recorded_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bag = write_picked_run(tmp_path / "run", leave_out="compressed")
    assert export(bag, "--lerobot-v3", tmp_path / "none") != 0
    assert "found no /arm/wrist/compressed, expected the contract's camera 'wrist'" in capsys.readouterr().err
    assert export(bag, "--lerobot-v3", tmp_path / "rest", "--no-images") == 0
    assert read_data(tmp_path / "rest")["index"][-1] == 2 * FRAMES - 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--csv", "{tmp}"), "exists, expected a new path"),
        (("--csv", "{bag}/metadata.yaml/t.csv"), "metadata.yaml is no folder, expected one for t.csv"),
        (("--csv", "{tmp}/t.csv", "--namespace", "/leg"), "no robot /leg in the bag"),
        (("--csv", "{tmp}/t.csv", "--drop", "failed", "--outcomes", "{tmp}/x"), "No such file"),
        (("{bag}", "--csv", "{tmp}/t.csv", "--outcomes", "{tmp}/x"), "found 2 bags, expected one"),
    ],
)
def test_what_cannot_be_exported_is_said_in_a_line(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
):
    assert export(bag, *(text.format(tmp=tmp_path, bag=bag) for text in arguments)) != 0
    error = capsys.readouterr().err
    assert words in error
    assert len(error.strip().splitlines()) == 1


def test_a_data_set_has_the_policy_s_names(tmp_path: Path):
    rename = {f"joints.{name}": f"{name}.pos" for name in JOINTS}
    bag = write_picked_run(tmp_path / "run", rename=rename)
    assert export(bag, "--lerobot-v3", tmp_path / "set", "--no-images") == 0
    text = (tmp_path / "set/meta/info.json").read_text()
    features = json.loads(text)["features"]
    names = [f"{name}.pos" for name in JOINTS]
    assert features["action"]["names"] == features["observation.state"]["names"] == names
    assert import_contract(text, "info.json").content["actions"]["names"] == names


def test_the_folders_in_which_an_export_lies_are_made(bag: Path, tmp_path: Path):
    assert export(bag, "--lerobot-v3", tmp_path / "data/new/lamp", "--no-images") == 0
    assert read_data(tmp_path / "data/new/lamp")["index"][-1] == 2 * FRAMES - 1
    assert [path.name for path in (tmp_path / "data/new").iterdir()] == ["lamp"]


def test_bags_of_different_robots_make_no_data_set(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    other = write_picked_run(tmp_path / "other", fps=30.0)
    assert export(bag, other, "--lerobot-v3", tmp_path / "none") != 0
    assert f"{other}: its contract's fps differ from those of {bag}" in capsys.readouterr().err
    assert export(bag, other, "--lerobot-v3", tmp_path / "none/deep") != 0
    assert not (tmp_path / "none").exists()


def test_an_export_that_ends_with_an_error_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    contract = document()
    contract["state"][0]["names"].append("thumb")
    (tmp_path / "other.yaml").write_text(json.dumps(contract))
    bag = write_picked_run(tmp_path / "run")
    options = ("--contract", tmp_path / "other.yaml")
    assert export(bag, "--lerobot-v3", tmp_path / "none", *options) != 0
    assert "joint_states: found no thumb in any message" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.yaml", "run"]
