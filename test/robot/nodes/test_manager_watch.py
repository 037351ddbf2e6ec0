# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is known of a controller's activity: by its manager's answers and news, and never for ever."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rclpy.task import Future

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.nodes import controllers
from remote_inference.robot.nodes.controllers import (
    LIST_TYPE,
    MANAGER_TIMEOUT_S,
    PACKAGE,
    POLL_BESIDE_ACTIVITY_S,
    POLL_S,
    STALE_S,
    ManagerWatch,
)
from support.builders import contract_document

ARM = "/robot/arm"
STEP_S = 0.1


class ListControllers:
    """Stands for the service of ros2_control."""

    Request = SimpleNamespace


@dataclass
class Manager:
    """A controller manager, and the client that asks it."""

    states: dict[str, str] = field(default_factory=lambda: {"arm": "active"})
    answers: bool = True
    asked: int = 0
    pending: list[Future] = field(default_factory=list)
    tell: Callable[[Any], None] | None = None  # what takes its activity

    def service_is_ready(self) -> bool:
        return True

    def call_async(self, _: Any) -> Future:
        self.asked += 1
        self.pending.append(Future())
        return self.pending[-1]

    def remove_pending_request(self, future: Future) -> None:
        self.pending.remove(future)

    def answer(self) -> None:
        said = [SimpleNamespace(name=name, state=state) for name, state in self.states.items()]
        while self.answers and self.pending:
            self.pending.pop().set_result(SimpleNamespace(controller=said))

    def publish(self) -> None:
        said = [
            SimpleNamespace(name=name, state=SimpleNamespace(label=state))
            for name, state in self.states.items()
        ]
        assert self.tell is not None
        self.tell(SimpleNamespace(controllers=said))


class Graph:
    """Stands for a node that sees controller managers, and for time."""

    def __init__(self, *names: str) -> None:
        self.managers = {name: Manager() for name in names}
        self.now_s = 100.0

    def get_service_names_and_types(self) -> list[tuple[str, list[str]]]:
        return [(f"{name}/list_controllers", [LIST_TYPE]) for name in self.managers]

    def create_client(self, kind: Any, name: str) -> Manager:
        assert kind is ListControllers
        return self.managers[name.removesuffix("/list_controllers")]

    def create_subscription(self, _: Any, topic: str, take: Callable[[Any], None], __: Any) -> None:
        self.managers[topic.removesuffix("/activity")].tell = take

    def run(self, watch: ManagerWatch, time_s: float) -> None:
        for _ in range(round(time_s / STEP_S)):
            self.now_s += STEP_S
            watch.poll()
            for manager in self.managers.values():
                manager.answer()


@pytest.fixture(autouse=True)
def messages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Install the package; return its messages, without that of the activity."""
    services, messages = ModuleType(f"{PACKAGE}.srv"), ModuleType(f"{PACKAGE}.msg")
    services.ListControllers = ListControllers  # type: ignore[attr-defined]
    for module in (ModuleType(PACKAGE), services, messages):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return messages


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[ManagerWatch, Graph]]:
    def start(*names: str, **more: Any) -> tuple[ManagerWatch, Graph]:
        graph = Graph(*names)
        clock = SimpleNamespace(monotonic=lambda: graph.now_s)
        monkeypatch.setattr(controllers, "time", clock)
        contract = parse_document(contract_document("position") | more, Contract, "f")
        return ManagerWatch(graph, contract, "/robot"), graph  # type: ignore[arg-type]

    return start


def test_managers_are_found_before_there_is_a_contract(start: Callable[..., tuple[ManagerWatch, Graph]]):
    _, graph = start("/robot/controller_manager")
    watch = ManagerWatch(graph, None, "/robot")  # type: ignore[arg-type]
    assert not watch.is_answered
    graph.managers["/robot/controller_manager"].states["arm"] = "inactive"
    graph.run(watch, STEP_S)
    assert watch.is_answered
    assert watch.find_inactive(ARM) == "inactive"


Start = Callable[..., tuple[ManagerWatch, Graph]]


@pytest.mark.parametrize("state", ["inactive", "unconfigured", "finalized"])
def test_a_controller_that_is_deactivated_and_activated_is_known_for_it(start: Start, state: str) -> None:
    watch, graph = start("/robot/controller_manager")
    assert watch.find_inactive(ARM) == ""
    for said, found in (("active", ""), (state, state), ("active", "")):
        graph.managers["/robot/controller_manager"].states["arm"] = said
        graph.run(watch, 2 * POLL_S)
        assert watch.find_inactive(ARM) == found
    assert watch.find_inactive("/robot/other") == "", "none that the manager does not know"
    assert watch.find_inactive("/arm") == "", "nor one of another namespace"


def test_managers_of_the_robot_and_of_the_root_are_asked_for_their_own_controllers(start: Start) -> None:
    watch, graph = start("/controller_manager", "/robot/manager", "/other/controller_manager")
    graph.managers["/controller_manager"].states["arm"] = "inactive"
    graph.run(watch, 2 * POLL_S)
    assert watch.find_inactive("/arm") == "inactive"
    assert watch.find_inactive(ARM) == ""
    assert not graph.managers["/other/controller_manager"].asked


def test_the_contract_s_manager_is_the_only_one_that_is_asked(start: Start) -> None:
    switch = {"controller_manager": "/cell/manager", "activate": ["hold"]}
    watch, graph = start("/robot/controller_manager", "/cell/manager", watchdog_switch=switch)
    graph.managers["/cell/manager"].states["arm"] = "inactive"
    graph.run(watch, 2 * POLL_S)
    assert watch.find_inactive("/cell/arm") == "inactive"
    assert not graph.managers["/robot/controller_manager"].asked


def test_an_answer_is_not_trusted_for_ever(start: Start) -> None:
    watch, graph = start("/robot/controller_manager")
    manager = graph.managers["/robot/controller_manager"]
    manager.states["arm"] = "inactive"
    graph.run(watch, 2 * POLL_S)
    manager.answers = False
    graph.run(watch, STALE_S + 2 * STEP_S)
    assert watch.find_inactive(ARM) == "", "nothing is known"
    assert len(manager.pending) == 1, "the others were given up"
    manager.answers = True
    graph.run(watch, MANAGER_TIMEOUT_S + POLL_S)
    assert watch.find_inactive(ARM) == "inactive"


def test_a_manager_is_asked_twice_a_second_and_less_beside_its_news(
    start: Start, messages: ModuleType
) -> None:
    messages.ControllerManagerActivity = object  # type: ignore[attr-defined]
    watch, graph = start("/robot/controller_manager")
    manager = graph.managers["/robot/controller_manager"]
    graph.run(watch, 10 * POLL_S)
    assert 5 <= manager.asked <= 10
    manager.states["arm"] = "inactive"
    manager.publish()
    assert watch.find_inactive(ARM) == "inactive", "at once"
    before = manager.asked
    graph.run(watch, 5 * POLL_BESIDE_ACTIVITY_S)
    assert 4 <= manager.asked - before <= 6
    assert watch.find_inactive(ARM) == "inactive", "known on"


def test_an_answer_to_an_older_question_does_not_replace_news(start: Start, messages: ModuleType) -> None:
    messages.ControllerManagerActivity = object  # type: ignore[attr-defined]
    watch, graph = start("/robot/controller_manager")
    manager = graph.managers["/robot/controller_manager"]
    watch.poll()
    (question,) = manager.pending
    manager.states["arm"] = "inactive"
    manager.publish()
    assert question.cancelled()
    assert watch.find_inactive(ARM) == "inactive"


def test_without_the_manager_s_messages_nothing_is_known(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.srv", None)
    watch, graph = start("/robot/controller_manager")
    graph.run(watch, 2.0)
    assert watch.find_inactive(ARM) == ""
    assert watch.is_answered, "nobody waits for it"
