# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What ros2_control's controller manager is asked after a stop, and what becomes of its answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from builtin_interfaces.msg import Duration
from rclpy.node import Node
from rclpy.task import Future

from remote_inference.base.contract.commands.sink import ControllerSwitch
from remote_inference.robot.nodes import command_watchdog
from remote_inference.robot.nodes.command_watchdog import SwitchClient
from remote_inference.robot.nodes.controllers import PACKAGE

NAME = "/manager/switch_controller"
Log = Callable[[], str]


@dataclass
class Request:
    """The fields of ros2_control's SwitchController.srv; as a generated request, it takes no others."""

    activate_controllers: list[str] = field(default_factory=list)
    deactivate_controllers: list[str] = field(default_factory=list)
    strictness: int = 0
    activate_asap: bool = False
    timeout: Duration = field(default_factory=Duration)
    BEST_EFFORT: ClassVar[int] = 1
    STRICT: ClassVar[int] = 2


@dataclass(frozen=True)
class Response:
    ok: bool


class Manager:
    """Stands for a robot's node with a client of the manager: keeps what is asked."""

    def __init__(self, node: Node) -> None:
        self.get_logger = node.get_logger
        self.is_there = True
        self.asked: list[Request] = []
        self.answers: list[Future] = []
        self.forgotten: list[Future] = []

    def create_client(self, service: Any, name: str) -> Manager:
        assert service.Request is Request
        self.name = name
        return self

    def service_is_ready(self) -> bool:
        return self.is_there

    def call_async(self, request: Request) -> Future:
        self.asked.append(request)
        self.answers.append(Future())
        return self.answers[-1]

    def remove_pending_request(self, future: Future) -> None:
        self.forgotten.append(future)


@pytest.fixture
def manager(node: Node, monkeypatch: pytest.MonkeyPatch) -> Manager:
    package, services = ModuleType(PACKAGE), ModuleType(f"{PACKAGE}.srv")
    services.SwitchController = type("SwitchController", (), {"Request": Request})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, PACKAGE, package)
    monkeypatch.setitem(sys.modules, services.__name__, services)
    return Manager(node)


@pytest.fixture
def client(manager: Manager) -> SwitchClient:
    switch = ControllerSwitch(controller_manager="/manager", deactivate=("arm", "hand"), activate=("hold",))
    return SwitchClient(manager, switch)  # type: ignore[arg-type]


@pytest.fixture
def log(capfd: pytest.CaptureFixture[str]) -> Log:
    return lambda: capfd.readouterr().err


def test_the_manager_is_asked_to_deactivate_and_activate_as_far_as_it_can(
    client: SwitchClient, manager: Manager
) -> None:
    client.ask()
    assert manager.name == NAME
    (request,) = manager.asked
    assert request == Request(
        deactivate_controllers=["arm", "hand"],
        activate_controllers=["hold"],
        strictness=Request.BEST_EFFORT,
        timeout=Duration(sec=2),
    )


def test_a_manager_of_the_robot_s_namespace_is_found_there(manager: Manager) -> None:
    SwitchClient(manager, ControllerSwitch(deactivate=("arm",)))  # type: ignore[arg-type]
    assert manager.name == "controller_manager/switch_controller"


@pytest.mark.parametrize(
    ("ok", "told"), [(True, "controllers switched"), (False, "refused, controllers not switched")]
)
def test_its_answer_is_told(client: SwitchClient, manager: Manager, log: Log, ok: bool, told: str) -> None:
    client.ask()
    manager.answers[0].set_result(Response(ok))
    assert f"{NAME}: {told}" in log()
    client.give_up_late()
    assert not manager.forgotten
    assert log() == ""


def test_a_manager_that_is_not_there_is_not_asked_and_told(
    client: SwitchClient, manager: Manager, log: Log
) -> None:
    manager.is_there = False
    client.ask()
    assert not manager.asked
    assert f"{NAME}: no such service, controllers not switched" in log()


def test_an_answer_that_does_not_come_is_given_up_once(
    client: SwitchClient, manager: Manager, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ask()
    client.give_up_late()
    assert not manager.forgotten
    late_s = time.monotonic() + command_watchdog.TIMEOUT_S
    monkeypatch.setattr(command_watchdog, "time", SimpleNamespace(monotonic=lambda: late_s))
    client.give_up_late()
    client.give_up_late()
    assert manager.forgotten == manager.answers
    assert log().count(f"{NAME}: no answer within 2 s") == 1


def test_each_of_several_calls_without_an_answer_is_given_up(
    client: SwitchClient, manager: Manager, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ask()
    client.ask()
    late_s = time.monotonic() + 10.0
    monkeypatch.setattr(command_watchdog.time, "monotonic", lambda: late_s)
    client.give_up_late()
    assert manager.forgotten == manager.answers
    assert log().count("no answer within 2 s") == 2


def test_a_late_answer_to_an_earlier_trip_gives_up_no_later_one(
    client: SwitchClient, manager: Manager, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ask()
    client.ask()
    manager.answers[0].set_result(Response(True))
    log()
    late_s = time.monotonic() + 10.0
    monkeypatch.setattr(command_watchdog.time, "monotonic", lambda: late_s)
    client.give_up_late()
    assert "no answer within 2 s" in log()
    assert manager.forgotten == [manager.answers[1]]
