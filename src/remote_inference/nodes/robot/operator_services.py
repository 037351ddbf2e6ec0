# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The operator's services: pause and resume, episodes, stops, and a person's takeover."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rclpy.node import Node
from std_srvs.srv import Trigger

from remote_inference.core.limits import MAX_TASK_LENGTH, find_length_problem
from remote_inference.core.robot.effects import Effect, ResetEnded
from remote_inference.core.robot.engine import Engine
from remote_inference.nodes.later_service import LaterAnswer, create_later_service
from remote_inference.srv import StartEpisode

TIMEOUT_S = 1.0  # deadline for the worker to carry out a command

Work = Callable[[], list[Effect]]


class OperatorServices:
    """Hands an operator's commands to the worker and answers with their outcome."""

    def __init__(self, node: Node, engine: Engine, submit: Callable[[Work], None]) -> None:
        """submit: lets the worker call a function of the engine and carry out the returned effects."""
        self._engine = engine
        self._submit = submit
        self._resets: dict[int, Callable[[str], None]] = {}  # what answers with the outcome, by episode
        create_later_service(node, Trigger, "~/reset", self._reset)
        node.create_service(Trigger, "~/pause", self._pause)
        node.create_service(Trigger, "~/resume", self._resume)
        node.create_service(Trigger, "~/clear_stop", self._clear_stop)
        node.create_service(Trigger, "~/takeover", self._take_over)
        node.create_service(Trigger, "~/release", self._release)
        create_later_service(node, StartEpisode, "~/start_episode", self._start_episode)

    def end_reset(self, ended: ResetEnded) -> None:
        """Answer the call that began an episode. The worker's thread calls it."""
        if answer := self._resets.pop(ended.episode_id, None):
            answer(ended.outcome)

    def close(self) -> None:
        """Answer the calls that still wait, because the worker has ended."""
        for episode_id in list(self._resets):
            self._resets.pop(episode_id)("the node stops")

    def _reset(self, _: Trigger.Request, answer: LaterAnswer[Trigger.Response]) -> None:
        self._begin_episode(
            "",
            lambda success, message, _: answer.give(Trigger.Response(success=success, message=message)),
        )

    def _start_episode(
        self, request: StartEpisode.Request, answer: LaterAnswer[StartEpisode.Response]
    ) -> None:
        self._begin_episode(
            request.task,
            lambda success, message, episode_id: answer.give(
                StartEpisode.Response(success=success, message=message, episode_id=episode_id)
            ),
        )

    def _pause(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._engine.pause_at_once()  # also on the way home; the worker does the rest
        problem = self._operate(self._engine.pause)
        response.success, response.message = not problem, problem or "paused, queue kept"
        return response

    def _resume(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        problem = self._refusal() or self._attempt(self._engine.resume)
        return _answer(response, problem, "resumed")

    def _clear_stop(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        stop = self._engine.stops.latched
        problem = self._refusal() or self._attempt(self._engine.clear_stop)
        return _answer(response, problem, f"cleared {stop}; paused" if stop else "no stop was latched")

    def _take_over(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        problem = self._refusal() or self._attempt(self._engine.take_over)
        human, state = self._engine.human, "taken over"
        if human is not None and human.newest(time.monotonic_ns()) is None:
            state += "; no command has arrived lately, the fallback runs until one does"
        if self._engine.paused:
            state += "; paused, resume lets it move"
        return _answer(response, problem, state)

    def _release(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        problem = self._refusal() or self._attempt(self._engine.release)
        return _answer(response, problem, "released to the policy")

    def _begin_episode(self, task: str, answer: Callable[[bool, str, int], None]) -> None:
        """Reset, and answer when the server has, or the engine's deadline for it is over.

        answer: takes whether an episode began, the words for the operator and the episode.
        """

        def reset() -> list[Effect]:
            effects = self._engine.reset(task, time.monotonic_ns())
            episode_id = self._engine.episode.id
            self._resets[episode_id] = lambda outcome: answer(
                True, f"episode {episode_id} began; {outcome}", episode_id
            )
            return effects

        too_long = find_length_problem("task", task, MAX_TASK_LENGTH)
        if problem := self._refusal() or too_long or self._operate(reset):
            answer(False, problem, self._engine.episode.id)

    def _refusal(self) -> str:
        return f"stopped: {self._engine.machine.cause}" if self._engine.dead else ""

    def _attempt(self, command: Callable[[int], tuple[str, list[Effect]]]) -> str:
        """Let the worker carry out a command that may be refused; return the reason, or an empty string."""
        refusals: list[str] = []

        def work() -> list[Effect]:
            refusal, effects = command(time.monotonic_ns())
            refusals.append(refusal)
            return effects

        return self._operate(work) or "".join(refusals)

    def _operate(self, command: Work) -> str:
        """Let the worker carry out a command; return why the command failed, or an empty string."""
        done = threading.Event()
        abandoned = threading.Event()
        turn = threading.Lock()

        def work() -> list[Effect]:
            with turn:
                if abandoned.is_set():  # the operator already knows that it failed
                    return []
                effects = command()
                done.set()
                return effects

        self._submit(work)
        if done.wait(TIMEOUT_S):
            return ""
        with turn:
            abandoned.set()
        return "" if done.is_set() else f"not done within {TIMEOUT_S:g} s"


def _answer(response: Trigger.Response, problem: str, done: str) -> Trigger.Response:
    response.success, response.message = not problem, problem or done
    return response
