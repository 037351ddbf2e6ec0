# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which status of a server its robot takes."""

from __future__ import annotations

from typing import Any

import pytest
from builtin_interfaces.msg import Time
from rclpy.node import Node
from std_msgs.msg import Header

from remote_inference.msg import ServerStatus
from remote_inference.robot.nodes.server_client import ServerClient

SERVER = "/policy_server"


class Engine:
    """Notes the sessions of each status that it is told of."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []
        self.loads: list[bool] = []
        self.policies: list[tuple[str, ...]] = []

    def take_server_status(
        self, *told: Any, accepting: bool, loading: bool, policy: tuple[str, ...]
    ) -> list[Any]:
        self.policies.append(policy)
        self.told.append(told[2])
        self.loads.append(loading)
        return []


def status(second: int, *sessions: str, instance_id: str = "a") -> ServerStatus:
    header = Header(stamp=Time(sec=second))
    return ServerStatus(header=header, instance_id=instance_id, sessions=list(sessions))


@pytest.mark.parametrize(
    ("later", "is_told"),
    [
        (status(99), False),  # which would end the session that the first one lists
        (status(100, "mine"), True),
        (status(101), True),
        (status(99, instance_id="restarted"), True),
        (status(10), True),  # the server's clock was set
    ],
)
def test_a_status_that_is_late_is_not_taken(node: Node, later: ServerStatus, is_told: bool) -> None:
    engine = Engine()
    client = ServerClient(node, engine, [SERVER], 1.0, lambda work: [work()].clear())  # type: ignore[arg-type]
    client._on_status(SERVER, status(100, "mine"))
    client._on_status(SERVER, later)
    assert engine.told == [("mine",)] + [tuple(later.sessions)] * is_told


def test_the_engine_is_told_that_a_server_loads(node: Node) -> None:
    engine = Engine()
    client = ServerClient(node, engine, [SERVER], 1.0, lambda work: [work()].clear())  # type: ignore[arg-type]
    for state in ("loading", "active"):
        client._on_status(SERVER, ServerStatus(instance_id="a", lifecycle_state=state))
    assert engine.loads == [True, False]


def test_the_engine_is_told_a_server_s_policy_and_tags_but_none_while_it_has_none(node: Node) -> None:
    engine = Engine()
    client = ServerClient(node, engine, [SERVER], 1.0, lambda work: [work()].clear())  # type: ignore[arg-type]
    client._on_status(SERVER, ServerStatus(instance_id="a", policy_name="placer", tags=["task=place"]))
    client._on_status(SERVER, ServerStatus(instance_id="a", tags=["task=place"]))
    assert engine.policies == [("placer", "task=place"), ()]
