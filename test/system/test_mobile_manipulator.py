# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An arm on a mobile base: a trajectory controller, a TwistStamped and odometry, with real nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from geometry_msgs.msg import TwistStamped
from trajectory_msgs.msg import JointTrajectory

from remote_inference.base.wire.qos import SENSOR_QOS, WATCHDOG_TOPIC
from remote_inference.msg import ExecutedAction, WatchdogState
from remote_inference.tools import cli
from remote_inference.tools.deployment import bringup
from support.nodes.echo_policy import start_echo_server
from support.nodes.rig import (
    CONTRACT,
    DEEP_LATCHED_QOS,
    DEEP_QOS,
    JOINTS,
    Rig,
    write_contract,
)

ARM, BASE = JOINTS[0], "base_vx"
SPEED = 0.4  # m/s, by the odometry; the policy answers with what it sees
PARAMETERS = {"max_action_age_s": 1.0}
TWIST = "geometry_msgs/msg/TwistStamped"
LIMIT = {"min": -2.0, "max": 2.0, "max_velocity": 3.0}
SECTIONS: dict[str, Any] = {
    "state": [
        {**CONTRACT["state"][0], "names": [ARM]},
        {"topic": "odom", "type": TWIST, "fields": ["twist.linear.x"], "names": [BASE]},
    ],
    "images": {},
    "rename": {},
    "actions": {
        "kind": "position",
        "names": [ARM, BASE],
        "limits": {ARM: LIMIT, BASE: {**LIMIT, "kind": "velocity", "unit": "m/s"}},
    },
    "commands": [
        {"topic": "arm", "type": "trajectory_msgs/msg/JointTrajectory", "names": [ARM]},
        {
            "topic": "cmd_vel",
            "type": TWIST,
            "fields": {"twist.linear.x": BASE},
            "constant": {"header.frame_id": "base_link"},
        },
    ],
}


class MobileArm(Rig):
    """The rig with a base beside its arm."""

    def __init__(self, folder: Path) -> None:
        self.odometry = True
        self.trajectories: list[JointTrajectory] = []
        self.twists: list[TwistStamped] = []
        self.watchdog_states: list[WatchdogState] = []
        super().__init__(folder)
        self.run_on_executor(self._add_base)

    def _add_base(self) -> None:
        self._odometry = self.node.create_publisher(TwistStamped, "odom", SENSOR_QOS)
        self.subscribe(JointTrajectory, "arm", self.trajectories.append, DEEP_QOS)
        self.subscribe(TwistStamped, "cmd_vel", self.twists.append, DEEP_QOS)
        self.subscribe(WatchdogState, WATCHDOG_TOPIC, self.watchdog_states.append, DEEP_LATCHED_QOS)
        self.node.create_timer(1.0 / 30.0, self._publish_odometry)

    def _publish_odometry(self) -> None:
        if self.odometry:
            twist = TwistStamped()
            twist.header.stamp = self.node.get_clock().now().to_msg()
            twist.twist.linear.x = SPEED
            self._odometry.publish(twist)

    def start(self) -> None:
        """Start server, watchdog and robot, and wait until arm and base are commanded."""
        contract = write_contract(self.folder, **SECTIONS)
        policy = {"state_names": [ARM, BASE], "action_names": [ARM, BASE], "image_features": {}}
        start_echo_server(self, policy)
        self.group.start(bringup.command_watchdog(contract, namespace=self.namespace))
        self.start_robot(contract, **PARAMETERS)
        self.wait_for(lambda: self.guard_state() == "ARMED", "the watchdog armed")
        self.wait_for_motion()

    def wait_for_motion(self) -> None:
        begin, seen = len(self.twists), len(self.trajectories)
        self.wait_for(lambda: SPEED in self.speeds(begin), "a base that moves")
        self.wait_for(lambda: any(len(t.points) > 1 for t in self.trajectories[seen:]), "rows ahead")

    def guard_state(self) -> str:
        return self.watchdog_states[-1].state_name if self.watchdog_states else ""

    def speeds(self, begin: int = 0) -> list[float]:
        return [round(twist.twist.linear.x, 6) for twist in self.twists[begin:]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MobileArm]:
    """The robot and its server, which the tests that kill nothing share."""
    rig = MobileArm(tmp_path_factory.mktemp("mobile"))
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


@pytest.fixture
def robot(running: MobileArm) -> Iterator[MobileArm]:
    yield running
    running.odometry = True
    running.trigger("resume")
    running.wait_for_motion()


def test_the_arm_gets_rows_ahead_and_the_base_a_stamped_twist(robot: MobileArm) -> None:
    trajectory = next(t for t in reversed(robot.trajectories) if len(t.points) > 1)
    assert trajectory.joint_names == [ARM]
    assert list(trajectory.points[0].positions) == pytest.approx([robot.positions[0]])
    twist = robot.twists[-1]
    assert twist.header.frame_id == "base_link"
    assert abs(twist.header.stamp.sec - time.time()) < 60.0
    assert (twist.twist.linear.y, twist.twist.angular.z) == (0.0, 0.0)


def test_a_pause_stops_the_base_in_the_tick_in_which_the_trajectory_ends(robot: MobileArm) -> None:
    executed = len(robot.executed)
    assert robot.trigger("pause").success

    def stops() -> list[ExecutedAction]:
        return [tick for tick in robot.executed[executed:] if tick.source == ExecutedAction.HOLD]

    robot.wait_for(lambda: stops() and not robot.executed[-1].action, "stops, then silence")
    last_move = max(tick.tick for tick in robot.executed if tick.source == ExecutedAction.CHUNK)
    first_stop = stops()[0].tick
    between = [tick for tick in robot.executed if last_move < tick.tick < first_stop]
    assert not any(tick.action for tick in between), "a tick that is late waits, and commands neither of them"
    assert {round(tick.action[1], 6) for tick in stops()} == {0.0}
    assert robot.speeds()[-1] == 0.0
    assert len(robot.trajectories[-1].points) == 1


def test_silent_odometry_stops_the_base_once_its_actions_are_too_old(robot: MobileArm) -> None:
    told, twists = len(robot.states), len(robot.twists)
    robot.odometry = False
    robot.wait_for_state("STALLED", after=told)
    robot.wait_for(lambda: robot.speeds(twists)[-1:] == [0.0], "a base that stands")
    assert list(robot.states[-1].stale_sources) == ["odom"]
    told = len(robot.states)
    robot.odometry = True
    robot.wait_for_state("STREAMING", after=told)


def test_a_killed_node_leaves_an_arm_that_holds_and_a_base_that_stands(robot: MobileArm) -> None:
    twists, trajectories = len(robot.twists), len(robot.trajectories)
    robot.robot.kill()
    robot.wait_for(lambda: robot.guard_state() == "TRIPPED", "the watchdog's stop")
    robot.wait_for(lambda: robot.speeds(twists)[-1:] == [0.0], "a base that stands")
    robot.wait_for(
        lambda: robot.trajectories[trajectories:] and len(robot.trajectories[-1].points) == 1,
        "an arm that holds",
    )
    assert list(robot.trajectories[-1].points[0].positions) == pytest.approx([robot.positions[0]])
    assert list(robot.watchdog_states[-1].stops) == [
        "cmd_vel: sent zero velocity",
        "arm: sent a hold of the measured position",
    ]
    robot.start_robot(robot.folder / "contract.yaml", **PARAMETERS)
    robot.wait_for(lambda: robot.guard_state() == "RETURNED", "a new node, which waits for `resume`")


def test_check_explains_the_contract_and_finds_a_misspelt_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_contract(tmp_path, **SECTIONS)
    assert cli.main(["check", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{BASE} velocity -2 2 3 m/s" in said
    assert f"commands to cmd_vel ({TWIST}): {BASE}" in said
    base = {**SECTIONS["commands"][1], "fields": {"twist.linear.u": BASE}}
    path = write_contract(tmp_path, **SECTIONS | {"commands": [SECTIONS["commands"][0], base]})
    assert cli.main(["check", str(path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "commands.1.fields: found 'twist.linear.u': no 'u' in geometry_msgs/msg/Vector3" in said


def test_a_node_with_a_misspelt_field_does_not_start_and_says_why(tmp_path: Path) -> None:
    base = {**SECTIONS["commands"][1], "fields": {"twist.linear.u": BASE}}
    contract = write_contract(tmp_path, **SECTIONS | {"commands": [SECTIONS["commands"][0], base]})
    rig = Rig(tmp_path, namespace="/other")
    try:
        rig.start_robot(contract)
        assert rig.robot.wait(60) == 2
        log = (tmp_path / "logs" / "remote_inference.log").read_text()
    finally:
        rig.close()
    assert "contract: commands.1.fields: found 'twist.linear.u'" in log
    assert "Traceback" not in log
