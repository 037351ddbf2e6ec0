# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Asks a robot for a run on one task by its action, and waits for the end, with deadlines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from action_msgs.msg import GoalStatus
from rcl_interfaces.srv import GetParameters
from rclpy.action.client import ActionClient
from rclpy.task import Future

from remote_inference.action import RunPolicy
from remote_inference.core.robot.task_run import Termination
from remote_inference.nodes.clients.operator_client import OperatorClient, OperatorError, deferred_signals

ENDED = (GoalStatus.STATUS_SUCCEEDED, GoalStatus.STATUS_CANCELED, GoalStatus.STATUS_ABORTED)
CANCEL_S = 10.0  # a robot that is canceled pauses at once


class TaskClient:
    """One robot's action. Raises OperatorError for a robot that does not answer."""

    def __init__(self, ros: OperatorClient, robot: str) -> None:
        """robot: its namespace."""
        self._ros = ros
        self._node = f"{robot}/remote_inference"
        self._name = f"{self._node}/run_policy"
        self._client = ActionClient(ros.node, RunPolicy, self._name)
        self._heard_s = 0.0

    def run(
        self, goal: RunPolicy.Goal, timeout_s: float, tell: Callable[[RunPolicy.Feedback], None]
    ) -> RunPolicy.Result | None:
        """Return the result of a run, None when the robot has rejected the goal: its log says why.

        timeout_s: until the robot answers, and of its silence while it runs. tell: takes the feedback. A
        KeyboardInterrupt cancels the run, and is raised again when the robot has paused.
        """
        self._prepare(timeout_s)
        sent: Future | None = None
        try:
            with deferred_signals():  # a goal that is sent must be one that can be canceled
                sent = self._client.send_goal_async(goal, feedback_callback=partial(self._hear, tell))
            if not self._ros.spin_until(sent.done, timeout_s):
                raise OperatorError(f"{self._name}: no answer within {timeout_s:g} s; the robot may run")
            handle = sent.result()
            return self._await(handle, timeout_s) if handle.accepted else None
        except KeyboardInterrupt:  # the robot may have accepted what has not been heard of yet
            if sent is not None:
                self._cancel(sent)
            raise

    def _await(self, handle: Any, timeout_s: float) -> RunPolicy.Result:
        future = handle.get_result_async()
        self._heard_s = time.monotonic()
        while not self._ros.spin_until(future.done, 0.1):
            if time.monotonic() - self._heard_s > timeout_s:
                raise OperatorError(f"{self._name}: no word for {timeout_s:g} s; the robot may go on")
        result: RunPolicy.Result = future.result().result
        return result

    def _cancel(self, sent: Future) -> None:
        problem = f"{self._name}: not canceled within {CANCEL_S:g} s; the robot may go on"
        if not self._ros.spin_until(sent.done, CANCEL_S):
            raise OperatorError(problem) from None
        if not (handle := sent.result()).accepted:
            return
        future = handle.get_result_async()
        handle.cancel_goal_async()
        if not self._ros.spin_until(future.done, CANCEL_S):
            raise OperatorError(problem) from None
        ended = future.result()
        if ended.status not in ENDED:
            raise OperatorError(f"{problem} (status {ended.status})") from None
        print(
            f"{self._name}: {Termination(ended.result.termination).name}: {ended.result.message}",
            file=sys.stderr,
        )

    def _prepare(self, timeout_s: float) -> None:
        if not self._ros.spin_until(self._client.server_is_ready, timeout_s):
            raise OperatorError(f"{self._name}: no such action within {timeout_s:g} s")
        # Whoever answers a client that was announced later knows the action's, too.
        self._ros.call(GetParameters, f"{self._node}/get_parameters", GetParameters.Request(), timeout_s)

    def _hear(self, tell: Callable[[RunPolicy.Feedback], None], message: Any) -> None:
        self._heard_s = time.monotonic()
        tell(message.feedback)
