# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot whose gripper is an action server: real nodes, and what the server is asked for.

The policy `hold` answers with the measured joints, so the test moves them to let it command something. The
action is this package's own: control_msgs is not among the wheels.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.action.server import ActionServer, GoalResponse, ServerGoalHandle

from remote_inference.action import RunPolicy
from remote_inference.base.contract.contract import load_contract
from remote_inference.base.wire.qos import DIAGNOSTICS_QOS, DIAGNOSTICS_TOPIC
from remote_inference.tools.deployment import bringup
from support.nodes.echo_policy import start_echo_server
from support.nodes.rig import CONTRACT, Rig, write_contract
from support.nodes.stillness import count_when_still

ACTION = "gripper_controller/gripper_cmd"
ARM = {"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": ["shoulder"]}
GRIPPER = {
    "action": ACTION,
    "type": "remote_inference/action/RunPolicy",
    "fields": {"max_duration_s": "elbow"},
    "constant": {"task": "finger_joint"},
    "max_rate_hz": 10.0,
}
LIMITS = CONTRACT["actions"]["limits"]
ACTIONS = {
    **CONTRACT["actions"],
    "limits": {**LIMITS, "elbow": {**LIMITS["elbow"], "max_following_error": "off"}},
}


class Gripper:
    """The action server, on the rig's executor. A goal lasts until the test ends it."""

    def __init__(self, rig: Rig) -> None:
        self.goals: list[RunPolicy.Goal] = []
        self.handles: list[ServerGoalHandle] = []
        self.accepts = True
        self._rig = rig
        self._server: ActionServer | None = None

    def come(self) -> None:
        self._rig.run_on_executor(self._serve)

    def _serve(self) -> None:
        self._server = ActionServer(
            self._rig.node,
            RunPolicy,
            ACTION,
            execute_callback=self._abort,
            goal_callback=self._judge,
            handle_accepted_callback=self.handles.append,
        )

    @property
    def positions(self) -> list[float]:
        return [goal.max_duration_s for goal in self.goals]

    def leave(self) -> None:
        if self._server is not None:
            self._rig.run_on_executor(self._server.destroy)
            self._server = None

    def abort(self) -> None:
        self._rig.run_on_executor(self.handles[-1].execute)

    def _judge(self, goal: RunPolicy.Goal) -> GoalResponse:
        self.goals.append(goal)
        return GoalResponse.ACCEPT if self.accepts else GoalResponse.REJECT

    def _abort(self, handle: ServerGoalHandle) -> RunPolicy.Result:
        handle.abort()
        return RunPolicy.Result()


@pytest.fixture
def gripper(rig: Rig) -> Iterator[Gripper]:
    made = Gripper(rig)
    yield made
    made.leave()


def start(rig: Rig, tmp_path: Path, actions: Any = ACTIONS, **parameters: Any) -> None:
    start_echo_server(rig, {})  # a base that drives goes on
    contract = write_contract(tmp_path, commands=[ARM, GRIPPER], actions=actions)
    rig.group.start(bringup.command_watchdog(contract, namespace=rig.namespace))
    rig.start_robot(contract, request_timeout_s=1.0, merge_mode="replace", **parameters)
    rig.wait_for_state("STREAMING")


def wait_for_goal(rig: Rig, gripper: Gripper, position: float) -> None:
    rig.wait_for(
        lambda: gripper.positions[-1:] == [pytest.approx(position, abs=0.05)], f"a goal of {position}"
    )


def log(tmp_path: Path, name: str = "remote_inference") -> str:
    return (tmp_path / "logs" / f"{name}.log").read_text()


def test_the_gripper_gets_a_goal_when_its_command_changes_and_none_in_a_pause(
    rig: Rig, gripper: Gripper, tmp_path: Path
):
    gripper.come()
    start(rig, tmp_path)
    rig.wait_for_commands(30)
    assert gripper.positions == [pytest.approx(-0.5)], "one goal for a command that stays"
    assert gripper.goals[0].task == "finger_joint"
    assert rig.commands[-1][1] == pytest.approx((0.25,)), "the arm is commanded by topic"
    contract = load_contract(tmp_path / "contract.yaml")
    status = rig.node.resolve_topic_name(contract.action_commands[0].announced_topic)
    assert [info.node_name for info in rig.node.get_publishers_info_by_topic(status)] == ["rig"]
    rig.positions = [0.25, 0.5]
    wait_for_goal(rig, gripper, 0.5)
    assert rig.trigger("pause").success
    count_when_still(rig)
    goals = len(gripper.goals)
    rig.positions = [0.25, -0.5]
    rig.wait_for_executed(30)
    assert len(gripper.goals) == goals
    assert rig.trigger("resume").success
    wait_for_goal(rig, gripper, -0.5)
    rig.robot.send_signal(signal.SIGINT)
    assert rig.robot.wait(30) == 0
    assert not any(handle.is_cancel_requested for handle in gripper.handles), "it keeps its last goal"
    assert f"{ACTION}: in silence nothing sent, it keeps its last goal" in log(tmp_path, "command_watchdog")
    assert "Traceback" not in log(tmp_path)


def test_zeros_that_stop_a_base_are_no_goal_of_the_gripper(rig: Rig, gripper: Gripper, tmp_path: Path):
    gripper.come()
    limits = ACTIONS["limits"]
    base = {**limits["shoulder"], "kind": "velocity"}
    start(rig, tmp_path, actions={**ACTIONS, "limits": {**limits, "shoulder": base}})
    wait_for_goal(rig, gripper, -0.5)
    rig.wait_for(lambda: rig.commands and rig.commands[-1][1] == pytest.approx((0.25,)), "a base that drives")
    assert rig.trigger("pause").success
    rig.wait_for(lambda: rig.commands[-1][1] == (0.0,), "zeros")
    count_when_still(rig)
    assert gripper.positions == [pytest.approx(-0.5)]


def test_a_gripper_that_refuses_or_drops_goals_is_named_and_counted(
    rig: Rig, gripper: Gripper, tmp_path: Path
):
    told: list[str] = []

    def take(message: DiagnosticArray) -> None:
        values = {value.key: value.value for status in message.status for value in status.values}
        told.append(values.get(f"goals_{ACTION}", ""))

    rig.subscribe(DiagnosticArray, DIAGNOSTICS_TOPIC, take, DIAGNOSTICS_QOS)
    gripper.come()
    gripper.accepts = False
    start(rig, tmp_path)
    rig.wait_for(lambda: f"{ACTION}: goal 1 (elbow = -0.5) rejected, 1 since" in log(tmp_path), "a line")
    gripper.accepts = True
    rig.wait_for(lambda: gripper.handles, "the goal again")
    gripper.abort()
    rig.wait_for(lambda: ") aborted, 1 since the start" in log(tmp_path), "a line")
    rig.wait_for(lambda: told[-1:] and told[-1].endswith("rejected, 1 aborted"), "the counts in /diagnostics")
    rig.wait_for_commands(5)  # the arm goes on


def test_a_gripper_whose_server_is_missing_is_told_and_gets_its_goal_when_it_comes(
    rig: Rig, gripper: Gripper, tmp_path: Path
):
    start(rig, tmp_path)
    rig.wait_for(
        lambda: f"{ACTION}: no action server of remote_inference/action/RunPolicy" in log(tmp_path), "why"
    )
    gripper.come()
    wait_for_goal(rig, gripper, -0.5)
    rig.wait_for(lambda: f"{ACTION}: it is served now" in log(tmp_path), "news")
    gripper.leave()
    begin = log(tmp_path).count("no action server of")
    rig.wait_for(lambda: log(tmp_path).count("no action server of") > begin, "that it has gone")
    rig.wait_for_commands(5)
    assert "Traceback" not in log(tmp_path)


def test_in_shadow_mode_the_gripper_gets_no_goal(rig: Rig, gripper: Gripper, tmp_path: Path):
    gripper.come()
    start(rig, tmp_path, command_mode="shadow")
    rig.wait_for(lambda: rig.states[-1].shadow_ticks > 60, "two seconds of comparison")
    assert gripper.goals == []
