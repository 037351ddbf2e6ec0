# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server that nobody uses frees its device, and loads its policy again for the next robot that fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState

from remote_inference.srv import GetStatus
from support.nodes.health_port import ask
from support.nodes.rig import JOINTS, Rig, write_contract, write_manifest

SERVER = "/policy_server"
RELEASED, LOADED = "the policy is released", "loaded the policy again in"


class Idle:
    """A server that is idle for a second before it releases its policy."""

    def __init__(self, rig: Rig, folder: Path, port: int) -> None:
        self.rig, self.folder = rig, folder
        rig.start_server(write_manifest(folder, idle_release_s=1.0, health_port=port))
        self.wait_for(RELEASED)

    @property
    def log(self) -> str:
        return (self.folder / "logs" / "policy_server.log").read_text()

    @property
    def status(self) -> Any:
        return self.rig.call(GetStatus, f"{SERVER}/get_status").status

    def wait_for(self, text: str, count: int = 1) -> None:
        self.rig.wait_for(lambda: self.log.count(text) >= count, text)

    def change_state(self, transition: int) -> bool:
        request = Transition(id=transition)
        return self.rig.call(ChangeState, f"{SERVER}/change_state", transition=request).success


@pytest.fixture
def idle(rig: Rig, tmp_path: Path, port: int) -> Idle:
    return Idle(rig, tmp_path, port)


def test_the_next_robot_has_a_released_policy_loaded_and_is_served(idle: Idle, port: int) -> None:
    status = idle.status
    assert (status.accepting, status.policy_name, status.lifecycle_state) == (True, "hold", "active")
    assert ask(port, "/readyz")[0] == 200
    stranger = idle.rig.open_session(SERVER, joints=tuple(reversed(JOINTS)))
    assert stranger.rejection == "actions"
    idle.rig.start_robot(write_contract(idle.folder))
    idle.rig.wait_for_state("STREAMING")
    assert idle.log.count(LOADED) == 1, "a robot that does not fit has nothing loaded"
    assert not any(state.state_name == "DEAD" for state in idle.rig.states)
    loaded = idle.log.count(RELEASED)
    seen = idle.rig.states[-1].chunks_merged
    idle.rig.wait_for(lambda: idle.rig.states[-1].chunks_merged > seen + 5, "more than a second of chunks")
    assert idle.log.count(RELEASED) == loaded, "a server with a session is not idle"
    idle.rig.robot.terminate()
    idle.wait_for(RELEASED, loaded + 1)


def test_a_policy_that_cannot_be_loaded_again_is_tried_for_each_robot_that_asks(idle: Idle) -> None:
    (idle.folder / "model").rename(idle.folder / "away")
    idle.rig.start_robot(write_contract(idle.folder), reconnect_max_backoff_s=0.5)
    idle.wait_for("cannot load the policy again: model.path: found nothing at", 2)
    (idle.folder / "away").rename(idle.folder / "model")
    idle.rig.wait_for_state("STREAMING")


def test_the_lifecycle_of_a_server_goes_on_while_its_policy_is_released(idle: Idle) -> None:
    assert idle.change_state(Transition.TRANSITION_DEACTIVATE)
    assert not idle.status.accepting
    assert idle.rig.open_session(SERVER).rejection == "draining"
    assert idle.change_state(Transition.TRANSITION_ACTIVATE)
    asked = idle.rig.open_session(SERVER)
    assert (asked.accepted, asked.rejection) == (False, "loading")
    idle.wait_for(LOADED)
    assert idle.rig.open_session(SERVER).accepted
    assert idle.change_state(Transition.TRANSITION_DEACTIVATE)
    assert idle.change_state(Transition.TRANSITION_CLEANUP)
    assert idle.status.policy_name == ""
