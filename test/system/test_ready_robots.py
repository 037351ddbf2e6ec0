# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Two of the ready contracts with real nodes: an arm on a holonomic base, and a base alone.

Odometry comes as a TwistStamped on the driver's topic: nav_msgs is not among the wheels. Nothing else of the
contracts is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from remote_inference.base.contract.contract import load_contract
from remote_inference.base.wire.qos import SENSOR_QOS, WATCHDOG_TOPIC
from remote_inference.msg import WatchdogState
from remote_inference.tools.deployment import bringup
from support.nodes.echo_policy import start_echo_server
from support.nodes.rig import DEEP_LATCHED_QOS, DEEP_QOS, Rig

ROBOTS = Path(__file__).parents[2] / "config" / "robots"
ODOMETRY = "nav_msgs/msg/Odometry"
SPEEDS = (0.05, -0.03, 0.2)  # m/s, m/s, rad/s by the odometry; the policy answers with what it sees


def write_ready_contract(folder: Path, robot: str) -> Path:
    document: dict[str, Any] = yaml.safe_load((ROBOTS / f"{robot}.contract.yaml").read_text())
    for source in document["state"]:
        if source["type"] == ODOMETRY:
            source["type"] = "geometry_msgs/msg/TwistStamped"
            source["fields"] = [path.removeprefix("twist.") for path in source["fields"]]
    path = folder / f"{robot}.contract.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


class ReadyRobot(Rig):
    """The drivers and controllers of a ready contract: joints, odometry, and who takes the commands."""

    def __init__(self, folder: Path, robot: str) -> None:
        self.path = write_ready_contract(folder, robot)
        self.contract = load_contract(self.path)
        self.odometry = True
        self.speed = SPEEDS
        self.arm: list[Float64MultiArray] = []
        self.twists: list[TwistStamped] = []
        self.watchdog_states: list[WatchdogState] = []
        limits = self.contract.actions.limits
        joints = self.contract.actions.positions if "position" in self.contract.actions.kinds else ()
        self.joints = {name: 0.25 * (limits[name].min + limits[name].max) for name in joints}
        self.server_name = f"{robot}_server"  # two robots of this file may run at once
        super().__init__(folder, namespace=f"/{robot}")
        self.run_on_executor(self._add_drivers)

    def _add_drivers(self) -> None:
        topic = next(s.topic for s in self.contract.state if s.type == "geometry_msgs/msg/TwistStamped")
        self._odometry = self.node.create_publisher(TwistStamped, topic, SENSOR_QOS)
        for sink in self.contract.commands:
            if sink.type == "std_msgs/msg/Float64MultiArray":
                self.subscribe(Float64MultiArray, sink.topic, self.arm.append, DEEP_QOS)
            else:
                self.subscribe(TwistStamped, sink.topic, self.twists.append, DEEP_QOS)
        self.subscribe(WatchdogState, WATCHDOG_TOPIC, self.watchdog_states.append, DEEP_LATCHED_QOS)
        self.node.create_timer(1.0 / 30.0, self._publish_odometry)

    def _measure(self) -> JointState:
        return JointState(name=[*self.joints], position=[*self.joints.values()])

    def _publish_odometry(self) -> None:
        if self.odometry:
            twist = TwistStamped()
            twist.header.stamp = self.node.get_clock().now().to_msg()
            twist.twist.linear.x, twist.twist.linear.y, twist.twist.angular.z = self.speed
            self._odometry.publish(twist)

    def start(self) -> None:
        """Start server, watchdog and robot, and wait until the base moves."""
        contract = self.contract
        policy = {
            "state_names": list(contract.policy_state_names),
            "action_names": list(contract.policy_action_names),
            "image_features": {},
            "trained_fps": contract.fps,
        }
        start_echo_server(self, policy, self.server_name)
        self.group.start(bringup.command_watchdog(self.path, namespace=self.namespace))
        fallback = "hold" if contract.actions.positions else "zero"
        servers = [f"/{self.server_name}"]
        self.start_robot(self.path, max_action_age_s=1.0, fallback=fallback, servers=servers)
        self.wait_for(lambda: self.guard_state() == "ARMED", "the watchdog armed")
        self.wait_for_speed(self.speed[0])

    def wait_for_speed(self, speed: float) -> None:
        begin = len(self.twists)
        self.wait_for(
            lambda: any(twist.twist.linear.x == pytest.approx(speed) for twist in self.twists[begin:]),
            f"a base at {speed} m/s",
        )

    def guard_state(self) -> str:
        return self.watchdog_states[-1].state_name if self.watchdog_states else ""

    def stands(self, begin: int = 0) -> bool:
        """Return whether the last twist since a count of them is zero."""
        last = self.twists[begin:][-1:]
        return [(t.twist.linear.x, t.twist.linear.y, t.twist.angular.z) for t in last] == [(0.0, 0.0, 0.0)]


@pytest.fixture(scope="module")
def running_lekiwi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadyRobot]:
    robot = ReadyRobot(tmp_path_factory.mktemp("lekiwi"), "lekiwi")
    try:
        robot.start()
        yield robot
    finally:
        robot.close()


@pytest.fixture
def lekiwi(running_lekiwi: ReadyRobot) -> Iterator[ReadyRobot]:
    yield running_lekiwi
    running_lekiwi.trigger("resume")
    running_lekiwi.wait_for_speed(SPEEDS[0])


@pytest.fixture
def turtlebot4(tmp_path: Path) -> Iterator[ReadyRobot]:
    robot = ReadyRobot(tmp_path, "turtlebot4")
    try:
        robot.start()
        yield robot
    finally:
        robot.close()


def test_lekiwis_policy_speaks_degrees_and_its_drivers_radians(lekiwi: ReadyRobot) -> None:
    lekiwi.wait_for(lambda: lekiwi.arm, "commands to the arm")
    assert list(lekiwi.arm[-1].data) == pytest.approx([*lekiwi.joints.values()], abs=1e-5)
    twist = lekiwi.twists[-1]
    assert twist.header.frame_id == "base_footprint"
    speeds = (twist.twist.linear.x, twist.twist.linear.y, twist.twist.angular.z)
    assert speeds == pytest.approx(SPEEDS, abs=1e-6)


def test_a_pause_stops_lekiwis_base_and_leaves_its_arm_where_it_is(lekiwi: ReadyRobot) -> None:
    twists, executed = len(lekiwi.twists), len(lekiwi.executed)
    assert lekiwi.trigger("pause").success
    lekiwi.wait_for(lambda: lekiwi.executed[executed:] and not lekiwi.executed[-1].action, "silence")
    lekiwi.wait_for(lambda: lekiwi.stands(twists), "a base that stands")
    assert list(lekiwi.arm[-1].data) == pytest.approx([*lekiwi.joints.values()], abs=1e-5)


def test_a_turtlebot_drives_no_faster_than_its_contract_says(turtlebot4: ReadyRobot) -> None:
    turtlebot4.speed = (0.45, 0.0, 0.5)
    turtlebot4.wait_for_speed(0.2)
    assert max(twist.twist.linear.x for twist in turtlebot4.twists) == pytest.approx(0.2)
    twists, told = len(turtlebot4.twists), len(turtlebot4.states)
    turtlebot4.odometry = False
    turtlebot4.wait_for_state("STALLED", after=told)
    turtlebot4.wait_for(lambda: turtlebot4.stands(twists), "a base that stands when nobody knows its speed")
    assert list(turtlebot4.states[-1].stale_sources) == ["odom"]


def test_a_turtlebot_whose_node_is_killed_gets_zeros_from_the_watchdog(turtlebot4: ReadyRobot) -> None:
    twists = len(turtlebot4.twists)
    turtlebot4.robot.kill()
    turtlebot4.wait_for(lambda: turtlebot4.guard_state() == "TRIPPED", "the watchdog's stop")
    turtlebot4.wait_for(lambda: turtlebot4.stands(twists), "a base that stands")
    assert list(turtlebot4.watchdog_states[-1].stops) == ["cmd_vel_stamped: sent zero velocity"]
