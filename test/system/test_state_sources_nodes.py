# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot whose state holds joints, an IMU and a tactile pad: what it sends, records, and does without."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sensor_msgs.msg import Imu
from std_msgs.msg import Float32MultiArray

from remote_inference.base.wire.qos import OBSERVATION_TOPIC, SENSOR_QOS
from remote_inference.msg import Observation
from remote_inference.tools import cli
from support.nodes.bag_tape import BagTape
from support.nodes.rig import CONTRACT, DEEP_QOS, JOINTS, Rig, write_contract, write_manifest

IMU, PAD = "imu/data", "pad"
STATE = [
    {"topic": PAD, "type": "std_msgs/msg/Float32MultiArray", "fields": ["data[1:4]"], "names": ["pad"]},
    *CONTRACT["state"],
    {"topic": IMU, "type": "sensor_msgs/msg/Imu", "fields": ["angular_velocity.z", "orientation.w"]},
]
NAMES = ["pad[0]", "pad[1]", "pad[2]", *JOINTS, "angular_velocity.z", "orientation.w"]
EXPECTED = [1.0, 2.0, 3.0, 0.25, -0.5, -2.5, 0.5]  # of what the sensors say at first


@dataclass
class Sensors:
    """Publishes beside the rig's joints; a test breaks one, and `mend` ends that."""

    rig: Rig
    observations: list[Observation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mend()
        self._imu = self.rig.node.create_publisher(Imu, IMU, SENSOR_QOS)
        self._pad = self.rig.node.create_publisher(Float32MultiArray, PAD, SENSOR_QOS)
        self.rig.subscribe(Observation, OBSERVATION_TOPIC, self.observations.append, DEEP_QOS)
        self.rig.node.create_timer(1.0 / 30.0, self._publish)

    def mend(self) -> None:
        self.turn_rate = -2.5  # rad/s
        self.pad = [0.0, 1.0, 2.0, 3.0]  # empty: the pad is silent
        self.frozen_stamp: Any = None  # the IMU's driver repeats its last message

    def _publish(self) -> None:
        imu = Imu()
        imu.header.stamp = self.frozen_stamp or self.rig.node.get_clock().now().to_msg()
        imu.angular_velocity.z, imu.orientation.w = self.turn_rate, 0.5
        self._imu.publish(imu)
        if self.pad:
            self._pad.publish(Float32MultiArray(data=array("f", self.pad)))

    def log(self) -> str:
        return (self.rig.folder / "logs" / "remote_inference.log").read_text()

    def wait_for_streaming(self) -> None:
        """Wait until a request has left with all sensors, and the robot streams."""
        sent, told = len(self.observations), len(self.rig.states)
        self.rig.wait_for(lambda: len(self.observations) > sent + 1, "requests")
        self.rig.wait_for_state("STREAMING", after=told)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sensors]:
    """The robot and its server, which all tests of this file watch."""
    folder = tmp_path_factory.mktemp("sensors")
    rig = Rig(folder)
    try:
        made: list[Sensors] = []
        rig.run_on_executor(lambda: made.append(Sensors(rig)))
        policy = {"state_names": NAMES, "image_features": {}}
        rig.start_server(write_manifest(folder, policy))
        rig.start_robot(write_contract(folder, state=STATE, images={}, rename={}))
        rig.wait_for_state("STREAMING")
        yield made[0]
    finally:
        rig.close()


@pytest.fixture
def sensors(running: Sensors) -> Iterator[Sensors]:
    yield running
    running.mend()
    running.wait_for_streaming()


def test_the_observation_has_every_source_in_the_contracts_order(sensors: Sensors) -> None:
    sent = len(sensors.observations)
    sensors.rig.wait_for(lambda: len(sensors.observations) > sent, "a request")
    assert list(sensors.observations[-1].state) == pytest.approx(EXPECTED)
    sensors.turn_rate, sensors.pad = 1.25, [9.0, 8.0, 7.0, 6.0]
    expected = pytest.approx([8.0, 7.0, 6.0, 0.25, -0.5, 1.25, 0.5])
    sensors.rig.wait_for(lambda: list(sensors.observations[-1].state) == expected, "the new numbers")


def stale(sensors: Sensors) -> list[str]:
    return list(sensors.rig.states[-1].stale_sources)


def test_a_silent_pad_stalls_the_robot_and_is_named(sensors: Sensors) -> None:
    told = len(sensors.rig.states)
    sensors.pad = []
    sensors.rig.wait_for_state("STALLED", after=told)
    assert stale(sensors) == [PAD]
    assert f"{PAD}: nothing new for" in sensors.log()
    sent = len(sensors.observations)
    sensors.rig.wait_for_executed(30)
    assert len(sensors.observations) == sent, "no request leaves with an old pad"


def test_a_driver_that_repeats_its_last_message_stalls_the_robot_and_is_named(sensors: Sensors) -> None:
    told = len(sensors.rig.states)
    sensors.frozen_stamp = sensors.rig.node.get_clock().now().to_msg()
    sensors.rig.wait_for_state("STALLED", after=told)
    assert stale(sensors) == [IMU]


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ({"pad": [0.0, 1.0]}, "pad: data[1:4]: found 2 items of data, expected 4 or more"),
        ({"turn_rate": float("nan")}, "imu/data: found angular_velocity.z = nan, expected finite values"),
    ],
    ids=["short", "nan"],
)
def test_no_request_leaves_with_numbers_that_are_missing_or_none(
    sensors: Sensors, fault: dict[str, Any], problem: str
) -> None:
    for name, value in fault.items():
        setattr(sensors, name, value)
    sensors.rig.wait_for(lambda: f"not sent: {problem}" in sensors.log(), "the fault's words")
    sent, told = len(sensors.observations), len(sensors.rig.states)
    sensors.rig.wait_for_state("STALLED", after=told)
    assert len(sensors.observations) == sent
    assert "Traceback" not in sensors.log()


def test_a_recording_is_exported_with_the_numbers_of_every_sensor(sensors: Sensors, tmp_path: Path) -> None:
    types = {IMU: Imu, PAD: Float32MultiArray}
    tape = BagTape(sensors.rig, joints=True, sensors=types)
    sensors.rig.wait_for(lambda: all(tape.count(topic) > 5 for topic in types), "recorded sensors")
    sensors.rig.wait_for_executed(30)
    bag = tape.write(tmp_path / "bag", sensors.rig.folder / "contract.yaml")
    out = tmp_path / "rows.csv"
    assert cli.main(["export", str(bag), "--csv", str(out), "--no-images", "--quiet"]) == 0
    with out.open() as file:
        last = list(csv.DictReader(file))[-1]
    assert [float(last[f"state.{name}"]) for name in NAMES] == pytest.approx(EXPECTED)


REFUSALS = {
    "field": ({"fields": ["orientation.q"]}, "state.2.fields.0: found 'orientation.q': no 'q' in "),
    "type": ({"type": "nav_msgs/msg/Odometry"}, "state.2.type: message type 'nav_msgs/msg/Odometry' is not "),
}


@pytest.mark.parametrize("mistake", REFUSALS)
def test_a_robot_with_a_source_that_cannot_be_read_does_not_start(
    rig: Rig, tmp_path: Path, mistake: str
) -> None:
    changes, problem = REFUSALS[mistake]
    *others, imu = STATE
    contract = write_contract(tmp_path, state=[*others, {**imu, **changes}], images={}, rename={})
    rig.start_robot(contract)
    rig.wait_for(partial(_has_ended, rig), "the robot's end")
    assert rig.robot.returncode == 2
    log = (tmp_path / "logs" / "remote_inference.log").read_text()
    assert f"cannot start: contract: {problem}" in log
    assert "Traceback" not in log


def _has_ended(rig: Rig) -> bool:
    return rig.robot.poll() is not None
