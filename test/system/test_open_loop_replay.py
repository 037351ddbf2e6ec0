# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy, or its live server, gives a recorded robot's chunks again, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from remote_inference.base.wire.qos import CHUNK_TOPIC
from remote_inference.tools import cli
from support.importable import python_path
from support.nodes.bag_tape import BagTape
from support.nodes.rig import CONTRACT, Rig, write_contract


def write_telling_manifest(folder: Path, name: str = "telling", **options: str) -> Path:
    model = {"backend": "support.nodes.telling_policy:TellingPolicy", "path": ".", "options": options}
    path = folder / f"{name}.manifest.yaml"
    path.write_text(yaml.safe_dump({"model": model, "max_sessions": 2}))
    return path


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", python_path())
    return write_telling_manifest(tmp_path)


@pytest.fixture
def bag(rig: Rig, tmp_path: Path, manifest: Path) -> Path:
    """Record a robot with a camera that is not used, a history, prefixes, delays, chance and two episodes."""
    tape = BagTape(rig)
    top = {"topic": "top/image_raw", "type": "sensor_msgs/msg/Image"}
    contract = write_contract(tmp_path, images={"top": top, **CONTRACT["images"]})
    rig.start_server(manifest)
    rig.start_robot(contract, buffer_time_s=1.0)
    rig.wait_for_commands(30)
    assert rig.trigger("reset").success
    rig.wait_for_commands(30)
    rig.wait_for(lambda: tape.count(CHUNK_TOPIC) > 12, "chunks")
    assert rig.trigger("pause").success
    return tape.write(tmp_path / "bag", contract)


def replay(capsys: pytest.CaptureFixture[str], *words: object) -> dict:
    capsys.readouterr()
    code = cli.main(["replay", *map(str, words), "--json"])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    report: dict = json.loads(captured.out)
    assert report["exit_code"] == code
    return report


def test_a_policy_and_its_server_give_the_recorded_chunks_again(
    bag: Path,
    manifest: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    told_before_end: list[str],
) -> None:
    for source in (("--policy", manifest), ("--server", "policy_server")):
        report = replay(capsys, *source, bag, "--max-error", "all=0", "--against", "recorded")
        assert (report["exit_code"], report["problems"]) == (0, []), report
        (policy,) = report["policies"]
        assert policy["failed"] == 0
        assert policy["requests"] > 8
        assert policy["identical_chunks"] == policy["compared_chunks"] > 8
        assert policy["same_policy_chunks"] == policy["compared_chunks"]
        assert policy["executed"]["rows"] > 30
        assert all(joint["mean_abs"] < 0.05 for joint in policy["executed"]["joints"])
    assert json.loads(told_before_end[-1]) == report
    other = write_telling_manifest(tmp_path, "other", fingerprint="another")
    report = replay(capsys, "--policy", other, bag)
    assert report["policies"][0]["same_policy_chunks"] == 0
    assert "model space of another policy (telling-1)" in report["notes"][0]


def test_a_server_that_is_not_there_is_named(bag: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(["replay", "--server", "nobody", str(bag), "--timeout", "1"]) == 2
    assert "/nobody/get_status: no such service within 1 s" in capsys.readouterr().err


def test_a_server_is_asked_through_one_client_as_often_as_it_is_named(
    bag: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = replay(
        capsys, *("--server", "policy_server") * 2, bag, "--max-error", "all=0", "--against", "recorded"
    )
    assert report["exit_code"] == 0, report
    first, second = report["policies"]
    assert second == first
