# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's parameters as ROS tools see them: described, bounded, read-only."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rclpy
from rcl_interfaces.msg import Parameter as ParameterMessage, ParameterValue
from rcl_interfaces.srv import ListParameters, SetParameters, SetParametersAtomically
from rclpy.node import Node
from rclpy.parameter import Parameter

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.nodes.parameters import declare_parameters
from remote_inference.base.nodes.start import MODULES
from remote_inference.robot.config import RobotConfig
from support.nodes import executables
from support.nodes.rig import DEADLINE_S, Rig


def test_every_parameter_is_described_and_read_only(node: Node) -> None:
    declare_parameters(node, RobotConfig)
    for name in RobotConfig.model_fields:
        descriptor = node.describe_parameter(name)
        assert descriptor.description, name
        assert descriptor.read_only, name


def test_defaults_survive_the_way_through_ros(node: Node) -> None:
    assert declare_parameters(node, RobotConfig) == RobotConfig()


def test_numbers_carry_their_range_and_words_their_choices(node: Node) -> None:
    declare_parameters(node, RobotConfig)
    (bounds,) = node.describe_parameter("max_action_age_s").floating_point_range
    assert (bounds.from_value, bounds.to_value) == (0.05, 60.0)
    (bounds,) = node.describe_parameter("max_timeouts").integer_range
    assert (bounds.from_value, bounds.to_value) == (1, 100)
    assert node.describe_parameter("fallback").additional_constraints == "one of hold, repeat_last, zero"


def declare_with(**given: object) -> RobotConfig:
    context = rclpy.Context()
    rclpy.init(context=context)
    overrides = [Parameter(name.replace("__", "."), value=value) for name, value in given.items()]
    made = Node("tuned", context=context, parameter_overrides=overrides)
    try:
        config = declare_parameters(made, RobotConfig)
        assert made.get_parameter("max_action_age_s").value == config.max_action_age_s
        return config
    finally:
        made.destroy_node()
        rclpy.shutdown(context=context)


@pytest.mark.parametrize("value", [0.7, "auto", 1])
def test_the_buffer_time_is_a_number_or_auto(value: float | str) -> None:
    assert declare_with(buffer_time_s=value).buffer_time_s == value


def test_a_whole_number_will_do_for_a_double() -> None:
    assert declare_with(max_action_age_s=2).max_action_age_s == 2.0


def test_parameters_of_ros_itself_are_no_mistakes() -> None:
    qos = {"qos_overrides__/clock__subscription__depth": 2}
    declare_with(use_sim_time=True, start_type_description_service=False, **qos)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"max_action_age": 1.5}, "max_action_age: unknown key, did you mean 'max_action_age_s'?"),
        ({"max_action_age_s": 99.0}, "max_action_age_s: found 99.0, expected at most 60"),
        ({"max_action_age_s": "3"}, "max_action_age_s: found '3', expected a number"),
        ({"max_timeouts": 2.0}, "max_timeouts: found 2.0, expected a whole number"),
        ({"buffer_time_s": "fast"}, "buffer_time_s: found 'fast', expected a number or 'auto'"),
        ({"servers": [1, 2]}, "servers.0: found 1, expected text"),
        ({"autostart": 1}, "autostart: found 1, expected true or false"),
    ],
)
def test_a_mistake_is_told_with_its_parameter_found_and_expected(given: dict, problem: str) -> None:
    with pytest.raises(DocumentError) as refusal:
        declare_with(**given)
    assert str(refusal.value).splitlines()[0] == f"parameters of /tuned: {problem}"


@pytest.mark.parametrize("executable", MODULES)
def test_a_misspelt_parameter_in_a_file_stops_every_node(executable: str, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("/**: {ros__parameters: {autostrt: true}}\n")
    ended = start(executable, "--params-file", str(tmp_path / "params.yaml"))
    assert ended.returncode == 2
    assert f"parameters of /{executable}: autostrt: unknown key" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("text", ["a: [\n", "max_action_age: 1\n", None])
def test_a_file_that_is_no_parameter_file_is_told_without_places_in_the_source_of_rcl(
    text: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "params.yaml"
    if text is not None:
        path.write_text(text)
    ended = start("belt_arm", "--params-file", str(path))
    assert ended.returncode == 2
    assert (
        f"cannot start: Failed to parse ROS arguments: Couldn't parse params file: '--params-file {path}'"
        in (ended.stderr)
    )
    assert ".c:" not in ended.stderr


def start(executable: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "remote_inference.base.nodes.start",
        executable,
        "--ros-args",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("executable", MODULES)
def test_no_call_sets_a_parameter_of_a_running_node_or_ends_it(
    executable: str, rig: Rig, tmp_path: Path
) -> None:
    process = executables.start(executable, tmp_path)

    def call(kind: Any, name: str, **request: Any) -> Any:
        return rig.call(kind, f"/{executable}/{name}", **request)

    try:
        names = call(ListParameters, "list_parameters").result.names
        assert {"executor", "use_sim_time"} <= {*names}
        simulated = ParameterValue(type=1, bool_value=True)
        tried = [ParameterMessage(name=name, value=simulated) for name in names]
        results = call(SetParameters, "set_parameters", parameters=tried).results
        assert [result.reason for result in results] == [
            f"Trying to set a read-only parameter: {name}." for name in names
        ]
        unknown = [ParameterMessage(name="executor", value=ParameterValue(type=99))]
        (refused,) = call(SetParameters, "set_parameters", parameters=unknown).results
        atomically = call(SetParametersAtomically, "set_parameters_atomically", parameters=unknown).result
        assert {refused.successful, atomically.successful} == {False}
        assert "99 is not a valid" in refused.reason
        assert atomically.reason == refused.reason
    finally:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, "Traceback" in output) == (0, False), output
    for name in ("set_parameters", "set_parameters_atomically"):
        assert output.count(f"/{executable}/{name}: cannot be handled: {refused.reason}") == 1, output
