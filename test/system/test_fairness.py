# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Many robots that ask all the time on one server: none starves and none loses its session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remote_inference.msg import ActionChunk
from remote_inference.srv import GetStatus
from support.nodes.fleet import SERVER, FleetRobot
from support.nodes.rig import Rig, write_manifest

ROBOTS = 16
ANSWERS = 30  # number that the slowest robot gets


REPLICAS = {"backend": "hold", "path": "model", "replicas": ["cpu", "cpu"]}


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param({"scheduler": "round_robin"}, id="round_robin"),
        pytest.param({"scheduler": "micro_batch"}, id="micro_batch"),
        pytest.param({"scheduler": "micro_batch", "model": REPLICAS}, id="replicas"),
    ],
)
def test_robots_that_ask_all_the_time_are_served_alike(
    rig: Rig, tmp_path: Path, manifest: dict[str, Any]
) -> None:
    rig.start_server(write_manifest(tmp_path, max_sessions=ROBOTS, **manifest))
    fleet = [FleetRobot(rig, f"/robot_{index}") for index in range(ROBOTS)]
    for robot in fleet:
        robot.ask_all_the_time()
    # The first robots begin while the last ones are still silent.
    rig.wait_for(lambda: all(robot.chunks for robot in fleet), "an answer for each")
    before = [len(robot.chunks) for robot in fleet]

    def answers() -> list[int]:
        return [len(robot.chunks) - count for robot, count in zip(fleet, before, strict=True)]

    rig.wait_for(lambda: min(answers()) >= ANSWERS, f"{ANSWERS} answers for each")
    counted = answers()
    for robot in fleet:
        robot.rest()
    # A request that just misses its turn or batch waits for the next one: every other robot passes it once.
    # Turns go by measured costs: on a busy machine, a request that is interrupted costs several.
    assert max(counted) <= 3 * (ANSWERS + 1), counted
    assert {chunk.status for robot in fleet for chunk in robot.chunks} == {ActionChunk.OK}
    sessions = rig.call(GetStatus, f"{SERVER}/get_status").status.sessions
    assert sorted(sessions) == sorted(robot.session.session_id for robot in fleet)
