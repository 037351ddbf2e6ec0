# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Loading the policy that a manifest names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remote_inference.core.document import DocumentError
from remote_inference.core.policy import PolicyError
from remote_inference.core.server.manifest import ModelSource
from remote_inference.policies import load_policy

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


def test_a_missing_policy_file_is_named_with_its_folder(folder: Path) -> None:
    with pytest.raises(DocumentError, match=r"nowhere/policy\.json: cannot be read"):
        load_policy(ModelSource(backend="hold", path=str(folder / "nowhere")))


def test_a_policy_of_ones_own_is_loaded_from_where_the_manifest_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_policies.py").write_text(
        "from remote_inference.policies.hold import HoldPolicy\n\n\n"
        "def load(source):\n    return HoldPolicy(source.path)\n"
    )
    (tmp_path / "policy.json").write_text(HOLD)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_policy(ModelSource(backend="my_policies:load", path=str(tmp_path))).spec.name == "hold"


@pytest.mark.parametrize("backend", ["no_such_module:load", "json:no_such_attribute"])
def test_a_policy_that_is_not_where_the_manifest_says_is_named(backend: str) -> None:
    with pytest.raises(PolicyError, match=rf"model\.backend: '{backend}' cannot be imported: "):
        load_policy(ModelSource(backend=backend, path="."))
