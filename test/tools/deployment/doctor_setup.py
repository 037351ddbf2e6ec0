# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A set-up as the doctor is told of it, and how it is broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from linters import ROOT

from remote_inference.base.contract.contract import Contract, load_contract
from remote_inference.msg import ClientState, ServerStatus
from remote_inference.tools.deployment.doctor import doctor
from remote_inference.tools.deployment.doctor.commands import (
    commands_of,
    judge_commands,
    judge_inputs,
    judge_robots,
)
from remote_inference.tools.deployment.doctor.doctor import Finding, Level, NodeSettings, TopicFacts
from remote_inference.tools.deployment.doctor.sensors import find_unused_topics, judge_sensors
from remote_inference.tools.deployment.middleware import Installation
from remote_inference.tools.deployment.zenoh_config import RMW

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
    "server": SERVER,
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
    settings: NodeSettings = field(default_factory=NodeSettings)

    def findings(self) -> list[Finding]:
        """Return what is not well."""
        unused = find_unused_topics(CONTRACT, self.servers)
        arm = self.robots.get("/arm")
        stale = [] if arm is None else list(arm.stale_sources)
        lost = [] if arm is None else list(arm.lost_publishers)
        simulated = [ROBOT] if self.settings.use_sim_time else []
        servers = list(doctor.judge_servers(self.servers, self.robots))
        sensors = list(
            judge_sensors(CONTRACT, "/arm", self.topics, self.settings, unused=unused, stale=stale, lost=lost)
        )
        router = doctor.router_endpoint(self.variables)
        found = [
            *doctor.judge_middleware(self.variables, self.installation),
            *doctor.judge_environment(self.variables),
            *([] if router is None else [doctor.judge_router(router, self.router_problem)]),
            *doctor.judge_clock(self.wall_s, (), simulated),
            *doctor.judge_names(self.nodes, list(self.robots), list(self.servers)),
            *servers,
            *sensors,
            *judge_commands(commands_of(CONTRACT, "/arm"), "/arm", self.topics),
            *judge_inputs(CONTRACT, "/arm", self.topics),
            *judge_robots(self.robots, wanted="/arm", servers=servers, sensors={"/arm": sensors}),
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
