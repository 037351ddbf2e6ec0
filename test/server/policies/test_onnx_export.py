# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference export-onnx`: the demo's policies as ONNX files answer as in torch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxscript", reason="found no onnxscript, which requirements/dev.txt lists")

from remote_inference.base.paths import share_path
from remote_inference.base.policy import Continuation, PolicyError, PolicyObservation, ServingMode
from remote_inference.server.policies.networks.torch_chunk import CONFIG_FILE, TorchChunkPolicy
from remote_inference.server.policies.onnx import export as onnx_export
from remote_inference.server.policies.onnx.export import Export, export_policy
from remote_inference.server.policies.onnx.policy import OnnxPolicy
from remote_inference.server.warmup import find_serving_mode
from remote_inference.tools import cli

TOLERANCE = 1e-4
RELATIVE = 1e-5  # far from what a flow was trained for its numbers are large, and float32 rounds them so
MODELS = share_path("config", "models")
SHIPPED_POLICY = MODELS / "belt_arm"


@pytest.fixture(scope="module", params=["belt_arm", "belt_arm_flow", "belt_arm_plain", "belt_arm_guidance"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Export:
    return export_policy(MODELS / request.param, tmp_path_factory.mktemp(request.param))


def observe(seed: int) -> PolicyObservation:
    rng = np.random.default_rng(seed)
    images = {
        f"observation.images.{camera}": rng.integers(0, 256, (144, 192, 3), np.uint8)
        for camera in ("front", "wrist")
    }
    state = rng.normal(size=6).astype(np.float32)
    return PolicyObservation(state, images, "", seed=seed)


def wait(observation: PolicyObservation, rows: int, delay_steps: int) -> PolicyObservation:
    """Return the observation of a robot that executes rows meanwhile."""
    prefix = np.random.default_rng(rows).normal(size=(rows, 6)).astype(np.float32)
    return replace(observation, prefix_model=prefix, inference_delay_steps=delay_steps)


def test_the_file_answers_as_torch_alone_and_in_a_batch(exported: Export):
    policy, torch_policy = OnnxPolicy(exported.path), TorchChunkPolicy(MODELS / exported.spec.name)
    ours, theirs = policy.make_processors(), torch_policy.make_processors()
    observations = [observe(seed) for seed in range(16)]
    if exported.spec.continuation is Continuation.TRAINED:  # also with a longer delay than any trained for
        waits = [(0, 0), (9, 9), (20, 9), (4, 12), (0, 36), (60, 50)]
        observations = [wait(o, *waits[seed % len(waits)]) for seed, o in enumerate(observations)]
    expected = torch_policy.predict([theirs.pre(observation) for observation in observations])
    inputs = [ours.pre(observation) for observation in observations]
    alone = [policy.predict([one])[0] for one in inputs]
    for model, *answers in zip(expected, alone, policy.predict(inputs), strict=True):
        for found in answers:
            np.testing.assert_allclose(found, model, rtol=RELATIVE, atol=TOLERANCE)
            np.testing.assert_allclose(ours.post(found), theirs.post(model), rtol=RELATIVE, atol=TOLERANCE)
    assert np.abs(expected[0] - expected[1]).max() > 0.1
    assert find_serving_mode(policy, "").mode is ServingMode.SHARED


def test_the_specification_travels_in_the_file(exported: Export):
    found, expected = OnnxPolicy(exported.path).spec, TorchChunkPolicy(MODELS / exported.spec.name).spec
    for field in ("name", "revision", "state_names", "action_names", "chunk_size", "trained_fps"):
        assert getattr(found, field) == getattr(expected, field), field
    assert dict(found.image_shapes) == dict(expected.image_shapes)
    assert list(exported.path.parent.iterdir()) == [exported.path]
    assert exported.largest_difference <= TOLERANCE


def test_what_the_file_cannot_do_is_said(exported: Export):
    """Guidance needs gradients; nothing else is left out."""
    continuation = TorchChunkPolicy(MODELS / exported.spec.name).spec.continuation
    is_guided = continuation is Continuation.GUIDANCE
    assert exported.left_out is (Continuation.GUIDANCE if is_guided else Continuation.NONE)
    assert exported.spec.continuation is (Continuation.NONE if is_guided else continuation)


def test_the_file_holds_no_path_of_the_machine_that_exported_it(exported: Export):
    content = exported.path.read_bytes()
    for trace in (b"site-packages", b"_network.py", str(Path.cwd()).encode()):
        assert trace not in content


def test_a_file_that_answers_otherwise_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_export, "_compare", lambda *_: float("nan"))
    with pytest.raises(PolicyError, match=r"actions differ by nan .* at most 0\.0001: nothing was written"):
        export_policy(SHIPPED_POLICY, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_command_writes_a_file_and_replaces_it_only_when_told(
    tmp_path: Path, exported: Export, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    calls: list[tuple[Path, Path]] = []

    def export(source: Path, folder: Path) -> Export:
        calls.append((source, folder))
        return exported

    monkeypatch.setattr(onnx_export, "export_policy", export)
    command = ["export-onnx", str(SHIPPED_POLICY), "--out", str(tmp_path)]
    assert cli.main([*command, "--json"]) == 0
    assert calls == [(SHIPPED_POLICY, tmp_path)]
    shown = json.loads(capsys.readouterr().out)
    left_out = "guidance" if exported.left_out is Continuation.GUIDANCE else ""
    assert (shown["path"], shown["left_out"]) == (str(exported.path), left_out)
    assert (shown["name"], shown["bytes"]) == (exported.spec.name, exported.path.stat().st_size)
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
