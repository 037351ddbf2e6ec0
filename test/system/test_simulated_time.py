# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot in a simulation: its messages carry simulated time, and real time rules its deadlines."""

from __future__ import annotations

from pathlib import Path

from builtin_interfaces.msg import Time
from rosgraph_msgs.msg import Clock

from support.nodes.rig import Rig, write_contract, write_manifest

SIMULATED_S = 1000  # the simulation stands still: nothing of the robot's may depend on its progress


def test_a_robot_in_a_simulation_stamps_with_simulated_time(rig: Rig, tmp_path: Path) -> None:
    clock = rig.node.create_publisher(Clock, "/clock", 1)
    rig.node.create_timer(0.02, lambda: clock.publish(Clock(clock=Time(sec=SIMULATED_S))))
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path), use_sim_time=True)
    rig.wait_for_state("STREAMING")
    rig.wait_for_commands(30)
    for messages in (rig.executed, rig.states):
        rig.wait_for(lambda of=messages: of[-1].header.stamp.sec == SIMULATED_S, "simulated time in a stamp")
