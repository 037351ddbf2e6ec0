# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Goals against a real action server: what it takes, refuses, drops and never answers.

The server's action is this package's own, for control_msgs is not among the wheels.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.action.graph import get_action_client_names_and_types_by_node
from rclpy.action.server import ActionServer, GoalResponse, ServerGoalHandle
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future

from remote_inference.action import RunPolicy
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.nodes.executors import make_executor
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire.commands import make_command_writers
from remote_inference.robot.motion.goal_gate import GoalEvent
from remote_inference.robot.nodes.goal_client import MOST_ENDS, GoalClient
from support.builders import FLOAT64_MULTI_ARRAY, JOINTS, contract_document
from support.waiting import wait_until

ACTION = "gripper_cmd"
COMMANDS = [
    {"topic": "commands", "type": FLOAT64_MULTI_ARRAY, "names": [JOINTS[0]]},
    {
        "action": ACTION,
        "type": "remote_inference/action/RunPolicy",
        "fields": {"max_duration_s": JOINTS[1]},
        "max_rate_hz": 50.0,
    },
]
DEADLINE_S = 30.0


class Gripper:
    """An action server on a thread of its own. It ends a goal when it is told to, or a newer one comes."""

    def __init__(self) -> None:
        self.accepts = True
        self.answers = threading.Event()  # cleared: requests are taken, and not answered
        self.answers.set()
        self.goals: list[float] = []  # accepted ones
        self.handles: list[ServerGoalHandle] = []
        self._end: Callable[[ServerGoalHandle], None] = ServerGoalHandle.abort
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node = rclpy.create_node("gripper_controller", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._server = ActionServer(
            self._node,
            RunPolicy,
            ACTION,
            execute_callback=self._execute,
            goal_callback=self._judge,
            handle_accepted_callback=self._accept,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def end(self, how: Callable[[ServerGoalHandle], None]) -> None:
        """End the newest goal."""
        self._executor.create_task(self._finish, self.handles[-1], how)

    def close(self) -> None:
        self.answers.set()
        self._stop.set()
        self._thread.join(DEADLINE_S)
        self._executor.shutdown(1.0)
        self._server.destroy()
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)

    def _spin(self) -> None:
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=0.05)

    def _judge(self, _: RunPolicy.Goal) -> GoalResponse:
        self.answers.wait(DEADLINE_S)
        return GoalResponse.ACCEPT if self.accepts else GoalResponse.REJECT

    def _accept(self, handle: ServerGoalHandle) -> None:
        if self.handles and self.handles[-1].is_active:
            self._finish(self.handles[-1], ServerGoalHandle.abort)  # it is replaced
        self.handles.append(handle)
        self.goals.append(handle.request.max_duration_s)

    def _finish(self, handle: ServerGoalHandle, how: Callable[[ServerGoalHandle], None]) -> None:
        self._end = how
        handle.execute()

    def _execute(self, handle: ServerGoalHandle) -> RunPolicy.Result:
        self._end(handle)
        return RunPolicy.Result()


class Robot:
    """A goal client on the executor that robots' nodes have, and the control thread's part."""

    def __init__(self, node: Node, executor: str) -> None:
        contract = parse_document(contract_document() | {"commands": COMMANDS}, Contract, "gripper")
        self._executor, why_not = make_executor(executor, node.context)
        assert not why_not
        self._node = node
        self._executor.add_node(node)
        self._schedule = TimerSchedule()
        writer = make_command_writers(contract)[1]
        self.may_command = True
        self.client = GoalClient(
            node,
            self._schedule,
            contract,
            contract.action_commands[0],
            writer,
            commands_since_ns=lambda: 0 if self.may_command else None,
        )
        self.command: float | None = None

    def step(self) -> None:
        self._executor.spin_once(0.01)
        self._schedule.run_due()
        gate = self.client.gate
        gate.is_subscribed()
        action = None if self.command is None else np.array([0.0, self.command])
        gate.command(action, time.monotonic_ns())

    def run_until(self, condition: Callable[[], Any], what: str) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end_s, f"{what}: {self.client.gate.summary()}"
            self.step()

    def run_until_idle(self, looks: int = 20) -> None:
        """Wait for the answer in progress, then pass time in which more goals would be sent."""
        self.run_until(lambda: not self.client.gate.awaits_answer, "an answer")
        for _ in range(looks):
            self.step()

    def count(self, event: GoalEvent) -> int:
        return self.client.gate.counts[event]

    @property
    def events(self) -> dict[GoalEvent, int]:
        return {event: count for event, count in self.client.gate.counts.items() if count}

    def has_client(self) -> bool:
        """Return whether the graph shows a client of an action at the robot's node."""
        return bool(get_action_client_names_and_types_by_node(self._node, self._node.get_name(), "/"))

    def close(self) -> None:
        self.client.close()
        self._executor.shutdown(1.0)


@pytest.fixture
def gripper() -> Iterator[Gripper]:
    made = Gripper()
    yield made
    made.close()


@pytest.fixture(params=["single", "events"])
def robot(node: Node, request: pytest.FixtureRequest) -> Iterator[Robot]:
    made = Robot(node, request.param)
    yield made
    made.close()


def test_goals_follow_the_command_and_the_last_one_replaces_the_others(robot: Robot, gripper: Gripper):
    for value in (0.25, 0.5, -0.5):
        robot.command = value
        robot.run_until(lambda value=value: gripper.goals[-1:] == [value], f"goal {value}")
    robot.run_until_idle()
    assert gripper.goals == [0.25, 0.5, -0.5]
    robot.run_until(lambda: [handle.is_active for handle in gripper.handles] == [False, False, True], "ends")
    robot.run_until_idle()
    assert not robot.events, "that a goal was replaced is no event"
    gripper.end(ServerGoalHandle.succeed)
    robot.run_until(lambda: not gripper.handles[-1].is_active, "the end")
    robot.run_until_idle()
    assert not robot.events


def test_nothing_is_sent_while_nothing_is_commanded(robot: Robot, gripper: Gripper):
    robot.run_until(robot.client.gate.is_subscribed, "the server")
    robot.run_until_idle()
    assert gripper.goals == []


def test_a_rejected_goal_is_counted_told_and_sent_again(
    robot: Robot, gripper: Gripper, capfd: pytest.CaptureFixture[str]
):
    gripper.accepts = False
    robot.command = 0.5
    robot.run_until(lambda: robot.count(GoalEvent.REJECTED), "a rejection")
    assert "gripper_cmd: goal 1 (elbow = 0.5) rejected, 1 since the start" in capfd.readouterr().err
    gripper.accepts = True
    robot.run_until(lambda: gripper.goals, "the goal again")
    assert gripper.goals == [0.5]
    assert robot.events == {GoalEvent.REJECTED: 1}


def test_an_aborted_goal_is_counted_told_and_not_sent_again(
    robot: Robot, gripper: Gripper, capfd: pytest.CaptureFixture[str]
):
    robot.command = 0.5
    robot.run_until(lambda: gripper.goals, "a goal")
    robot.run_until_idle()
    gripper.end(ServerGoalHandle.abort)
    robot.run_until(lambda: robot.count(GoalEvent.ABORTED), "the abortion")
    assert "gripper_cmd: goal 1 (elbow = 0.5) aborted, 1 since the start" in capfd.readouterr().err
    robot.run_until_idle()
    assert gripper.goals == [0.5]


def test_a_goal_that_is_never_answered_is_given_up_and_asked_again(robot: Robot, gripper: Gripper):
    gripper.answers.clear()
    robot.command = 0.5
    robot.run_until(lambda: robot.count(GoalEvent.UNANSWERED) == 2, "two that were given up")
    assert len(robot.client._client._pending_goal_requests) <= 1, "rclpy waits for no answer to them"
    robot.command = -0.5
    gripper.answers.set()
    robot.run_until(lambda: gripper.goals[-1:] == [-0.5], "the newest")
    robot.run_until_idle()
    assert not robot.client.gate.awaits_answer


def test_a_server_that_is_not_there_is_told_and_gets_the_goal_when_it_comes(
    robot: Robot, capfd: pytest.CaptureFixture[str]
):
    robot.command = 0.5
    robot.run_until(lambda: robot.count(GoalEvent.NO_SERVER), "the event")
    assert "gripper_cmd: no server, 1 since the start" in capfd.readouterr().err
    assert not robot.client.gate.is_subscribed()
    for _ in range(2):  # it comes, goes, and comes back
        made = Gripper()
        robot.run_until(lambda made=made: made.goals, "the goal")
        assert made.goals[0] == 0.5
        made.close()
        robot.run_until(lambda: not robot.client.gate.is_subscribed(), "its absence")
    assert set(robot.events) <= {GoalEvent.NO_SERVER, GoalEvent.UNANSWERED}


def test_ends_that_never_come_do_not_pile_up(robot: Robot, gripper: Gripper, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gripper, "_finish", lambda *_: None)
    for number in range(MOST_ENDS + 8):
        robot.command = 0.1 * (number % 2)
        robot.run_until(lambda number=number: len(gripper.goals) > number, "the next goal")
        robot.run_until_idle(looks=0)
    assert len(robot.client._ends) == MOST_ENDS


def test_a_client_that_is_closed_sends_nothing_and_cancels_nothing(robot: Robot, gripper: Gripper):
    robot.command = 0.5
    robot.run_until(lambda: gripper.goals, "a goal")
    robot.run_until_idle()
    assert robot.has_client()
    robot.client.close()
    robot.command = -0.5
    for _ in range(20):
        robot.step()
    assert gripper.goals == [0.5]
    assert gripper.handles[-1].is_active
    assert not gripper.handles[-1].is_cancel_requested
    wait_until(lambda: not robot.has_client(), "the client's end in the graph")


def test_a_robot_that_is_stopped_sends_no_goal_that_its_last_tick_wanted(robot: Robot, gripper: Gripper):
    robot.command = 0.25
    robot.run_until(lambda: gripper.goals, "the first goal")
    robot.run_until_idle()
    robot.may_command, robot.command = False, -0.25
    robot.run_until_idle(50)
    assert len(gripper.goals) == 1
    robot.may_command = True
    robot.run_until(lambda: len(gripper.goals) == 2, "the next goal")


def test_an_end_that_comes_when_it_was_given_up_is_none(robot: Robot):
    end: Future = Future()
    end.set_result(None)
    robot.client._take_end(1, end)
    assert not robot.events
