# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference hud-agent` drives HUD's own RobotBridge by a server. Run by `make test-hud`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("hud.environment.robot.bridge")

PROGRAM = os.environ.get("REMOTE_INFERENCE", "")  # of the environment that holds our package
DEADLINE_S = 120.0
STEPS = 25
CHUNK_SIZE = 10


@pytest.fixture(scope="module")
def bridge() -> Iterator[str]:
    """A stock bridge; its control channel."""
    program = Path(__file__).with_name("slider_bridge.py")
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("HUD_SIM_PORT="):
            yield f"127.0.0.1:{line.strip().partition('=')[2]}"
            break
    process.send_signal(signal.SIGTERM)
    process.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of a policy that keeps the robot where it is."""
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ["ROS_DOMAIN_ID"] = "87"
    folder = tmp_path_factory.mktemp("server")
    policy = {
        "name": "stay",
        "revision": "1",
        "state_names": ["x", "y"],
        "action_names": ["x", "y"],
        "image_features": {"images.top": [8, 8, 3]},
        "chunk_size": CHUNK_SIZE,
        "trained_fps": 30.0,
    }
    (folder / "policy.json").write_text(json.dumps(policy))
    manifest = {"model": {"backend": "hold", "path": str(folder), "device": "cpu"}, "max_sessions": 2}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    command = [PROGRAM, "server", "--manifest", str(folder / "manifest.json"), "--name", "stay_server"]
    process = subprocess.Popen(command)
    yield "/stay_server"
    process.send_signal(signal.SIGINT)
    process.wait(DEADLINE_S)


def run_agent(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, "hud-agent", *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


def test_an_agent_of_ours_plays_episodes_of_a_stock_bridge(bridge: str, server: str) -> None:
    rename = ("--rename", "front=images.top")
    ended = run_agent(bridge, "--server", server, "--episodes", "2", "--seed", "3", *rename, "--json")
    assert ended.returncode == 0, ended.stderr
    for episode in json.loads(ended.stdout)["episodes"]:
        assert (episode["steps"], episode["ended"]) == (STEPS, True)
        assert episode["requests"] == -(-STEPS // CHUNK_SIZE)
        assert (episode["score"]["success"], episode["score"]["total_reward"]) == (True, float(STEPS))


def test_a_camera_that_the_bridge_lacks_is_the_server_s_refusal(bridge: str, server: str) -> None:
    ended = run_agent(bridge, "--server", server)
    assert ended.returncode != 0
    assert "refuses (cameras)" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--rename", "left=images.top"), "--rename: found left, expected of front"),
        (("--rename", "front=images.top", "--task", "fly"), "unexpected keyword argument 'task'"),
        (("--rename", "front=images.top", "--timeout", "1", "--server", "nobody"), "/nobody/get_status"),
    ],
)
def test_mistakes_are_told_in_words_and_the_slot_is_freed(
    bridge: str, server: str, arguments: tuple[str, ...], problem: str
) -> None:
    ended = run_agent(bridge, "--server", server, *arguments)
    assert ended.returncode != 0
    assert problem in ended.stderr
    assert "Traceback" not in ended.stderr
    assert run_agent(bridge, "--server", server, "--rename", "front=images.top").returncode == 0


def test_a_bridge_that_is_not_there_is_named() -> None:
    ended = run_agent("127.0.0.1:9", "--server", "nobody")
    assert ended.returncode != 0
    assert "HUD control channel 127.0.0.1:9" in ended.stderr
