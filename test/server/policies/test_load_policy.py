# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Loading the policy that a manifest names."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import DeviceError, PolicyError
from remote_inference.server.manifest.manifest import ModelSource, load_manifest
from remote_inference.server.policies import load_on_first_device, load_policy
from support.entry_point_files import install

HOLD = json.dumps(
    {
        "name": "hold",
        "revision": "7",
        "state_names": ["elbow"],
        "action_names": ["elbow"],
        "chunk_size": 4,
        "trained_fps": 30.0,
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.json").write_text(HOLD)
    return tmp_path


@pytest.mark.parametrize("revision", ["", "7"])
def test_the_revision_that_is_asked_for_is_served(folder: Path, revision: str) -> None:
    assert load_policy(ModelSource(backend="hold", path=str(folder), revision=revision)).spec.revision == "7"


def test_another_revision_is_refused_with_both_named(folder: Path) -> None:
    with pytest.raises(PolicyError, match="revision: found '7', expected '8'"):
        load_policy(ModelSource(backend="hold", path=str(folder), revision="8"))


def test_a_path_may_name_the_policys_file(folder: Path) -> None:
    (folder / "policy.json").rename(folder / "arm.json")
    assert load_policy(ModelSource(backend="hold", path=str(folder / "arm.json"))).spec.revision == "7"


needs_onnx = pytest.mark.skipif(
    not find_spec("onnx"), reason="found no onnx: requirements/server.txt lists it"
)


@pytest.mark.parametrize(
    "backend", ["hold", "chunk_network", pytest.param("onnx", marks=needs_onnx), "lerobot"]
)
def test_a_name_on_a_hub_is_no_path(folder: Path, backend: str) -> None:
    path = folder / "lerobot" / "act_aloha_sim_transfer_cube_human"
    with pytest.raises((DocumentError, PolicyError)) as refusal:
        load_policy(ModelSource(backend=backend, path=str(path)))
    (line,) = str(refusal.value).splitlines()
    assert line.startswith("model.path: ")
    assert str(path) in line
    assert line.endswith("nothing is fetched from a hub")


def test_a_missing_policy_file_is_named_with_its_folder(folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(DocumentError, match=r"empty/policy\.json: cannot be read"):
        load_policy(ModelSource(backend="hold", path=str(folder / "empty")))


def test_a_policy_of_ones_own_is_loaded_from_where_the_manifest_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_policies.py").write_text(
        "from remote_inference.server.policies.hold import HoldPolicy\n\n\n"
        "def load(source):\n    return HoldPolicy(source.path)\n"
    )
    (tmp_path / "policy.json").write_text(HOLD)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_policy(ModelSource(backend="my_policies:load", path=str(tmp_path))).spec.name == "hold"


@pytest.mark.parametrize("backend", ["no_such_module:load", "json:no_such_attribute"])
def test_a_policy_that_is_not_where_the_manifest_says_is_named(backend: str) -> None:
    with pytest.raises(PolicyError, match=rf"model\.backend: '{backend}' cannot be imported: "):
        load_policy(ModelSource(backend=backend, path="."))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the path, to install into."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_policy_of_an_installed_distribution_is_loaded_by_its_entry_point(site: Path) -> None:
    install(site, "still-policies", "still = still_policies:load")
    (site / "still_policies.py").write_text(
        "from remote_inference.server.policies.hold import HoldPolicy\n\n\n"
        "def load(source):\n    return HoldPolicy(source.path)\n"
    )
    (site / "policy.json").write_text(HOLD)
    manifest = site / "manifest.yaml"
    manifest.write_text("model: {backend: still, path: policy.json}")
    assert load_policy(load_manifest(manifest).model).spec.name == "hold"


@pytest.mark.parametrize(
    ("module", "code", "reason"),
    [
        ("lacking", "import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("misspelt", "load = 3 +", "SyntaxError: invalid syntax"),
        ("unlicensed", "raise RuntimeError('no licence\\nhere')", "RuntimeError: no licence here"),
        ("empty", "", "AttributeError: module 'empty' has no attribute 'load'"),
        ("leaving", "import sys; sys.exit('no GPU')", "it called sys.exit('no GPU')"),
    ],
)
def test_an_entry_point_that_cannot_be_imported_is_named_with_its_distribution(
    site: Path, module: str, code: str, reason: str
) -> None:
    install(site, "broken-policies", f"broken = {module}:load", version="0.3")
    (site / f"{module}.py").write_text(code)
    with pytest.raises(PolicyError) as refusal:
        load_policy(ModelSource(backend="broken", path="."))
    assert str(refusal.value).startswith(
        f"model.backend: 'broken' of broken-policies 0.3 cannot be imported: {reason}"
    )
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("module", "code", "reason"),
    [
        ("constant", "load = 3", "found int, expected a callable"),
        ("forgetful", "def load(source): pass", "returned NoneType without a PolicySpec as `spec`"),
        ("exiting", "import sys\ndef load(source): sys.exit(3)", "called sys.exit(3)"),
        (
            "unending",
            "from remote_inference.base.policy import PolicySpec\n"
            "class Unending:\n"
            "    spec = PolicySpec('a', '1', 'f', (), ('elbow',), {}, 4, 30.0)\n"
            "    def predict(self, batch): pass\n"
            "    def make_processors(self): pass\n"
            "def load(source): return Unending()",
            "returned Unending without `reset()`, `close()`",
        ),
    ],
)
def test_an_entry_point_that_makes_no_policy_is_named(
    site: Path, module: str, code: str, reason: str
) -> None:
    install(site, "odd-policies", f"odd = {module}:load")
    (site / f"{module}.py").write_text(code)
    with pytest.raises(PolicyError) as refusal:
        load_policy(ModelSource(backend="odd", path="."))
    assert str(refusal.value).startswith("model.backend: 'odd' of odd-policies 1.0")
    assert reason in str(refusal.value)


def test_two_distributions_with_one_name_are_refused_where_the_manifest_names_it(site: Path) -> None:
    install(site, "still-policies", "still = still_policies:load")
    install(site, "other-policies", "still = other_policies:load")
    manifest = site / "manifest.yaml"
    manifest.write_text("model: {backend: still, path: policy.json}")
    with pytest.raises(DocumentError) as refusal:
        load_manifest(manifest)
    assert str(refusal.value).startswith(f"{manifest}: model.backend: found 'still', which is declared by ")
    assert "other-policies 1.0" in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


DEVICES = """
from remote_inference.base.policy import DeviceError
from remote_inference.server.policies.hold import HoldPolicy


def load(source):
    if source.device != "npu:1":
        raise DeviceError(f"device {source.device!r}: not here")
    return HoldPolicy(source.path)
"""


def device_source(site: Path, *devices: str) -> ModelSource:
    (site / "npu_policies.py").write_text(DEVICES)
    (site / "policy.json").write_text(HOLD)
    return ModelSource(backend="npu_policies:load", path=str(site), device=devices)


def test_the_first_device_of_a_list_that_this_machine_has_is_used(site: Path) -> None:
    placed = load_on_first_device(device_source(site, "npu:0", "npu:1", "cpu"))
    assert (placed.policy.spec.name, placed.device) == ("hold", "npu:1")
    assert placed.passed_over == ("device 'npu:0': not here",)


def test_devices_that_are_all_missing_are_all_named(site: Path) -> None:
    with pytest.raises(DeviceError) as refusal:
        load_policy(device_source(site, "npu:0", "cpu"))
    assert str(refusal.value) == "device 'npu:0': not here; device 'cpu': not here"


@pytest.mark.parametrize("backend", ["hold", "chunk_network"])
def test_an_option_that_a_back_end_does_not_know_is_named(folder: Path, backend: str) -> None:
    with pytest.raises(DocumentError, match=r"^model\.options: comple: unknown key, "):
        load_policy(ModelSource(backend=backend, path=str(folder), options={"comple": True}))
