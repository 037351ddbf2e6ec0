# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The images and the compose file: what they copy, install, run and configure exists in the package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from images import DOCKERFILE, INSTALLED, check_command, instructions, local, stage
from linters import ROOT, complaints

from remote_inference import __version__
from remote_inference.base.contract.contract import load_contract
from remote_inference.base.documents.document import load_document
from remote_inference.robot.config import RobotConfig
from remote_inference.server.manifest.manifest import Manifest, load_manifest
from remote_inference.tools.deployment.process_group import STOP_TIMEOUT_S

COMPOSE = ROOT / "deploy" / "docker" / "compose.yaml"
GPU = ROOT / "deploy" / "docker" / "compose.gpu.yaml"
# Of package.xml: what ros:jazzy-ros-base has, and what comes from pip because Ubuntu's is too old.
IN_ROS_BASE = {
    *(
        "ament_index_python",
        "builtin_interfaces",
        "diagnostic_msgs",
        "launch",
        "launch_ros",
        "lifecycle_msgs",
    ),
    *(
        "rcl_interfaces",
        "rclpy",
        "rosidl_default_runtime",
        "sensor_msgs",
        "std_msgs",
        "std_srvs",
        "trajectory_msgs",
    ),
}
FROM_PIP = {"python3-pydantic", "python3-typing-extensions"}


def services() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())["services"]


# -- images --------------------------------------------------------------------------------------------------


def test_the_dockerfile_has_no_findings() -> None:
    assert complaints("hadolint", DOCKERFILE) == ""


@pytest.mark.parametrize("script", sorted(ROOT.glob("deploy/docker/*.sh")), ids=lambda path: path.name)
def test_the_scripts_have_no_findings(script: Path) -> None:
    assert complaints("shellcheck", script) == ""
    assert os.access(script, os.X_OK)


def copied() -> list[str]:
    found = [
        re.sub(r"^COPY (--chmod=\S+ )?", "", line) for line in instructions() if line.startswith("COPY ")
    ]
    return [source for line in found if not line.startswith("--from") for source in line.split()[:-1]]


@pytest.mark.parametrize("source", copied())
def test_what_is_copied_exists_and_is_sent_to_the_builder(source: str) -> None:
    assert (ROOT / source).exists()
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert any(Path(source).match(pattern) or source.startswith(f"{pattern}/") for pattern in sent)


def test_the_package_can_be_built_from_what_is_copied() -> None:
    needed = set(re.findall(r"install\(DIRECTORY (\w+)(?: (\w+))?", (ROOT / "CMakeLists.txt").read_text()))
    folders = {name for pair in needed for name in pair if name} | {"msg", "srv", "scripts"}
    assert folders <= set(copied())


def test_what_is_copied_from_another_stage_is_made_there() -> None:
    for line in instructions():
        if found := re.match(r"COPY --from=(\S+) (\S+) ", line):
            assert any(found[2] in made for made in stage(found[1])), line


def test_every_dependency_of_the_package_is_in_the_images() -> None:
    depends = {
        element.text or ""
        for kind in ("depend", "exec_depend")
        for element in ElementTree.parse(ROOT / "package.xml").iter(kind)
    }
    installed = set(" ".join(line for line in stage("robot") if "apt-get install" in line).split())
    for name in depends - IN_ROS_BASE - FROM_PIP:
        apt = name if name.startswith("python3-") else f"ros-jazzy-{name.replace('_', '-')}"
        assert apt in installed, name


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def test_python_packages_are_pinned_to_what_the_tests_run_with() -> None:
    noble = pins("noble.txt")
    others = {path.name for path in (ROOT / "requirements").glob("*.txt")} - {"noble.txt", "lerobot.txt"}
    for other in others:
        for name, version in pins(other).items():
            if name != "numpy":  # Ubuntu's own
                assert noble.get(name, version) == version, name
    wanted = re.findall(r"^[a-z0-9_]+", (ROOT / "requirements" / "ros.txt").read_text(), flags=re.MULTILINE)
    extra = [
        word
        for line in instructions()
        if "pip3 install" in line
        for word in line.split("noble.txt")[1].split()
    ]
    assert {*wanted, *extra} <= noble.keys()


def test_variables_of_the_images_name_files_that_they_have() -> None:
    (line,) = [line for line in stage("base") if line.startswith("ENV ")]
    variables = dict(word.split("=") for word in line.split()[1:])
    assert variables["RMW_IMPLEMENTATION"] == "rmw_zenoh_cpp"
    assert local(variables["ZENOH_ROUTER_CONFIG_URI"]).name == "router.json5"
    assert local(variables["ZENOH_SESSION_CONFIG_URI"]).name == "session.json5"
    for value in variables.values():
        assert not value.startswith(INSTALLED) or local(value).is_file(), value


def test_only_the_server_has_torch() -> None:
    for image, has_torch in (("robot", False), ("demo", False), ("server", True)):
        (made,) = re.findall(r"--from=(\S+-python)", " ".join(stage(image)))
        assert (" torch" in " ".join(stage(made))) is has_torch, image


@pytest.mark.parametrize("image", ["robot", "demo", "server"])
def test_images_run_without_root_and_hand_signals_to_the_command(image: str) -> None:
    lines = stage(image)
    user, group = [line for line in lines if line.startswith("USER ")][-1].split()[1].split(":")
    assert int(user) > 0
    assert int(group) > 0
    assert 'ENTRYPOINT ["/usr/local/bin/entrypoint.sh"]' in lines
    (command,) = [json.loads(line[4:]) for line in lines if line.startswith("CMD ")]
    assert command[0] == "remote-inference"  # a list: no shell stands between it and the signals


def test_nothing_secret_is_sent_to_the_builder() -> None:
    *_, first, second = (ROOT / ".dockerignore").read_text().splitlines()
    assert {first, second} == {"**/*.key", "**/*.pem"}  # the last match wins
    assert not [line for line in instructions() if re.search(r"(?i)secret|token|passw", line)]


# -- scripts -------------------------------------------------------------------------------------------------


def test_the_entrypoint_becomes_the_command(tmp_path: Path) -> None:
    (tmp_path / "setup.bash").write_text('export FROM_SETUP=1; : "$NOT_SET"\n')
    script = tmp_path / "entrypoint.sh"
    script.write_text(
        (ROOT / "deploy" / "docker" / "entrypoint.sh")
        .read_text()
        .replace("/opt/remote_inference", str(tmp_path))
    )
    started = subprocess.Popen(
        ["bash", script, sys.executable, "-c", "import os; print(os.getpid(), os.environ['FROM_SETUP'])"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.communicate(timeout=20.0)[0].split() == [str(started.pid), "1"]


class _Status(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/readyz":
            self.send_response(503 if self.server.readiness.pop(0) == "drained" else 200)
            self.end_headers()
            return
        assert self.path == "/status.json"
        sessions = self.server.sessions.pop(0) if len(self.server.sessions) > 1 else self.server.sessions[0]
        body = json.dumps({"sessions": ["session"] * sessions}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Drain:
    """drain.sh beside a stand-in for `ros2`, and a health port that scripts readiness and sessions."""

    def __init__(self, folder: Path) -> None:
        shutil.copy(ROOT / "deploy" / "docker" / "drain.sh", folder)
        self.calls = folder / "calls"
        self.ros2_exit_code = 0
        self._folder = folder
        self.server = HTTPServer(("localhost", 0), _Status)
        self.server.sessions = [0]
        self.server.readiness = ["drained"]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def run(self, seconds: float) -> int:
        entrypoint = self._folder / "entrypoint.sh"
        entrypoint.write_text(f'#!/bin/sh\necho "$@" >> {self.calls}\nexit {self.ros2_exit_code}\n')
        entrypoint.chmod(0o755)
        command = [self._folder / "drain.sh", "/policy_server_0", str(self.server.server_port), str(seconds)]
        return subprocess.run(command, check=False, timeout=30.0).returncode


@pytest.fixture
def drain(tmp_path: Path) -> Iterator[Drain]:
    made = Drain(tmp_path)
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_draining_deactivates_and_waits_until_the_sessions_have_moved(drain: Drain) -> None:
    drain.server.sessions = [2, 1, 0, 7]
    assert drain.run(20) == 0
    assert drain.server.sessions == [7]
    (call,) = drain.calls.read_text().splitlines()
    assert re.fullmatch(r"ros2 lifecycle set .*/policy_server_0 deactivate", call)


def test_draining_does_not_wait_for_a_paused_robot_without_end(drain: Drain) -> None:
    drain.server.sessions = [1]
    begun_s = time.monotonic()
    assert drain.run(2) == 0
    assert 1.0 < time.monotonic() - begun_s < 10.0


def test_draining_that_fails_does_not_wait(drain: Drain) -> None:
    drain.server.sessions, drain.ros2_exit_code = [1, 1], 1
    assert drain.run(20) != 0
    assert drain.server.sessions == [1, 1]


def test_draining_waits_for_the_transition_to_show(drain: Drain) -> None:
    drain.server.readiness = ["ready", "ready", "drained"]
    assert drain.run(20) == 0
    assert drain.server.readiness == []


def test_a_transition_that_failed_with_exit_code_0_is_no_drain(drain: Drain) -> None:
    drain.server.sessions, drain.server.readiness = [1, 1], ["ready"] * 100
    assert drain.run(20) == 1
    assert drain.server.sessions == [1, 1]


# -- compose -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [COMPOSE, GPU], ids=lambda path: path.name)
def test_compose_files_keep_to_the_specification(path: Path) -> None:
    assert complaints("check-jsonschema", "--builtin-schema", "vendor.compose-spec", path) == ""


@pytest.mark.parametrize("name", services())
def test_a_service_runs_an_image_and_a_command_that_exist(name: str) -> None:
    service = services()[name]
    target = service["build"]["target"]
    assert stage(target)
    assert (COMPOSE.parent / service["build"]["context"] / service["build"]["dockerfile"]).samefile(
        DOCKERFILE
    )
    assert service["image"] == f"remote-inference-{target}:{__version__}"
    check_command(service["command"])
    for value in [*service["command"], *service.get("environment", {}).values()]:
        if value.startswith(INSTALLED):
            assert local(value).is_file(), value


def test_the_demo_s_robot_fits_its_server_and_its_arm() -> None:
    robot, arm = services()["robot"]["command"], services()["arm"]["command"]
    arguments = check_command(robot)
    assert arguments is not None
    load_contract(local(str(arguments.contract)))
    parameters = yaml.safe_load(local(str(arguments.params_file)).read_text())["/**/remote_inference"]
    assert parameters["ros__parameters"].keys() <= RobotConfig.model_fields.keys()
    assert arm[-1] == f"__ns:={arguments.namespace}"
    assert "--name" not in services()["server"]["command"]  # the robot's default is the server's
    assert RobotConfig().servers == ("/policy_server",)


def test_the_server_s_port_is_that_of_its_manifest_and_its_device_one_of_torch_s() -> None:
    server = services()["server"]
    arguments = check_command(server["command"])
    assert arguments is not None
    manifest_file = local(str(arguments.manifest))
    manifest = load_manifest(manifest_file, server["environment"])
    port = manifest.health_port
    assert server["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"http://localhost:{port}/readyz" in server["healthcheck"]["test"][-1]
    assert f"EXPOSE {port}" in stage("server")
    gpu = yaml.safe_load(GPU.read_text())["services"]
    assert gpu.keys() <= services().keys()
    assert load_manifest(manifest_file, gpu["server"]["environment"]).model.device == "cuda:0"
    load_document(manifest_file, Manifest)


def test_every_service_uses_the_router() -> None:
    router = services()["router"]
    (port,) = {text.split(":")[0] for text in router["ports"]}
    config = (ROOT / "config" / "zenoh" / "router.json5").read_text()
    assert f'endpoints: ["tcp/[::]:{port}"]' in config
    assert router["healthcheck"]["test"][-1] == f"</dev/tcp/localhost/{port}"
    for name, service in services().items():
        if name != "router":
            override = service["environment"]["ZENOH_CONFIG_OVERRIDE"]
            assert override == f'mode="client";connect/endpoints=["tcp/router:{port}"]'
            assert service["depends_on"]["router"]["condition"] == "service_healthy"


def test_containers_have_the_time_that_stopping_takes() -> None:
    for name in ("server", "robot"):
        assert int(services()[name]["stop_grace_period"].rstrip("s")) > STOP_TIMEOUT_S


def test_a_robot_that_gave_up_is_not_started_again() -> None:
    assert services()["robot"]["restart"] == "no"
