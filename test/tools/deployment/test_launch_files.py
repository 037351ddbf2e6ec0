# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the launch files start, with stand-ins for the part of launch and launch_ros that they use."""

from __future__ import annotations

import os
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from remote_inference.tools.deployment import bringup, middleware, zenoh_config

LAUNCH = Path(__file__).parents[3] / "launch"
ROUTED = ("robot", "server")


@dataclass
class LaunchContext:
    configurations: dict[str, str] = field(default_factory=dict)
    is_shutdown: bool = False


@dataclass
class ProcessExited:
    returncode: int


@dataclass
class EnvironmentVariable:
    name: str
    default_value: str

    def perform(self, context: LaunchContext) -> str:
        return os.environ.get(self.name, self.default_value)


@dataclass
class LaunchConfiguration:
    name: str

    def perform(self, context: LaunchContext) -> str:
        return context.configurations[self.name]


@dataclass
class DeclareLaunchArgument:
    name: str
    default_value: Any
    description: str
    choices: list[str] | None = None


@dataclass
class OpaqueFunction:
    function: Callable[[LaunchContext], list[Any]]


@dataclass
class Shutdown:
    reason: str


@dataclass
class Node:
    package: str
    executable: str
    name: str
    namespace: str
    parameters: list[Any]
    additional_env: dict[str, str]
    output: str
    on_exit: Any


@dataclass
class ExecuteProcess:
    cmd: list[str]
    name: str
    additional_env: dict[str, str]
    output: str
    on_exit: Any


class Log:
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.errors: list[str] = []

    def error(self, text: str) -> None:
        self.errors.append(text)

    def warning(self, text: str) -> None:
        self.warnings.append(text)


ACTIONS = (DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, Shutdown)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, no_zenoh_settings: None) -> Log:
    """Stand in for the packages of a full ROS 2 installation."""
    made = Log()
    contents: dict[str, dict[str, Any]] = {
        "launch": {"LaunchContext": LaunchContext, "LaunchDescription": list},
        "launch.actions": {kind.__name__: kind for kind in ACTIONS},
        "launch.substitutions": {kind.__name__: kind for kind in (EnvironmentVariable, LaunchConfiguration)},
        "launch.logging": {"get_logger": lambda name: made},
        "launch_ros": {},
        "launch_ros.actions": {"Node": Node},
    }
    for name, content in contents.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            monkeypatch.setattr(sys.modules[parent], child, module, raising=False)
    monkeypatch.delitem(sys.modules, "remote_inference.tools.deployment.launch_actions", raising=False)
    monkeypatch.delenv("RMW_IMPLEMENTATION", raising=False)
    installed = ["rmw_cyclonedds_cpp", zenoh_config.RMW]
    monkeypatch.setattr(middleware, "installed_middlewares", lambda: installed)
    return made


def start(name: str, **arguments: str) -> list[Node]:
    """Perform a launch file as `ros2 launch` would: arguments, or their defaults, then the function."""
    entities = runpy.run_path(str(LAUNCH / f"{name}.launch.py"))["generate_launch_description"]()
    context = LaunchContext()
    for entity in entities:
        if isinstance(entity, DeclareLaunchArgument):
            default = entity.default_value
            value = default.perform(context) if isinstance(default, EnvironmentVariable) else default
            context.configurations[entity.name] = arguments.get(entity.name, value)
    (function,) = (entity.function for entity in entities if isinstance(entity, OpaqueFunction))
    assert set(arguments) <= set(context.configurations)
    return function(context)


@pytest.mark.parametrize("name", ROUTED)
def test_robot_and_server_run_on_zenoh_with_the_package_s_configuration(name: str, log: Log) -> None:
    for node in start(name):
        assert node.additional_env["RMW_IMPLEMENTATION"] == zenoh_config.RMW
        assert node.additional_env[zenoh_config.SESSION_VARIABLE].endswith("config/zenoh/session.json5")
        assert "mode=" not in node.additional_env.get(zenoh_config.OVERRIDE_VARIABLE, "")
    assert log.warnings == []


@pytest.mark.parametrize("name", ROUTED)
def test_the_environment_s_middleware_wins_over_the_default_and_is_warned_of(
    name: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_cyclonedds_cpp")
    assert start(name)[0].additional_env["RMW_IMPLEMENTATION"] == "rmw_cyclonedds_cpp"
    assert len(log.warnings) == 1
    assert "rmw_cyclonedds_cpp" in log.warnings[0]


@pytest.mark.parametrize("name", ROUTED)
def test_an_argument_wins_over_the_environment(name: str, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_cyclonedds_cpp")
    monkeypatch.setenv(zenoh_config.OVERRIDE_VARIABLE, 'connect/endpoints=["tcp/old:7447"]')
    for node in start(name, rmw=zenoh_config.RMW, router="tls/host:7447"):
        assert node.additional_env["RMW_IMPLEMENTATION"] == zenoh_config.RMW
        override = node.additional_env[zenoh_config.OVERRIDE_VARIABLE]
        assert override.endswith('connect/endpoints=["tls/host:7447"];mode="client"')
    assert log.warnings == []


def test_servers_and_tags_are_lists_with_commas(log: Log) -> None:
    nodes = {node.name: node for node in start("robot", servers="/a, /b", tags="site=lab 2,run=7")}
    given = nodes["remote_inference"].parameters[-1]
    assert (given["servers"], given["tags"]) == (["/a", "/b"], ["site=lab 2", "run=7"])


@pytest.mark.parametrize("name", ROUTED)
def test_a_router_without_a_protocol_starts_nothing(name: str, log: Log) -> None:
    with pytest.raises(zenoh_config.EndpointError, match="found no protocol in 'host:7447', expected"):
        start(name, router="host:7447")


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("environment", {"options": "3"}, "options: found '3', expected a JSON object"),
        ("robot", {"namespace": "robot 1"}, "namespace: found ' ' in '/robot 1'"),
        ("environment", {"namespace": "robot 1"}, "namespace: found ' ' in '/robot 1'"),
        ("demo", {"namespace": "robot 1"}, "namespace: found ' ' in '/robot 1'"),
    ],
)
def test_an_argument_that_cannot_be_is_named_with_what_was_found_and_expected(
    name: str, arguments: dict[str, str], problem: str, log: Log
) -> None:
    with pytest.raises(Exception, match=re.escape(problem)):
        start(name, **arguments)


def test_a_bag_that_exists_starts_nothing(log: Log, tmp_path: Path) -> None:
    with pytest.raises(bringup.DeploymentError, match="exists already"):
        start("robot", record=str(tmp_path))


@pytest.mark.parametrize(
    ("returncode", "is_shutdown", "said"),
    [
        (2, False, ["bag_recorder ended with exit code 2, the rest runs on without it"]),
        (-9, False, ["bag_recorder ended with exit code -9, the rest runs on without it"]),
        (0, False, ["bag_recorder ended with exit code 0, the rest runs on without it"]),
        (-2, True, []),
    ],
)
def test_a_recorder_that_ends_is_said_and_the_robot_runs_on(
    log: Log, tmp_path: Path, returncode: int, is_shutdown: bool, said: list[str]
) -> None:
    nodes = {node.name: node for node in start("robot", namespace="robot_1", record=str(tmp_path / "bag"))}
    assert isinstance(nodes["remote_inference"].on_exit, Shutdown)
    nodes["bag_recorder"].on_exit(ProcessExited(returncode), LaunchContext(is_shutdown=is_shutdown))
    assert log.errors == said


def test_ros2_bag_is_started_where_it_is_and_its_end_ends_nothing(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bringup, "has_ros2_bag", lambda: True)
    bag = str(tmp_path / "bag")
    recorder, *others = start("robot", namespace="robot_1", record=bag)
    assert isinstance(recorder, ExecuteProcess)
    assert recorder.cmd[:3] == ["ros2", "bag", "record"]
    recorder.on_exit(ProcessExited(1), LaunchContext())
    assert log.errors == ["ros2_bag ended with exit code 1, the rest runs on without it"]
    ours, *same = start("robot", namespace="robot_1", record=bag, recorder="bag_recorder")
    assert isinstance(ours, Node)
    entries = ours.parameters[-1]["topics"]
    assert recorder.cmd[recorder.cmd.index("--topics") + 1 :] == [entry.split(":")[0] for entry in entries]
    assert [node.name for node in others] == [node.name for node in same]


def test_topics_are_recorded_under_a_namespace_without_its_slash(log: Log, tmp_path: Path) -> None:
    nodes = {node.name: node for node in start("robot", namespace="robot_1", record=str(tmp_path / "bag"))}
    assert {node.namespace for node in nodes.values()} == {"/robot_1"}
    topics = nodes["bag_recorder"].parameters[-1]["topics"]
    assert topics
    assert all(topic.startswith(("/robot_1/", "/policy_server/")) for topic in topics)


def test_the_demo_runs_on_the_middleware_in_force(log: Log) -> None:
    assert len(start("demo")) == 3
    assert all("RMW_IMPLEMENTATION" not in node.additional_env for node in start("demo"))
    assert log.warnings == []
