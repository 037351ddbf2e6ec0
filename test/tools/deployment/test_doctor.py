# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor makes of the facts: each thing that keeps a robot still is named, with what to do."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from doctor_facts import CONTRACT, STATE, STATUS, WAITING, about, changed

from remote_inference.msg import ClientState, ServerStatus
from remote_inference.tools.deployment.doctor import doctor
from remote_inference.tools.deployment.doctor.commands import judge_inputs
from remote_inference.tools.deployment.doctor.doctor import Finding, Level, TopicFacts
from remote_inference.tools.deployment.middleware import Installation
from remote_inference.tools.deployment.zenoh_config import RMW, EndpointError

FAST = "rmw_fastrtps_cpp"
BOTH = Installation((FAST, RMW), "jazzy")
APT = Installation((FAST,), "kilted")
WHEELS = Installation((FAST,), "jazzy", is_wheels=True)


def test_a_finding_is_one_line_with_what_to_do() -> None:
    finding = Finding(Level.ERROR, "servers", "none", "at least one", "start one")
    assert str(finding) == "error    servers: none, expected at least one; start one"


def test_a_finding_stays_one_line_whatever_a_server_says_of_itself() -> None:
    text = str(Finding(Level.ERROR, "robot /arm", "DEAD: refused\n(actions)\r\nand so on"))
    assert text == "error    robot /arm: DEAD: refused (actions) and so on"


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_long_finding_folds_at_the_width_of_a_terminal(columns: int) -> None:
    finding = Finding(Level.WARNING, "server /policy_server", 12 * "word ", "a free one", 7 * "raise it ")
    first, *others = finding.fold(columns).splitlines()
    assert others
    assert max(map(len, [first, *others])) <= columns
    assert {line[:10].isspace() for line in others} == {False}
    assert {line[:9] for line in others} == {9 * " "}
    assert " ".join([first, *(line.strip() for line in others)]).split() == str(finding).split()


def test_a_name_that_is_longer_than_a_line_stays_whole() -> None:
    name = "/" + 30 * "long"
    assert name in Finding(Level.ERROR, f"sensor {name}", "no publisher").fold(80).split()[2].rstrip(":")


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
        ("estop", {"unreadable": True}, Level.ERROR, "messages that cannot be read from /panel"),
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
    with pytest.raises(EndpointError, match="ZENOH_CONFIG_OVERRIDE: connect/endpoints: cannot be read"):
        doctor.router_endpoint({"ZENOH_CONFIG_OVERRIDE": "connect/endpoints=nonsense"})


@pytest.mark.parametrize(
    ("session", "router"),
    [
        ('{"mode": "client", "connect": {"endpoints": ["tls/hub.lab:7448"]}}', "tls/hub.lab:7448"),
        ('{"connect": {"endpoints": {"router": [], "peer": ["tls/hub.lab:7448"]}}}', "tls/hub.lab:7448"),
        ('{"connect": {"endpoints": []}}', "None"),
        ('{"mode": "peer"}', "None"),
    ],
)
def test_without_an_override_the_router_is_the_one_of_the_session_s_file(
    session: str, router: str, tmp_path: Path
) -> None:
    path = tmp_path / "session.json5"
    path.write_text(session)
    variables = {"ZENOH_SESSION_CONFIG_URI": str(path)}
    assert str(doctor.router_endpoint(variables)) == router
    override = {"ZENOH_CONFIG_OVERRIDE": 'connect/endpoints=["tcp/other:7447"]'}
    assert str(doctor.router_endpoint(variables | override)) == "tcp/other:7447"


def test_a_session_s_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "session.json5"
    path.write_text("{connect")
    with pytest.raises(EndpointError, match=r"session\.json5: cannot be read"):
        doctor.router_endpoint({"ZENOH_SESSION_CONFIG_URI": str(path)})


def test_a_router_that_does_not_answer_is_an_error() -> None:
    endpoint = doctor.router_endpoint({})
    assert endpoint is not None
    assert doctor.judge_router(endpoint, "").level is Level.OK
    assert doctor.judge_router(endpoint, "Connection refused").level is Level.ERROR


@pytest.mark.parametrize(
    ("clocks", "simulated", "levels"),
    [
        ([], [], []),
        (["/gazebo"], ["/arm/remote_inference"], [Level.OK]),
        (["/gazebo"], [], [Level.OK]),
        ([], ["/arm/remote_inference"], [Level.WARNING]),
    ],
    ids=["wall time", "simulation", "its clock alone", "no clock"],
)
def test_simulated_time_that_nobody_publishes_is_named(
    clocks: list[str], simulated: list[str], levels: list[Level]
) -> None:
    _, *findings = doctor.judge_clock(doctor.OLDEST_WALL_CLOCK_S, clocks, simulated)
    assert [finding.level for finding in findings] == levels
    for finding in findings:
        assert ", ".join(clocks or simulated) in finding.found
        assert finding.level is Level.OK or (finding.expected and "use_sim_time" in finding.advice)


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


def test_no_server_is_an_error() -> None:
    assert [finding.level for finding in doctor.judge_servers({}, {})] == [Level.ERROR]


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
