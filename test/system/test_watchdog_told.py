# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A stop by the command watchdog as it is explained afterwards: `explain` and `replay --decisions`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from remote_inference.bags.decisions.replay import replay_decisions
from remote_inference.tools import cli
from remote_inference.tools.deployment import bringup
from support.faults.watched_arm import WatchedArm

CAUSE = "the robot node's control thread has been silent for"


@pytest.fixture(params=["trajectory", "velocity"])
def arm(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WatchedArm]:
    made = WatchedArm(tmp_path, request.param)
    yield made
    made.close()


def test_its_stops_are_told_with_their_cause_and_no_difference(
    arm: WatchedArm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = tmp_path / "bag"
    arm.group.start(
        bringup.recorder(bag, arm.write_contract(), namespace=arm.namespace, recorded_by="bag_recorder")
    )
    arm.start()
    arm.stick_control()
    arm.wait_for_watchdog("TRIPPED")
    arm.free_control()
    arm.wait_for_watchdog("RETURNED")
    arm.wait_for(lambda: arm.states[-1].paused, "the pause")
    arm.wait_for_executed(10)
    arm.group.stop()
    report = replay_decisions(bag, None, {})
    assert (report.first, report.problems) == (None, [])
    assert report.compared["commands"] > 10
    assert report.watchdog_stops > 0
    assert cli.main(["explain", str(bag), "--out", str(tmp_path / "run.png")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The command watchdog stopped the controllers at" in said
    assert CAUSE in said
