# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Sends commands to an action server, of a gripper for example, as goals.

No goal is ever canceled: ros2_control's grippers then hold where they are measured, and lose their grip on an
object. The server replaces a goal by the next one, and keeps the last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic, monotonic_ns
from typing import Any

import numpy as np
from action_msgs.msg import GoalStatus
from rclpy.action.client import ActionClient
from rclpy.node import Node
from rclpy.task import Future

from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.nodes.executors import as_task, skip_errors
from remote_inference.base.nodes.robot_logger import calm
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire.commands.writer import CommandWriter
from remote_inference.base.wire.message_types import action_class
from remote_inference.robot.motion.goal_gate import Goal, GoalEvent, GoalGate

UPDATE_PERIOD_S = 0.02
PRESENCE_PERIOD_S = 0.1  # between two checks of the graph
MOST_ENDS = 32  # goals whose ends are awaited: a server may never report them

ENDS = {
    GoalStatus.STATUS_SUCCEEDED: None,
    GoalStatus.STATUS_ABORTED: GoalEvent.ABORTED,
    GoalStatus.STATUS_CANCELED: GoalEvent.CANCELED,
}


class GoalClient:
    """The client of one action server. Everything but the gate's part runs on the executor's thread."""

    def __init__(
        self,
        node: Node,
        schedule: TimerSchedule,
        contract: Contract,
        sink: CommandSink,
        writer: CommandWriter,
        *,
        commands_since_ns: Callable[[], int | None],
    ) -> None:
        """writer: of the goals of the sink's type. commands_since_ns: as `Engine.commands_since_ns`."""
        self._node = node
        self._commands_since_ns = commands_since_ns
        self.name = sink.destination
        self.gate = GoalGate(sink, contract)
        self._calm = calm(node)
        self._clock = node.get_clock()
        self._writer = writer
        self._client: Any = ActionClient(node, action_class(sink.type), sink.destination)
        skip_errors(node, self._client, self.name)
        self._is_present = False
        self._checked_s = -PRESENCE_PERIOD_S
        self._answer: Future | None = None  # to the last goal
        self._ends: deque[Future] = deque()
        self._is_closed = False
        schedule.every(UPDATE_PERIOD_S, self._update)

    def close(self) -> None:
        """Send nothing more. The server keeps its last goal."""
        if not self._is_closed:
            self._is_closed = True
            self._client.destroy()

    def _update(self) -> None:
        if self._is_closed:
            return
        if (now_s := monotonic()) - self._checked_s >= PRESENCE_PERIOD_S:
            self._checked_s, self._is_present = now_s, self._client.server_is_ready()
        since_ns = self._commands_since_ns()  # what the last control tick commanded may be older
        goal = self.gate.update(monotonic_ns(), is_present=self._is_present, since_ns=since_ns)
        if self._answer is not None and (goal is not None or not self.gate.awaits_answer):
            self._answer.cancel()  # one that was given up: nobody waits for it any more
            self._answer = None
        if goal is not None:
            self._send(goal)
        self._log_news()

    def _send(self, goal: Goal) -> None:
        message = self._writer.message(goal.action[np.newaxis], self._clock.now().to_msg())
        self._answer = self._client.send_goal_async(message)
        self._answer.add_done_callback(as_task(self._node, partial(self._take_answer, goal.number)))

    def _take_answer(self, number: int, answer: Future) -> None:
        if answer.cancelled() or self._is_closed:
            return
        handle: Any = answer.result()
        if self._answer is answer:
            self._answer = None
        if self.gate.take_answer(number, monotonic_ns(), accepted=handle.accepted):
            end = handle.get_result_async()
            self._ends.append(end)
            end.add_done_callback(as_task(self._node, partial(self._take_end, number)))
            if len(self._ends) > MOST_ENDS:
                self._ends.popleft().cancel()
        self._log_news()

    def _take_end(self, number: int, end: Future) -> None:
        if end.cancelled() or self._is_closed or end not in self._ends:  # or given up as it came
            return
        self._ends.remove(end)
        self.gate.take_end(number, ENDS.get(end.result().status, GoalEvent.LOST))
        self._log_news()

    def _log_news(self) -> None:
        for news in self.gate.take_news():
            self._calm.warning(f"{self.name}: {news}")
