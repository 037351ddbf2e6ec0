# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Sends a robot the goal of one task, and waits for the result, with deadlines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from action_msgs.msg import GoalStatus
from rcl_interfaces.srv import GetParameters
from rclpy.action.client import ActionClient, ClientGoalHandle
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID

from remote_inference.action import RunPolicy
from remote_inference.base.clients.operator_client import (
    RETRY_S,
    OperatorClient,
    OperatorError,
    deferred_signals,
)
from remote_inference.robot.task_run import Termination
from remote_inference.tools.cli.common import say

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
        self._feedback_s = 0.0  # when the last feedback came
        self._reports_feedback = True

    def run(
        self, goal: RunPolicy.Goal, timeout_s: float, on_feedback: Callable[[RunPolicy.Feedback], None]
    ) -> RunPolicy.Result | None:
        """Return the result of a run, None when the robot has rejected the goal: its log says why.

        timeout_s: until the robot answers, and between two feedbacks. on_feedback: is called with each.

        A KeyboardInterrupt or an error of `on_feedback` cancels the run, which nobody would end later. It is
        raised again when the robot has paused.
        """
        if not self._ros.spin_until(self._client.server_is_ready, timeout_s):
            raise OperatorError(f"{self._name}: no such action within {timeout_s:g} s")
        # Whoever answers a client that was announced later knows the action's, too.
        self._ros.call(GetParameters, f"{self._node}/get_parameters", GetParameters.Request(), timeout_s)
        goal_id = UUID(uuid=list(uuid4().bytes))  # known before an answer, which may be lost
        sent: Future | None = None
        try:
            with deferred_signals():  # a goal that is sent must be one that can be canceled
                callback = partial(self._handle_feedback, on_feedback)
                sent = self._client.send_goal_async(goal, feedback_callback=callback, goal_uuid=goal_id)
            if not self._ros.spin_until(sent.done, timeout_s):
                raise OperatorError(f"{self._name}: no answer within {timeout_s:g} s")
            handle = sent.result()
            return self._await(handle, timeout_s) if handle.accepted else None
        except BaseException:
            if sent is not None:
                self._cancel(sent, goal_id)
            raise

    def _await(self, handle: Any, timeout_s: float) -> RunPolicy.Result:
        future = handle.get_result_async()
        self._feedback_s = time.monotonic()
        while not self._ros.spin_until(future.done, 0.1):
            if time.monotonic() - self._feedback_s > timeout_s:
                raise OperatorError(f"{self._name}: no word for {timeout_s:g} s")
        result: RunPolicy.Result = future.result().result
        return result

    def _cancel(self, sent: Future, goal_id: UUID) -> None:
        """Cancel until the robot says how the run has ended: requests and answers may be lost."""
        self._reports_feedback = False  # a caller that has failed must not end the cancellation
        accepted = RunPolicy.Impl.SendGoalService.Response(accepted=True)
        handle = ClientGoalHandle(self._client, goal_id, accepted)
        end_s = time.monotonic() + CANCEL_S
        asked: list[Future] = []

        def find_end() -> Any:
            ends = (future.result() for future in asked if future.done())
            return next((end for end in ends if end.status in ENDED), None)

        def is_over() -> bool:
            return find_end() is not None or (sent.done() and not sent.result().accepted)

        while not is_over():
            if (left_s := end_s - time.monotonic()) <= 0.0:
                raise OperatorError(
                    f"{self._name}: not canceled within {CANCEL_S:g} s; the robot may go on"
                ) from None
            handle.cancel_goal_async()
            asked.append(handle.get_result_async())
            self._ros.spin_until(is_over, min(RETRY_S, left_s))
        if (end := find_end()) is not None:
            name = Termination(end.result.termination).name
            with suppress(OSError):  # of a pipe or terminal that is gone
                say(f"{self._name}: {name}: {end.result.message}", file=sys.stderr)

    def _handle_feedback(self, on_feedback: Callable[[RunPolicy.Feedback], None], message: Any) -> None:
        self._feedback_s = time.monotonic()
        if self._reports_feedback:
            on_feedback(message.feedback)
