# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which controllers of ros2_control are active, as their controller managers say.

A controller that is inactive keeps its subscription, and takes no command. The messages of the manager need
not be installed: then nothing is known of any controller.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rclpy.node import Node

from remote_inference.base.contract.contract import Contract
from remote_inference.base.exchange import in_namespace
from remote_inference.base.wire.qos import LATCHED_QOS
from remote_inference.robot.nodes.controllers.controller_reader import OneCall

PACKAGE = "controller_manager_msgs"
LIST_TYPE = f"{PACKAGE}/srv/ListControllers"
ACTIVE = "active"
POLL_S = 0.5  # between two questions to a manager that publishes no activity
POLL_BESIDE_ACTIVITY_S = 2.0
ANSWER_TIMEOUT_S = 1.0
STALE_S = 3.0  # then an answer says nothing any more
SEARCH_S = 2.0  # between two searches for managers in the graph


class ManagerWatch:
    """Asks the controller managers of a robot. Any thread may call `find_inactive`."""

    def __init__(self, node: Node, contract: Contract, namespace: str) -> None:
        """namespace: the robot's."""
        self._node = node
        self._namespace = namespace
        self._managers: dict[str, _Manager] = {}  # by full name
        self._searched_s = -SEARCH_S
        self._is_found = contract.watchdog_switch is None  # in the graph; else the contract names it
        try:
            self._kind = import_module(f"{PACKAGE}.srv").ListControllers
        except ImportError:
            self._kind = None
        if contract.watchdog_switch is not None:
            self._add(in_namespace(namespace, contract.watchdog_switch.controller_manager))

    def poll(self) -> None:
        """Ask each manager that is due, and look for others now and then. For the executor's thread."""
        now_s = time.monotonic()
        if now_s - self._searched_s >= SEARCH_S:
            self._searched_s = now_s
            for name in self._find() if self._is_found and self._kind is not None else ():
                self._add(name)
        for manager in self._managers.values():
            manager.poll(now_s)

    @property
    def is_answered(self) -> bool:
        """Whether each manager that is known has said something."""
        return self._searched_s >= 0.0 and all(manager.has_said for manager in self._managers.values())

    def find_inactive(self, controller: str) -> str:
        """Return the state of a controller that is not active; empty where it is, or nothing is known.

        controller: full name of its node.
        """
        now_s = time.monotonic()
        for manager in tuple(self._managers.values()):
            if state := manager.states(now_s).get(controller):
                return "" if state == ACTIVE else state
        return ""

    def _find(self) -> list[str]:
        """Return the full names of the managers in the robot's namespace and in the root."""
        own = self._namespace.rstrip("/")
        services = self._node.get_service_names_and_types()
        names = [name.rpartition("/")[0] for name, kinds in services if LIST_TYPE in kinds]
        return [name for name in names if name.rpartition("/")[0] in ("", own)]

    def _add(self, name: str) -> None:
        if self._kind is not None and name not in self._managers:
            self._managers[name] = _Manager(self._node, self._kind, name)


class _Manager:
    """One controller manager. Its controllers are nodes of its own namespace."""

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        self._namespace = name.rpartition("/")[0]
        self._kind = kind
        self._call = OneCall(node, kind, f"{name}/list_controllers", ANSWER_TIMEOUT_S)
        self._asked_s = -POLL_BESIDE_ACTIVITY_S
        self._period_s = POLL_S
        self._said: tuple[float, Mapping[str, str]] | None = None  # when [s], and states by full name
        activity = getattr(import_module(f"{PACKAGE}.msg"), "ControllerManagerActivity", None)
        if activity is not None:  # not in older versions
            node.create_subscription(activity, f"{name}/activity", self._take_activity, LATCHED_QOS)

    def poll(self, now_s: float) -> None:
        if now_s - self._asked_s >= self._period_s:
            self._asked_s = now_s
            self._call.ask(self._kind.Request(), self._take_answer)

    @property
    def has_said(self) -> bool:
        return self._said is not None

    def states(self, now_s: float) -> Mapping[str, str]:
        """Return the states of its controllers by full name; empty when it has not reported lately."""
        said_s, states = self._said or (0.0, {})
        return states if now_s - said_s <= STALE_S else {}

    def _take_answer(self, answer: Any) -> None:
        self._take({found.name: found.state for found in answer.controller})

    def _take_activity(self, message: Any) -> None:
        self._period_s = POLL_BESIDE_ACTIVITY_S
        self._call.give_up()  # an answer to what was asked before may be older
        self._take({found.name: found.state.label for found in message.controllers})

    def _take(self, states: Mapping[str, str]) -> None:
        named = {in_namespace(self._namespace or "/", name): state for name, state in states.items()}
        self._said = time.monotonic(), named
