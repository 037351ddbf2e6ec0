# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo's policies as ONNX files, served by a real server to the demo's robot; torch answers the same.

Torch is asked for what the file can do: guidance is left out, so a guided policy gets no prefixes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("onnxscript", reason="found no onnxscript, which requirements/dev.txt lists")

from remote_inference.base.paths import share_path
from remote_inference.base.policy import Continuation
from remote_inference.server.captures.captures import load_capture
from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.policies import load_policy
from remote_inference.server.requests.request_decoder import RequestDecoder
from remote_inference.tools import cli
from remote_inference.tools.deployment import bringup
from support.nodes.rig import Rig

CAPTURES = 5
TOLERANCE = 1e-4


def write_manifest(folder: Path, backend: str, path: Path) -> Path:
    manifest = folder / f"{backend}.manifest.yaml"
    content = {
        "model": {"backend": backend, "path": str(path)},
        "max_sessions": 4,
        "scheduler": "micro_batch",
        "capture_dir": "captures",
        "capture_max": CAPTURES,
    }
    manifest.write_text(yaml.safe_dump(content))
    return manifest


@pytest.mark.parametrize("name", ["belt_arm", "belt_arm_flow", "belt_arm_guidance"])
def test_a_robot_is_driven_by_an_exported_policy_as_by_torch(rig: Rig, tmp_path: Path, name: str) -> None:
    source, exported = share_path("config", "models", name), tmp_path / "exported"
    assert cli.main(["export-onnx", str(source), "--out", str(exported), "--quiet"]) == 0
    rig.start_server(write_manifest(tmp_path, "onnx", exported))
    rig.group.start(bringup.belt_arm(namespace="/belt_arm_1"))
    parameters = {"autostart": True}
    contract = share_path("config", "belt_arm.contract.yaml")
    rig.group.start(bringup.robot(contract, namespace="/belt_arm_1", parameters=parameters))
    folder = tmp_path / "captures"

    def find_captures() -> list[Path]:
        return sorted(folder.glob("*.capture")) if folder.is_dir() else []

    rig.wait_for(lambda: len(find_captures()) == CAPTURES, "captured requests", deadline_s=120.0)
    rig.group.stop()
    manifest = load_manifest(write_manifest(tmp_path, "chunk_network", source))
    policy = load_policy(manifest.model)
    decoder, processors = RequestDecoder(manifest, policy.spec), policy.make_processors()
    for capture in map(load_capture, find_captures()):
        _, message = decoder.request(capture.data)
        observation = decoder.observation(message, capture.offer)
        if policy.spec.continuation is Continuation.GUIDANCE:
            observation = replace(observation, prefix_model=None)
        (model,) = policy.predict([processors.pre(observation)])
        np.testing.assert_allclose(capture.model, model, atol=TOLERANCE)
        np.testing.assert_allclose(capture.robot, processors.post(model), atol=TOLERANCE)
