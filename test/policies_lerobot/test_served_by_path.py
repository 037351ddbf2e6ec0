# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference serve` with checkpoints that LeRobot itself has saved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lerobot.tiny_policies import CAMERA, JOINTS, Built
from support.nodes.rig import Rig
from support.nodes.serve_verb import ServeVerb

START_S = 600.0  # importing LeRobot takes seconds, minutes on a busy machine
FEATURES = {feature: {"names": list(JOINTS)} for feature in ("observation.state", "action")}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.close()


@pytest.mark.parametrize("kind", ["act", "smolvla"])
def test_a_checkpoint_is_served_with_its_data_set(
    kind: str, rig: Rig, built: dict[str, Built], tmp_path: Path
) -> None:
    checkpoint = built[kind].copy(tmp_path)
    dataset = tmp_path / "info.json"
    dataset.write_text(json.dumps({"fps": 30, "features": FEATURES}))
    arguments = [checkpoint.folder, "--dataset", dataset]
    if tokenizer := checkpoint.options.get("language_model"):
        arguments += ["--language-model", tokenizer, "--task", "pick up the cube"]
    verb = ServeVerb(rig, tmp_path, *arguments)
    try:
        assert verb.wait_until_active(START_S).policy_name == kind
        assert rig.open_session("/policy_server", joints=JOINTS, cameras=(CAMERA,)).accepted
    finally:
        code = verb.end()
    assert code == 0, verb.said()
