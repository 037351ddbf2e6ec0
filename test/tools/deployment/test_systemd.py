# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The systemd units: valid, and what they start, stop and restart agrees with the package."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from configparser import ConfigParser
from pathlib import Path

import pytest
from images import ROUTER
from linters import ROOT, complaints

from remote_inference.base.nodes.runtime import EXIT_NO_MIDDLEWARE, EXIT_REFUSED
from remote_inference.base.paths import share_path
from remote_inference.tools.cli.parser import make_parser
from remote_inference.tools.deployment.process_group import STOP_TIMEOUT_S

UNIT = ROOT / "deploy" / "systemd" / "remote-inference@.service"
ROUTER_UNIT = ROOT / "deploy" / "systemd" / "zenoh-router.service"
ENVIRONMENT = ROOT / "deploy" / "systemd" / "robot_1.env"


def read(unit: Path) -> ConfigParser:
    parser = ConfigParser(interpolation=None, comment_prefixes=("#",), delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(unit)
    return parser


SERVICE = read(UNIT)["Service"]
SERVER_UNIT = ROOT / "deploy" / "systemd" / "remote-inference-server@.service"
SERVER = read(SERVER_UNIT)["Service"]
SERVER_ENVIRONMENT = ROOT / "deploy" / "systemd" / "gpu_1.env"
UNITS = {"robot": (UNIT, ENVIRONMENT, "robot_1"), "server": (SERVER_UNIT, SERVER_ENVIRONMENT, "gpu_1")}


def start_command(unit: Path, instance: str = "") -> list[str]:
    """Return a unit's command as systemd would run it; none of its variables is systemd's to fill in."""
    text = read(unit)["Service"]["ExecStart"]
    assert not re.search(r"(?<!\$)\$(?!\$)", text)
    return [word.replace("%i", instance).replace("$$", "$") for word in shlex.split(text)]


def variables(environment: Path = ENVIRONMENT) -> dict[str, str]:
    lines = [line for line in environment.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    (tmp_path / "remote-inference@robot_1.service").write_text(UNIT.read_text())
    (tmp_path / "remote-inference-server@gpu_1.service").write_text(SERVER_UNIT.read_text())
    (tmp_path / ROUTER_UNIT.name).write_text(ROUTER_UNIT.read_text())
    assert complaints("systemd-analyze", "verify", *tmp_path.iterdir()) == ""


def run_unit(tmp_path: Path, which: str, program: str, setup: str) -> subprocess.Popen[str]:
    """Start a unit's command with a stand-in for `remote-inference`. setup: of the workspace."""
    (tmp_path / "remote-inference").write_text(f"#!/bin/bash\n{program}\n")
    (tmp_path / "remote-inference").chmod(0o755)
    (tmp_path / setup).parent.mkdir(exist_ok=True)
    (tmp_path / setup).write_text(f'export PATH="{tmp_path}:$PATH"\n')
    unit, file, instance = UNITS[which]
    environment = {**os.environ, **variables(file), "WORKSPACE": str(tmp_path)}
    return subprocess.Popen(start_command(unit, instance), env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("setup", ["setup.bash", "bin/activate"], ids=["workspace", "wheels"])
@pytest.mark.parametrize("which", UNITS)
def test_a_unit_starts_what_its_environment_names(tmp_path: Path, which: str, setup: str) -> None:
    started = run_unit(tmp_path, which, 'echo "$$ $*"', setup)
    pid, *arguments = (started.communicate(timeout=20.0)[0]).split()
    assert int(pid) == started.pid  # systemd signals the command itself
    parsed = make_parser().parse_args(arguments)
    named = variables(UNITS[which][1])
    assert parsed.verb == which
    if which == "robot":
        assert parsed.namespace == "/robot_1"
        assert str(parsed.contract) == named["CONTRACT"]
        assert str(parsed.params_file) == named["PARAMS_FILE"]
    else:
        assert parsed.name == "gpu_1"
        assert str(parsed.manifest) == named["MANIFEST"]


@pytest.mark.parametrize("which", UNITS)
def test_the_environment_file_sets_what_the_unit_reads(which: str) -> None:
    unit, environment, instance = UNITS[which]
    service = read(unit)["Service"]
    read_by_unit = set(re.findall(r"\$\$\{(\w+)\}", service["ExecStart"]))
    assert read_by_unit == variables(environment).keys() - {"PYTHONPATH", "RMW_IMPLEMENTATION"}
    assert service["EnvironmentFile"].replace("%i", instance) in environment.read_text()


def test_a_server_is_started_again_whatever_ended_it_and_has_time_to_drain() -> None:
    assert SERVER["Restart"] == "on-failure"
    assert "RestartPreventExitStatus" not in SERVER  # a device that comes late ends it as wrong files do
    assert "KillSignal" not in SERVER  # SIGTERM, which drains
    assert SERVER["KillMode"] == "mixed"
    assert int(SERVER["TimeoutStopSec"]) > STOP_TIMEOUT_S


def test_a_setup_file_that_is_missing_is_no_crash(tmp_path: Path) -> None:
    environment = {**os.environ, "WORKSPACE": str(tmp_path / "nowhere")}
    ended = subprocess.run(start_command(UNIT, "robot_1"), env=environment, capture_output=True, timeout=20.0)
    assert ended.returncode in prevented()


def prevented() -> set[int]:
    return {int(code) for code in SERVICE["RestartPreventExitStatus"].split()}


def test_only_a_crash_is_answered_by_a_restart() -> None:
    """The codes that docs/explanation explains: 0 is no failure, 1 a robot that gave up, 2 wrong files."""
    page = (ROOT / "docs" / "explanation" / "how_safety_works.md").read_text()
    table = re.findall(r"^\| (\d) \| (.*) \|$", page, flags=re.MULTILINE)
    assert [code for code, _ in table] == ["0", "1", "2", "3"]
    assert SERVICE["Restart"] == "on-failure"
    assert prevented() == {1, 2}


def test_a_client_whose_router_is_not_up_yet_is_started_again_without_end() -> None:
    assert EXIT_NO_MIDDLEWARE not in prevented()
    assert read(UNIT)["Unit"]["StartLimitIntervalSec"] == "0"


def run_robot(parameters: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `remote-inference robot` to its end."""
    contract = str(share_path("config", "belt_arm.contract.yaml"))
    arguments = ["--namespace", "/robot_1", "--params-file", str(parameters), "--contract", contract]
    return subprocess.run(
        [sys.executable, "-m", "remote_inference.tools.cli", "robot", *arguments],
        capture_output=True,
        text=True,
        timeout=60.0,
        env={**os.environ, **environment},
    )


def test_a_middleware_that_does_not_start_has_a_code_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "parameters.yaml").write_text("/**: {ros__parameters: {fallback: hold}}\n")
    ended = run_robot(tmp_path / "parameters.yaml", ROS_DOMAIN_ID="none")
    assert ended.returncode == EXIT_NO_MIDDLEWARE, ended.stderr
    assert "cannot start: the middleware does not start: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_parameter_file_that_cannot_be_read_is_no_fault_of_the_middleware(tmp_path: Path) -> None:
    (tmp_path / "parameters.yaml").write_text("/**: {ros__parameters: {fallback\n")
    ended = run_robot(tmp_path / "parameters.yaml")
    assert ended.returncode == EXIT_REFUSED, ended.stderr
    assert "parameters.yaml" in ended.stderr


def test_the_node_s_exit_code_reaches_systemd(tmp_path: Path) -> None:
    (tmp_path / "parameters.yaml").write_text("/**: {ros__parameters: {fallback: zero}}\n")
    ended = run_robot(tmp_path / "parameters.yaml")
    assert ended.returncode == EXIT_REFUSED, ended.stderr
    assert "fallback" in ended.stderr


def test_a_node_that_crashes_is_no_exit_code_of_its_own(tmp_path: Path) -> None:
    contract = str(share_path("config", "belt_arm.contract.yaml"))
    started = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "remote_inference.tools.cli",
            "robot",
            "--namespace",
            "/robot_1",
            "--contract",
            contract,
        ]
    )
    node = None
    deadline_s = time.monotonic() + 30.0
    while node is None and time.monotonic() < deadline_s:
        time.sleep(0.1)
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        node = int(children[0]) if children else None
    assert node is not None
    os.kill(node, signal.SIGKILL)
    assert started.wait(30.0) not in prevented() | {0}


def test_the_keys_belong_to_the_user_that_the_units_run_as() -> None:
    page = (ROOT / "docs" / "how-to" / "deployment.md").read_text()
    (owner,) = re.findall(r"^sudo chown -R (\w+):\w+ /etc/remote_inference/robot_1$", page, re.MULTILINE)
    assert owner == SERVICE["User"] == read(ROUTER_UNIT)["Service"]["User"]


def test_stopping_has_the_time_that_it_takes() -> None:
    assert SERVICE["KillSignal"] == "SIGINT"
    assert SERVICE["KillMode"] == "mixed"
    assert int(SERVICE["TimeoutStopSec"]) > STOP_TIMEOUT_S


def test_a_node_that_is_started_again_does_not_move_the_arm() -> None:
    assert "autostart" not in SERVICE["ExecStart"]
    assert "autostart" not in "".join(variables().values())


def test_units_wait_for_the_network_and_the_router() -> None:
    for unit in (UNIT, SERVER_UNIT, ROUTER_UNIT):
        section = read(unit)["Unit"]
        assert "network-online.target" in section["After"].split()
        assert section["Wants"].split() == section["After"].split()
    assert ROUTER_UNIT.name in read(UNIT)["Unit"]["After"].split()
    assert ROUTER in start_command(ROUTER_UNIT)[-1]
