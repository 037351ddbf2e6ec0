# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `remote-inference serve` finds in a folder or file, and the manifest that it makes of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from remote_inference.base.errors import UserError
from remote_inference.base.paths import share_path
from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.policies.lerobot.checkpoint import FAMILIES
from remote_inference.tools import cli
from remote_inference.tools.deployment.serving.serve import (
    ServeOptions,
    find_policy,
    make_plan,
    write_manifest,
)

HOLD = {"name": "still", "revision": "1", "chunk_size": 4, "trained_fps": 30.0}
NAMES = {"state_names": ["elbow"], "action_names": ["elbow"]}
NOTHING = ServeOptions()


def write_hold(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.json").write_text(json.dumps({**HOLD, **NAMES}))
    return folder


def write_chunk_policy(folder: Path) -> Path:
    shipped = share_path("config", "models", "belt_arm")
    folder.mkdir()
    for name in ("policy.json", "model.safetensors"):
        shutil.copy(shipped / name, folder)
    return folder


def write_checkpoint(folder: Path, kind: str = "act", tokenizer: str = "") -> Path:
    """Write what is read of a checkpoint without LeRobot."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"type": kind}))
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    named = {"registry_name": "tokenizer_processor", "config": {"tokenizer_name": tokenizer}}
    steps = {"policy_preprocessor.json": [named] if tokenizer else [], "policy_postprocessor.json": []}
    for name, content in steps.items():
        (folder / name).write_text(json.dumps({"steps": content}))
    return folder


def write_dataset(folder: Path) -> Path:
    (folder / "meta").mkdir(parents=True)
    file = folder / "meta" / "info.json"
    file.write_text(json.dumps({"fps": 30, "features": {}}))
    return file


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))


def made(path: Path, options: ServeOptions = NOTHING, manifest: Path | None = None) -> dict[str, Any]:
    content = make_plan(path, options, manifest).content
    assert content is not None
    return content


# -- what a path holds ---------------------------------------------------------------------------------------


def test_each_kind_of_policy_is_found_by_its_folder_and_by_its_file(tmp_path: Path) -> None:
    act, hold = write_checkpoint(tmp_path / "act"), write_hold(tmp_path / "hold")
    chunk = write_chunk_policy(tmp_path / "chunk")
    (tmp_path / "onnx").mkdir()
    onnx = tmp_path / "onnx" / "reach.onnx"
    onnx.touch()
    expected = {
        **dict.fromkeys((act, act / "config.json"), ("lerobot", act)),
        **dict.fromkeys((hold, hold / "policy.json"), ("hold", hold)),
        **dict.fromkeys((chunk, chunk / "policy.json"), ("chunk_network", chunk)),
        **dict.fromkeys((onnx.parent, onnx), ("onnx", onnx)),
        chunk / "model.safetensors": ("chunk_network", chunk / "model.safetensors"),
    }
    for path, (backend, named) in expected.items():
        found = find_policy(path)
        assert (found.backend, found.path) == (backend, named), path


def test_a_path_without_anything_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone: found no such folder or file, expected a policy on this"):
        find_policy(tmp_path / "gone")


def test_a_name_on_a_hub_is_to_be_downloaded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="hf download USER/MY_ACT --local-dir MY_ACT, then remote-inference"):
        find_policy(Path("USER/MY_ACT"))
    (tmp_path / "USER").mkdir()
    with pytest.raises(UserError, match=r"^USER/MY_ACT: found no such folder or file, expected a policy on"):
        find_policy(Path("USER/MY_ACT"))


def test_a_folder_without_a_policy_is_described(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="found an empty folder, expected a LeRobot checkpoint"):
        find_policy(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "README.md").touch()
    with pytest.raises(UserError, match=r"found README\.md, config\.json, expected .*json with a .type"):
        find_policy(tmp_path)


def test_a_file_that_is_no_policy_is_described(tmp_path: Path) -> None:
    (tmp_path / "policy.pt").touch()
    with pytest.raises(UserError, match=r"policy\.pt: found a file \.pt, expected .*an ONNX file"):
        find_policy(tmp_path / "policy.pt")


def test_the_folder_below_that_holds_the_policy_is_named(tmp_path: Path) -> None:
    act = write_checkpoint(tmp_path / "last" / "pretrained_model")
    with pytest.raises(UserError) as caught:
        find_policy(act.parent)
    assert str(caught.value).endswith(f"; there is one in {act}")


def test_two_policies_in_a_folder_are_both_named(tmp_path: Path) -> None:
    (write_hold(tmp_path / "two") / "model.onnx").touch()
    with pytest.raises(UserError, match=r"a policy that holds .* and .*model\.onnx\), expected one policy"):
        find_policy(tmp_path / "two")
    assert find_policy(tmp_path / "two" / "model.onnx").backend == "onnx"


def test_a_file_that_cannot_be_parsed_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: is not valid JSON"):
        find_policy(tmp_path)


# -- the manifest --------------------------------------------------------------------------------------------


def test_a_manifest_lies_beside_the_policy_and_names_it_relatively(tmp_path: Path) -> None:
    plan = make_plan(write_chunk_policy(tmp_path / "reach"), NOTHING)
    assert plan.manifest == tmp_path / "reach.manifest.yaml"
    assert plan.content == {
        "model": {"backend": "chunk_network", "path": "reach", "device": ["cuda", "cpu"]},
        "max_sessions": 4,
    }
    assert write_manifest(plan)
    assert load_manifest(plan.manifest).model.path == str(tmp_path / "reach")


def test_a_manifest_is_named_after_the_file_that_is_served(tmp_path: Path) -> None:
    (tmp_path / "reach").mkdir()
    onnx = tmp_path / "reach" / "model.onnx"
    onnx.touch()
    assert make_plan(onnx, NOTHING).manifest == tmp_path / "reach" / "model.manifest.yaml"
    assert made(onnx)["model"]["path"] == "model.onnx"
    assert make_plan(onnx.parent, NOTHING).manifest == tmp_path / "reach.manifest.yaml"
    assert made(onnx.parent)["model"]["path"] == "reach/model.onnx"


def test_the_folder_in_which_somebody_stands_is_named_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_hold(tmp_path / "still"))
    assert make_plan(Path(), NOTHING).manifest == tmp_path / "still.manifest.yaml"


def test_what_a_person_says_stands_in_the_manifest(tmp_path: Path) -> None:
    options = ServeOptions(device="cuda:1", dtype="bfloat16", task="pick up the red cube")
    content = made(write_chunk_policy(tmp_path / "reach"), options, tmp_path / "other" / "my.yaml")
    model = content["model"]
    assert (model["device"], model["dtype"]) == ("cuda:1", "bfloat16")
    assert model["path"] == str(tmp_path / "reach"), "another folder than the manifest's"
    assert content["default_task"] == "pick up the red cube"


def test_a_policy_that_computes_nothing_has_no_device(tmp_path: Path) -> None:
    assert made(write_hold(tmp_path / "still"))["model"] == {"backend": "hold", "path": "still"}


def test_a_manifest_that_says_the_same_is_used(tmp_path: Path) -> None:
    plan = make_plan(write_hold(tmp_path / "still"), NOTHING)
    assert write_manifest(plan)
    text = f"# my own words\n{plan.manifest.read_text()}"
    plan.manifest.write_text(text)
    assert not write_manifest(plan)
    assert plan.manifest.read_text() == text


def test_a_manifest_that_says_something_else_is_left_alone(tmp_path: Path) -> None:
    policy = write_hold(tmp_path / "still")
    plan = make_plan(policy, NOTHING)
    text = "model: {backend: hold, path: still, device: cpu}\nmax_sessions: 9\n"
    plan.manifest.write_text(text)
    with pytest.raises(UserError) as caught:
        write_manifest(plan)
    said = str(caught.value).splitlines()
    assert said[1:-1] == ["-   device: cpu", "- max_sessions: 9", "+ max_sessions: 4"]
    assert f"remote-inference serve {plan.manifest}; to write another: --manifest FILE" in said[-1]
    assert plan.manifest.read_text() == text
    assert write_manifest(make_plan(policy, NOTHING, tmp_path / "other.yaml"))


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    plan = make_plan(write_hold(tmp_path / "still"), NOTHING, tmp_path / "gone" / "my.yaml")
    with pytest.raises(UserError, match=r"my\.yaml: cannot be written: No such file .*--manifest FILE"):
        write_manifest(plan)


def test_a_manifest_is_served_as_it_is(tmp_path: Path) -> None:
    write_hold(tmp_path / "still")
    manifest = tmp_path / "mine.yaml"
    manifest.write_text("model: {backend: hold, path: still}\n")
    plan = make_plan(manifest, NOTHING)
    assert (plan.manifest, plan.content) == (manifest, None)
    assert not write_manifest(plan)


def test_an_option_beside_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^--device: found cpu beside the manifest .*mine\.yaml"):
        make_plan(tmp_path / "mine.yaml", ServeOptions(device="cpu"))
    with pytest.raises(UserError, match=r"^--manifest: found .*other\.yaml beside the manifest"):
        make_plan(tmp_path / "mine.yaml", NOTHING, tmp_path / "other.yaml")


def test_a_contract_is_not_taken_for_a_manifest() -> None:
    with pytest.raises(UserError, match=r"belt_arm\.contract\.yaml: model: missing"):
        make_plan(share_path("config", "belt_arm.contract.yaml"), NOTHING)


# -- LeRobot's checkpoints -----------------------------------------------------------------------------------


def test_a_checkpoint_is_served_with_the_names_of_its_data(tmp_path: Path) -> None:
    act, dataset = write_checkpoint(tmp_path / "act"), write_dataset(tmp_path / "data")
    assert made(act, ServeOptions(dataset=dataset))["model"]["options"] == {"dataset": str(dataset)}
    inside = write_dataset(act / "data")
    assert made(act, ServeOptions(dataset=inside))["model"]["options"] == {"dataset": "data/meta/info.json"}


def test_a_checkpoint_without_the_names_of_its_data_is_explained(tmp_path: Path) -> None:
    act = write_checkpoint(tmp_path / "act")
    with pytest.raises(UserError, match=r"^--dataset: missing, expected the .*meta/info\.json") as caught:
        make_plan(act, NOTHING)
    assert "hf download" not in str(caught.value)
    (act / "train_config.json").write_text(json.dumps({"dataset": {"repo_id": "USER/PICKS"}}))
    with pytest.raises(UserError) as caught:
        make_plan(act, NOTHING)
    command, then = str(caught.value).split("; to get it: ")[1].split(", then --dataset ")
    fetching = "hf download USER/PICKS meta/info.json --repo-type dataset --local-dir"
    assert command == f"{fetching} {act / 'data'}"
    assert then == str(act / "data" / "meta" / "info.json")


def test_a_data_set_that_is_not_there_is_named(tmp_path: Path) -> None:
    act = write_checkpoint(tmp_path / "act")
    with pytest.raises(UserError, match=r"--dataset: .*info\.json: found nothing, expected"):
        make_plan(act, ServeOptions(dataset=tmp_path / "info.json"))
    with pytest.raises(UserError, match=r"found a folder, expected the training data's meta/info\.json"):
        make_plan(act, ServeOptions(dataset=tmp_path))


@pytest.mark.parametrize("flag", ["dataset", "language_model"])
def test_an_option_of_checkpoints_is_refused_for_other_policies(tmp_path: Path, flag: str) -> None:
    with pytest.raises(UserError, match=f"^--{flag.replace('_', '-')}: found .*, expected it for LeRobot"):
        make_plan(write_hold(tmp_path / "still"), ServeOptions(**{flag: tmp_path}))


READERS = [kind for kind, family in FAMILIES.items() if family.language_files]


def test_these_kinds_read_a_task() -> None:
    assert READERS == ["pi0", "pi05", "smolvla", "xvla"]


@pytest.mark.parametrize("kind", READERS)
def test_a_missing_tokenizer_is_named_with_the_command_that_gets_it(kind: str, tmp_path: Path) -> None:
    policy = write_checkpoint(tmp_path / kind, kind, "somebody/tokenizer")
    dataset = write_dataset(tmp_path / "data")
    with pytest.raises(UserError, match=r"^--language-model: missing, expected .* somebody") as caught:
        make_plan(policy, ServeOptions(dataset=dataset))
    folder = policy / "tokenizer"
    assert f"hf download somebody/tokenizer --local-dir {folder} --include '" in str(caught.value)
    assert str(caught.value).endswith(f", then --language-model {folder}")
    with pytest.raises(UserError, match="found no folder, expected that of somebody/tokenizer; to get it"):
        make_plan(policy, ServeOptions(dataset=dataset, language_model=folder))
    folder.mkdir()
    options = made(policy, ServeOptions(dataset=dataset, language_model=folder))["model"]["options"]
    assert options == {"dataset": str(dataset), "language_model": "tokenizer"}


def test_a_tokenizer_in_the_hub_s_cache_need_not_be_named(tmp_path: Path) -> None:
    policy = write_checkpoint(tmp_path / "pi0", "pi0", "somebody/tokenizer")
    dataset = write_dataset(tmp_path / "data")
    (tmp_path / "cache" / "models--somebody--tokenizer").mkdir(parents=True)
    assert made(policy, ServeOptions(dataset=dataset))["model"]["options"] == {"dataset": str(dataset)}


def test_a_checkpoint_that_reads_no_task_takes_no_tokenizer(tmp_path: Path) -> None:
    act, dataset = write_checkpoint(tmp_path / "act"), write_dataset(tmp_path / "data")
    with pytest.raises(UserError, match=r"^--language-model: found .* type 'act', which reads no task"):
        make_plan(act, ServeOptions(dataset=dataset, language_model=tmp_path))


def test_the_manifest_that_is_written_is_read_by_people(tmp_path: Path) -> None:
    act, dataset = write_checkpoint(tmp_path / "act"), write_dataset(tmp_path / "act" / "data")
    plan = make_plan(act, ServeOptions(dataset=dataset))
    write_manifest(plan)
    comment, *lines = plan.manifest.read_text().splitlines()
    assert comment.startswith("# Written by `remote-inference serve`")
    assert yaml.safe_load("\n".join(lines)) == plan.content
    assert "  device: [cuda, cpu]" in lines


def test_what_cannot_be_served_ends_with_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", str(tmp_path / "gone")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"remote-inference serve: {tmp_path / 'gone'}: found no such folder or file")
    assert said.err.count("\n") == 1
