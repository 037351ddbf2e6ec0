# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A LeRobot checkpoint's files, judged before LeRobot reads them. None of these tests needs LeRobot."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import PolicyError
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies import load_policy
from remote_inference.server.policies.lerobot.checkpoint import (
    FAMILIES,
    Checkpoint,
    LeRobotOptions,
    find_names,
    find_renames,
    read_checkpoint,
)

PRE, POST = "policy_preprocessor.json", "policy_postprocessor.json"
STEP = {"registry_name": "normalizer_processor", "config": {}, "state_file": "statistics.safetensors"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "config.json", {"type": "act"})
    write(tmp_path / PRE, {"name": "pre", "steps": [STEP]})
    write(tmp_path / POST, {"name": "post", "steps": []})
    for name in ("model", "statistics"):
        (tmp_path / f"{name}.safetensors").write_bytes(name.encode())
    return tmp_path


def write(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content))


def load(path: Path | str, **options: Any) -> None:
    load_policy(ModelSource(backend="lerobot", path=str(path), options=options))


def test_a_whole_checkpoint_is_read(folder: Path) -> None:
    checkpoint = read_checkpoint(str(folder))
    assert checkpoint.kind == "act"
    assert checkpoint.pre.tensors == {"statistics.safetensors": b"statistics"}
    assert checkpoint.pre.find_step("normalizer_processor") == {}
    assert checkpoint.post.find_step("normalizer_processor") is None


@pytest.mark.parametrize("file", [PRE, POST])
def test_a_step_that_names_a_class_is_refused_and_nothing_of_it_runs(
    folder: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LeRobot would call `subprocess.Popen(args=[...])`."""
    monkeypatch.setitem(sys.modules, "lerobot", None)  # importing it is an error: LeRobot is not even asked
    step = {"class": "subprocess.Popen", "config": {"args": ["touch", str(folder / "owned")]}}
    write(folder / file, {"steps": [step]})
    with pytest.raises(
        PolicyError, match=rf"{file}: steps\.0\.class: found 'subprocess\.Popen', expected a registry_name"
    ):
        load(folder)
    write(folder / file, {"steps": [{**step, "registry_name": "device_processor"}]})
    with pytest.raises(PolicyError, match=r"steps\.0\.class: "):
        load(folder)
    assert not (folder / "owned").exists()


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (
            {"registry_name": "action_tokenizer_processor"},
            r"registry_name: found 'action_tokenizer_processor'",
        ),
        (
            {"registry_name": "reward_classifier_processor"},
            r"registry_name: found 'reward_classifier_processor'",
        ),
        ({}, r"registry_name: found nothing"),
        ({**STEP, "module": "os"}, r"module: found an unknown key"),
        ({**STEP, "config": []}, r"config: found \[\], expected a mapping"),
        ({**STEP, "state_file": "../secret.safetensors"}, r"state_file: found '\.\./secret\.safetensors'"),
        ({**STEP, "state_file": "/etc/x.safetensors"}, r"state_file: found '/etc/x\.safetensors'"),
        ({**STEP, "state_file": "statistics.pt"}, r"state_file: found 'statistics\.pt'"),
        ("normalizer_processor", r"0: found 'normalizer_processor', expected a mapping"),
    ],
)
def test_a_step_that_is_not_known_is_refused(folder: Path, step: Any, problem: str) -> None:
    write(folder / PRE, {"steps": [step]})
    with pytest.raises(
        PolicyError, match=rf"{PRE}: steps\.{problem}" if "0:" in problem else rf"steps\.0\.{problem}"
    ):
        load(folder)


def test_statistics_that_a_step_names_are_missing(folder: Path) -> None:
    (folder / "statistics.safetensors").unlink()
    with pytest.raises(PolicyError, match=r"statistics\.safetensors: No such file"):
        load(folder)


@pytest.mark.parametrize("path", ["lerobot/act_aloha", "nowhere"])
def test_a_folder_that_does_not_exist_is_not_taken_for_a_name_on_a_hub(path: str, tmp_path: Path) -> None:
    with pytest.raises(
        PolicyError, match=rf"model\.path: .*{path}: found no folder, expected a LeRobot checkpoint on this"
    ):
        load(tmp_path / path)


@pytest.mark.parametrize("kind", ["vqbet", "tdmpc", "gaussian_actor"])
def test_a_policy_without_chunks_is_refused(folder: Path, kind: str) -> None:
    write(folder / "config.json", {"type": kind})
    with pytest.raises(PolicyError, match=rf"config\.json: type: found '{kind}', which predicts no chunks"):
        load(folder)


@pytest.mark.parametrize("kind", ["groot", "my_plugin", None, ["act"]])
def test_a_kind_that_is_not_served_is_refused_with_those_that_are(folder: Path, kind: Any) -> None:
    write(folder / "config.json", {"type": kind})
    with pytest.raises(
        PolicyError, match=r"config\.json: type: found .*, expected one of act, diffusion, pi0"
    ):
        load(folder)


def test_the_kinds_with_a_language_model_read_the_task() -> None:
    reading = {kind for kind, family in FAMILIES.items() if family.language_files}
    assert reading == {"pi0", "pi05", "smolvla", "xvla"}


def test_an_adapter_alone_is_refused(folder: Path) -> None:
    write(folder / "config.json", {"type": "smolvla", "use_peft": True})
    with pytest.raises(PolicyError, match=r"config\.json: use_peft: found true"):
        load(folder)


def test_weights_that_are_not_safetensors_are_not_read(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(PolicyError, match=r"model\.safetensors: missing.*found pytorch_model\.bin, stat"):
        load(folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    (folder / "shard.safetensors").write_bytes(bytes([2, *bytes(7)]) + b"{}")
    others = r"pytorch_model\.bin \(a pickle: .*\), shard\.safetensors \(a safetensors file\)"
    with pytest.raises(PolicyError, match=f"found {others}"):
        load(folder)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model.safetensors", "a safetensors file"),
        ("statistics.safetensors", "a safetensors file"),
        ("config.json", "a JSON file"),
        (PRE, "a JSON file"),
    ],
)
def test_a_file_that_was_not_fetched_is_named_with_the_remedy(folder: Path, name: str, expected: str) -> None:
    """LeRobot is not asked: it would say that a header is too large."""
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 98765\n")
    with pytest.raises(PolicyError) as caught:
        load(folder)
    assert str(caught.value) == (
        f"{folder / name}: found a Git LFS pointer in the place of the file, expected {expected}; "
        "run `git lfs pull` where it was cloned"
    )


def test_a_file_that_is_no_json_is_named_with_the_place(folder: Path) -> None:
    (folder / PRE).write_text("{")
    with pytest.raises(DocumentError, match=rf"{PRE}: is not valid JSON: line 1"):
        load(folder)


def test_without_lerobot_the_error_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lerobot.policies", None)
    with pytest.raises(
        PolicyError, match=r"model\.backend: 'lerobot' needs Python 3\.12 and LeRobot 0\.6: pip install "
    ):
        load(folder)


def test_an_option_that_does_not_exist_is_named() -> None:
    with pytest.raises(DocumentError, match=r"model\.options: state_name: "):
        load("anywhere", state_name=["elbow"])


# -- names and control rate, which a checkpoint does not have

INFO = {
    "fps": 50,
    "features": {
        "observation.state": {"shape": [2], "names": ["shoulder.pos", "elbow.pos"]},
        "action": {"shape": [2], "names": {"motors": ["shoulder.pos", "elbow.pos"]}},
    },
}


def names_and_units(folder: Path, **options: Any) -> Any:
    return find_names(LeRobotOptions(**options), folder, state_dim=2, action_dim=2)


def names(folder: Path, **options: Any) -> Any:
    return names_and_units(folder, **options)[0]


@pytest.mark.parametrize(
    "written",
    [
        [["shoulder.pos", "elbow.pos"]],
        {"left": ["shoulder.pos"], "right": ["elbow.pos"]},
        {"elbow.pos": 1, "shoulder.pos": 0},
    ],
)
def test_names_count_however_a_data_set_groups_them(tmp_path: Path, written: Any) -> None:
    features = {**INFO["features"], "action": {"shape": [2], "names": written}}
    write(tmp_path / "info.json", {**INFO, "features": features})
    assert names(tmp_path, dataset="info.json").action == ("shoulder.pos", "elbow.pos")


def test_names_and_rate_come_from_a_data_set(tmp_path: Path) -> None:
    write(tmp_path / "info.json", INFO)
    found = names(tmp_path, dataset="info.json")
    assert found.state == found.action == ("shoulder.pos", "elbow.pos")
    assert found.fps == 50.0


def test_the_manifests_names_go_before_a_data_sets(tmp_path: Path) -> None:
    write(tmp_path / "info.json", INFO)
    found = names(tmp_path, dataset="info.json", action_names=("a", "b"), trained_fps=10.0)
    assert (found.state, found.action, found.fps) == (("shoulder.pos", "elbow.pos"), ("a", "b"), 10.0)


def test_units_come_from_a_data_set_that_says_them_and_the_manifest_goes_before(tmp_path: Path) -> None:
    said = {key: {**feature, "units": ["degrees", "rad"]} for key, feature in INFO["features"].items()}
    for features, expected in (
        (INFO["features"], {}),
        (said, {"shoulder.pos": "degrees", "elbow.pos": "rad"}),
    ):
        write(tmp_path / "info.json", {**INFO, "features": features})
        assert names_and_units(tmp_path, dataset="info.json")[1] == expected
    _, units = names_and_units(tmp_path, dataset="info.json", units={"elbow.pos": "percent"})
    assert units["elbow.pos"] == "percent"


FRONT, WRIST = "observation.images.front", "observation.images.wrist"


def with_renames(folder: Path, renames: Any) -> Checkpoint:
    step = {"registry_name": "rename_observations_processor", "config": {"rename_map": renames}}
    write(folder / PRE, {"steps": [step, STEP]})
    return read_checkpoint(str(folder))


def test_cameras_that_a_checkpoint_swaps_are_said(folder: Path) -> None:
    """A robot that names them as the policy does would show each the other's picture."""
    assert find_renames(with_renames(folder, {FRONT: WRIST, WRIST: FRONT}), [FRONT, WRIST]) == (
        f"{FRONT} of the robot is {WRIST} of the policy (rename_map)",
        f"{WRIST} of the robot is {FRONT} of the policy (rename_map)",
    )


@pytest.mark.parametrize("renames", [{}, None, {"observation.images.top": FRONT}])
def test_renames_of_what_robots_do_not_send_change_nothing(folder: Path, renames: Any) -> None:
    assert find_renames(with_renames(folder, renames), [FRONT, WRIST]) == ()


@pytest.mark.parametrize("renames", [{FRONT: "observation.images.top"}, {FRONT: WRIST}])
def test_a_rename_that_takes_away_what_the_policy_reads_names_step_and_file(
    folder: Path, renames: dict[str, str]
) -> None:
    place = (
        rf"{PRE}: rename_observations_processor\.rename_map: found '{FRONT}' renamed to '{renames[FRONT]}'"
    )
    with pytest.raises(PolicyError, match=rf"{place}, and nothing in its place; expected"):
        find_renames(with_renames(folder, renames), [FRONT, WRIST])


def test_renames_that_are_none_are_refused(folder: Path) -> None:
    with pytest.raises(PolicyError, match=r"rename_map: found \['a'\], expected names by names"):
        find_renames(with_renames(folder, ["a"]), [FRONT])


ALL = {"state_names": ("a", "b"), "action_names": ("a", "b"), "trained_fps": 30.0}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"action_names": ()}, r"model\.options: action_names: found none, expected 2 names"),
        ({"state_names": ("a",)}, r"model\.options: state_names: found 1: \['a'\], expected 2 names"),
        ({"state_names": ("a", "a")}, r"state_names: found \['a', 'a'\], expected each name once"),
        ({"trained_fps": None}, r"model\.options: trained_fps: found nothing, expected the control rate"),
    ],
)
def test_names_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        names(tmp_path, **{**ALL, **options})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"fps": 0}, r"info\.json: fps: found 0"),
        ({"features": []}, r"info\.json: features: found \[\]"),
        (
            {"features": {**INFO["features"], "action": {"names": None}}},
            r"info\.json: features\.action\.names: found none, expected 2 names",
        ),
        (
            {"features": {**INFO["features"], "action": {"names": [0, 1]}}},
            r"info\.json: features\.action\.names: found \[0, 1\], expected a text for each value",
        ),
        (
            {"features": {**INFO["features"], "action": {"names": [["a", "b", "c"]]}}},
            r"names: found 3: \['a', 'b', 'c'\], expected 2 names, one for each value of the checkpoint",
        ),
    ],
)
def test_a_data_set_that_does_not_say_them_is_named(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    write(tmp_path / "info.json", {**INFO, **change})
    with pytest.raises((PolicyError, DocumentError), match=problem):
        names(tmp_path, dataset="info.json")
    with pytest.raises(DocumentError, match=r"nowhere\.json: cannot be read"):
        names(tmp_path, dataset="nowhere.json")
