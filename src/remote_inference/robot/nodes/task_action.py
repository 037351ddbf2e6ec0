# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The action `~/run_policy`, by which a behaviour tree runs the policy on one task.

A goal is executed only when it is over, and that in one step: a coroutine that waits for its end would keep
the executor busy, and stop inputs wait for nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

from rclpy._rclpy_pybind11 import RCLError
from rclpy.action.server import ActionServer, CancelResponse, GoalResponse, ServerGoalHandle
from rclpy.exceptions import NameValidationException
from rclpy.node import Node
from rclpy.subscription import Subscription
from std_msgs.msg import Bool

from remote_inference.action import RunPolicy
from remote_inference.base.contract.fields import find_topic_name_problem
from remote_inference.base.limits import MAX_TASK_LENGTH, find_length_problem
from remote_inference.base.nodes.executors import as_task, skip_errors
from remote_inference.base.nodes.graph import find_other_type
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire.qos import STOP_QOS
from remote_inference.robot.engine import Engine
from remote_inference.robot.nodes.operator import Submit
from remote_inference.robot.safety.effects import Effect
from remote_inference.robot.safety.state_machine import Event
from remote_inference.robot.task_run import Outcome, RobotView, TaskRun, Termination, find_duration_problem

UPDATE_PERIOD_S = 0.05
FEEDBACK_PERIOD_S = 0.5
LINGER_S = 1.0  # after a result: a client may ask for it late, and the answer has to leave
ACTION = "~/run_policy"
BOOL = "std_msgs/msg/Bool"


class TaskAction:
    """Serves the action. Everything but `_begin` and `_pause` runs on the executor's thread."""

    def __init__(
        self,
        node: Node,
        schedule: TimerSchedule,
        engine: Engine,
        submit: Submit,
        unfed_ticks: Callable[[], int],
    ) -> None:
        """unfed_ticks: returns how many control ticks had no action of the policy since start-up."""
        self._node = node
        self._engine = engine
        self._submit = submit
        self._unfed_ticks = unfed_ticks
        self._goal: ServerGoalHandle | None = None
        self._run: TaskRun | None = None
        self._success: Subscription | None = None
        self._reported_s = 0.0
        self._ended: Outcome | None = None  # the run is over, and the robot is being paused
        self._paused = False  # it is
        self._results = 0  # that are still to be given
        self._lingers_until_s = 0.0
        self._server = ActionServer(
            node,
            RunPolicy,
            ACTION,
            execute_callback=lambda _: RunPolicy.Result(),  # each goal brings its own
            goal_callback=as_task(node, self._check_goal, GoalResponse.REJECT),
            handle_accepted_callback=as_task(node, self._accept),
            cancel_callback=as_task(node, self._cancel, CancelResponse.REJECT),
        )
        skip_errors(node, self._server, ACTION)
        schedule.every(UPDATE_PERIOD_S, self._update)

    @property
    def waiting(self) -> bool:
        """Whether a client has still to get the result of its run, or may not have received it."""
        return self._goal is not None or self._results > 0 or time.monotonic() < self._lingers_until_s

    def close(self) -> None:
        """End the run because the node ends, whose worker has ended."""
        if self._goal is not None:
            if self._ended is None:
                self._end(Outcome(Termination.ERROR, "the robot's node ends"))
            self._paused = True
            self._update()

    def _check_goal(self, request: RunPolicy.Goal) -> GoalResponse:
        problem = self._find_problem(request) or self._subscribe(request.success_topic)
        if problem:
            self._node.get_logger().warning(f"run_policy: goal rejected: {problem}")
        return GoalResponse.REJECT if problem else GoalResponse.ACCEPT

    def _find_problem(self, request: RunPolicy.Goal) -> str:
        if self._goal is not None:
            return f"found another goal, {self._goal.request.task!r}, expected its end or its cancellation"
        if self._engine.dead:
            return f"the robot gave up: {self._engine.machine.cause}"
        if self._engine.taken_over:
            return "a person has the robot, expected its release"
        if problem := find_duration_problem(request.max_duration_s):
            return problem
        if problem := find_length_problem("task", request.task, MAX_TASK_LENGTH):
            return problem
        if problem := self._engine.handshake.policies.find_problem(request.policy):
            return problem
        topic = request.success_topic
        return topic and (problem := find_topic_name_problem(topic)) and f"success_topic: {problem}"

    def _subscribe(self, topic: str) -> str:
        """Listen to a goal's success topic, if it names one; return why that cannot be, or ''."""
        self._unsubscribe()  # of a goal that was accepted and whose client left before it heard so
        if not topic:
            return ""
        node = self._node
        try:
            name = node.resolve_topic_name(topic)
            # A topic that nobody publishes yet may be heard, or meant, by somebody with another type.
            known = node.get_publishers_info_by_topic(name) or node.get_subscriptions_info_by_topic(name)
            if found := find_other_type(known, BOOL):
                return f"success_topic: {topic}: found {found}"
            self._success = node.create_subscription(Bool, topic, self._on_success, STOP_QOS)
        except (RCLError, NameValidationException) as error:
            return f"success_topic: {topic}: {' '.join(str(error).split())}"
        return ""

    def _unsubscribe(self) -> None:
        if self._success is not None:
            self._node.destroy_subscription(self._success)
            self._success = None

    def _accept(self, goal: ServerGoalHandle) -> None:
        request: RunPolicy.Goal = goal.request
        now_s = time.monotonic()
        self._goal, self._ended, self._paused, self._reported_s = goal, None, False, now_s
        self._run = TaskRun(request.max_duration_s, self._view(), now_s)
        self._node.get_logger().info(f"run_policy: {request.task or self._engine.episode.task!r}")
        self._submit(partial(self._begin, self._run, request.task, request.policy))

    def _begin(self, run: TaskRun, task: str, policy: str) -> list[Effect]:
        """Begin a run that nothing has ended meanwhile. The worker's thread calls it."""
        if self._ended is not None or self._engine.taken_over:  # nobody may be let move by this
            return []
        return run.begin(self._engine, task, policy, time.monotonic_ns())

    def _on_success(self, message: Bool) -> None:
        if self._run is not None:
            self._run.succeeded = self._run.succeeded or bool(message.data)

    def _cancel(self, goal: ServerGoalHandle) -> CancelResponse:
        """Stop the robot in its next control tick, before the client hears that its goal is canceled."""
        if self._run is not None and self._goal is not None and goal.goal_id == self._goal.goal_id:
            self._run.canceled = True
            self._update()
        return CancelResponse.ACCEPT

    def _update(self) -> None:
        goal, run = self._goal, self._run
        if goal is None or run is None:
            return
        begun, now_s, view = run.begun, time.monotonic(), self._view()
        if not begun:  # the pause before the run: the worker may let the robot move, and say so, just now
            view = replace(view, paused=False)
        run.canceled = run.canceled or goal.is_cancel_requested
        if self._ended is None and (outcome := run.find_outcome(view, now_s)):
            self._end(outcome)
        if self._ended is not None:
            if self._paused:
                elapsed_s = run.progress(view, now_s).elapsed_s
                self._goal, self._run, self._results = None, None, self._results + 1
                goal.execute(partial(self._finish, self._ended, elapsed_s))  # in a later callback round
            return
        if now_s - self._reported_s >= FEEDBACK_PERIOD_S:
            self._reported_s = now_s
            goal.publish_feedback(RunPolicy.Feedback(**asdict(run.progress(view, now_s))))

    def _end(self, outcome: Outcome) -> None:
        """Pause the robot, by its fallback, unless somebody else has it or it has given up."""
        self._ended = outcome
        self._unsubscribe()
        if outcome.termination in {Termination.TAKEN_OVER, Termination.OFFLINE} or self._engine.dead:
            self._paused = True
            return
        cause = f"run_policy: {outcome.termination.name}: {outcome.message}"
        self._engine.pause_at_once(cause)
        self._submit(partial(self._pause, cause))

    def _pause(self, cause: str) -> list[Effect]:
        effects = self._engine.pause(cause)
        self._paused = True
        return effects

    def _finish(self, outcome: Outcome, elapsed_s: float, goal: ServerGoalHandle) -> RunPolicy.Result:
        """Give the result of a run that is over."""
        self._results -= 1
        self._lingers_until_s = time.monotonic() + LINGER_S
        if outcome.termination is Termination.SUCCEEDED:
            goal.succeed()
        elif goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.abort()
        self._node.get_logger().info(f"run_policy: {outcome.termination.name}: {outcome.message}")
        return RunPolicy.Result(
            termination=int(outcome.termination), message=outcome.message, elapsed_s=elapsed_s
        )

    def _view(self) -> RobotView:
        engine = self._engine
        return RobotView(
            paused=engine.paused,  # first: why it pauses is there before it does, on another thread
            state_name=engine.machine.state.name,
            cause=engine.machine.cause,
            dead=engine.dead,
            offline=engine.machine.event is Event.OFFLINE_TOO_LONG,
            stop=engine.stops.latched,
            policy_refused=engine.policy_refused,
            taken_over=engine.taken_over,
            pauses=engine.pauses,
            chunks=engine.counters.chunks_merged,
            holds=self._unfed_ticks(),
            interventions=sum(engine.guard.counts.values()),
        )
