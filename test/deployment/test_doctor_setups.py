# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whole set-ups before the doctor: nothing in the healthy ones, and in each broken one what breaks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from linters import ROOT

from remote_inference.core.contract.contract import Contract, load_contract
from remote_inference.deployment.doctor import doctor
from remote_inference.deployment.doctor.doctor import Finding, Level, TopicFacts
from remote_inference.deployment.doctor.inputs import judge_inputs
from remote_inference.deployment.doctor.topics import find_unused_topics, judge_contract
from remote_inference.deployment.middleware import Installation
from remote_inference.deployment.zenoh_config import RMW
from remote_inference.msg import ClientState, ServerStatus

FAST = "rmw_fastrtps_cpp"
PLAIN = load_contract(ROOT / "config" / "belt_arm.contract.yaml")
CONTRACT = Contract.model_validate(
    {
        **PLAIN.model_dump(),
        "stops": {"button": {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}},
        "takeover": {"topic": "teleop", "type": "sensor_msgs/msg/JointState"},
    }
)
JOINTS, STOP, TELEOP = "/arm/joint_states", "/arm/estop", "/arm/teleop"
FRONT, WRIST = "/arm/front/image_raw/compressed", "/arm/wrist/image_raw"
COMMANDS = "/arm/forward_position_controller/commands"
ROBOT, WATCHDOG, CONTROLLER = "/arm/remote_inference", "/arm/command_watchdog", "/arm/belt_arm"
SERVER = "/policy_server"
(WRIST_FEATURE,) = (name for name, topic in CONTRACT.camera_topics.items() if topic.startswith("wrist"))

STREAMING: dict[str, Any] = {
    "state": ClientState.STREAMING,
    "state_name": "STREAMING",
    "session_id": "a",
    "cause": "chunk 1 merged",
}
ACTIVE: dict[str, Any] = {
    "lifecycle_state": "active",
    "accepting": True,
    "policy_name": "belt_arm",
    "max_sessions": 1,
    "sessions": ["a"],
    "image_features": [image.name for image in CONTRACT.image_features],
}
TOPICS: Mapping[str, TopicFacts] = {
    JOINTS: TopicFacts(("sensor_msgs/msg/JointState",), (CONTROLLER,), (ROBOT, WATCHDOG), (), 100.0),
    FRONT: TopicFacts(("sensor_msgs/msg/CompressedImage",), (CONTROLLER,), (ROBOT,), (), 30.0),
    WRIST: TopicFacts(("sensor_msgs/msg/Image",), (CONTROLLER,), (ROBOT,), (), 30.0),
    COMMANDS: TopicFacts(("std_msgs/msg/Float64MultiArray",), (WATCHDOG, ROBOT), (CONTROLLER,)),
    STOP: TopicFacts(("std_msgs/msg/Bool",), ("/panel",), (ROBOT,), (), 0.0),
    TELEOP: TopicFacts(("sensor_msgs/msg/JointState",), ("/leader",), (ROBOT,), (), 50.0),
}


@dataclass(frozen=True)
class Setup:
    """What the doctor is told of a set-up; by itself a watched robot that streams from a full server."""

    variables: Mapping[str, str] = field(default_factory=lambda: {"RMW_IMPLEMENTATION": RMW})
    installation: Installation = field(default_factory=lambda: Installation((FAST, RMW), "jazzy"))
    router_problem: str = ""
    wall_s: float = 1.8e9
    nodes: tuple[str, ...] = (ROBOT, WATCHDOG, CONTROLLER, SERVER)
    servers: Mapping[str, ServerStatus | None] = field(
        default_factory=lambda: {SERVER: ServerStatus(**ACTIVE)}
    )
    robots: Mapping[str, ClientState | None] = field(
        default_factory=lambda: {"/arm": ClientState(**STREAMING)}
    )
    topics: Mapping[str, TopicFacts] = field(default_factory=lambda: TOPICS)

    def findings(self) -> list[Finding]:
        """Return what is not well."""
        unused = find_unused_topics(CONTRACT, self.servers)
        found = [
            *doctor.judge_middleware(self.variables, self.installation),
            *doctor.judge_environment(self.variables),
            doctor.judge_router(doctor.router_endpoint(self.variables), self.router_problem),
            *doctor.judge_clock(self.wall_s, ()),
            *doctor.judge_names(self.nodes, list(self.robots), list(self.servers)),
            *doctor.judge_servers(self.servers, self.robots),
            *doctor.judge_robots(self.robots),
            *judge_contract(CONTRACT, "/arm", self.topics, unused),
            *judge_inputs(CONTRACT, "/arm", self.topics),
        ]
        return [finding for finding in found if finding.level is not Level.OK]


def with_topic(name: str, **changes: Any) -> Setup:
    return Setup(topics={**TOPICS, name: replace(TOPICS[name], **changes)})


def with_variables(**changes: str) -> Setup:
    return Setup(variables={"RMW_IMPLEMENTATION": RMW, **changes})


def with_robot(**changes: Any) -> Setup:
    return Setup(robots={"/arm": ClientState(**{**STREAMING, **changes})})


def with_server(**changes: Any) -> Setup:
    return Setup(servers={SERVER: ServerStatus(**{**ACTIVE, **changes})})


def two_robots(**other: Any) -> Setup:
    """Return the set-up with another robot, whose session is open on the same server, too."""
    return Setup(
        nodes=(*Setup.nodes, "/other/remote_inference", "/other/command_watchdog"),
        servers={SERVER: ServerStatus(**{**ACTIVE, "max_sessions": 2, "sessions": ["a", "b"]})},
        robots={
            "/arm": ClientState(**STREAMING),
            "/other": ClientState(**{**STREAMING, "session_id": "b", **other}),
        },
    )


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
        *(ERROR, "robots", "none"),
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
    "a camera that froze": (
        lambda: with_robot(stale_sources=["wrist/image_raw"]),
        *(ERROR, "robot /arm", "no fresh message on wrist/image_raw"),
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
        lambda: with_topic(FRONT, rate_hz=8.0),
        *(WARNING, f"sensor {FRONT}", "8.0 Hz"),
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
        *(ERROR, f"command {COMMANDS}", "heard by /arm/bag_recorder alone"),
    ),
    "ros2 bag in the place of a controller": (
        lambda: with_topic(COMMANDS, subscribers=("/_ros2cli_1", "/rosbag2_recorder")),
        *(ERROR, f"command {COMMANDS}", "heard by /_ros2cli_1, /rosbag2_recorder alone"),
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
        *(WARNING, f"command {COMMANDS}", "published by /teleop, too"),
    ),
    "the watchdog of another robot commands, too": (
        lambda: with_topic(COMMANDS, publishers=(WATCHDOG, ROBOT, "/other/command_watchdog")),
        *(WARNING, f"command {COMMANDS}", "published by /other/command_watchdog, too"),
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
