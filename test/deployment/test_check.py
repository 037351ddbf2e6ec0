# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference check` explains files, judges robots by a server's rules, and exits accordingly."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from remote_inference import cli
from remote_inference.paths import share_path

CONTRACT = share_path("config", "belt_arm.contract.yaml")
MANIFEST = share_path("config", "belt_arm.manifest.yaml")


def changed(folder: Path, **changes: object) -> Path:
    """Write the shipped contract with other values."""
    path = folder / "changed.contract.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(CONTRACT.read_text()) | changes))
    return path


def manifest_of(folder: Path, model: Path, **changes: str) -> Path:
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump({"model": {"backend": "chunk_network", "path": str(model), **changes}}))
    return path


def test_a_contract_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(CONTRACT)]) == 0
    said = capsys.readouterr().out
    assert "contract of belt_arm, 30 Hz" in said
    assert "camera wrist: wrist/image_raw, travels as jpeg" in said
    assert "action gripper: position 0 to 0.035" in said
    assert "goes home in 3 s" in said


def test_a_manifest_is_explained_and_its_policy_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(MANIFEST)]) == 0
    said = capsys.readouterr().out
    assert "backend chunk_network on cpu, float32" in said
    assert "chunks of" in said
    assert "at most 4 sessions" in said


def test_a_robot_that_fits_is_said_to_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(CONTRACT), str(MANIFEST)]) == 0
    assert "belt_arm.contract.yaml on belt_arm.manifest.yaml:\n  fits" in capsys.readouterr().out


def test_a_robot_that_does_not_fit_is_refused_in_the_servers_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", str(changed(tmp_path, rename={})), str(MANIFEST)]) == 1
    assert "refused (cameras): policy needs observation.images" in capsys.readouterr().out


@pytest.mark.parametrize("warned", [True, False])
def test_a_policy_that_does_not_continue_prefixes_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], warned: bool
) -> None:
    name = "belt_arm" if warned else "belt_arm_flow"
    manifest = manifest_of(tmp_path, share_path("config", "models", name))
    assert cli.main(["check", str(CONTRACT), str(manifest)]) == 0
    said = capsys.readouterr().out
    assert ("  fits\n  warning: policy does not continue prefixes (no RTC)\n" in said) == warned
    assert f"  {'does not continue' if warned else 'continues'} prefixes (RTC)\n" in said


def test_a_device_that_this_machine_lacks_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = manifest_of(tmp_path, share_path("config", "models", "belt_arm"), device="cuda:99")
    assert cli.main(["check", str(CONTRACT), str(manifest)]) == 0
    said = capsys.readouterr().out
    assert "backend chunk_network on cuda:99" in said
    assert "  warning: device 'cuda:99': " in said
    assert "its files were checked on the cpu\n" in said
    assert "  fits\n" in said


def test_a_device_that_no_machine_has_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = manifest_of(tmp_path, share_path("config", "models", "belt_arm"), device="abacus")
    assert cli.main(["check", str(manifest)]) == 2
    assert "device 'abacus'" in capsys.readouterr().err


def test_warnings_do_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(changed(tmp_path, fps=20.0)), str(MANIFEST)]) == 0
    assert "warning: control rate is 20 Hz on the robot, 30 Hz in training" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fps: 30", "expected a contract or a manifest"),
        ("- 1", "expected a contract or a manifest"),
        ("actions: {}", "robot_type: missing"),
        ("model: {backend: hold, path: nowhere}", "policy.json: cannot be read"),
        ("model: {backend: chunk_network, path: nowhere}", "policy.json: No such file"),
    ],
)
def test_a_bad_file_is_named_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert cli.main(["check", str(path)]) == 2
    assert words in capsys.readouterr().err
