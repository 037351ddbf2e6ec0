# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The actions ahead as viewers get them: as often as they change, whole, and with their units' fields."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.time import Time
from trajectory_msgs.msg import JointTrajectory

from remote_inference.base.nodes.runtime import StartupError
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.qos import LATCHED_QOS, PREVIEW_TOPIC
from remote_inference.robot.nodes.preview import PATH_TYPE, PlanPreview, poses_of, trajectory_of
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from support.builders import FPS, JOINTS, contract_document, make_contract, make_rows, make_source
from support.robot.pose_robot import pose_at, pose_contract, pose_document
from support.waiting import wait_until

HAS_PATHS = find_spec("nav_msgs") is not None


class Viewer:
    """A robot's queue and preview, and who subscribes to it."""

    def __init__(self, node: Node) -> None:
        self.queue = ActionQueue()
        self.preview = PlanPreview(node, make_contract(), self.queue)
        self.received: list[JointTrajectory] = []
        node.create_subscription(JointTrajectory, PREVIEW_TOPIC, self.received.append, LATCHED_QOS)
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(node)

    def merge(self, count: int, first: float = 0.0, mode: MergeMode = MergeMode.REPLACE) -> None:
        rows = make_rows(count, first)
        self.queue.merge(make_source(), rows, rows, mode, latency_steps=0, executed_before=0)

    def wait_for(self, count: int) -> JointTrajectory:
        """Publish what is new, and return the message that is the last of `count`."""
        self.preview.publish()

        def has_come() -> bool:
            self._executor.spin_once(0.02)
            return len(self.received) >= count

        wait_until(has_come, f"{count} messages")
        assert len(self.received) == count
        return self.received[-1]


@pytest.fixture
def viewer(node: Node) -> Viewer:
    return Viewer(node)


def test_a_merge_is_shown_once_whatever_the_robot_executes_meanwhile(viewer: Viewer) -> None:
    viewer.preview.publish()  # nothing yet
    viewer.merge(4)
    shown = viewer.wait_for(1)
    assert shown.joint_names == list(JOINTS)
    assert [point.positions[0] for point in shown.points] == pytest.approx([0.0, 0.01, 0.02, 0.03])
    assert [
        point.time_from_start.sec + point.time_from_start.nanosec / 1e9 for point in shown.points
    ] == pytest.approx([1 / FPS, 2 / FPS, 3 / FPS, 4 / FPS])
    for _ in range(3):
        viewer.queue.get()
        viewer.preview.publish()
    viewer.merge(2, first=0.5, mode=MergeMode.APPEND)
    shown = viewer.wait_for(2)
    assert [point.positions[0] for point in shown.points] == pytest.approx([0.03, 0.5, 0.51])


def test_a_queue_that_is_emptied_is_shown_empty(viewer: Viewer) -> None:
    viewer.merge(2)
    viewer.wait_for(1)
    viewer.queue.clear()
    assert not viewer.wait_for(2).points
    viewer.preview.publish()
    viewer.merge(1)
    assert len(viewer.wait_for(3).points) == 1


def test_each_action_is_in_the_field_of_its_kind() -> None:
    document = contract_document()
    document["actions"]["limits"][JOINTS[1]] |= {"kind": "velocity"}
    document["commands"] = [
        {"topic": name, "type": "std_msgs/msg/Float64MultiArray", "names": [name]} for name in JOINTS
    ]
    contract = pose_contract(document)
    message = trajectory_of(
        np.array([[0.25, 0.5]]), contract.actions, [Duration(seconds=1)], Time(seconds=3).to_msg()
    )
    (point,) = message.points
    assert point.positions[0] == 0.25
    assert np.isnan(point.positions[1])
    assert np.isnan(point.velocities[0])
    assert point.velocities[1] == 0.5
    assert not point.effort
    assert message.header.stamp.sec == 3


def test_poses_are_those_that_say_an_orientation_each_with_its_time() -> None:
    rows = np.stack([pose_at(1.0, 2.0, 3.0, angle=0.5), np.full(7, np.nan), pose_at(4.0)])
    found = poses_of(rows, "base_link", [Time(seconds=second) for second in (1, 2, 3)])
    assert [(one.header.stamp.sec, one.header.frame_id) for one in found] == [
        (1, "base_link"),
        (3, "base_link"),
    ]
    place, turn = found[0].pose.position, found[0].pose.orientation
    assert [place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w] == pytest.approx(rows[0].tolist())


@pytest.mark.skipif(HAS_PATHS, reason="nav_msgs is installed")
def test_poses_without_nav_msgs_end_the_start_with_what_to_install(node: Node) -> None:
    with pytest.raises(StartupError, match=rf"preview: pose 'tool': .*{PATH_TYPE}.* is not installed; .+"):
        PlanPreview(node, pose_contract(), ActionQueue())


@pytest.mark.skipif(not HAS_PATHS, reason="needs nav_msgs, which comes with a full ROS 2 installation")
def test_each_pose_has_a_path_in_the_frame_of_its_command(node: Node) -> None:
    queue, received = ActionQueue(), []
    preview = PlanPreview(node, pose_contract(), queue)
    node.create_subscription(message_class(PATH_TYPE), f"{PREVIEW_TOPIC}/tool", received.append, LATCHED_QOS)
    rows = np.stack([pose_at(0.1), 2.0 * pose_at(0.2)]).astype(np.float32)
    queue.merge(make_source(), rows, rows, MergeMode.REPLACE, latency_steps=0, executed_before=0)
    preview.publish()
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    wait_until(lambda: executor.spin_once(0.02) or received, "a path")
    assert received[0].header.frame_id == "base_link"
    assert [pose.pose.orientation.w for pose in received[0].poses] == pytest.approx([1.0, 1.0])


def test_a_pose_whose_name_no_topic_can_have_is_refused_with_it(node: Node) -> None:
    document = pose_document()
    poses = document["actions"]["poses"]
    poses["left arm"] = poses.pop("tool")
    with pytest.raises(StartupError, match="preview: pose 'left arm': found ' ' in"):
        PlanPreview(node, pose_contract(document), ActionQueue())
