# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's stop inputs, takeover and instructions: callbacks deposit, for the next tick or request."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Bool, String

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.operator_inputs import InstructionInput, OperatorInput, StopInput
from remote_inference.base.limits import MAX_TASK_LENGTH, find_length_problem
from remote_inference.base.nodes.runtime import StartupError
from remote_inference.base.wire import SensorError, WireError, make_command_reader, message_class
from remote_inference.base.wire.qos import LATCHED_QOS, SENSOR_QOS, STOP_QOS
from remote_inference.robot.engine import Engine
from remote_inference.robot.safety.effects import Effect

QUIET = SubscriptionEventCallbacks(use_default_callbacks=False)
WARNING_PERIOD_S = 1.0  # at most one warning of commands that do not fit in this time


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
        submit: Callable[[Callable[[], list[Effect]]], None],
        *,
        heard_ns: Callable[[], int],
    ) -> None:
        """notify: called on the executor's thread when a stop was heard.

        submit: lets the worker call a function of the engine and carry out the returned effects. heard_ns:
        returns until when the executor has surely run what came [ns, monotonic].
        """
        self._heard_ns = heard_ns
        self._engine = engine
        self._notify = notify
        self._submit = submit
        self._instruction = ""  # the newest, for the worker
        self._instruction_waits = False
        self._logger = node.get_logger()
        for name, source in contract.stops.items():
            self._listen_to_stop(node, name, source)
        if contract.takeover is not None:
            self._reader = make_command_reader(contract.takeover, contract)
            node.create_subscription(
                self._reader.message_type, contract.takeover.topic, self._take_command, SENSOR_QOS
            )

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

    def _take_command(self, message: Any) -> None:
        try:
            action = self._reader.read(message)
        except SensorError as error:
            problem = f"takeover: command dropped: {error}"
            self._logger.warning(problem, throttle_duration_sec=WARNING_PERIOD_S)
            return
        # It may have waited since then, and the person has let go: what waited is not new.
        self._engine.hear_person(action, self._heard_ns())

    def _take_instruction(self, message: String) -> None:
        text = message.data.strip()
        problem = find_length_problem("instruction", text, MAX_TASK_LENGTH) if text else "instruction: empty"
        if problem:
            problem = f"{problem}; the task stays"
            self._logger.warning(problem, throttle_duration_sec=WARNING_PERIOD_S)
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
