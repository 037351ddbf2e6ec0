# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The ready contracts of real robots: each fits a policy of its names, and is driven within its limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from remote_inference.base.admission import judge, make_offer
from remote_inference.base.contract.action_bounds import is_gripper
from remote_inference.base.contract.contract import Contract, load_contract
from remote_inference.base.contract.controller_stop import Measured, may_be_sent_a_stop, stop_controller
from remote_inference.base.policy import PolicySpec
from remote_inference.robot.command import CommandSource
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.pose_geometry import angles_between
from remote_inference.robot.queue.action_queue import MergeMode
from remote_inference.robot.safety.guard import JOINT_LIMIT, VELOCITY_LIMIT
from remote_inference.tools import cli
from support.builders import make_source, make_spec, make_terms
from support.robot.fed_playback import FedPlayback
from support.robot.playbacks import make_playback, make_queue

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "config" / "robots").glob("*.yaml"))
ROUNDING = 1e-6  # a row comes as float32 in the policy's units


def robots(files: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", files, ids=lambda path: path.name.partition(".")[0])


CARTESIAN = [path for path in FILES if load_contract(path).actions.poses]
each_robot = robots(FILES)
each_driven_robot = robots([path for path in FILES if path not in CARTESIAN])
each_cartesian_robot = robots(CARTESIAN)


def fitting_policy(contract: Contract) -> PolicySpec:
    """Return a policy that was trained with the robot's names, units, cameras and rate."""
    units = dict(zip(contract.policy_state_names, contract.policy_state_units, strict=True))
    units |= dict(zip(contract.policy_action_names, contract.policy_action_units, strict=True))
    return make_spec(
        state_names=contract.policy_state_names,
        action_names=contract.policy_action_names,
        image_shapes={image.name: (480, 640, 3) for image in contract.image_features},
        trained_fps=contract.row_fps,
        units={name: unit for name, unit in units.items() if unit},
    )


class Driven:
    """A robot whose joints follow their commands at once, and what its controllers get."""

    def __init__(self, path: Path) -> None:
        self.contract = load_contract(path)
        actions = self.contract.actions
        limits = [actions.limits[name] for name in actions.names]
        self.low = np.array([limit.min for limit in limits])
        self.high = np.array([limit.max for limit in limits])
        self.speed = np.array([limit.max_velocity for limit in limits])
        self.acceleration = np.array([limit.max_acceleration or np.inf for limit in limits])
        self.is_position = np.array([kind == "position" for kind in actions.kinds])
        self.queue = make_queue(self.contract)
        fallback = "hold" if self.is_position.any() else "zero"
        RobotConfig(servers=("/server",), fallback=fallback).check_fallback(*actions.kinds)
        self.playback = make_playback(self.contract, self.queue, fallback)
        self.now_ns = 0
        self.measured = (self.low + self.high) / 2.0

    def feed(self, wanted: np.ndarray) -> None:
        """Queue rows `[rows, action_dim]`, which the policy says in its own units."""
        rows = self.contract.action_units.to_policy(wanted).astype(np.float32)
        source = make_source(capture_ns=self.now_ns)
        self.queue.merge(source, rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0)

    def tick(self) -> Tick:
        self.playback.control.change(measured=self.measured.copy(), measured_ns=self.now_ns)
        tick = self.playback.tick(self.now_ns)
        self.now_ns += round(self.contract.period_s * 1e9)
        if tick.source is CommandSource.CHUNK:
            assert tick.command is not None
            self.measured = np.where(self.is_position, tick.command, self.measured)
        return tick

    def commanded(self, tick: Tick) -> dict[str, np.ndarray]:
        """Return what each controller gets in a tick, by topic."""
        found = {}
        for sink in self.contract.commands:
            kind = self.contract.kind_of(sink)
            if tick.command is not None and tick.reaches(kind, sink.destination):
                columns = [self.contract.actions.names.index(name) for name in sink.names]
                found[sink.topic] = tick.command[columns]
        return found


def test_there_are_robots_with_an_arm_two_arms_a_base_and_both() -> None:
    kinds = [set(load_contract(path).actions.kinds) for path in FILES]
    assert {"position"} in kinds
    assert {"velocity"} in kinds
    assert {"position", "velocity"} in kinds
    assert any(load_contract(path).action_dim == 14 for path in FILES)


@each_robot
def test_a_policy_of_the_robots_names_and_units_admits_it(path: Path) -> None:
    contract = load_contract(path)
    offer = make_offer(contract, client="/robot_1/client", client_instance_id="1", robot_namespace="/robot_1")
    verdict = judge(offer, fitting_policy(contract), make_terms(strict_fps=True))
    assert (verdict.rejection, verdict.reason) == ("", "")
    assert verdict.warnings == ()


@each_driven_robot
@pytest.mark.parametrize("begin", ["low", "middle", "high"])
def test_wild_rows_are_commanded_within_limits_and_speeds(path: Path, begin: str) -> None:
    robot = Driven(path)
    wild = np.random.default_rng(7).uniform(-1.5, 1.5, (20, robot.contract.action_dim))
    robot.feed(robot.measured + (robot.high - robot.low) * wild)
    robot.measured = {"low": robot.low, "middle": robot.measured, "high": robot.high}[begin]
    step = robot.speed * robot.contract.period_s
    interventions = set()
    for _ in wild:
        before = robot.measured
        tick = robot.tick()
        assert tick.source is CommandSource.CHUNK
        assert tick.command is not None
        assert (tick.command >= robot.low - ROUNDING).all()
        assert (tick.command <= robot.high + ROUNDING).all()
        moved = np.where(robot.is_position, np.abs(tick.command - before), 0.0)
        assert (moved <= step + ROUNDING).all()
        assert (np.abs(tick.command)[~robot.is_position] <= robot.speed[~robot.is_position] + ROUNDING).all()
        interventions.update(tick.interventions)
    assert JOINT_LIMIT in interventions
    assert (VELOCITY_LIMIT in interventions) == bool(robot.is_position.any())


@each_driven_robot
def test_a_row_within_reach_arrives_at_the_controllers_as_it_is(path: Path) -> None:
    robot = Driven(path)
    period_s = robot.contract.period_s
    reached = 0.5 * np.minimum(robot.speed, robot.acceleration * period_s)  # in one tick, from rest
    row = np.where(robot.is_position, robot.measured + reached * period_s, np.minimum(reached, robot.high))
    robot.feed(row[np.newaxis])
    commanded = robot.commanded(robot.tick())
    assert commanded.keys() == {sink.topic for sink in robot.contract.commands}
    for sink in robot.contract.commands:
        columns = [robot.contract.actions.names.index(name) for name in sink.names]
        assert commanded[sink.topic] == pytest.approx(row[columns], abs=ROUNDING)


@each_driven_robot
def test_with_nothing_to_execute_positions_hold_and_velocities_are_zero(path: Path) -> None:
    robot = Driven(path)
    robot.feed(np.where(robot.is_position, robot.measured, 0.5 * robot.high)[np.newaxis])
    robot.tick()
    commanded = robot.commanded(robot.tick())
    for sink in robot.contract.commands:
        if robot.contract.kind_of(sink) == "velocity":
            assert commanded[sink.topic].tolist() == [0.0] * len(sink.names)
        elif sink.topic in commanded:  # a trajectory ends where the arm is
            columns = [robot.contract.actions.names.index(name) for name in sink.names]
            assert commanded[sink.topic] == pytest.approx(robot.measured[columns], abs=ROUNDING)
        else:
            assert not sink.interface.takes_horizon, "only a controller that keeps its target gets nothing"


@each_driven_robot
def test_the_watchdog_stops_each_controller_by_what_it_takes(path: Path) -> None:
    robot = Driven(path)
    names = robot.contract.actions.names
    measured = {name: Measured(position) for name, position in zip(names, robot.measured, strict=True)}
    for sink in robot.contract.commands:
        stop = stop_controller(robot.contract, sink, measured)
        assert not stop.failed
        columns = [names.index(name) for name in sink.names]
        if robot.contract.kind_of(sink) == "velocity":
            assert stop.action is not None
            assert stop.action[columns].tolist() == [0.0] * len(columns)
        elif sink.interface.takes_horizon:
            assert stop.action is not None
            assert stop.action[columns].tolist() == robot.measured[columns].tolist()
        else:
            assert stop.action is None, "it keeps its last target"


@each_cartesian_robot
def test_wild_poses_are_commanded_within_the_box_and_the_speeds(path: Path) -> None:
    contract = load_contract(path)
    ((title, pose),) = contract.actions.poses.items()
    robot = FedPlayback(contract)
    middle = [(low + high) / 2.0 for low, high in zip(pose.min, pose.max, strict=True)]
    others = [0.02] * (contract.action_dim - 7)
    before = np.array([*middle, 0.0, 0.0, 0.0, 1.0, *others])
    rng = np.random.default_rng(7)
    robot.measure(before)
    robot.append([np.concatenate([rng.uniform(-2.0, 2.0, 3), rng.normal(size=4), others]) for _ in range(40)])
    for _ in range(40):
        tick = robot.tick()
        assert tick.command is not None, title
        assert (tick.command[:3] >= np.array(pose.min) - ROUNDING).all()
        assert (tick.command[:3] <= np.array(pose.max) + ROUNDING).all()
        step, turn = pose.max_velocity * contract.period_s, pose.max_angular_velocity * contract.period_s
        assert np.linalg.norm(tick.command[:3] - before[:3]) <= step + ROUNDING
        assert angles_between(tick.command[np.newaxis, 3:7], before[np.newaxis, 3:7])[0] <= turn + ROUNDING
        before = tick.command
        robot.measure(before)


@each_cartesian_robot
def test_in_silence_a_cartesian_controller_and_a_gripper_keep_their_targets(path: Path) -> None:
    contract = load_contract(path)
    for sink in contract.commands:
        assert stop_controller(contract, sink, {}).action is None
        assert not may_be_sent_a_stop(contract, sink)


@each_robot
def test_a_gripper_may_close_on_an_object(path: Path) -> None:
    limits = load_contract(path).actions.limits
    for name in limits:
        if is_gripper(name) or "knuckle" in name:
            assert limits[name].max_following_error == "off", name


@each_robot
def test_no_ready_contract_needs_the_package_that_bounds_jerk(path: Path) -> None:
    actions = load_contract(path).actions
    assert [name for name, limit in actions.limits.items() if limit.max_jerk] == []
    assert [title for title, pose in actions.poses.items() if pose.max_jerk or pose.max_angular_jerk] == []


@pytest.mark.parametrize("robot", ["fr3", "xarm", "turtlebot4"])
def test_a_robot_whose_maker_publishes_accelerations_has_them(robot: str) -> None:
    limits = load_contract(ROOT / "config" / "robots" / f"{robot}.contract.yaml").actions.limits
    assert all(limit.max_acceleration for limit in limits.values())


@each_robot
def test_home_lies_within_the_limits_where_there_is_one(path: Path) -> None:
    contract = load_contract(path)
    if contract.home is not None:
        for name, position in zip(contract.actions.positions, contract.home.positions, strict=True):
            assert contract.actions.limits[name].min <= position <= contract.actions.limits[name].max


@each_robot
def test_check_finds_no_error_and_warns_only_of_messages_and_settings_that_the_robot_has(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    expected = ("is not installed here: not checked", "without interpolate_from_desired_state: true leads")
    assert said.count("warning") == sum(map(said.count, expected))


def to_policy(robot: str, joint: str, measured: float) -> float:
    contract = load_contract(ROOT / "config" / "robots" / f"{robot}.contract.yaml")
    positions = np.zeros(contract.action_dim)
    column = contract.policy_action_names.index(joint)
    positions[column] = measured
    return float(contract.action_units.to_policy(positions)[column])


@pytest.mark.parametrize(
    ("robot", "joint", "measured", "heard"),
    [
        ("so101", "shoulder_pan.pos", np.pi / 2, 90.0),
        ("so101", "gripper.pos", -0.174533, 0.0),
        ("so101", "gripper.pos", 1.74533, 100.0),
        ("so_arm101", "gripper.pos", 0.5, 50.0),
        ("so_arm101_rosetta", "gripper.pos", np.pi / 2, 90.0),
        ("koch", "gripper.pos", 0.032, 0.0),
        ("koch", "gripper.pos", -1.6, 100.0),
        ("aloha", "left_gripper", 1.6214, 1.0),
        ("lekiwi", "arm_shoulder_pan.pos", -np.pi / 2, -90.0),
        ("lekiwi", "theta.vel", np.pi / 6, 30.0),
        ("fr3", "fr3_joint4", -1.5, -1.5),
    ],
)
def test_the_policy_hears_its_own_unit(robot: str, joint: str, measured: float, heard: float) -> None:
    assert to_policy(robot, joint, measured) == pytest.approx(heard)
