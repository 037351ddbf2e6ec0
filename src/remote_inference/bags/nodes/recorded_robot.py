# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the recorder reads of the robot that it records: its parameters, and its server's policy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.client import Client
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.task import Future

from remote_inference.bags.storage.bag_records import NODE, POLICY, SERVER_STATUS, policy_of
from remote_inference.base.nodes.executors import as_task
from remote_inference.base.wire.arrays import WireError, read_message
from remote_inference.msg import ServerStatus

ANSWER_TIMEOUT_S = 5.0  # then the node is asked again: a request to a node that dies is never answered

AddRecord = Callable[[str, dict[str, str], str], bool]  # name, values, what it is kept for; False: try again


class RecordedRobot:
    """Writes a record when the robot's node has answered, and when a server's policy has changed."""

    def __init__(self, node: Node, robot: str, add_record: AddRecord) -> None:
        """robot: full name of its node; empty: nobody is asked."""
        self._robot = robot
        self._add_record = add_record
        self._node = node
        self._names, self._values = (
            node.create_client(kind, f"{robot}/{service}") if robot else None
            for service, kind in (("list_parameters", ListParameters), ("get_parameters", GetParameters))
        )
        self._pending: tuple[Client, Future] | None = None
        self._asked_s: float | None = None
        self._is_known = False
        self._policies: dict[str, dict[str, str]] = {}
        self._unreadable: set[str] = set()  # topics
        self._logger = node.get_logger()

    def poll(self) -> None:
        """Ask the node for its parameters when it has come up, again each time."""
        if self._names is None or self._values is None:
            return
        if not (self._names.service_is_ready() and self._values.service_is_ready()):
            self._asked_s, self._is_known = None, False
            return
        is_overdue = self._asked_s is None or time.monotonic() - self._asked_s > ANSWER_TIMEOUT_S
        if not self._is_known and is_overdue:
            self._asked_s = time.monotonic()
            self._call(self._names, ListParameters.Request(), self._on_names)

    def _call(self, client: Client, request: Any, on_answer: Callable[[Any], None]) -> None:
        """Call a service; cancel the call before it, which will not be answered any more."""
        if self._pending is not None:
            asked, question = self._pending
            asked.remove_pending_request(question)
            question.cancel()

        def finish(future: Future) -> None:
            if not future.cancelled() and (answer := future.result()) is not None:
                self._pending = None
                on_answer(answer)

        future = client.call_async(request)
        self._pending = client, future
        future.add_done_callback(as_task(self._node, finish))

    def _on_names(self, answer: ListParameters.Response) -> None:
        assert self._values is not None
        names = list(answer.result.names)
        self._call(self._values, GetParameters.Request(names=names), partial(self._on_values, names))

    def _on_values(self, names: list[str], answer: GetParameters.Response) -> None:
        if len(answer.values) != len(names):  # one is not declared any more
            return
        values = zip(names, answer.values, strict=True)
        parameters = {name: _plain(parameter_value_to_python(value)) for name, value in values}
        record = {"node": self._robot, "parameters": json.dumps(parameters, sort_keys=True)}
        self._is_known = self._add_record(NODE, record, self._robot)

    def read_status(self, topic: str, msgtype: str, cdr: bytes) -> None:
        """Read the policy from a recorded message if it is a server's status."""
        if msgtype != SERVER_STATUS:
            return
        try:
            status = read_message(cdr, ServerStatus, topic)
        except WireError as error:  # of another release; the bag has it as it came
            if topic not in self._unreadable:
                self._unreadable.add(topic)
                self._logger.warning(f"{error}: its server's policy is not known")
            return
        policy = policy_of(status)
        is_loaded = bool(status.policy_name)
        if is_loaded and self._policies.get(topic) != policy and self._add_record(POLICY, policy, topic):
            self._policies[topic] = policy


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | bool | int | float | None) else list(value)
