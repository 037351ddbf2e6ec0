# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor makes of a robot's state, beside what it has found before."""

from __future__ import annotations

import pytest
from doctor_facts import STATE, WAITING, changed

from remote_inference.msg import ClientState
from remote_inference.tools.deployment.doctor.commands import judge_robots
from remote_inference.tools.deployment.doctor.doctor import Finding, Level

STALLED = changed(
    STATE, state=ClientState.STALLED, state_name="STALLED", cause="queue empty", server="/policy_server"
)
CAMERA = Finding(Level.ERROR, "sensor /arm/front", "no publisher")
SERVER = Finding(Level.ERROR, "server /policy_server", "no status")
GENERAL = "look at its latencies and server"


def test_a_stopped_robot_is_told_the_way_back() -> None:
    stopped = changed(STATE, stop="button: estop says true", paused=True)
    (finding,) = judge_robots({"/arm": stopped})
    assert finding.level == Level.ERROR
    assert "stopped by button: estop says true" in finding.text
    assert "remote-inference clear-stop arm" in finding.text


@pytest.mark.parametrize(
    ("state", "level", "word"),
    [
        (STATE, Level.OK, "STREAMING"),
        (changed(STATE, paused=True), Level.WARNING, "resume arm"),
        (changed(STATE, paused=True, pause_cause="the watchdog"), Level.WARNING, "paused (the watchdog), "),
        (changed(STATE, session_id=""), Level.ERROR, "no session"),
        (changed(STATE, state=ClientState.DEAD, state_name="DEAD"), Level.ERROR, "DEAD"),
        (changed(STATE, state=ClientState.STALLED, state_name="STALLED"), Level.WARNING, "STALLED"),
        (None, Level.ERROR, "no state"),
    ],
    ids=["moves", "paused", "paused with a cause", "no session", "dead", "stalled", "silent"],
)
def test_a_robot_that_does_not_move_is_named(state: ClientState | None, level: Level, word: str) -> None:
    (finding,) = judge_robots({"/arm": state})
    assert finding.level is level
    assert word in str(finding)


def test_no_robot_is_an_error() -> None:
    assert [finding.level for finding in judge_robots({})] == [Level.ERROR]


@pytest.mark.parametrize("robots", [{}, {"/other": STATE}], ids=["no robot", "another"])
def test_the_robot_of_the_contract_must_be_there(robots: dict[str, ClientState]) -> None:
    missing, *others = judge_robots(robots, wanted="/arm")
    assert (missing.level, missing.subject) == (Level.ERROR, "robot /arm")
    assert "no node /arm/remote_inference" in missing.found
    assert ", ".join(robots) in missing.found
    assert "start 'remote-inference robot'" in missing.advice
    assert {finding.level for finding in others} <= {Level.OK}


def test_the_robot_of_the_contract_is_well_when_it_is_there() -> None:
    assert [finding.level for finding in judge_robots({"/arm": STATE}, wanted="/arm")] == [Level.OK]


@pytest.mark.parametrize(
    ("servers", "sensors", "advice"),
    [
        ([], {}, GENERAL),
        ([], {"/arm": [CAMERA]}, "because of sensor /arm/front, above"),
        ([], {"/other": [CAMERA]}, GENERAL),
        ([], {"/arm": [Finding(Level.WARNING, "sensor /arm/front", "stamps are off")]}, GENERAL),
        ([SERVER], {"/arm": [CAMERA]}, "because of sensor /arm/front, server /policy_server, above"),
        ([Finding(Level.ERROR, "server /other_server", "no status")], {}, GENERAL),
        ([Finding(Level.OK, "server /policy_server", "accepts")], {}, GENERAL),
    ],
    ids=["unknown", "sensor", "another's", "a warning", "both", "another server", "server is well"],
)
def test_a_known_cause_stands_in_the_place_of_general_advice(
    servers: list[Finding], sensors: dict[str, list[Finding]], advice: str
) -> None:
    (finding,) = judge_robots({"/arm": STALLED}, servers=servers, sensors=sensors)
    assert (finding.level, finding.found, finding.advice) == (Level.WARNING, "STALLED: queue empty", advice)


@pytest.mark.parametrize("other", [Level.OK, Level.WARNING])
def test_a_robot_without_a_session_is_explained_when_no_server_is_well(other: Level) -> None:
    servers = [SERVER, Finding(other, "server /other_server", "1 of 1 sessions are open")]
    (finding,) = judge_robots({"/arm": WAITING}, servers=servers)
    explained = "because of server /policy_server, server /other_server, above"
    assert (finding.advice == explained) is (other is not Level.OK)
    assert finding.level is Level.ERROR
