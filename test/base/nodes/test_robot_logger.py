# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Log lines name robot and session, and rclpy still knows who wrote them."""

from __future__ import annotations

import pytest
from rclpy.logging import get_logger
from rclpy.node import Node

from remote_inference.base.nodes.robot_logger import about, calm

LOG = about(get_logger("arm"), "/robot_1", "5f0c")


def written(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return capfd.readouterr().err.splitlines()


def test_each_line_of_a_text_names_robot_and_session(capfd: pytest.CaptureFixture[str]) -> None:
    LOG.info("first\nsecond")
    first, second = written(capfd)
    assert first.endswith("[arm]: [robot=/robot_1 session_id=5f0c] first")
    assert second == "[robot=/robot_1 session_id=5f0c] second"


def test_what_others_say_does_nothing_to_who_reads_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    LOG.warning("offer of \x1b[2Jrobot_1")
    (line,) = written(capfd)
    assert line.endswith(r"offer of \x1b[2Jrobot_1")


def test_without_a_session_there_is_no_id_of_one(capfd: pytest.CaptureFixture[str]) -> None:
    about(LOG, "/robot_2").info("waiting")
    (line,) = written(capfd)
    assert line.endswith("[arm]: [robot=/robot_2] waiting")


def test_each_place_has_a_severity_and_a_throttle_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    """The logger tells places apart by file and line: all of them would be the adapter's own."""
    for number in range(3):
        LOG.info(f"info {number}")
        LOG.warning(f"early {number}", throttle_duration_sec=60.0)
        LOG.error(f"late {number}", throttle_duration_sec=60.0)
    assert [line.rpartition("] ")[2] for line in written(capfd)] == [
        "info 0",
        "early 0",
        "late 0",
        "info 1",
        "info 2",
    ]


def test_parts_of_a_node_write_what_repeats_once_whatever_its_numbers_and_severity(
    node: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    for silent_s in range(3):
        calm(node).warning(f"camera: nothing new for {silent_s} s")
    calm(node).error("camera: gone")
    calm(node).info("camera: back")
    lines = [line.rpartition("]: ")[2] for line in written(capfd)]
    assert lines == ["camera: nothing new for 0 s", "camera: gone", "camera: back"]
