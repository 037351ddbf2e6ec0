# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`replay --capture` distinguishes a batch's rounding from a different chunk, and names every bad capture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message

from remote_inference.base.policy import Float32Array, PolicyObservation, ServingMode
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.server.captures import captures as captures_module
from remote_inference.server.captures.captures import Capture, CaptureRing
from remote_inference.server.manifest.manifest import ModelSource, load_manifest
from remote_inference.server.policies import PlacedPolicy, load_policy
from remote_inference.tools import cli
from support.builders import CHUNK_SIZE, JOINTS, SteadyPolicy, make_offer, make_request

STATE = np.array([0.25, -0.5], np.float32)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    policy = {
        "name": "hold",
        "revision": "1",
        "state_names": JOINTS,
        "action_names": JOINTS,
        "chunk_size": CHUNK_SIZE,
        "trained_fps": 20.0,
    }
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    return write_manifest(tmp_path)


def write_manifest(folder: Path, **changes: Any) -> Path:
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump({"model": {"backend": "hold", "path": "."}, **changes}))
    return path


class Ring:
    """Writes captures of what the policy answers."""

    def __init__(self, manifest: Path) -> None:
        self._ring = CaptureRing(manifest.parent / "captures", 100)
        request = make_request(task="wave")
        self.capture = Capture(
            make_offer(images=()),
            serialize_message(observation_to_message(request, STATE, [], Time())),
            np.tile(STATE, (CHUNK_SIZE, 1)),
            np.tile(STATE, (CHUNK_SIZE, 1)),
            load_policy(ModelSource(backend="hold", path=str(manifest.parent))).spec.fingerprint,
            request.seq_id,
            batch_size=1,
        )

    def put(self, off: float = 0.0, **changes: Any) -> str:
        """Write one capture. off: error in one value of its chunk in robot space."""
        capture = replace(self.capture, **changes)
        capture.robot[-1, 0] += off
        path = str(self._ring.put(capture))
        capture.robot[-1, 0] = STATE[0]
        return path


@pytest.fixture
def ring(manifest: Path) -> Ring:
    return Ring(manifest)


def test_a_request_that_was_served_alone_must_give_the_same_bytes(
    ring: Ring, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["replay", "--capture", ring.put(), "--manifest", str(manifest)]) == 0
    assert capsys.readouterr().out.endswith(": equal\n")
    assert cli.main(["replay", "--capture", ring.put(off=1e-6), "--manifest", str(manifest)]) == 1
    assert "differs by 1e-06\n" in capsys.readouterr().out


def test_a_request_that_was_served_in_a_batch_may_differ_in_its_last_digits(
    ring: Ring, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        cli.main(["replay", "--capture", ring.put(off=1e-6, batch_size=8), "--manifest", str(manifest)]) == 0
    )
    expected = ": equal within tolerance, differs by 1e-06 (served in a batch of 8)\n"
    assert capsys.readouterr().out.endswith(expected)


@pytest.mark.parametrize(
    ("device", "dtype", "agrees"),
    [
        ("cpu", "float32", False),
        ("cpu", "bfloat16", True),
        ("cuda:1", "float32", True),
        ("cuda:0, cuda:1", "float32", True),  # replicas
    ],
)
def test_how_far_a_batch_may_differ_depends_on_precision_and_device(
    ring: Ring, manifest: Path, monkeypatch: pytest.MonkeyPatch, device: str, dtype: str, agrees: bool
) -> None:
    """The manifest need not say the precision: the checkpoint may. A GPU takes fewer digits of a float32."""
    policy = load_policy(ModelSource(backend="hold", path=str(manifest.parent)))
    policy.spec = replace(policy.spec, dtype=dtype)
    monkeypatch.setattr(
        "remote_inference.server.captures.captures.load_on_first_device",
        lambda model: PlacedPolicy(policy, device),
    )
    file = ring.put(off=0.005, batch_size=8)
    assert cli.main(["replay", "--capture", file, "--manifest", str(manifest)]) == (0 if agrees else 1)


def test_a_different_chunk_is_no_rounding_in_any_batch(
    ring: Ring, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        cli.main(["replay", "--capture", ring.put(off=0.01, batch_size=8), "--manifest", str(manifest)]) == 1
    )
    assert ": differs by 0.01 (served in a batch of 8)\n" in capsys.readouterr().out


def test_captures_that_cannot_be_served_are_named_and_the_others_served(
    ring: Ring, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pinned = write_manifest(manifest.parent, default_task="clap", pin_task=True)
    unpinned = serialize_message(observation_to_message(make_request(task=""), STATE, [], Time()))
    files = [ring.put(), ring.put(data=b"no message"), ring.put(data=unpinned)]
    assert cli.main(["replay", "--capture", *files, "--manifest", str(pinned)]) == 1
    first, second, third = capsys.readouterr().out.splitlines()
    assert "cannot be compared: WireError: task: found 'wave', expected 'clap', which is pinned" in first
    assert f"{files[1]}: request 1: cannot be compared: " in second
    assert third == f"{files[2]}: request 1: equal"


def test_a_robot_of_another_policy_is_named(
    ring: Ring, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_joint = np.array([0.25], np.float32)
    data = serialize_message(observation_to_message(make_request(), one_joint, [], Time()))
    file = ring.put(data=data, offer=make_offer(images=(), state_names=("shoulder",)))
    assert cli.main(["replay", "--capture", file, "--manifest", str(manifest)]) == 1
    assert "cannot be compared: IndexError: " in capsys.readouterr().out


def test_a_chunk_of_another_shape_is_named_with_both(
    ring: Ring, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ring.capture.model[:5]
    file = ring.put(model=short, robot=short.copy(), policy_version="older")
    assert cli.main(["replay", "--capture", file, "--manifest", str(manifest)]) == 1
    assert "found a chunk of shape [20, 2], expected [5, 2], another policy\n" in capsys.readouterr().out


def test_json_is_one_line_per_capture(ring: Ring, manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [ring.put(off=0.5), ring.put(data=b"no message")]
    assert cli.main(["replay", "--capture", *files, "--json", "--manifest", str(manifest)]) == 1
    differs, unserved = map(json.loads, capsys.readouterr().out.splitlines())
    assert (differs["path"], differs["agrees"], differs["error"]) == (files[0], False, "")
    assert differs["largest_difference"] == pytest.approx(0.5)
    assert (unserved["path"], unserved["agrees"], unserved["largest_difference"]) == (files[1], False, None)
    assert unserved["error"]


def test_quiet_prints_only_captures_that_do_not_agree(
    ring: Ring, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [ring.put(), ring.put(off=0.5)]
    assert cli.main(["replay", "--capture", *files, "--quiet", "--manifest", str(manifest)]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(files[1])


class RemembersStates(SteadyPolicy):
    """As an exclusive policy may: it answers the mean of what it has seen of the episode."""

    def __init__(self) -> None:
        super().__init__(serving_mode=ServingMode.EXCLUSIVE, image_shapes={})
        self._seen: list[Any] = []
        self.answer = self._answer

    def reset(self) -> None:
        self._seen.clear()

    def _answer(self, batch: Sequence[Any]) -> list[Float32Array]:
        self._seen += batch
        return [np.tile(np.mean(self._seen, axis=0, dtype=np.float32), (CHUNK_SIZE, 1)) for _ in batch]


def test_a_policy_that_remembers_serves_each_capture_as_the_first_of_its_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = RemembersStates()
    monkeypatch.setattr(captures_module, "load_on_first_device", lambda _: PlacedPolicy(policy, "cpu"))
    ring, paths = CaptureRing(tmp_path / "captures", 9), []
    for seq_id, state in ((1, STATE), (2, 3 * STATE)):
        policy.reset()
        processors = policy.make_processors()
        (model,) = policy.predict([processors.pre(PolicyObservation(state, {}, "wave"))])
        request = make_request(task="wave", seq_id=seq_id, episode_id=seq_id, episode_start=True)
        data = serialize_message(observation_to_message(request, state, [], Time()))
        robot = processors.post(model)
        fingerprint = policy.spec.fingerprint
        paths.append(ring.put(Capture(make_offer(images=()), data, model, robot, fingerprint, seq_id, 1)))
    manifest = load_manifest(str(write_manifest(tmp_path)), {})
    for order in (paths, paths[::-1]):
        assert [one.is_equal for one in captures_module.replay(order, manifest)] == [True, True]
