# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What an operator's services answer once the robot has given up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rig import write_contract
from std_srvs.srv import Trigger

from remote_inference.core.contract import load_contract
from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.robot.engine import Engine
from remote_inference.core.robot.state_machine import Event
from remote_inference.nodes.later_service import LaterAnswer
from remote_inference.nodes.robot.operator_services import OperatorServices
from remote_inference.srv import StartEpisode


class Services:
    """Stands for a node: keeps each service's callback, and carries out its work at once."""

    def __init__(self, engine: Engine) -> None:
        self.callbacks: dict[str, Callable[..., Any]] = {}
        OperatorServices(self, engine, lambda work: work())  # type: ignore[arg-type]

    def create_service(
        self, _kind: type, name: str, callback: Callable[..., Any], **_: Any
    ) -> SimpleNamespace:
        self.callbacks[name.removeprefix("~/")] = callback
        return SimpleNamespace(send_response=None)

    def call(self, name: str) -> Any:
        kind = StartEpisode if name == "start_episode" else Trigger
        answer = self.callbacks[name](kind.Request(), kind.Response())
        if not isinstance(answer, LaterAnswer):
            return answer
        given: list[Any] = []
        answer.bind(given.append)
        return given[0]


@pytest.fixture
def dead(tmp_path: Path) -> Services:
    takeover = {"topic": "teleop", "type": "sensor_msgs/msg/JointState"}
    contract = load_contract(write_contract(tmp_path, takeover=takeover))
    engine = Engine(contract, RobotConfig(), "/rig/remote_inference", "/rig")
    engine._die(Event.CONTRACT_VIOLATED, "another policy")
    return Services(engine)


def test_a_robot_that_gave_up_refuses_every_command_but_pause(dead: Services) -> None:
    answers = {name: dead.call(name) for name in dead.callbacks}
    accepted = {name for name, answer in answers.items() if answer.success}
    assert accepted == {"pause"}
    assert {answers[name].message for name in answers.keys() - accepted} == {"stopped: another policy"}
    assert len(answers) == 7
