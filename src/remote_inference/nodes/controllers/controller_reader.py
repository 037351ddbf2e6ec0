# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Asks the node of a controller for what its parameters say of the commands that it takes."""

from __future__ import annotations

from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python

from remote_inference.core.contract.commands.controller_facts import PARAMETERS, ControllerFacts, facts_of
from remote_inference.nodes.controllers.one_call import OneCall

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
