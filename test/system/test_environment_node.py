# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Any environment is a robot with a contract: sensors, commands, episodes; and it is driven as any other."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rclpy.duration import Duration
from rclpy.time import Time
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray

from remote_inference.base.wire.images.images import image_from_message
from remote_inference.base.wire.qos import COMMAND_QOS, LATCHED_QOS, SENSOR_QOS, STATE_TOPIC
from remote_inference.msg import ClientState
from remote_inference.srv import GetOutcome, ResetEnvironment, StartEpisode
from remote_inference.tools.deployment.bringup import robot, server, simulated_robot
from support.importable import python_path
from support.nodes.rig import DEADLINE_S, Rig

ROBOT = "/drawer_1"
DRAWER = "support.environments.drawer:Drawer"
LIMIT = {"min": -1.0, "max": 1.0, "max_velocity": 5.0, "max_following_error": 2.0}
CONTRACT: dict[str, Any] = {
    "robot_type": "drawer",
    "fps": 10.0,
    "task": "open",
    "state": [
        {
            "topic": "joint_states",
            "type": "sensor_msgs/msg/JointState",
            "field": "position",
            "names": ["turn_joint", "pull"],
        }
    ],
    "images": {"front": {"topic": "front/image_raw", "type": "sensor_msgs/msg/Image"}},
    "rename": {"images.front": "observation.images.front", "joints.turn_joint": "turn"},
    "actions": {"kind": "position", "names": ["pull", "turn"], "limits": {"pull": LIMIT, "turn": LIMIT}},
    "measured": {
        "topic": "joint_states",
        "type": "sensor_msgs/msg/JointState",
        "field": "position",
        "names": ["pull", "turn_joint"],
    },
    "commands": [
        {"topic": "pull/commands", "type": "std_msgs/msg/Float64MultiArray", "names": ["pull"]},
        {"topic": "turn/commands", "type": "sensor_msgs/msg/JointState", "names": ["turn"]},
    ],
}


class Drawer:
    """The node with the drawer, and a client of its topics and services."""

    def __init__(self, rig: Rig, folder: Path, mode: str = "real_time", **options: Any) -> None:
        self._rig = rig
        self.contract = folder / "drawer.contract.yaml"
        self.contract.write_text(yaml.safe_dump(CONTRACT))
        self.joints: list[JointState] = []
        rig.subscribe(JointState, f"{ROBOT}/joint_states", self.joints.append, SENSOR_QOS)
        self._pull = rig.node.create_publisher(Float64MultiArray, f"{ROBOT}/pull/commands", COMMAND_QOS)
        self._turn = rig.node.create_publisher(JointState, f"{ROBOT}/turn/commands", COMMAND_QOS)
        process = simulated_robot(
            options.pop("environment", DRAWER), self.contract, namespace=ROBOT, options=options, mode=mode
        )
        self.process = rig.group.start(with_test_environments(process))

    def reset(self, seed: int, task: str = "") -> ResetEnvironment.Response:
        return self._rig.call(
            ResetEnvironment, f"{ROBOT}/environment/reset_environment", seed=seed, task=task
        )

    def outcome(self) -> GetOutcome.Response:
        return self._rig.call(GetOutcome, f"{ROBOT}/environment/get_outcome")

    def command(self, pull: float, turn: float = 0.0) -> None:
        self._turn.publish(JointState(name=["turn"], position=array("d", [turn])))
        self._pull.publish(Float64MultiArray(data=array("d", [pull])))

    def command_until(self, pull: float, condition: Callable[[], Any], what: str) -> None:
        self._rig.send_until(lambda: self.command(pull), condition, what, retry_s=0.05)

    def position(self) -> float | None:
        """Return where the drawer was seen last."""
        return self.joints[-1].position[1] if self.joints else None


def read_log(folder: Path) -> str:
    return (folder / "logs" / "environment.log").read_text()


def with_test_environments(process: Any) -> Any:
    """Let a process import the environments of the tests."""
    return replace(process, environment={**process.environment, "PYTHONPATH": python_path()})


def test_a_contract_s_sensors_are_published(rig: Rig, tmp_path: Path) -> None:
    drawer = Drawer(rig, tmp_path)
    raw: list[Image] = []
    jpeg: list[CompressedImage] = []
    rig.subscribe(Image, f"{ROBOT}/front/image_raw", raw.append, SENSOR_QOS)
    rig.subscribe(CompressedImage, f"{ROBOT}/front/image_raw/compressed", jpeg.append, SENSOR_QOS)
    assert drawer.reset(25).success
    rig.wait_for(lambda: drawer.position() == 0.25, "the state of the episode")
    assert list(drawer.joints[-1].name) == ["turn_joint", "pull"]
    rig.wait_for(lambda: raw and jpeg, "both images")
    assert image_from_message(raw[-1]).shape == (4, 6, 3)
    assert jpeg[-1].format == "jpeg"


def test_commands_move_it_and_the_environment_judges(rig: Rig, tmp_path: Path) -> None:
    drawer = Drawer(rig, tmp_path)
    drawer.reset(10)
    drawer.command_until(0.95, lambda: (drawer.position() or 0.0) > 0.9, "the drawer pulled open")
    outcome = drawer.outcome()
    assert outcome.success
    assert outcome.ended
    assert (outcome.seed, outcome.task) == (10, "open")
    assert outcome.reward > 0.9
    assert dict(zip(outcome.metric_names, outcome.metric_values, strict=True))["pull"] == 0.95
    # A command of the last episode may still be on its way, and open it again.
    rig.wait_for(lambda: drawer.reset(20).success and not drawer.outcome().success, "a closed drawer")
    assert drawer.outcome().seed == 20


def test_stepped_time_passes_with_commands_only(rig: Rig, tmp_path: Path) -> None:
    drawer = Drawer(rig, tmp_path, mode="stepped")
    drawer.reset(10)
    rig.wait_for(lambda: len(drawer.joints) > 10, "the state published all the time")
    assert drawer.outcome().elapsed_s == 0.0
    drawer.command_until(0.5, lambda: drawer.position() == 0.5, "a step")
    assert drawer.outcome().elapsed_s >= 0.1


def test_an_episode_of_an_unknown_task_is_refused_in_words(rig: Rig, tmp_path: Path) -> None:
    drawer = Drawer(rig, tmp_path)
    refused = drawer.reset(10, "close")
    assert not refused.success
    assert "found task 'close', expected 'open' or 'look'" in refused.message
    assert drawer.reset(10, "look").success


def test_an_environment_that_raises_stands_still_until_the_next_episode(rig: Rig, tmp_path: Path) -> None:
    drawer = Drawer(rig, tmp_path, broken_after=3)
    assert drawer.reset(10).success
    rig.wait_for(lambda: "it is stuck" in drawer.outcome().message, "the problem in the outcome")
    seen = rig.node.get_clock().now()
    while rig.node.get_clock().now() < seen + Duration(seconds=1):  # it would publish ten times
        assert drawer.outcome().message == "drawer: it is stuck"
    late = [joints for joints in drawer.joints if Time.from_msg(joints.header.stamp) > seen]
    assert not late, "the sensors of a robot that stands still are silent"
    assert drawer.reset(50).success
    rig.wait_for(lambda: drawer.position() == 0.5, "the next episode")
    assert drawer.process.poll() is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"environment": "drawers:Drawer"}, "No module named 'drawers'"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_an_environment_that_cannot_be_made_ends_the_node_with_the_reason(
    rig: Rig, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    drawer = Drawer(rig, tmp_path, **options)
    assert drawer.process.wait(DEADLINE_S) == 2
    log = read_log(tmp_path)
    assert words in log
    assert "Traceback" not in log


def test_a_contract_that_reads_what_is_not_shown_is_refused(rig: Rig, tmp_path: Path) -> None:
    contract = tmp_path / "other.contract.yaml"
    contract.write_text(yaml.safe_dump({**CONTRACT, "rename": {"joints.turn_joint": "turn"}}))
    process = with_test_environments(simulated_robot(DRAWER, contract, namespace=ROBOT))
    assert rig.group.start(process).wait(DEADLINE_S) == 2
    assert "found no rgb image images.front, expected of observation.images.front" in read_log(tmp_path)


def test_a_policy_opens_the_drawer_through_the_robot_s_node(rig: Rig, tmp_path: Path) -> None:
    drawer = Drawer(rig, tmp_path)
    manifest = tmp_path / "drawer.manifest.yaml"
    manifest.write_text(
        yaml.safe_dump({"model": {"backend": "support.environments.drawer_policy:load", "path": "."}})
    )
    rig.group.start(with_test_environments(server(manifest)))
    rig.group.start(robot(drawer.contract, namespace=ROBOT, parameters={"autostart": True}))
    states: list[ClientState] = []
    rig.subscribe(ClientState, f"{ROBOT}/{STATE_TOPIC}", states.append, LATCHED_QOS)
    rig.wait_for(lambda: states and states[-1].state == ClientState.STREAMING, "chunks")

    def play() -> bool:
        drawer.reset(50)
        assert rig.call(StartEpisode, f"{ROBOT}/remote_inference/start_episode").success
        rig.wait_for(lambda: drawer.outcome().ended, "the end of the episode")
        return bool(drawer.outcome().success)

    # Four seconds of real time may be too short for half a second of motion on a machine that is busy.
    assert any(play() for _ in range(5))
