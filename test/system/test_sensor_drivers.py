# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot whose joints come from two drivers on one topic stops when one of them falls silent."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

from sensor_msgs.msg import JointState

from support.nodes.rig import JOINTS, Rig, write_contract, write_manifest


def test_a_robot_stops_when_one_of_its_two_drivers_falls_silent(rig: Rig, tmp_path: Path) -> None:
    turns = cycle(JOINTS)  # a driver for each joint: they publish by turns
    silent: set[str] = set()

    def measure() -> JointState:
        name = next(turns)
        if name in silent:
            name = next(turns)
        return JointState(name=[name], position=[rig.positions[JOINTS.index(name)]])

    rig._measure = measure  # type: ignore[method-assign]
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path))
    rig.wait_for_state("STREAMING")
    streaming = len(rig.states)
    silent.add(JOINTS[0])
    rig.wait_for_state("STALLED", after=streaming)
    log = (tmp_path / "logs" / "remote_inference.log").read_text()
    assert "joint_states: nothing new for" in log
    stalled = len(rig.states)
    silent.clear()
    rig.wait_for_state("STREAMING", after=stalled)
