# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What people and planners ask of a robot: the operator's services, and the contract's inputs on topics.

The executor's thread only hands a command on: while it waited for the worker, it would hear no stop input.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.operator_inputs import InstructionInput, OperatorInput, StopInput
from remote_inference.base.limits import MAX_TASK_LENGTH, find_length_problem
from remote_inference.base.nodes.deferred_service import DeferredResponse, create_deferred_service
from remote_inference.base.nodes.robot_logger import calm
from remote_inference.base.nodes.runtime import StartupError
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.commands import make_takeover_readers
from remote_inference.base.wire.commands.writer import CommandReader
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.qos import LATCHED_QOS, SENSOR_QOS, STOP_QOS
from remote_inference.robot.engine import Engine
from remote_inference.robot.motion.command_mode import TakeoverTopics
from remote_inference.robot.safety.effects import Effect, ResetEnded
from remote_inference.robot.safety.fault_injection import Fault, FaultInjection, parse_fault
from remote_inference.srv import InjectFault, StartEpisode

# -- The services: pause and resume, episodes, stops, and a person's takeover ----------------------------

TIMEOUT_S = 1.0  # deadline for the worker to begin with a command
LOOK_PERIOD_S = 0.1

Work = Callable[[], list[Effect]]  # a function of the engine
Order = Callable[[], tuple[str, list[Effect]]]  # one that may be refused: returns also why, or ''
Submit = Callable[[Work], None]  # lets the worker call it and carry out the returned effects
Answer = DeferredResponse[Trigger.Response]


class OperatorServices:
    """Hands an operator's commands to the worker, which answers with their outcome."""

    def __init__(
        self,
        node: Node,
        schedule: TimerSchedule,
        engine: Engine,
        submit: Submit,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
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
        if not ended.acknowledged:
            self._node.get_logger().warning(f"reset of episode {ended.episode_id}: {ended.outcome}")
        if answer := self._resets.pop(ended.episode_id, None):
            answer(ended.outcome)

    def close(self) -> None:
        """Answer the calls that still wait, because the worker has ended."""
        for command in list(self._commands):
            command.give_up("the node stops")
        for episode_id in list(self._resets):
            self._resets.pop(episode_id)("the node stops")

    def _reset(self, _: Trigger.Request, answer: Answer) -> None:
        def give(began: StartEpisode.Response) -> None:
            answer.send(Trigger.Response(success=began.success, message=began.message))

        self._begin_episode("", "", give)

    def _start_episode(
        self, request: StartEpisode.Request, answer: DeferredResponse[StartEpisode.Response]
    ) -> None:
        self._begin_episode(request.task, request.policy, answer.send)

    def _pause(self, _: Trigger.Request, answer: Answer) -> None:
        self._engine.pause_at_once()  # also on the way home; the worker does the rest
        give = partial(_give, answer, lambda: "paused, queue kept")
        self._operate(lambda: ("", self._engine.pause()), give, however_late=True)

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

    def _begin_episode(self, task: str, policy: str, answer: Callable[[StartEpisode.Response], None]) -> None:
        """Reset, and answer when the server has, or the engine's deadline for it is over."""

        def give(episode_id: int, message: str, *, success: bool) -> None:
            answer(StartEpisode.Response(success=success, message=message, episode_id=episode_id))

        def reset() -> tuple[str, list[Effect]]:
            if refusal := self._engine.refusal or find_problem(policy):  # it gave up while this waited
                return refusal, []
            effects = self._engine.reset(task, time.monotonic_ns(), policy)
            episode_id = self._engine.episode.id
            began = f"episode {episode_id} began"
            self._resets[episode_id] = lambda outcome: give(episode_id, f"{began}; {outcome}", success=True)
            return "", effects

        def refuse(problem: str) -> None:
            if problem:  # else the answer comes with the end of the reset
                give(self._engine.episode.id, problem, success=False)

        find_problem = self._engine.handshake.policies.find_problem
        too_long = find_length_problem("task", task, MAX_TASK_LENGTH)
        if problem := self._engine.refusal or too_long or find_problem(policy):
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

    def _operate(self, command: Order, answer: Callable[[str], None], *, however_late: bool = False) -> None:
        """Let the worker carry out a command.

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

    command: Order
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


class InjectedFaults(FaultInjection):
    """The faults that an operator injects, of the worker's thread; logs when they begin and end."""

    def __init__(self, node: Node, submit: Submit, report_state: Work, *, allowed: bool) -> None:
        """report_state: called on the worker's thread when a fault begins or ends."""
        super().__init__()
        self._logger = node.get_logger()
        self._submit = submit
        self._report_state = report_state
        if allowed:
            self._logger.warning("allow_fault_injection is set: inject_fault disturbs this robot")
            node.create_service(InjectFault, "~/inject_fault", self._inject)

    def end_if_over(self, now_ns: int) -> Fault | None:
        if ended := super().end_if_over(now_ns):
            self._logger.warning(f"FAULT INJECTION ends: {ended}")
            self._report_state()
        return ended

    def _inject(self, request: InjectFault.Request, _: InjectFault.Response) -> InjectFault.Response:
        try:
            fault = parse_fault(
                request.target, request.kind, request.duration_s, request.delay_s, request.probability
            )
        except ValueError as error:
            return InjectFault.Response(success=False, message=str(error))
        self._submit(lambda: self._begin(fault))
        return InjectFault.Response(success=True, message=str(fault))

    def _begin(self, fault: Fault) -> list[Effect]:
        instead = f" instead of: {self.fault}" if self.fault else ""
        self.begin(fault, time.monotonic_ns())
        self._logger.warning(f"FAULT INJECTION begins: {fault}{instead}")
        return self._report_state()


# -- Stop inputs, takeover and instructions: callbacks deposit, for the next tick or request -------------

QUIET = SubscriptionEventCallbacks(use_default_callbacks=False)


def input_qos(source: OperatorInput) -> QoSProfile:
    """Return the QoS with which an input is heard. A stop by its value and a text must not be missed."""
    must_come = isinstance(source, InstructionInput) or (isinstance(source, StopInput) and source.by_value)
    return STOP_QOS if must_come else SENSOR_QOS


class OperatorTopics:
    """Subscribes to the inputs. Raises StartupError when a message type is not installed."""

    def __init__(
        self,
        node: Node,
        contract: Contract,
        engine: Engine,
        notify: Callable[[], None],
        submit: Submit,
        *,
        heard_ns: Callable[[], int],
    ) -> None:
        """notify: called on the executor's thread when a stop was heard.

        heard_ns: returns until when the executor has surely run what came [ns, monotonic].
        """
        self._heard_ns = heard_ns
        self._engine = engine
        self._notify = notify
        self._submit = submit
        self._instruction, self._instruction_waits = "", False  # the newest, for the worker
        self.person: TakeoverTopics | None = None
        self._calm = calm(node)
        for name, source in contract.stops.items():
            self._listen_to_stop(node, name, source)
        if contract.takeover is not None:
            self.person = TakeoverTopics(contract.takeover, contract.actions)
            try:
                readers = make_takeover_readers(contract.takeover, contract)
            except WireError as error:
                raise StartupError(f"contract: {error}") from error
            for place, reader in enumerate(readers):
                take = partial(self._take_command, place, reader)
                node.create_subscription(reader.message_type, reader.topic, take, SENSOR_QOS)
        if contract.instruction is not None:
            topic, qos = contract.instruction.topic, input_qos(contract.instruction)
            self._listen(node, String, topic, self._take_instruction, qos)

    def _listen_to_stop(self, node: Node, name: str, source: StopInput) -> None:
        try:
            kind = message_class(source.type)
        except WireError as error:
            raise StartupError(f"contract: stops.{name}.type: {error}") from error
        if not source.by_value:
            beat = partial(self._hear, name, stops=False)
            node.create_subscription(kind, source.topic, lambda _: beat(), input_qos(source), raw=True)
            return
        take = partial(self._take_value, name, source)
        self._listen(node, kind, source.topic, take, input_qos(source))
        take = partial(self._take_unreliable_value, name, source)
        node.create_subscription(kind, source.topic, take, SENSOR_QOS, event_callbacks=QUIET)

    @staticmethod
    def _listen(node: Node, kind: Any, topic: str, take: Callable[[Any], None], volatile: QoSProfile) -> None:
        """Subscribe to a topic whose publishers may keep their last value.

        One that does tells it to a subscription that asks for it, and no other publisher is heard by that
        one. A value that arrives twice changes nothing. One of the two matching no publisher is no news:
        TopicWatch tells when neither does.
        """
        for qos in (volatile, LATCHED_QOS):
            node.create_subscription(kind, topic, take, qos, event_callbacks=QUIET)

    def _take_value(self, name: str, source: StopInput, message: Bool) -> None:
        self._hear(name, stops=message.data == source.stop_when)

    def _take_unreliable_value(self, name: str, source: StopInput, message: Bool) -> None:
        """Handle a value that may be of a best-effort publisher, which no other subscription receives.

        Its press of a button stops the robot. It proves no life: what it says next may be lost.
        """
        if message.data == source.stop_when or name not in self._engine.stops.never_received:
            self._take_value(name, source, message)

    def _hear(self, name: str, *, stops: bool) -> None:
        self._engine.hear_stop(name, stops, time.monotonic_ns())
        if self._engine.stops.latched:
            self._notify()

    def _take_command(self, topic: int, reader: CommandReader, message: Any) -> None:
        try:
            values = reader.read(message)
        except SensorError as error:
            self._calm.warning(f"takeover: command dropped: {error}")
            return
        # It may have waited since then, and the person has let go: what waited is not new.
        if self.person and (said := self.person.join(topic, values, self._heard_ns())):
            self._engine.hear_person(*said)

    def _take_instruction(self, message: String) -> None:
        text = message.data.strip()
        problem = find_length_problem("instruction", text, MAX_TASK_LENGTH) if text else "instruction: empty"
        if problem:
            self._calm.warning(f"{problem}; the task stays")
            return
        if not self._instruction_waits and text == self._engine.episode.task:
            return  # said again
        self._instruction = text
        if not self._instruction_waits:  # however many come, one waits for the worker
            self._instruction_waits = True
            self._submit(self._pass_instruction)

    def _pass_instruction(self) -> list[Effect]:
        """Let the engine take the newest instruction. The worker's thread calls it."""
        self._instruction_waits = False  # before it is read: what comes now is submitted anew
        return self._engine.take_instruction(self._instruction)
