# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""openpi-client 0.1.2, unmodified, is served by the server's process beside ROS robots."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from remote_inference.msg import ActionChunk
from remote_inference.srv import GetStatus
from support.free_ports import free_port
from support.importable import TESTS
from support.nodes.faulty_server import PolicyFault
from support.nodes.fleet import SERVER, FleetRobot
from support.nodes.health_port import ask
from support.nodes.rig import DEADLINE_S, FEATURE, Rig, write_manifest
from support.waiting import read_line

PEERS = Path(__file__).parents[2] / ".venv" / "peers"
PYTHON, INSTALLED = PEERS / "bin" / "python", PEERS / ".packages"
PROGRAM = TESTS / "support" / "nodes" / "openpi_robot.py"
KEYS: dict[str, Any] = {"state": ["state"], "images": {FEATURE: "image"}}
ANSWERS = 40
PING_S = 1.5

pytestmark = pytest.mark.skipif(
    not INSTALLED.exists(), reason="openpi-client is not installed: make .venv/peers/.packages"
)


class OpenpiRobot:
    """A process that runs openpi-client."""

    def __init__(self, port: int, *key: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [str(PYTHON), str(PROGRAM), "127.0.0.1", str(port), *key],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def read(self) -> Any:
        line = read_line(self._process)
        assert line, self._process.communicate(timeout=DEADLINE_S)[1]
        return json.loads(line)

    def begin(self, example: str, times: int = 1) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{example} {times}\n")
        self._process.stdin.flush()

    def infer(self, example: str, times: int = 1) -> Any:
        self.begin(example, times)
        return self.read()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def connect(port: int) -> Iterator[Callable[..., OpenpiRobot]]:
    made: list[OpenpiRobot] = []

    def make(*key: str, **environment: str) -> OpenpiRobot:
        made.append(OpenpiRobot(port, *key, **environment))
        return made[-1]

    yield make
    for robot in made:
        robot.kill()


def sessions(rig: Rig) -> list[str]:
    return list(rig.call(GetStatus, f"{SERVER}/get_status").status.sessions)


def wait_until_open(rig: Rig, port: int) -> None:
    """openpi-client does not wait for a server that has not opened its port yet."""
    rig.wait_for(lambda: ask(port, "/healthz")[0] == 200, "the endpoint")


def test_it_shares_a_server_with_a_ros_robot(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[..., OpenpiRobot]
):
    health_port = free_port()
    manifest = write_manifest(
        tmp_path,
        openpi={"port": port, **KEYS},
        health_port=health_port,
        audit_file="audit.jsonl",
    )
    fault = PolicyFault(tmp_path)
    fault.begin("slow")  # next to which the robots' own time is little, on a busy machine, too
    rig.server = rig.group.start(fault.server(manifest))
    ros_robot = FleetRobot(rig, "/robot_1")
    wait_until_open(rig, port)
    openpi_robot = connect()
    assert openpi_robot.read()["policy_name"] == "hold"
    ros_robot.ask_all_the_time()
    rig.wait_for(lambda: ros_robot.chunks, "a chunk of the ROS robot")
    before = len(ros_robot.chunks)
    answer = openpi_robot.infer("rig", ANSWERS)
    meanwhile = len(ros_robot.chunks) - before
    ros_robot.rest()
    assert answer["shape"] == [20, 2]
    assert answer["first"] == [0.25, -0.5]
    # Neither waits for more than one request of the other; how fast each asks again is its own affair.
    assert meanwhile >= ANSWERS / 2
    assert {chunk.status for chunk in ros_robot.chunks} == {ActionChunk.OK}
    rig.wait_for(
        lambda: (
            {"/robot_1", "openpi:1"}
            == {one["robot"] for one in json.loads(ask(health_port, "/status.json")[1])["sessions"]}
        ),
        "both on the status page",
    )
    assert 'robot="openpi:1"' in ask(health_port, "/metrics")[1]
    openpi_robot.kill()
    rig.wait_for(lambda: sessions(rig) == [ros_robot.session.session_id], "the session's end")

    def audited() -> int:
        *whole, _ = (tmp_path / "audit.jsonl").read_text().split("\n")  # the last line may be half written
        return sum(json.loads(line)["robot"] == "openpi:1" for line in whole)

    rig.wait_for(lambda: audited() == ANSWERS, "all its requests in the audit file")


PRESETS = {
    "droid": (8, ["exterior_image_1_left", "wrist_image_left"]),
    "libero": (8, ["image", "wrist_image"]),
    "aloha": (14, ["cam_high", "cam_low", "cam_left_wrist", "cam_right_wrist"]),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_it_is_understood_by_the_preset_of_its_robot(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[..., OpenpiRobot], preset: str
):
    joints, cameras = PRESETS[preset]
    names = [f"joint_{index}" for index in range(joints)]
    policy = {
        "state_names": names,
        "action_names": names,
        "image_features": {f"observation.images.{camera}": [224, 224, 3] for camera in cameras},
    }
    rig.start_server(write_manifest(tmp_path, policy, openpi={"port": port, "preset": preset}))
    wait_until_open(rig, port)
    robot = connect()
    assert robot.read()["action_names"] == names
    answer = robot.infer(preset, 2)
    assert answer["shape"] == [20, joints]
    assert answer["dtype"] == "<f4"
    assert answer["first"] == pytest.approx([index / 10 for index in range(joints)])
    assert answer["timing"].keys() == {"infer_ms", "queue_wait_ms", "prev_total_ms"}


def test_it_hears_what_was_wrong_and_may_come_back(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[..., OpenpiRobot]
):
    rig.start_server(write_manifest(tmp_path, max_sessions=1, openpi={"port": port, **KEYS}))
    wait_until_open(rig, port)
    robot = connect()
    robot.read()
    error = robot.infer("wrong key")["error"]
    assert error.startswith("RuntimeError: Error in inference server:\nimage: found no such key")
    rig.wait_for(lambda: not sessions(rig), "the session's end")
    again = connect()
    again.read()
    assert again.infer("rig")["first"] == [0.25, -0.5]


def test_its_key_is_asked_for(rig: Rig, tmp_path: Path, port: int, connect: Callable[..., OpenpiRobot]):
    (tmp_path / "door.key").write_text("secret\n")
    rig.start_server(write_manifest(tmp_path, openpi={"port": port, "api_key_file": "door.key", **KEYS}))
    wait_until_open(rig, port)
    for key in ((), ("wrong",)):
        with pytest.raises(AssertionError, match="HTTP 401"):
            connect(*key).read()
    robot = connect("secret")
    robot.read()
    assert robot.infer("rig")["shape"] == [20, 2]


def test_it_may_die_during_an_inference(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[..., OpenpiRobot]
):
    fault = PolicyFault(tmp_path)
    manifest = write_manifest(tmp_path, max_sessions=1, openpi={"port": port, **KEYS})
    rig.server = rig.group.start(fault.server(manifest))
    wait_until_open(rig, port)
    robot = connect()
    robot.read()
    fault.begin("hang")
    robot.begin("rig")
    rig.wait_for(fault.is_hanging, "the inference")
    robot.kill()
    rig.wait_for(lambda: not sessions(rig), "the session's end")
    fault.end()
    again = connect()
    again.read()
    assert again.infer("rig")["first"] == [0.25, -0.5]


def test_it_keeps_its_connection_through_an_inference_of_three_times_its_ping_interval(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[..., OpenpiRobot]
):
    """As 60 s are of openpi-client: it gives a server up that leaves a ping unanswered for 20 s."""
    fault = PolicyFault(tmp_path)
    rig.server = rig.group.start(fault.server(write_manifest(tmp_path, openpi={"port": port, **KEYS})))
    wait_until_open(rig, port)
    robot = connect(PING_S=str(PING_S))
    robot.read()
    (session,) = sessions(rig)
    fault.begin("hang")
    robot.begin("rig")
    rig.wait_for(fault.is_hanging, "the inference")
    end_s = time.monotonic() + 3 * PING_S
    rig.wait_for(lambda: time.monotonic() > end_s, "a long inference")
    fault.end()
    assert robot.read()["first"] == [0.25, -0.5]
    assert sessions(rig) == [session]


def test_a_server_whose_section_does_not_fit_its_policy_does_not_start(rig: Rig, tmp_path: Path, port: int):
    rig.start_server(write_manifest(tmp_path, openpi={"port": port, "preset": "droid"}))
    assert rig.server.wait(DEADLINE_S)
    log = (tmp_path / "logs" / "policy_server.log").read_text()
    assert f"cannot configure: openpi.images: found no entry for {FEATURE} of the policy" in log
