# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference serve`: from the files of a policy to a server that answers a robot, in one command."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from remote_inference.base.paths import share_path
from remote_inference.tools.deployment import bringup
from support.nodes.rig import DEADLINE_S, POLICY, Rig
from support.nodes.serve_verb import ServeVerb

Serve = Callable[..., ServeVerb]


@pytest.fixture
def serve(rig: Rig, tmp_path: Path) -> Iterator[Serve]:
    started: list[ServeVerb] = []

    def start(*arguments: Any) -> ServeVerb:
        started.append(ServeVerb(rig, tmp_path, *arguments))
        return started[-1]

    yield start
    for verb in started:
        verb.end()


@pytest.fixture
def reach(tmp_path: Path) -> Path:
    """A copy of the demo's policy, for which nobody has written a manifest."""
    return shutil.copytree(share_path("config", "models", "belt_arm"), tmp_path / "reach")


def test_the_demo_s_policy_is_served_to_a_robot(rig: Rig, serve: Serve, reach: Path) -> None:
    verb = serve(reach)
    assert verb.wait_until_active().policy_name == "belt_arm"
    rig.group.start(bringup.belt_arm(namespace="/belt_arm_1"))
    contract = share_path("config", "belt_arm.contract.yaml")
    rig.group.start(bringup.robot(contract, namespace="/belt_arm_1", parameters={"autostart": True}))
    rig.wait_for(lambda: verb.status().requests >= 3, "requests of the robot", 4 * DEADLINE_S)
    assert verb.status().errors == 0
    rig.group.stop()
    assert verb.end() == 0
    assert "Traceback" not in verb.said()


def test_it_says_what_it_found_and_wrote_and_what_to_type_on_the_robot(
    serve: Serve, reach: Path, tmp_path: Path
) -> None:
    verb = serve(reach, "--device", "cpu", "--task", "pick up the red cube")
    verb.wait_until_active()
    manifest = tmp_path / "reach.manifest.yaml"
    said = verb.said()
    assert f"{reach}: a chunk policy with the architecture 'prefix_chunk_network'\n" in said
    assert f"{manifest}: written; trying the policy\n" in said
    typed = "remote-inference robot --contract FILE --namespace ROBOT --servers /policy_server"
    assert f"on the robot: {typed}\n" in said
    assert yaml.safe_load(manifest.read_text()) == {
        "model": {"backend": "chunk_network", "path": "reach", "device": "cpu"},
        "default_task": "pick up the red cube",
        "max_sessions": 4,
    }
    assert verb.end() == 0


def test_the_manifest_that_was_written_is_used_again(serve: Serve, tmp_path: Path) -> None:
    policy = tmp_path / "still"
    policy.mkdir()
    (policy / "policy.json").write_text(json.dumps(POLICY))
    first = serve(policy)
    first.wait_until_active()
    assert first.end() == 0
    for path in (policy, tmp_path / "still.manifest.yaml"):
        again = serve(path)
        again.wait_until_active()
        assert "still.manifest.yaml: as it was; trying the policy\n" in again.said()
        assert again.end() == 0


def test_an_onnx_file_is_served(rig: Rig, serve: Serve, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="found no onnxruntime, which requirements/server.txt lists")
    from support.policies.onnx_models import CAMERA, JOINTS, save_model

    verb = serve(save_model(tmp_path))
    assert verb.wait_until_active().policy_name == "tiny"
    assert rig.open_session("/policy_server", joints=JOINTS, cameras=(CAMERA,)).accepted
    assert verb.end() == 0


def test_a_policy_that_cannot_be_served_leaves_no_manifest(reach: Path, tmp_path: Path) -> None:
    (reach / "model.safetensors").write_bytes(b"spoiled")
    command = [sys.executable, "-m", "remote_inference.tools.cli", "serve", str(reach)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=4 * DEADLINE_S)
    assert ended.returncode == 2
    assert "expected a safetensors file" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "reach.manifest.yaml").exists()


def test_a_device_that_is_not_there_is_refused(reach: Path, tmp_path: Path) -> None:
    """`check` only warns of it, for manifests of another machine."""
    command = [sys.executable, "-m", "remote_inference.tools.cli", "serve", str(reach), "--device", "cuda:99"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=4 * DEADLINE_S)
    assert ended.returncode == 2
    assert "model.device: found 'cuda:99'" in ended.stderr
    assert not (tmp_path / "reach.manifest.yaml").exists()
