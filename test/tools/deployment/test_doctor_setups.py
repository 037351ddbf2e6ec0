# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whole set-ups before the doctor: nothing in the healthy ones, and in each broken one what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from doctor_setup import (
    COMMANDS,
    CONTROLLER,
    FAST,
    FRONT,
    JOINTS,
    ROBOT,
    SERVER,
    STOP,
    STREAMING,
    TELEOP,
    TOPICS,
    WATCHDOG,
    WRIST,
    WRIST_FEATURE,
    Setup,
    two_robots,
    with_robot,
    with_server,
    with_topic,
    with_variables,
)

from remote_inference.msg import ClientState
from remote_inference.tools.deployment.doctor.doctor import Level, NodeSettings
from remote_inference.tools.deployment.middleware import Installation

HEALTHY: dict[str, Setup] = {
    "watched": Setup(),
    "without a watchdog": with_topic(COMMANDS, publishers=(ROBOT,)),
    "recorded": with_topic(COMMANDS, subscribers=("/arm/bag_recorder", CONTROLLER)),
    "recorded by ros2 bag": with_topic(
        COMMANDS, subscribers=(CONTROLLER, "/rosbag2_recorder"), latched_subscribers=("/rosbag2_recorder",)
    ),
    "looked at": with_topic(COMMANDS, subscribers=("/_ros2cli_12", CONTROLLER, "/rqt_gui_py_node_3")),
    "two robots": two_robots(),
    "room for more": with_server(max_sessions=8),
    "cameras slower than control": Setup(
        topics={
            **TOPICS,
            FRONT: replace(TOPICS[FRONT], rate_hz=15.0),
            WRIST: replace(TOPICS[WRIST], rate_hz=9.0),
        }
    ),
    "shadowed": with_topic(COMMANDS, publishers=(WATCHDOG, "/teleop")),
    "on wheels": Setup(variables={}, installation=Installation((FAST,), "jazzy", is_wheels=True)),
    "a camera that no policy uses": Setup(
        servers=with_server(image_features=[WRIST_FEATURE]).servers,
        topics={**TOPICS, FRONT: replace(TOPICS[FRONT], publishers=(), rate_hz=0.0)},
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_found_in_a_healthy_set_up(name: str) -> None:
    assert HEALTHY[name].findings() == []


ERROR, WARNING = Level.ERROR, Level.WARNING

# The set-up, and level, subject and a part of the words of the one finding.
BROKEN: dict[str, tuple[Callable[[], Setup], Level, str, str]] = {
    "a middleware that is not installed": (
        lambda: with_variables(RMW_IMPLEMENTATION="rmw_cyclonedds_cpp"),
        *(ERROR, "middleware", "install ros-jazzy-rmw-cyclonedds-cpp"),
    ),
    "Zenoh on the wheels": (
        lambda: Setup(installation=Installation((FAST,), "jazzy", is_wheels=True)),
        *(ERROR, "middleware", "leave out RMW_IMPLEMENTATION"),
    ),
    "no middleware chosen": (
        lambda: Setup(variables={}),
        *(WARNING, "middleware", "RMW_IMPLEMENTATION is not set"),
    ),
    "a domain beyond DDS's": (
        lambda: with_variables(ROS_DOMAIN_ID="300"),
        *(ERROR, "domain", "expected a number from 0 to 232"),
    ),
    "discovery switched off": (
        lambda: with_variables(ROS_AUTOMATIC_DISCOVERY_RANGE="OFF"),
        *(ERROR, "discovery", "nodes find nobody"),
    ),
    "a session's file that is gone": (
        lambda: with_variables(ZENOH_SESSION_CONFIG_URI="/gone.json5"),
        *(ERROR, "ZENOH_SESSION_CONFIG_URI", "no file /gone.json5"),
    ),
    "no router": (
        lambda: Setup(router_problem="Connection refused"),
        *(ERROR, "Zenoh router", "tcp/localhost:7447 does not answer: Connection refused"),
    ),
    "a clock that was never set": (lambda: Setup(wall_s=12.0), WARNING, "clock", "12 s since 1970"),
    "two robots of one name": (
        lambda: Setup(nodes=(*Setup.nodes, ROBOT)),
        *(ERROR, f"node {ROBOT}", "2 of this name"),
    ),
    "two drivers of one name": (
        lambda: Setup(nodes=(*Setup.nodes, CONTROLLER)),
        *(WARNING, f"node {CONTROLLER}", "2 of this name"),
    ),
    "a server that hangs": (lambda: Setup(servers={SERVER: None}), ERROR, f"server {SERVER}", "no status"),
    "a server that is not active": (
        lambda: with_server(accepting=False, lifecycle_state="inactive"),
        *(ERROR, f"server {SERVER}", "inactive, refuses sessions"),
    ),
    "no server": (lambda: Setup(servers={}), ERROR, "servers", "none"),
    "no robot": (
        lambda: Setup(servers=with_server(max_sessions=2).servers, robots={}),
        *(ERROR, "robot /arm", "no node /arm/remote_inference"),
    ),
    "another robot alone": (
        lambda: Setup(robots={"/other": ClientState(**STREAMING)}),
        *(ERROR, "robot /arm", "no node /arm/remote_inference, found /other"),
    ),
    "simulated time without a simulator": (
        lambda: Setup(settings=NodeSettings(use_sim_time=True)),
        *(WARNING, "simulated time", f"use_sim_time of {ROBOT}, and nobody publishes /clock"),
    ),
    "a robot that hangs": (lambda: Setup(robots={"/arm": None}), ERROR, "robot /arm", "no state"),
    "a robot that gave up": (
        lambda: with_robot(state=ClientState.DEAD, state_name="DEAD", session_id="", cause="no server"),
        *(ERROR, "robot /arm", "DEAD: no server"),
    ),
    "a robot that was stopped": (
        lambda: with_robot(stop="button: estop says true", paused=True),
        *(ERROR, "robot /arm", "stopped by button: estop says true"),
    ),
    "a robot that is paused": (
        lambda: with_robot(paused=True),
        *(WARNING, "robot /arm", "remote-inference resume arm"),
    ),
    "a robot that stands still": (
        lambda: with_robot(state=ClientState.STALLED, state_name="STALLED", cause="queue empty"),
        *(WARNING, "robot /arm", "STALLED: queue empty"),
    ),
    "cameras that do not fit": (
        lambda: with_robot(apart="front and top are 0.015 s apart, images.top.max_skew_s is 0.01"),
        *(ERROR, "robot /arm", "images.top.max_skew_s is 0.01"),
    ),
    "a camera that froze": (
        lambda: with_robot(stale_sources=["wrist/image_raw"]),
        *(ERROR, f"sensor {WRIST}", "the node has no fresh message"),
    ),
    "a camera behind a dead link": (
        lambda: with_robot(
            stale_sources=["wrist/image_raw"], lost_publishers=[f"wrist/image_raw: {CONTROLLER}"]
        ),
        *(ERROR, f"sensor {WRIST}", "the link between the two is dead"),
    ),
    "a joint that no driver has": (
        lambda: with_topic(JOINTS, missing=("gripper",), joints=(("elbow_flex",),)),
        *(ERROR, f"sensor {JOINTS}", f"no message from {CONTROLLER} has gripper, they have elbow_flex"),
    ),
    "a driver whose clock is an hour off": (
        lambda: with_topic(JOINTS, stamp_age_s=3600.0),
        *(WARNING, f"sensor {JOINTS}", "synchronise the clocks"),
    ),
    "no driver": (lambda: with_topic(JOINTS, publishers=()), ERROR, f"sensor {JOINTS}", "no publisher"),
    "a camera of another type": (
        lambda: with_topic(WRIST, types=("sensor_msgs/msg/CompressedImage",)),
        *(ERROR, f"sensor {WRIST}", "published as sensor_msgs/msg/CompressedImage"),
    ),
    "a camera that sends nothing": (
        lambda: with_topic(FRONT, rate_hz=0.0),
        *(ERROR, f"sensor {FRONT}", f"no message from {CONTROLLER}"),
    ),
    "a camera that is too slow": (
        lambda: with_topic(FRONT, rate_hz=1.5),
        *(ERROR, f"sensor {FRONT}", "1.5 Hz"),
    ),
    "a camera that is too slow for the node": (
        lambda: replace(with_topic(FRONT, rate_hz=15.0), settings=NodeSettings(max_sensor_age_s=0.05)),
        *(ERROR, f"sensor {FRONT}", "max_sensor_age_s is 0.05"),
    ),
    "joints that are slower than control": (
        lambda: with_topic(JOINTS, rate_hz=15.0),
        *(WARNING, f"sensor {JOINTS}", "15.0 Hz"),
    ),
    "two drivers of one topic": (
        lambda: with_topic(JOINTS, publishers=(CONTROLLER, "/ghost")),
        *(WARNING, f"sensor {JOINTS}", "their messages alternate"),
    ),
    "no controller": (
        lambda: with_topic(COMMANDS, subscribers=()),
        *(ERROR, f"command {COMMANDS}", "no subscriber"),
    ),
    "a recorder in the place of a controller": (
        lambda: with_topic(COMMANDS, subscribers=("/arm/bag_recorder",)),
        *(ERROR, f"command {COMMANDS}", "received by /arm/bag_recorder alone"),
    ),
    "ros2 bag in the place of a controller": (
        lambda: with_topic(COMMANDS, subscribers=("/_ros2cli_1", "/rosbag2_recorder")),
        *(ERROR, f"command {COMMANDS}", "received by /_ros2cli_1, /rosbag2_recorder alone"),
    ),
    "a controller of another type": (
        lambda: with_topic(COMMANDS, types=("trajectory_msgs/msg/JointTrajectory",)),
        *(ERROR, f"command {COMMANDS}", "known as trajectory_msgs/msg/JointTrajectory"),
    ),
    "a controller that waits for latched commands": (
        lambda: with_topic(COMMANDS, latched_subscribers=(CONTROLLER,)),
        *(ERROR, f"command {COMMANDS}", "TRANSIENT_LOCAL"),
    ),
    "somebody else commands, too": (
        lambda: with_topic(COMMANDS, publishers=(WATCHDOG, ROBOT, "/teleop")),
        *(ERROR, f"command {COMMANDS}", "published by /teleop, too"),
    ),
    "the watchdog of another robot commands, too": (
        lambda: with_topic(COMMANDS, publishers=(WATCHDOG, ROBOT, "/other/command_watchdog")),
        *(ERROR, f"command {COMMANDS}", "published by /other/command_watchdog, too"),
    ),
    "a button that nobody publishes": (
        lambda: with_topic(STOP, publishers=()),
        *(ERROR, f"stops.button {STOP}", "the robot does not resume before it is heard"),
    ),
    "a takeover that nobody publishes": (
        lambda: with_topic(TELEOP, publishers=()),
        *(WARNING, f"takeover {TELEOP}", "no publisher"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_set_up_is_told_by_what_breaks_it_and_nothing_else(name: str) -> None:
    make, level, subject, words = BROKEN[name]
    (finding,) = make().findings()
    assert (finding.level, finding.subject) == (level, subject)
    assert words in finding.text
    assert finding.expected
    assert finding.advice


def test_a_robot_without_a_session_is_told_beside_the_server_that_is_full() -> None:
    setup = two_robots(session_id="", state=ClientState.CONNECTING, state_name="CONNECTING")
    server, robot = setup.findings()
    assert (server.level, server.found) == (WARNING, "2 of 2 sessions are open")
    assert (robot.level, robot.subject) == (ERROR, "robot /other")


def test_a_robot_that_stands_still_is_told_by_its_cause_alone() -> None:
    """General advice beside a known cause would send the reader elsewhere."""
    robots = {"/arm": ClientState(**{**STREAMING, "state": ClientState.STALLED, "state_name": "STALLED"})}
    cause, robot = replace(with_topic(WRIST, publishers=()), robots=robots).findings()
    assert (cause.level, cause.subject) == (ERROR, f"sensor {WRIST}")
    assert (robot.level, robot.advice) == (WARNING, f"because of sensor {WRIST}, above")
