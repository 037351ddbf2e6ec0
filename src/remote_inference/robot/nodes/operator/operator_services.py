# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The operator's services: pause and resume, episodes, stops, and a person's takeover.

The executor's thread only hands a command on: while it waited for the worker, it would hear no stop input.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from rclpy.node import Node
from std_srvs.srv import Trigger

from remote_inference.base.limits import MAX_TASK_LENGTH, find_length_problem
from remote_inference.base.nodes.deferred_service import DeferredResponse, create_deferred_service
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.robot.engine import Engine
from remote_inference.robot.safety.effects import Effect, ResetEnded
from remote_inference.robot.safety.fault_injection import Fault, FaultInjection, parse_fault
from remote_inference.srv import InjectFault, StartEpisode

TIMEOUT_S = 1.0  # deadline for the worker to begin with a command
LOOK_PERIOD_S = 0.1

Work = Callable[[], list[Effect]]
Answer = DeferredResponse[Trigger.Response]


class OperatorServices:
    """Hands an operator's commands to the worker, which answers with their outcome."""

    def __init__(
        self,
        node: Node,
        schedule: TimerSchedule,
        engine: Engine,
        submit: Callable[[Work], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """submit: lets the worker call a function of the engine and carry out the returned effects."""
        self._now_s = now_s
        self._engine = engine
        self._submit = submit
        self._commands: list[_Command] = []  # of the executor's thread: not all are over
        self._resets: dict[int, Callable[[str], None]] = {}  # what answers with the outcome, by episode
        schedule.every(LOOK_PERIOD_S, self._give_up_late)
        create_deferred_service(node, Trigger, "~/reset", self._reset)
        create_deferred_service(node, Trigger, "~/pause", self._pause)
        create_deferred_service(node, Trigger, "~/resume", self._resume)
        create_deferred_service(node, Trigger, "~/clear_stop", self._clear_stop)
        create_deferred_service(node, Trigger, "~/takeover", self._take_over)
        create_deferred_service(node, Trigger, "~/release", self._release)
        create_deferred_service(node, StartEpisode, "~/start_episode", self._start_episode)

    def end_reset(self, ended: ResetEnded) -> None:
        """Answer the call that began an episode. The worker's thread calls it."""
        if answer := self._resets.pop(ended.episode_id, None):
            answer(ended.outcome)

    def close(self) -> None:
        """Answer the calls that still wait, because the worker has ended."""
        for command in list(self._commands):
            command.give_up("the node stops")
        for episode_id in list(self._resets):
            self._resets.pop(episode_id)("the node stops")

    def _reset(self, _: Trigger.Request, answer: Answer) -> None:
        self._begin_episode(
            "",
            lambda success, message, _: answer.send(Trigger.Response(success=success, message=message)),
        )

    def _start_episode(
        self, request: StartEpisode.Request, answer: DeferredResponse[StartEpisode.Response]
    ) -> None:
        self._begin_episode(
            request.task,
            lambda success, message, episode_id: answer.send(
                StartEpisode.Response(success=success, message=message, episode_id=episode_id)
            ),
        )

    def _pause(self, _: Trigger.Request, answer: Answer) -> None:
        self._engine.pause_at_once()  # also on the way home; the worker does the rest
        self._operate(
            lambda: ("", self._engine.pause()),
            partial(_give, answer, lambda: "paused, queue kept"),
            however_late=True,
        )

    def _resume(self, _: Trigger.Request, answer: Answer) -> None:
        pauses = self._engine.pauses  # what is paused from now on is not resumed by this
        self._attempt(lambda now_ns: self._engine.resume(now_ns, pauses), answer, lambda: "resumed")

    def _clear_stop(self, _: Trigger.Request, answer: Answer) -> None:
        stop = self._engine.stops.latched
        done = f"cleared {stop}; paused" if stop else "no stop was latched"
        heard = self._engine.stops.heard  # what stops from now on is not cleared by this
        self._attempt(lambda now_ns: self._engine.clear_stop(now_ns, heard), answer, lambda: done)

    def _take_over(self, _: Trigger.Request, answer: Answer) -> None:
        if not self._engine.takeover_refusal:
            self._engine.take_over_at_once(time.monotonic_ns())  # the worker does the rest
        self._attempt(self._engine.take_over, answer, self._describe_takeover, however_late=True)

    def _release(self, _: Trigger.Request, answer: Answer) -> None:
        self._attempt(self._engine.release, answer, lambda: "released to the policy")

    def _describe_takeover(self) -> str:
        state = "taken over"
        if self._engine.misses_person(time.monotonic_ns()):
            state += "; no command has arrived lately, the fallback runs until one does"
        if self._engine.paused:
            state += "; paused, resume lets it move"
        return state

    def _begin_episode(self, task: str, answer: Callable[[bool, str, int], None]) -> None:
        """Reset, and answer when the server has, or the engine's deadline for it is over.

        answer: takes whether an episode began, the words for the operator and the episode.
        """

        def reset() -> tuple[str, list[Effect]]:
            if refusal := self._engine.refusal:  # it gave up while this waited
                return refusal, []
            effects = self._engine.reset(task, time.monotonic_ns())
            episode_id = self._engine.episode.id
            self._resets[episode_id] = lambda outcome: answer(
                True, f"episode {episode_id} began; {outcome}", episode_id
            )
            return "", effects

        def refuse(problem: str) -> None:
            if problem:  # else the answer comes with the end of the reset
                answer(False, problem, self._engine.episode.id)

        if problem := self._engine.refusal or find_length_problem("task", task, MAX_TASK_LENGTH):
            refuse(problem)
        else:
            self._operate(reset, refuse)

    def _attempt(
        self,
        command: Callable[[int], tuple[str, list[Effect]]],
        answer: Answer,
        done: Callable[[], str],
        *,
        however_late: bool = False,
    ) -> None:
        """Let the worker carry out a command that may be refused. done: returns what to say if it was not.

        however_late: as of `_operate`.
        """
        give = partial(_give, answer, done)
        if refusal := self._engine.refusal:
            give(refusal)
        else:
            self._operate(lambda: command(time.monotonic_ns()), give, however_late=however_late)

    def _operate(
        self,
        command: Callable[[], tuple[str, list[Effect]]],
        answer: Callable[[str], None],
        *,
        however_late: bool = False,
    ) -> None:
        """Let the worker carry out a command, which returns why it was refused and its effects.

        answer: takes why the command failed, or an empty string; called once, by either thread. however_late:
        the worker carries out also what was answered as not done in time.
        """
        pending = _Command(command, answer, self._now_s() + TIMEOUT_S, however_late)
        self._commands.append(pending)
        self._submit(pending.carry_out)

    def _give_up_late(self) -> None:
        now_s = self._now_s()
        for command in self._commands:
            if now_s >= command.deadline_s:
                command.give_up(f"not done within {TIMEOUT_S:g} s")
        self._commands = [command for command in self._commands if not command.over]


@dataclass(eq=False)
class _Command:
    """A command on its way to the worker. It is carried out or given up; both only if `however_late`."""

    command: Callable[[], tuple[str, list[Effect]]]
    answer: Callable[[str], None]
    deadline_s: float
    however_late: bool
    over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def carry_out(self) -> list[Effect]:
        with self.lock:
            was_answered = self.over
            if was_answered and not self.however_late:
                return []
            problem, effects = self.command()
            self.over = True
        if not was_answered:
            self.answer(problem)
        return effects

    def give_up(self, problem: str) -> None:
        """Answer that it failed, unless it is over, or the worker is carrying it out right now."""
        if not self.lock.acquire(blocking=False):
            return
        was_over, self.over = self.over, True
        self.lock.release()
        if not was_over:
            self.answer(problem)


def _give(answer: Answer, done: Callable[[], str], problem: str) -> None:
    answer.send(Trigger.Response(success=not problem, message=problem or done()))


# -- The service `~/inject_fault`: there only with the parameter `allow_fault_injection` ----------------


class FaultInjectionService:
    """Begins faults on the worker's thread, and logs when they begin and end."""

    def __init__(
        self,
        node: Node,
        injection: FaultInjection,
        submit: Callable[[Work], None],
        report_state: Callable[[], list[Effect]],
        *,
        allowed: bool,
    ) -> None:
        """submit: lets the worker call a function. report_state: called there when a fault begins or ends."""
        self._logger = node.get_logger()
        self._injection = injection
        self._submit = submit
        self._report_state = report_state
        if allowed:
            self._logger.warning("allow_fault_injection is set: inject_fault disturbs this robot")
            node.create_service(InjectFault, "~/inject_fault", self._inject)

    @property
    def in_progress(self) -> str:
        """The fault in progress in words, empty when there is none."""
        return str(self._injection.fault or "")

    def end_if_over(self) -> None:
        """End the fault in progress when its time is over. Call it on the worker's thread."""
        if ended := self._injection.end_if_over(time.monotonic_ns()):
            self._logger.warning(f"FAULT INJECTION ends: {ended}")
            self._report_state()

    def _inject(self, request: InjectFault.Request, response: InjectFault.Response) -> InjectFault.Response:
        try:
            fault = parse_fault(
                request.target, request.kind, request.duration_s, request.delay_s, request.probability
            )
        except ValueError as error:
            response.success, response.message = False, str(error)
            return response
        self._submit(lambda: self._begin(fault))
        response.success, response.message = True, str(fault)
        return response

    def _begin(self, fault: Fault) -> list[Effect]:
        instead = f" instead of: {self.in_progress}" if self._injection.fault else ""
        self._injection.begin(fault, time.monotonic_ns())
        self._logger.warning(f"FAULT INJECTION begins: {fault}{instead}")
        return self._report_state()
