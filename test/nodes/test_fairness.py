# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Many robots that ask all the time on one server: none starves and none loses its session."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet import SERVER, FleetRobot
from rig import Rig, write_manifest

from remote_inference.msg import ActionChunk
from remote_inference.srv import GetStatus

ROBOTS = 16
ANSWERS = 30  # that the slowest robot gets


@pytest.mark.parametrize("scheduler", ["round_robin", "micro_batch"])
def test_robots_that_ask_all_the_time_are_served_alike(rig: Rig, tmp_path: Path, scheduler: str) -> None:
    rig.start_server(write_manifest(tmp_path, max_sessions=ROBOTS, scheduler=scheduler))
    fleet = [FleetRobot(rig, f"/robot_{index}") for index in range(ROBOTS)]
    for robot in fleet:
        robot.ask_all_the_time()
    rig.wait_for(lambda: all(len(robot.chunks) >= ANSWERS for robot in fleet), f"{ANSWERS} answers for each")
    answers = [len(robot.chunks) for robot in fleet]
    for robot in fleet:
        robot.rest()
    # The first ones began while the last ones were still silent: a few answers more are theirs.
    assert max(answers) <= 1.5 * ANSWERS, answers
    assert {chunk.status for robot in fleet for chunk in robot.chunks} == {ActionChunk.OK}
    sessions = rig.call(GetStatus, f"{SERVER}/get_status").status.sessions
    assert sorted(sessions) == sorted(robot.session.session_id for robot in fleet)
