# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The controllers of a simulated robot: they take what a contract's commands say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node

from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.core.contract.contract import Contract
from remote_inference.core.environment import EnvError, EnvironmentSpec
from remote_inference.wire import CommandReader, SensorError, WireError, make_sink_reader
from remote_inference.wire.qos import COMMAND_QOS


class SimulatedControllers:
    """Subscribes to the topics of a contract's commands, and keeps the newest target of each action."""

    def __init__(
        self,
        node: Node,
        contract: Contract,
        spec: EnvironmentSpec,
        *,
        before_command: Callable[[], None],
        after_command: Callable[[], None],
    ) -> None:
        """before_command, after_command: called when a command has come, and when `targets` has it.

        Raises EnvError when the environment takes other actions than the contract's, or of another kind.
        """
        _check_actions(contract, spec)
        self._node = node
        self._before_command = before_command
        self._after_command = after_command
        self._unheard = frozenset(sink.topic for sink in contract.topic_commands)
        self._topics = self._unheard
        self.targets = np.zeros(len(spec.actions.names))  # [A], in the environment's order
        for sink in contract.commands:
            try:
                reader = make_sink_reader(sink, contract)
            except WireError:
                raise EnvError(
                    f"{spec.name}: {sink.destination}: no simulated controller takes a {sink.type}"
                ) from None
            self._subscribe(sink, reader, spec)

    @property
    def are_all_heard(self) -> bool:
        """Whether every controller was commanded since the last `begin_tick`."""
        return not self._unheard

    def hold(self, targets: NDArray[np.float64]) -> None:
        """Take targets `[A]` until the next command."""
        self.targets = targets.copy()
        self.begin_tick()

    def begin_tick(self) -> None:
        self._unheard = self._topics

    def _subscribe(self, sink: CommandSink, reader: CommandReader, spec: EnvironmentSpec) -> None:
        places = [spec.actions.names.index(name) for name in sink.names]
        take = partial(self._take, sink.topic, reader, places)
        self._node.create_subscription(reader.message_type, sink.topic, take, COMMAND_QOS)

    def _take(self, topic: str, reader: CommandReader, places: list[int], message: Any) -> None:
        try:
            values = reader.read(message)
        except SensorError as error:
            self._node.get_logger().error(f"command ignored: {error}", throttle_duration_sec=1.0)
            return
        self._before_command()
        self.targets[places] = values
        self._unheard -= {topic}
        self._after_command()


def _check_actions(contract: Contract, spec: EnvironmentSpec) -> None:
    actions = contract.actions
    if set(actions.kinds) != {spec.actions.kind}:
        found = " and ".join(dict.fromkeys(actions.kinds))
        raise EnvError(f"{spec.name}: takes {spec.actions.kind} actions, the contract has {found}")
    if set(actions.names) != set(spec.actions.names):
        found, expected = ", ".join(actions.names), ", ".join(spec.actions.names)
        raise EnvError(f"{spec.name}: takes the actions {expected}; the contract has {found}")
