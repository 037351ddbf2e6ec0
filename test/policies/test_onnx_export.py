# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference export-onnx`: the demo's policies as ONNX files answer as in torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxscript", reason="found no onnxscript, which requirements/dev.txt lists")

from remote_inference import cli
from remote_inference.core.policy import Continuation, PolicyError, PolicyObservation, ServingMode
from remote_inference.core.server.probe import find_serving_mode
from remote_inference.environments.belt_arm.evaluate import SHIPPED_FLOW_POLICY, SHIPPED_POLICY
from remote_inference.policies import onnx_export
from remote_inference.policies.onnx_export import Export, export_policy
from remote_inference.policies.onnx_policy import OnnxPolicy
from remote_inference.policies.torch_chunk import CONFIG_FILE, TorchChunkPolicy

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Export:
    return export_policy(SHIPPED_POLICY, tmp_path_factory.mktemp("regression"))


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Export:
    return export_policy(SHIPPED_FLOW_POLICY, tmp_path_factory.mktemp("flow"))


def observe(seed: int) -> PolicyObservation:
    rng = np.random.default_rng(seed)
    images = {
        f"observation.images.{camera}": rng.integers(0, 256, (144, 192, 3), np.uint8)
        for camera in ("front", "wrist")
    }
    return PolicyObservation(rng.normal(size=6).astype(np.float32), images, "", seed=seed)


@pytest.mark.parametrize(("name", "source"), [("regression", SHIPPED_POLICY), ("flow", SHIPPED_FLOW_POLICY)])
def test_the_file_answers_as_torch_alone_and_in_a_batch(
    name: str, source: Path, request: pytest.FixtureRequest
):
    torch_policy, policy = TorchChunkPolicy(source), OnnxPolicy(request.getfixturevalue(name).path)
    ours, theirs = policy.make_processors(), torch_policy.make_processors()
    observations = [observe(seed) for seed in range(16)]
    expected = torch_policy.predict([theirs.pre(observation) for observation in observations])
    inputs = [ours.pre(observation) for observation in observations]
    alone = [policy.predict([one])[0] for one in inputs]
    for model, *answers in zip(expected, alone, policy.predict(inputs), strict=True):
        for found in answers:
            np.testing.assert_allclose(found, model, atol=TOLERANCE)
            np.testing.assert_allclose(ours.post(found), theirs.post(model), atol=TOLERANCE)
    assert np.abs(expected[0] - expected[1]).max() > 0.1
    assert find_serving_mode(policy, "").mode is ServingMode.SHARED


@pytest.mark.parametrize(("name", "source"), [("regression", SHIPPED_POLICY), ("flow", SHIPPED_FLOW_POLICY)])
def test_the_specification_travels_in_the_file(name: str, source: Path, request: pytest.FixtureRequest):
    export: Export = request.getfixturevalue(name)
    found, expected = OnnxPolicy(export.path).spec, TorchChunkPolicy(source).spec
    for field in ("name", "revision", "state_names", "action_names", "chunk_size", "trained_fps"):
        assert getattr(found, field) == getattr(expected, field), field
    assert dict(found.image_shapes) == dict(expected.image_shapes)
    assert list(export.path.parent.iterdir()) == [export.path]
    assert export.largest_difference <= TOLERANCE


def test_what_the_file_cannot_do_is_said(regression: Export, flow: Export):
    assert regression.left_out is Continuation.NONE
    assert flow.left_out is Continuation.GUIDANCE
    assert OnnxPolicy(flow.path).spec.continuation is Continuation.NONE


def test_the_file_holds_no_path_of_the_machine_that_exported_it(flow: Export):
    content = flow.path.read_bytes()
    for trace in (b"site-packages", b"flow_network.py", str(Path.cwd()).encode()):
        assert trace not in content


def test_a_file_that_answers_otherwise_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_export, "_compare", lambda *_: float("nan"))
    with pytest.raises(PolicyError, match=r"actions differ by nan .* at most 0\.0001: nothing was written"):
        export_policy(SHIPPED_POLICY, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_architecture_without_an_export_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_export, "_GRAPHS", {"flow_network": onnx_export._GRAPHS["flow_network"]})
    with pytest.raises(PolicyError, match="architecture: found 'chunk_network', expected flow_network: "):
        export_policy(SHIPPED_POLICY, tmp_path)


def test_the_command_writes_a_file_and_replaces_it_only_when_told(
    tmp_path: Path, regression: Export, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    calls: list[tuple[Path, Path]] = []

    def export(source: Path, folder: Path) -> Export:
        calls.append((source, folder))
        return regression

    monkeypatch.setattr(onnx_export, "export_policy", export)
    command = ["export-onnx", str(SHIPPED_POLICY), "--out", str(tmp_path)]
    assert cli.main([*command, "--json"]) == 0
    assert calls == [(SHIPPED_POLICY, tmp_path)]
    shown = json.loads(capsys.readouterr().out)
    assert (shown["path"], shown["name"], shown["left_out"]) == (str(regression.path), "belt_arm", "")
    assert shown["bytes"] == regression.path.stat().st_size
    (tmp_path / "model.onnx").write_bytes(b"mine")
    assert cli.main(command) == 2
    assert (
        f"--out: {tmp_path}/model.onnx exists, expected a folder without, or --force"
        in capsys.readouterr().err
    )
    assert cli.main([*command, "--force", "--quiet"]) == 0
    assert len(calls) == 2


def test_a_source_that_is_no_chunk_policy_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["export-onnx", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert f"remote-inference export-onnx: {tmp_path}/{CONFIG_FILE}: No such file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
