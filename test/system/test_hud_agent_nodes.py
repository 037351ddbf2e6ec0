# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Our HUD agent with a real server and our own bridge in real time. HUD's stock bridge has turns only."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_inference.base.clients.operator_client import OperatorClient
from remote_inference.learn.hud import agent as hud_agent
from remote_inference.learn.hud.client import HudControl
from support.environments.hud_gateway import hud_gateway
from support.environments.line import Line
from support.nodes.rig import DEADLINE_S, Rig, write_manifest

STAY = {"state_names": ["x"], "action_names": ["x"], "image_features": {}}
LATENCY_MS, RATE_HZ = 200.0, 30.0
STEPS = 60


def test_a_slow_server_plays_a_bridge_in_real_time_to_its_end_without_falling_back(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hud_agent, "MAX_STEPS", STEPS)
    rig.start_server(write_manifest(tmp_path, STAY, inject_latency_ms=LATENCY_MS))
    with (
        hud_gateway(Line(rate_hz=RATE_HZ), real_time=True) as port,
        HudControl("127.0.0.1", port, DEADLINE_S) as control,
        OperatorClient("hud_agent", "/hud") as client,
    ):
        agent = hud_agent.HudAgent(client, control, "/policy_server", DEADLINE_S, {})
        played = agent.play({"seed": 10})
    assert (played.ended, played.score["success"]) == (False, False)
    assert played.steps >= STEPS
    assert played.requests <= played.steps / 2, "an answer takes six ticks, fewer on a machine that is busy"
    assert played.score["metrics"]["x"] == pytest.approx(0.1)
