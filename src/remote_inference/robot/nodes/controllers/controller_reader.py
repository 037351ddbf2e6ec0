# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Asks the node of a controller for what its parameters say of the commands that it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.task import Future

from remote_inference.base.contract.commands.controller_facts import (
    INTERPOLATE,
    PARAMETERS,
    ControllerFacts,
    facts_of,
    find_mismatch,
    starts_at_measured_position,
)
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.nodes.executors import as_task

# -- A service that is asked again and again, of which one answer at a time is awaited -------------------


class OneCall:
    """The client of a service that only reads. For the executor's thread, which it never blocks."""

    def __init__(self, node: Node, kind: Any, name: str, timeout_s: float) -> None:
        """timeout_s: until an answer is given up: a request to a node that dies is never answered."""
        self._node = node
        self._client = node.create_client(kind, name)
        self._timeout_s = timeout_s
        self._pending: Future | None = None
        self._end_s = 0.0  # of the wait for it

    def ask(self, request: Any, take: Callable[[Any], None]) -> None:
        """Call the service if it is there and no answer is awaited; `take` gets the answer if one comes."""
        if self._pending is not None and time.monotonic() < self._end_s:
            return
        self.give_up()
        if self._client.service_is_ready():
            self._end_s = time.monotonic() + self._timeout_s
            self._pending = self._client.call_async(request)
            self._pending.add_done_callback(as_task(self._node, partial(self._finish, take)))

    def give_up(self) -> None:
        """Drop the answer to the last call."""
        if self._pending is not None:
            self._client.remove_pending_request(self._pending)
            self._pending.cancel()
            self._pending = None

    def _finish(self, take: Callable[[Any], None], future: Future) -> None:
        if future is not self._pending:  # given up in the callback round in which it came
            return
        self._pending = None
        if (answer := future.result()) is not None:
            take(answer)


ANSWER_TIMEOUT_S = 0.5  # then it is asked again: a node that was just discovered may answer nobody


class ControllerReader:
    """Reads the parameters of one controller until it has answered. For the executor's thread."""

    def __init__(self, node: Node, controller: str) -> None:
        """Ask nothing before `poll`. controller: full name of its node."""
        self._controller = controller
        self._names = OneCall(node, ListParameters, f"{controller}/list_parameters", ANSWER_TIMEOUT_S)
        self._values = OneCall(node, GetParameters, f"{controller}/get_parameters", ANSWER_TIMEOUT_S)
        self._known: list[str] | None = None  # of PARAMETERS, those that it has
        self.facts: ControllerFacts | None = None
        """What it said last; None until it has answered."""
        self._is_read = False

    def begin_anew(self) -> None:
        """Read it again: it may have been loaded with others since."""
        self._known, self._is_read = None, False

    def poll(self) -> None:
        """Ask for what is not known yet."""
        if self._is_read:
            return
        if self._known is None:  # rclcpp answers nothing at all where one was not declared
            self._names.ask(ListParameters.Request(), self._take_names)
        else:
            self._values.ask(GetParameters.Request(names=self._known), self._take_values)

    def _take_names(self, answer: ListParameters.Response) -> None:
        self._known = [name for name in answer.result.names if name in PARAMETERS]
        if self._known:
            self.poll()
        else:
            self._end({})

    def _take_values(self, answer: GetParameters.Response) -> None:
        if self._known is not None and len(answer.values) == len(self._known):
            values = zip(self._known, map(parameter_value_to_python, answer.values), strict=True)
            self._end(dict(values))

    def _end(self, values: dict[str, object]) -> None:
        self.facts, self._is_read = facts_of(self._controller, values), True


# -- Compares the contract with the parameters of the robot's controllers, while they come and go -------

CHECK_PERIOD_S = 0.1


class ControllerCheck:
    """Reads the parameters of the only controller of each command. For the executor's thread."""

    def __init__(
        self,
        node: Node,
        contract: Contract,
        takers: Callable[[], Mapping[str, Mapping[bytes, str]]],
        report: Callable[[str], None],
    ) -> None:
        """takers: as of ControllerWatch.

        report: called with what a controller would do otherwise than the contract means, in words, when that
        has changed; with "" when none does any more.
        """
        self._node = node
        self._contract = contract
        self._takers = takers
        self._report = report
        self._reported = ""
        self._readers: dict[str, ControllerReader] = {}  # by the full name of the controller
        self._subscriptions: dict[
            str, Mapping[bytes, str]
        ] = {}  # those whose controllers were asked, by topic
        self._judged: dict[str, ControllerFacts] = {}  # by topic

    def poll(self) -> None:
        """Ask the controllers that are new, and judge what they have said."""
        problems = [self._check(sink) for sink in self._contract.topic_commands]
        problem = next(filter(None, problems), "")
        if problem != self._reported:
            self._reported = problem
            self._report(problem)

    def _check(self, sink: CommandSink) -> str:
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
            if starts_at_measured_position(sink, facts):
                self._node.get_logger().warning(
                    f"controller {facts.node} begins each trajectory where its joints are measured: its "
                    f"setpoint falls back in each tick, and the arm is led faster than its limits; expected "
                    f"{INTERPOLATE}"
                )
        mismatch = find_mismatch(sink, self._contract.kind_of(sink), facts)
        if mismatch is None:
            return ""
        return f"controller {facts.node} {mismatch.found}; expected {mismatch.expected}: {mismatch.advice}"
