# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor makes of the facts: each thing that keeps a robot still is named, with what to do."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from linters import ROOT

from remote_inference.core.contract.contract import load_contract
from remote_inference.deployment.doctor import doctor
from remote_inference.deployment.doctor.doctor import Finding, Level, TopicFacts
from remote_inference.deployment.doctor.inputs import judge_inputs
from remote_inference.deployment.doctor.topics import find_unused_topics, judge_contract
from remote_inference.deployment.middleware import Installation
from remote_inference.deployment.zenoh_config import RMW, EndpointError
from remote_inference.msg import ClientState, ServerStatus

CONTRACT = load_contract(ROOT / "config" / "belt_arm.contract.yaml")
JOINTS, COMMANDS = "/arm/joint_states", "/arm/forward_position_controller/commands"
FRONT, WRIST = "/arm/front/image_raw/compressed", "/arm/wrist/image_raw"
CAMERA = TopicFacts(("sensor_msgs/msg/CompressedImage",), ("/camera",), ("/arm/remote_inference",), (), 30.0)
FRONT_FEATURE, WRIST_FEATURE = (image.name for image in CONTRACT.image_features)
HEALTHY = {
    JOINTS: TopicFacts(("sensor_msgs/msg/JointState",), ("/driver",), (), (), 100.0),
    FRONT: CAMERA,
    WRIST: replace(CAMERA, types=("sensor_msgs/msg/Image",)),
    COMMANDS: TopicFacts(("std_msgs/msg/Float64MultiArray",), ("/arm/remote_inference",), ("/controller",)),
}
FAST = "rmw_fastrtps_cpp"
BOTH = Installation((FAST, RMW), "jazzy")
APT = Installation((FAST,), "kilted")
WHEELS = Installation((FAST,), "jazzy", is_wheels=True)
STATE = ClientState(
    state=ClientState.STREAMING, state_name="STREAMING", session_id="a", cause="chunk 1 merged"
)
WAITING = ClientState(state=ClientState.CONNECTING, state_name="CONNECTING")
STATUS = ServerStatus(lifecycle_state="active", accepting=True, policy_name="hold", max_sessions=1)


def changed(message: Any, **changes: Any) -> Any:
    fields = {name: getattr(message, name) for name in message.get_fields_and_field_types()}
    return type(message)(**{**fields, **changes})


def about(findings: list[Finding], subject: str) -> Finding:
    (found,) = [finding for finding in findings if subject in finding.subject]
    return found


def topics(**changes: Any) -> dict[str, TopicFacts]:
    """Return healthy facts but for the front camera's."""
    return {**HEALTHY, FRONT: replace(CAMERA, **changes)}


def test_a_finding_is_one_line_with_what_to_do() -> None:
    finding = Finding(Level.ERROR, "servers", "none", "at least one", "start one")
    assert str(finding) == "error    servers: none, expected at least one; start one"


def test_a_long_finding_folds_at_80_columns() -> None:
    finding = Finding(Level.WARNING, "server /policy_server", 12 * "word ", "a free one", 7 * "raise it ")
    first, *others = finding.folded.splitlines()
    assert others
    assert max(map(len, [first, *others])) <= 80
    assert {line[:10].isspace() for line in others} == {False}
    assert {line[:9] for line in others} == {9 * " "}
    assert " ".join([first, *(line.strip() for line in others)]).split() == str(finding).split()


def test_a_name_that_is_longer_than_a_line_stays_whole() -> None:
    name = "/" + 30 * "long"
    assert name in Finding(Level.ERROR, f"sensor {name}", "no publisher").folded.split()[2].rstrip(":")


def test_healthy_topics_are_ok() -> None:
    findings = list(judge_contract(CONTRACT, "/arm", HEALTHY))
    assert len(findings) == 4
    assert {finding.level for finding in findings} == {Level.OK}


STOP = {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}
BEAT = {"topic": "beat", "type": "std_msgs/msg/Header", "stop_when": "silent", "silent_s": 0.5}
TAKEOVER = {"topic": "teleop", "type": "sensor_msgs/msg/JointState"}
HEARD = {
    "/arm/estop": TopicFacts(("std_msgs/msg/Bool",), ("/panel",), (), (), 0.0),  # on change alone
    "/arm/beat": TopicFacts(("std_msgs/msg/Header",), ("/panel",), (), (), 10.0),
    "/arm/teleop": TopicFacts(("sensor_msgs/msg/JointState",), ("/leader",), (), (), 50.0),
}


@pytest.mark.parametrize(
    ("topic", "changes", "level", "words"),
    [
        ("estop", {}, Level.OK, "0.0 Hz from /panel"),
        (
            "estop",
            {"publishers": ()},
            Level.ERROR,
            "no publisher, expected std_msgs/msg/Bool; the robot does",
        ),
        ("estop", {"types": ("std_msgs/msg/Empty",)}, Level.ERROR, "published as std_msgs/msg/Empty"),
        ("beat", {}, Level.OK, "10.0 Hz"),
        (
            "beat",
            {"rate_hz": 1.0},
            Level.ERROR,
            "expected a message every 0.5 s; its silence counts as a stop",
        ),
        ("teleop", {}, Level.OK, "50.0 Hz from /leader"),
        ("teleop", {"publishers": ()}, Level.WARNING, "a takeover would run the fallback"),
        ("teleop", {"rate_hz": math.nan}, Level.WARNING, "a takeover would run the fallback"),
    ],
)
def test_the_operator_s_inputs_are_judged(topic: str, changes: dict, level: Level, words: str) -> None:
    contract = CONTRACT.model_validate(
        {**CONTRACT.model_dump(), "stops": {"button": STOP, "watcher": BEAT}, "takeover": TAKEOVER}
    )
    facts = {**HEARD, f"/arm/{topic}": replace(HEARD[f"/arm/{topic}"], **changes)}
    finding = about(list(judge_inputs(contract, "/arm", facts)), f"/arm/{topic}")
    assert finding.level == level
    assert words in finding.text


def test_a_stopped_robot_is_told_the_way_back() -> None:
    stopped = changed(STATE, stop="button: estop says true", paused=True)
    (finding,) = doctor.judge_robots({"/arm": stopped})
    assert finding.level == Level.ERROR
    assert "stopped by button: estop says true" in finding.text
    assert "remote-inference clear-stop arm" in finding.text


@pytest.mark.parametrize(
    ("changes", "level", "found"),
    [
        ({"publishers": ()}, Level.ERROR, "no publisher"),
        ({"types": ("sensor_msgs/msg/Image",)}, Level.ERROR, "published as sensor_msgs/msg/Image"),
        ({"rate_hz": 0.0}, Level.ERROR, "no message from /camera"),
        ({"rate_hz": math.nan}, Level.ERROR, "no message from /camera"),
        ({"rate_hz": 1.0}, Level.ERROR, "1.0 Hz from /camera"),
        ({"rate_hz": 10.0}, Level.WARNING, "10.0 Hz from /camera"),
        ({"publishers": ("/a", "/b")}, Level.WARNING, "30.0 Hz from /a, /b"),
    ],
)
def test_a_sensor_that_starves_the_policy_is_named(changes: dict[str, Any], level: Level, found: str) -> None:
    finding = about(list(judge_contract(CONTRACT, "/arm", topics(**changes))), FRONT)
    assert (finding.level, finding.found) == (level, found)
    assert finding.expected
    assert finding.advice


@pytest.mark.parametrize(
    ("policies", "level"),
    [
        ([], Level.ERROR),  # nobody knows yet
        ([[WRIST_FEATURE]], Level.OK),
        ([[WRIST_FEATURE, FRONT_FEATURE]], Level.ERROR),
        ([[WRIST_FEATURE], [FRONT_FEATURE]], Level.ERROR),  # one of the servers
    ],
)
def test_a_camera_that_no_server_s_policy_uses_may_be_silent(policies: list[list[str]], level: Level) -> None:
    servers = {f"/{n}": changed(STATUS, image_features=names) for n, names in enumerate(policies)}
    unused = find_unused_topics(CONTRACT, {**servers, "/mute": None, "/idle": ServerStatus()})
    findings = list(judge_contract(CONTRACT, "/arm", topics(publishers=()), unused))
    assert about(findings, FRONT).level is level
    assert about(findings, WRIST).level is Level.OK


@pytest.mark.parametrize(
    ("changes", "level", "found"),
    [
        ({"subscribers": ()}, Level.ERROR, "no subscriber"),
        ({"types": ("std_msgs/msg/String",)}, Level.ERROR, "known as std_msgs/msg/String"),
        ({"latched_subscribers": ("/controller",)}, Level.ERROR, "/controller subscribes as TRANSIENT_LOCAL"),
        ({"publishers": ("/a", "/b")}, Level.WARNING, "published by /a, /b, too"),
        ({"subscribers": ("/arm/bag_recorder",)}, Level.ERROR, "heard by /arm/bag_recorder alone"),
        (
            {"publishers": ("/arm/command_watchdog", "/arm/remote_inference", "/teleop")},
            Level.WARNING,
            "published by /teleop, too",
        ),
    ],
)
def test_a_command_that_nobody_hears_is_named(changes: dict[str, Any], level: Level, found: str) -> None:
    facts = {**HEALTHY, COMMANDS: replace(HEALTHY[COMMANDS], **changes)}
    finding = about(list(judge_contract(CONTRACT, "/arm", facts)), COMMANDS)
    assert (finding.level, finding.found) == (level, found)


@pytest.mark.parametrize(
    ("variables", "installation", "level", "text"),
    [
        ({"RMW_IMPLEMENTATION": RMW}, BOTH, Level.OK, RMW),
        ({}, BOTH, Level.WARNING, f"RMW_IMPLEMENTATION is not set, expected {RMW}; export it in every shell"),
        ({"RMW_IMPLEMENTATION": FAST}, BOTH, Level.WARNING, f"{FAST}, expected {RMW}; export it"),
        ({}, APT, Level.WARNING, "install ros-kilted-rmw-zenoh-cpp and export it in every shell"),
        (
            {"RMW_IMPLEMENTATION": "rmw_x_cpp"},
            BOTH,
            Level.ERROR,
            f"rmw_x_cpp is not installed, found {FAST}, {RMW}, expected one that is installed; "
            "install ros-jazzy-rmw-x-cpp",
        ),
        ({}, WHEELS, Level.OK, f"{FAST}, that of the wheels of ROS 2 jazzy"),
        ({"RMW_IMPLEMENTATION": FAST}, WHEELS, Level.OK, f"{FAST}, that of the wheels of ROS 2 jazzy"),
        (
            {"RMW_IMPLEMENTATION": RMW},
            WHEELS,
            Level.ERROR,
            f"{RMW} is not installed, found {FAST}, expected one that is installed; "
            "leave out RMW_IMPLEMENTATION",
        ),
        (
            {},
            Installation((FAST,)),
            Level.WARNING,
            f"install {RMW} for this ROS 2 distribution and export it",
        ),
    ],
)
def test_the_middleware_is_judged_by_what_is_installed(
    variables: dict[str, str], installation: Installation, level: Level, text: str
) -> None:
    (finding,) = doctor.judge_middleware(variables, installation)
    assert finding.level == level
    assert finding.text.startswith("middleware: ")
    assert text in finding.text
    assert "<" not in finding.text


@pytest.mark.parametrize(
    ("variables", "subject", "level"),
    [
        ({}, "domain", Level.OK),
        ({"ROS_DOMAIN_ID": "none"}, "domain", Level.ERROR),
        ({"ROS_DOMAIN_ID": "233"}, "domain", Level.ERROR),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}, "discovery", Level.ERROR),
        ({"ROS_LOCALHOST_ONLY": "1"}, "discovery", Level.OK),
        ({"ZENOH_SESSION_CONFIG_URI": "/nowhere.json5"}, "ZENOH_SESSION_CONFIG_URI", Level.ERROR),
    ],
)
def test_variables_that_part_nodes_are_named(variables: dict[str, str], subject: str, level: Level) -> None:
    assert about(list(doctor.judge_environment(variables)), subject).level is level


def test_the_router_is_the_one_that_the_override_names() -> None:
    override = 'mode="client";connect/endpoints=["tls/hub.lab:7448"]'
    assert str(doctor.router_endpoint({"ZENOH_CONFIG_OVERRIDE": override})) == "tls/hub.lab:7448"
    assert str(doctor.router_endpoint({})) == doctor.DEFAULT_ROUTER
    with pytest.raises(EndpointError, match="ZENOH_CONFIG_OVERRIDE: connect/endpoints: found nonsense"):
        doctor.router_endpoint({"ZENOH_CONFIG_OVERRIDE": "connect/endpoints=nonsense"})


def test_a_router_that_does_not_answer_is_an_error() -> None:
    endpoint = doctor.router_endpoint({})
    assert doctor.judge_router(endpoint, "").level is Level.OK
    assert doctor.judge_router(endpoint, "Connection refused").level is Level.ERROR


def test_a_clock_that_was_never_set_is_a_warning() -> None:
    assert next(doctor.judge_clock(1000.0, [])).level is Level.WARNING
    wall, simulated = doctor.judge_clock(doctor.OLDEST_WALL_CLOCK_S, ["/gazebo"])
    assert wall.level is Level.OK
    assert "/gazebo" in simulated.found


def test_two_robots_of_one_name_are_an_error_and_other_twins_a_warning() -> None:
    nodes = ["/arm/remote_inference"] * 2 + ["/driver"] * 2 + ["/policy_server"]
    findings = list(doctor.judge_names(nodes, ["/arm"], ["/policy_server"]))
    assert {(f.subject, f.level) for f in findings} == {
        ("node /arm/remote_inference", Level.ERROR),
        ("node /driver", Level.WARNING),
    }


@pytest.mark.parametrize(
    ("status", "level"),
    [
        (STATUS, Level.OK),
        (changed(STATUS, sessions=["b"]), Level.WARNING),
        (changed(STATUS, accepting=False), Level.ERROR),
        (None, Level.ERROR),
    ],
    ids=["free", "full", "refuses", "silent"],
)
def test_a_server_that_takes_nobody_is_named(status: ServerStatus | None, level: Level) -> None:
    (finding,) = doctor.judge_servers({"/policy_server": status}, {"/arm": WAITING})
    assert finding.level is level


@pytest.mark.parametrize(
    ("state", "level", "word"),
    [
        (STATE, Level.OK, "STREAMING"),
        (changed(STATE, paused=True), Level.WARNING, "resume arm"),
        (changed(STATE, session_id=""), Level.ERROR, "no session"),
        (changed(STATE, state=ClientState.DEAD, state_name="DEAD"), Level.ERROR, "DEAD"),
        (changed(STATE, state=ClientState.STALLED, state_name="STALLED"), Level.WARNING, "STALLED"),
        (None, Level.ERROR, "no state"),
    ],
    ids=["moves", "paused", "no session", "dead", "stalled", "silent"],
)
def test_a_robot_that_does_not_move_is_named(state: ClientState | None, level: Level, word: str) -> None:
    (finding,) = doctor.judge_robots({"/arm": state})
    assert finding.level is level
    assert word in str(finding)


def test_stale_sensors_are_named_beside_the_state() -> None:
    stale, _ = doctor.judge_robots({"/arm": changed(STATE, stale_sources=["joint_states"])})
    assert (stale.level, stale.found) == (Level.ERROR, "no fresh message on joint_states")


def test_nobody_is_an_error() -> None:
    assert [finding.level for finding in doctor.judge_servers({}, {})] == [Level.ERROR]
    assert [finding.level for finding in doctor.judge_robots({})] == [Level.ERROR]


def test_a_file_that_a_variable_names_and_that_exists_is_fine(tmp_path: Path) -> None:
    (tmp_path / "session.json5").write_text("{}")
    variables = {"ZENOH_SESSION_CONFIG_URI": str(tmp_path / "session.json5")}
    assert {finding.level for finding in doctor.judge_environment(variables)} == {Level.OK}


@pytest.mark.parametrize(
    ("robots", "level"),
    [
        ({"/arm": changed(STATE, session_id="b")}, Level.OK),
        ({"/arm": changed(STATE, session_id="b"), "/other": WAITING}, Level.WARNING),
        ({"/arm": changed(STATE, session_id="c")}, Level.OK),  # on another server
        ({"/arm": changed(WAITING, state=ClientState.DEAD)}, Level.OK),
        ({}, Level.WARNING),
    ],
    ids=["its robot", "one waits", "served elsewhere", "dead", "no robot yet"],
)
def test_a_full_server_is_a_finding_only_when_a_robot_may_want_it(
    robots: dict[str, ClientState], level: Level
) -> None:
    (finding,) = doctor.judge_servers({"/policy_server": changed(STATUS, sessions=["b"])}, robots)
    assert finding.level is level


def test_a_robot_s_own_watchdog_and_recorders_are_no_rivals() -> None:
    facts = replace(
        HEALTHY[COMMANDS],
        publishers=("/arm/command_watchdog", "/arm/remote_inference"),
        subscribers=("/arm/bag_recorder", "/controller", "/rosbag2_recorder"),
        latched_subscribers=("/rosbag2_recorder",),
    )
    finding = about(list(judge_contract(CONTRACT, "/arm", {**HEALTHY, COMMANDS: facts})), COMMANDS)
    assert (finding.level, finding.found) == (Level.OK, "heard by /controller")


@pytest.mark.parametrize(
    ("servers", "level", "found"),
    [
        (("/arm/gripper_controller",), Level.OK, "served by /arm/gripper_controller"),
        ((), Level.ERROR, "no action server"),
        (("/a", "/b"), Level.ERROR, "served by /a, /b"),
    ],
)
def test_an_action_has_one_server(servers: tuple[str, ...], level: Level, found: str) -> None:
    document = CONTRACT.model_dump()
    *joints, gripper = document["actions"]["names"]
    commands = (
        {**document["commands"][0], "names": tuple(joints)},
        {
            "action": "gripper_cmd",
            "type": "control_msgs/action/GripperCommand",
            "fields": {"command.position": gripper},
        },
    )
    contract = CONTRACT.model_validate({**document, "commands": commands})
    status = TopicFacts(("action_msgs/msg/GoalStatusArray",), servers, ("/arm/remote_inference",))
    facts = {**HEALTHY, "/arm/gripper_cmd/_action/status": status}
    finding = about(list(judge_contract(contract, "/arm", facts)), "/arm/gripper_cmd")
    assert (finding.level, finding.found) == (level, found)


def test_a_controller_that_the_contract_names_must_be_there() -> None:
    document = CONTRACT.model_dump()
    commands = ({**document["commands"][0], "controller": "position_controller"},)
    contract = CONTRACT.model_validate({**document, "commands": commands})

    def finding(*subscribers: str) -> Finding:
        facts = replace(HEALTHY[COMMANDS], subscribers=subscribers)
        return about(list(judge_contract(contract, "/arm", {**HEALTHY, COMMANDS: facts})), COMMANDS)

    assert finding("/arm/position_controller", "/logger").level is Level.OK
    missing = finding("/logger")
    assert (missing.level, missing.found) == (Level.ERROR, "heard by /logger alone")
    assert missing.expected == "/arm/position_controller, the contract's controller"
