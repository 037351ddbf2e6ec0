# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A sensor whose publisher is gone from the graph: it is named, and ends a node that froze."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from remote_inference.base.nodes.runtime import EXIT_NO_MIDDLEWARE
from support.nodes.rig import DEADLINE_S, Rig, write_contract, write_manifest

LOST = ["camera/image_raw: /camera"]


def start(rig: Rig, folder: Path) -> None:
    rig.move_camera(rig.add_node("camera"))
    rig.start_server(write_manifest(folder))
    rig.start_robot(write_contract(folder), max_offline_s=1.0)
    rig.wait_for_state("STREAMING")


def test_a_publisher_that_has_ended_is_named_and_ends_nothing(rig: Rig, tmp_path: Path) -> None:
    start(rig, tmp_path)
    rig.move_camera(None)
    rig.wait_for(lambda: list(rig.states[-1].lost_publishers) == LOST, "the lost publisher named")
    count = len(rig.states)
    rig.wait_for(lambda: len(rig.states) > count + 6, "states of more than max_offline_s")
    assert rig.robot.poll() is None
    rig.move_camera(rig.add_node("other_camera"))
    rig.wait_for(lambda: not rig.states[-1].stale_sources, "the camera")
    rig.wait_for(lambda: not rig.states[-1].lost_publishers, "nothing lost")
    rig.wait_for_state("STREAMING")


def test_a_node_that_froze_and_lost_a_publisher_thereupon_ends_to_be_started_anew(
    rig: Rig, tmp_path: Path
) -> None:
    start(rig, tmp_path)
    rig.robot.send_signal(signal.SIGSTOP)
    rig.move_camera(None)  # to the frozen node it is as if the link had gone
    time.sleep(2.0)  # the freeze
    rig.robot.send_signal(signal.SIGCONT)
    assert rig.robot.wait(DEADLINE_S) == EXIT_NO_MIDDLEWARE
    assert list(rig.states[-1].lost_publishers) == LOST
