# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares the contract with what the robot's controllers say of themselves, while they come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rclpy.node import Node

from remote_inference.core.contract.commands.controller_facts import (
    INTERPOLATE,
    ControllerFacts,
    begins_where_measured,
    find_mismatch,
)
from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.core.contract.contract import Contract
from remote_inference.nodes.controllers.controller_reader import ControllerReader

CHECK_PERIOD_S = 0.1


class ControllerCheck:
    """Reads the parameters of the only controller of each command. For the executor's thread."""

    def __init__(
        self,
        node: Node,
        contract: Contract,
        takers: Callable[[], Mapping[str, Mapping[bytes, str]]],
        tell: Callable[[str], None],
    ) -> None:
        """takers: as of ControllerWatch.

        tell: called with what a controller would do otherwise than the contract means, in words, when that
        has changed; with "" when none does any more.
        """
        self._node = node
        self._contract = contract
        self._takers = takers
        self._tell = tell
        self._told = ""
        self._readers: dict[str, ControllerReader] = {}  # by the full name of the controller
        self._subscriptions: dict[
            str, Mapping[bytes, str]
        ] = {}  # those whose controllers were asked, by topic
        self._judged: dict[str, ControllerFacts] = {}  # by topic

    def poll(self) -> None:
        """Ask the controllers that are new, and judge what they have said."""
        problems = [self._look(sink) for sink in self._contract.topic_commands]
        problem = next(filter(None, problems), "")
        if problem != self._told:
            self._told = problem
            self._tell(problem)

    def _look(self, sink: CommandSink) -> str:
        takers = self._takers().get(sink.topic, {})
        nodes = set(takers.values())
        if len(nodes) != 1:
            self._subscriptions.pop(sink.topic, None)
            return ""
        (node,) = nodes
        if node not in self._readers:
            self._readers[node] = ControllerReader(self._node, node)
        reader = self._readers[node]
        if takers.keys() - self._subscriptions.get(sink.topic, {}).keys():
            reader.begin_anew()
        self._subscriptions[sink.topic] = takers
        reader.poll()
        return self._judge(sink, reader.facts) if reader.facts else ""

    def _judge(self, sink: CommandSink, facts: ControllerFacts) -> str:
        if facts is not self._judged.get(sink.topic):
            self._judged[sink.topic] = facts
            if begins_where_measured(sink, facts):
                self._node.get_logger().warning(
                    f"controller {facts.node} begins each trajectory where its joints are measured: its "
                    f"setpoint falls back in each tick, and the arm is led faster than its limits; expected "
                    f"{INTERPOLATE}"
                )
        mismatch = find_mismatch(sink, self._contract.kind_of(sink), facts)
        if mismatch is None:
            return ""
        return f"controller {facts.node} {mismatch.found}; expected {mismatch.expected}: {mismatch.advice}"
