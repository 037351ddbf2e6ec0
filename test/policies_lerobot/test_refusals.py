# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints and manifests that cannot be served: refused in one line, and nothing stays in memory."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants
from lerobot.policies.pretrained import PreTrainedPolicy
from safetensors.torch import load_file, save_file

from remote_inference.base.policy import DeviceError, PolicyError
from support.lerobot.tiny_policies import BUILDERS, Built

LOADS_STRICTLY = pytest.mark.parametrize("kind", list(BUILDERS))


def change_weights(checkpoint: Built, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    file = checkpoint.folder / "model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file)


def last(weights: dict[str, torch.Tensor]) -> str:
    """Return the name of a weight that is tied to no other."""
    return sorted(name for name in weights if "embed" not in name and "lm_head" not in name)[-1]


@LOADS_STRICTLY
def test_a_missing_weight_is_named(kind: str, built: dict[str, Built], tmp_path: Path) -> None:
    """LeRobot goes on with a random one: by default, and pi0 and pi05 in any case."""
    checkpoint = built[kind].copy(tmp_path)
    names: list[str] = []
    change_weights(checkpoint, lambda weights: (names.append(last(weights)), weights.pop(names[0])))
    with pytest.raises(PolicyError, match=r"model\.safetensors: does not fit config\.json: ") as caught:
        checkpoint.load()
    assert names[0] in str(caught.value)
    assert "\n" not in str(caught.value)


@LOADS_STRICTLY
def test_a_weight_of_another_shape_is_named_with_both(
    kind: str, built: dict[str, Built], tmp_path: Path
) -> None:
    checkpoint = built[kind].copy(tmp_path)
    names: list[str] = []

    def spoil(weights: dict[str, torch.Tensor]) -> None:
        names.append(last(weights))
        weights[names[0]] = torch.zeros(2, 3, 5, 7)

    change_weights(checkpoint, spoil)
    with pytest.raises(PolicyError, match=r"size mismatch .*\[2, 3, 5, 7\]") as caught:
        checkpoint.load()
    assert names[0] in str(caught.value)


@LOADS_STRICTLY
def test_a_weight_too_many_is_named(kind: str, built: dict[str, Built], tmp_path: Path) -> None:
    checkpoint = built[kind].copy(tmp_path)
    change_weights(checkpoint, lambda weights: weights.update({"model.surplus": torch.zeros(1)}))
    with pytest.raises(PolicyError, match=r"model\.surplus"):
        checkpoint.load()


@pytest.mark.parametrize("kind", ["act", "pi0"])
def test_a_file_that_is_no_safetensors_file_is_named(
    kind: str, built: dict[str, Built], tmp_path: Path
) -> None:
    checkpoint = built[kind].copy(tmp_path)
    file = checkpoint.folder / "model.safetensors"
    whole = file.read_bytes()
    for content, found in (
        (b"\x80\x04 a pickle", "a pickle: loading one can execute code, expected a safetensors file"),
        (whole[:-5], "a safetensors file that is damaged or cut off, expected it whole: "),
        (b"Entry not found", "the text 'Entry not found', expected a safetensors file: "),
    ):
        file.write_bytes(content)
        with pytest.raises(PolicyError, match=rf"model\.safetensors: found {found}"):
            checkpoint.load()


def test_nothing_stays_in_memory_of_a_policy_that_is_refused(
    act: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even while the error is held, as a node does."""
    made: list[weakref.ref[Any]] = []
    original = PreTrainedPolicy.__init__

    def note(self: Any, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        made.append(weakref.ref(self))

    monkeypatch.setattr(PreTrainedPolicy, "__init__", note)
    change_weights(act, lambda weights: weights.pop(last(weights)))
    with pytest.raises(PolicyError) as caught:
        act.load()
    gc.collect()
    assert caught.value
    assert [reference() for reference in made] == [None]


def test_a_closed_policy_holds_no_weights(act: Built) -> None:
    policy = act.load()
    policy.close()
    assert {parameter.device.type for parameter in policy._network.parameters()} == {"meta"}


def test_a_device_that_is_not_there_is_named(act: Built) -> None:
    with pytest.raises(DeviceError, match=r"model\.device: found 'cuda:7', expected a device"):
        act.load(device="cuda:7")
    with pytest.raises(PolicyError, match=r"model\.device: found 'gpu', expected a device of torch"):
        act.load(device="gpu")


def test_a_checkpoint_from_a_gpu_runs_where_the_manifest_says(act: Built) -> None:
    act.edit("config.json", lambda config: config.update(device="cuda"))
    for name in ("policy_preprocessor.json", "policy_postprocessor.json"):
        act.edit(name, put_on_a_gpu)
    assert act.load().spec.chunk_size


def put_on_a_gpu(pipeline: Any) -> None:
    for step in pipeline["steps"]:
        if step["registry_name"] == "device_processor":
            step["config"]["device"] = "cuda"


def test_processors_that_an_old_checkpoint_lacks_are_made_by_lerobots_command(act: Built) -> None:
    (act.folder / "policy_preprocessor.json").unlink()
    (act.folder / "policy_postprocessor.json").unlink()
    with pytest.raises(
        PolicyError, match=r"policy_preprocessor\.json: missing.*migrate_policy_normalization"
    ) as caught:
        act.load()
    assert str(act.folder) in str(caught.value).split("--pretrained-path")[1]


def test_statistics_that_are_missing_are_named(act: Built) -> None:
    """LeRobot would pass normalised actions on to the robot."""
    change = {"policy_postprocessor.json": "action", "policy_preprocessor.json": "observation.state"}
    for name, key in change.items():
        (file,) = act.folder.glob(f"{Path(name).stem}_step_*normalizer*.safetensors")
        content = {
            tensor: value for tensor, value in load_file(file).items() if not tensor.startswith(f"{key}.")
        }
        whole = file.read_bytes()
        save_file(content, file)
        with pytest.raises(
            PolicyError, match=rf"{name}: (un)?normalizer_processor: {key}: found no statistics"
        ):
            act.load()
        file.write_bytes(whole)


@pytest.mark.parametrize(("length", "key"), [(1, "action"), (2, "observation.state")])
def test_statistics_of_another_length_are_named_with_both(act: Built, length: int, key: str) -> None:
    """LeRobot would broadcast one number to every joint."""
    (file,) = act.folder.glob(f"policy_{'post' if key == 'action' else 'pre'}processor_step_*.safetensors")
    content = load_file(file)
    save_file({**content, f"{key}.std": content[f"{key}.std"][:length].contiguous()}, file)
    with pytest.raises(PolicyError, match=rf"{key}: found 'std' of shape \[{length}\], expected \[3\]"):
        act.load()


def step_of(steps: list[Any], name: str) -> Any:
    return next(step for step in steps if step["registry_name"] == name)


def without_unnormalizer(steps: list[Any]) -> None:
    steps.remove(step_of(steps, "unnormalizer_processor"))


def with_two_unnormalizers(steps: list[Any]) -> None:
    steps.append(step_of(steps, "unnormalizer_processor"))


def without_modes(steps: list[Any]) -> None:
    step_of(steps, "unnormalizer_processor")["config"]["norm_map"] = {}


def with_another_mode(steps: list[Any]) -> None:
    step_of(steps, "unnormalizer_processor")["config"]["norm_map"]["ACTION"] = "MIN_MAX"


def without_the_state(steps: list[Any]) -> None:
    del step_of(steps, "normalizer_processor")["config"]["features"]["observation.state"]


@pytest.mark.parametrize(
    ("file", "change", "problem"),
    [
        ("post", without_unnormalizer, "steps: found no unnormalizer_processor, expected one: .* for action"),
        ("post", list.clear, "steps: found no unnormalizer_processor"),
        ("post", with_two_unnormalizers, "steps: found 2 of unnormalizer_processor, expected one"),
        ("post", without_modes, "action: found the mode IDENTITY, expected MEAN_STD"),
        ("post", with_another_mode, "action: found the mode MIN_MAX, expected MEAN_STD"),
        ("pre", list.clear, "steps: found no normalizer_processor, expected one"),
        ("pre", without_the_state, "observation.state: found the mode IDENTITY, expected MEAN_STD"),
    ],
)
def test_a_checkpoint_that_would_not_scale_a_feature_as_in_training_is_refused(
    act: Built, file: str, change: Callable[[list[Any]], None], problem: str
) -> None:
    name = f"policy_{file}processor.json"
    act.edit(name, lambda content: change(content["steps"]))
    with pytest.raises(PolicyError, match=rf"{name}: .*{problem}"):
        act.load()


def test_a_rename_that_takes_a_camera_away_names_step_and_file(act: Built) -> None:
    """LeRobot would miss it in the first request."""

    def rename(content: Any) -> None:
        step = step_of(content["steps"], "rename_observations_processor")
        step["config"]["rename_map"] = {"observation.images.front": "observation.images.top"}

    act.edit("policy_preprocessor.json", rename)
    place = r"policy_preprocessor\.json: rename_observations_processor\.rename_map"
    with pytest.raises(PolicyError, match=rf"{place}: found '.*front' renamed to '.*top'"):
        act.load()


def test_the_training_data_s_ranges_are_known(act: Built) -> None:
    spec = act.load().spec
    assert spec.state_ranges["elbow"] == pytest.approx((-1.7, 1.9))
    assert spec.action_ranges["elbow"] == pytest.approx((-1.5, 2.1))


def test_a_tokenizer_that_is_not_here_is_named(built: dict[str, Built]) -> None:
    with pytest.raises(
        PolicyError, match=r"tokenizer_name: found 'nobody/tokenizer', which is not on this machine"
    ):
        built["pi0"].load(options={"language_model": ""})
    with pytest.raises(PolicyError, match=r"model\.options: language_model: .*/nowhere: found no folder"):
        built["pi0"].load(options={"language_model": "nowhere"})


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("n_obs_steps", 2, "n_obs_steps: found 2, expected 1 for a policy of type act"),
        ("temporal_ensemble_coeff", 0.01, "temporal_ensemble_coeff: found 0.01, expected "),
        ("use_amp", True, "use_amp: found "),
    ],
)
def test_what_lerobot_s_loop_would_do_and_a_server_does_not_is_refused(
    act: Built, key: str, value: object, problem: str
) -> None:
    act.edit("config.json", lambda config: config.update({key: value}))
    with pytest.raises(PolicyError, match=rf"config\.json: {problem}"):
        act.load()


def test_a_configuration_that_lerobot_does_not_know_is_named(act: Built) -> None:
    act.edit("config.json", lambda config: config.update(from_the_future=1))
    with pytest.raises(PolicyError, match=r"config\.json: .*from_the_future"):
        act.load()


def test_a_camera_that_is_no_rgb_camera_is_refused(act: Built) -> None:
    act.edit(
        "config.json",
        lambda config: config["input_features"]["observation.images.front"].update(shape=[1, 48, 64]),
    )
    with pytest.raises(PolicyError, match=r"input_features\.observation\.images\.front: found 1 channels"):
        act.load()


# urllib3 makes a socket when it is imported, and binds it to ::1: that reaches nobody.
LOAD_GUARDED = """
import json, os, sys
REACHING = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg")
reached = []
sys.addaudithook(lambda event, details: event in REACHING and reached.append((event, str(details))))
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies import load_policy
source = ModelSource(**json.loads({source!r}))
policy = load_policy(source)
policy.make_processors()
print(json.dumps([policy.spec.chunk_size, os.environ["HF_HUB_OFFLINE"], reached]))
"""


@pytest.mark.parametrize("kind", list(BUILDERS))
def test_loading_reaches_for_no_other_machine(kind: str, built: dict[str, Built], tmp_path: Path) -> None:
    """Some configurations name weights that LeRobot would fetch: torchvision's, and a language model's."""
    checkpoint = built[kind].copy(tmp_path)
    if kind == "act":
        checkpoint.edit(
            "config.json",
            lambda config: config.update(pretrained_backbone_weights="ResNet18_Weights.IMAGENET1K_V1"),
        )
    changes = {"backend": "support.lerobot.small_pi:load"} if kind in {"pi0", "pi05"} else {}
    script = LOAD_GUARDED.format(source=checkpoint.source(**changes).model_dump_json(exclude_defaults=True))
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TRANSFORMERS_"))
    }
    environment["HOME"] = environment["TORCH_HOME"] = str(tmp_path)  # no cache
    paths = [str(Path(__file__).parents[1]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # for support.lerobot.small_pi
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    _, offline, reached = json.loads(done.stdout.splitlines()[-1])
    assert (offline, reached) == ("1", [])


def cache(hub: Path, name: str, content: Path) -> Path:
    """Lay the files of a name into a hub's cache, as a download does; return where."""
    place, revision = hub / f"models--{name.replace('/', '--')}", "0123456789" * 4
    shutil.copytree(content, place / "snapshots" / revision)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(revision)
    return place / "snapshots" / revision


@pytest.mark.parametrize("cached", [True, False])
def test_the_fingerprint_tells_of_every_file_of_the_tokenizer(
    cached: bool, built: dict[str, Built], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it lies in the hub's cache, under the names that the checkpoint says."""
    checkpoint = built["smolvla"]
    source = Path(checkpoint.options["language_model"])
    if cached:
        hub = tmp_path / "hub"
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub))
        folders = [cache(hub, name, source) for name in ("nobody/tokenizer", "nobody/vlm")]
    else:
        folders = [tmp_path / "vlm"]
        shutil.copytree(source, folders[0])
    options = {"language_model": "" if cached else str(folders[0])}

    def find_fingerprint() -> str:
        return checkpoint.load(options=options).spec.fingerprint

    seen = [find_fingerprint()]
    assert find_fingerprint() == seen[0]
    (folders[0] / "README.md").write_text("says nothing of how a task is read")
    assert find_fingerprint() == seen[0]
    for folder in folders:
        file = folder / "tokenizer_config.json"
        file.write_text(file.read_text() + "\n")
        seen.append(find_fingerprint())
        for name in ("vocab.txt", "spiece.model", "chat_template.jinja"):
            (folder / name).write_text("other")
            seen.append(find_fingerprint())
    assert len(set(seen)) == len(seen)


def test_the_fingerprint_tells_whatever_changes_a_chunk(act: Built) -> None:
    seen = [act.load().spec.fingerprint]
    assert act.load().spec.fingerprint == seen[0]

    def note() -> None:
        seen.append(act.load().spec.fingerprint)

    change_weights(act, lambda weights: weights[last(weights)].add_(0.01))
    note()
    act.edit("config.json", lambda config: config.update(dropout=0.2))
    note()
    act.edit("policy_preprocessor.json", lambda pipeline: pipeline.update(name="other"))
    note()
    (file,) = act.folder.glob("policy_postprocessor_step_*normalizer*.safetensors")
    save_file({name: value + 0.01 for name, value in load_file(file).items()}, file)
    note()
    assert len(set(seen)) == 5
