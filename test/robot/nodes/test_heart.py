# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot's node makes of the watchdogs that it hears, by their messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from remote_inference.msg import WatchdogState
from remote_inference.robot.nodes.actuation import Heart
from remote_inference.robot.watchdog import Heartbeat


class Listener:
    """Stands for a node: keeps the callback of its subscription."""

    take: Callable[[WatchdogState], None]

    def get_logger(self) -> None:
        pass

    def create_publisher(self, *_: Any) -> None:
        pass

    def create_subscription(self, _kind: type, _topic: str, callback: Any, _qos: Any) -> None:
        self.take = callback


@pytest.fixture
def pauses() -> list[str]:
    return []


@pytest.fixture
def listener(pauses: list[str]) -> Listener:
    made = Listener()
    Heart(made, Heartbeat(1 / 30, 0.2), pauses.append)  # type: ignore[arg-type]
    return made


def test_the_first_stop_of_a_second_watchdog_pauses_as_that_of_the_first_did(
    listener: Listener, pauses: list[str]
) -> None:
    for instance in (1, 2):
        state = WatchdogState(instance=instance, state=WatchdogState.TRIPPED, trips=1, cause=f"of {instance}")
        listener.take(state)
        listener.take(state)  # each is repeated twice a second
    stopped = "the command watchdog has stopped the controllers"
    assert pauses == [f"{stopped}: of 1", f"{stopped}: of 2"]


def test_a_watchdog_that_is_armed_again_pauses_by_its_stop_and_not_by_what_it_does_now(
    listener: Listener, pauses: list[str]
) -> None:
    """The word of its stop was lost, or waited behind a newer one."""
    for state, trips, cause in [
        (WatchdogState.ARMED, 0, "a robot node commands"),
        (WatchdogState.ARMED, 1, "a robot node commands"),
    ]:
        listener.take(WatchdogState(instance=1, state=state, trips=trips, cause=cause))
    assert pauses == ["the command watchdog has stopped the controllers"]
