# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What measured a pose, or a base's velocity, is drawn beside its commands, as a joint's position is."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped

from remote_inference.bags.timeline.timeline import Timeline
from remote_inference.bags.timeline.timeline_reader import load_timeline
from support.recording.synthetic_run import NS, TOPICS, Recording
from support.robot.pose_robot import POSE, pose_document, turned

TICKS, PERIOD_MS = 60, 50
LAG = 3  # ticks by which the arm follows


def pose_of(tick: int) -> list[float]:
    """Return the pose `[7]` that is commanded at a tick: along x, turning about z."""
    return [0.005 * tick, 0.1, 0.2, *turned(0.02 * tick)]


def write_run(path: Path) -> Path:
    """Write a run whose driver measures the other quaternion of each orientation."""
    topics = {name: kind for name, kind in TOPICS.items() if "remote_inference" in name}
    recording = Recording({**topics, f"{NS}/tool_pose": "geometry_msgs/msg/PoseStamped"}, POSE)
    for tick in range(TICKS):
        recording.executed(PERIOD_MS * tick, tick, pose_of(tick), seq_id=1, action_age_s=0.1)
        pose = PoseStamped()
        seen = pose_of(max(0, tick - LAG))
        point, turn = pose.pose.position, pose.pose.orientation
        point.x, point.y, point.z = seen[:3]
        turn.x, turn.y, turn.z, turn.w = (-part for part in seen[3:])
        recording.add("tool_pose", PERIOD_MS * tick + 5, pose)
    return recording.write(path, contract=json.dumps(pose_document()))


@pytest.fixture
def timeline(tmp_path: Path) -> Timeline:
    return load_timeline(write_run(tmp_path / "run"))


def test_a_pose_is_measured_by_the_contract_s_fields(timeline: Timeline) -> None:
    assert {joint.topic for joint in timeline.joints} == {f"{NS}/tool_pose"}
    x = timeline.joints[0]
    assert len(x.value) == TICKS
    assert x.value[-1] == pytest.approx(pose_of(TICKS - 1 - LAG)[0])


def test_a_measured_orientation_has_the_sign_of_the_commanded_one(timeline: Timeline) -> None:
    """The two are one: drawn with its own sign, a pose that follows would seem to be turned around."""
    for place, joint in enumerate(timeline.joints[3:]):
        wanted = [pose_of(max(0, tick - LAG))[3 + place] for tick in range(TICKS)]
        assert joint.value == pytest.approx(wanted, abs=1e-6)
    assert math.hypot(*(joint.value[-1] for joint in timeline.joints[3:])) == pytest.approx(1.0)


def test_a_message_that_says_nothing_is_left_out(tmp_path: Path) -> None:
    """The robot refused it, too."""
    topics = {name: kind for name, kind in TOPICS.items() if "remote_inference" in name}
    recording = Recording({**topics, f"{NS}/tool_pose": "geometry_msgs/msg/PoseStamped"}, POSE)
    for tick in range(3):
        recording.executed(PERIOD_MS * tick, tick, pose_of(tick), seq_id=1, action_age_s=0.1)
        pose = PoseStamped()
        pose.pose.position.x = np.nan if tick == 1 else 1.0
        recording.add("tool_pose", PERIOD_MS * tick + 5, pose)
    run = load_timeline(recording.write(tmp_path / "run", contract=json.dumps(pose_document())))
    assert run.joints[0].value.tolist() == [1.0, 1.0]
