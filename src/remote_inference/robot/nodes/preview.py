# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The actions ahead as messages that viewers draw. For the worker's thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.time import Time
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from remote_inference.base.contract.action_kinds import ACTION_KINDS
from remote_inference.base.contract.actions import Actions
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.fields import find_topic_name_problem
from remote_inference.base.nodes.runtime import StartupError
from remote_inference.base.wire.arrays import WireError, float64_field
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.qos import LATCHED_QOS, PREVIEW_TOPIC
from remote_inference.robot.command import Float64Array
from remote_inference.robot.pose_geometry import Poses
from remote_inference.robot.queue.action_queue import ActionQueue

PATH_TYPE, POSE_TYPE = "nav_msgs/msg/Path", "geometry_msgs/msg/PoseStamped"
FRAME = "header.frame_id"  # constant of a command: in which frame its poses are
# Field of a trajectory's point in which viewers look for a JointState's.
FIELDS = {"position": "positions", "velocity": "velocities", "effort": "effort"}


def trajectory_of(
    points: Float64Array, actions: Actions, times: list[Duration], stamp: Any
) -> JointTrajectory:
    """Return actions ahead `[rows, action_dim]` as a trajectory. times: of each row, after the stamp.

    Each action is in the field of its kind; where kinds are mixed, the others have NaN in its place.
    """
    fields = np.array([FIELDS[ACTION_KINDS[kind].field] for kind in actions.kinds])
    values = {field: np.where(fields == field, points, np.nan) for field in dict.fromkeys(fields.tolist())}
    return JointTrajectory(
        header=Header(stamp=stamp),
        joint_names=list(actions.names),
        points=[
            JointTrajectoryPoint(
                time_from_start=time.to_msg(),
                **{field: float64_field(rows[index]) for field, rows in values.items()},
            )
            for index, time in enumerate(times)
        ],
    )


def poses_of(rows: Float64Array, frame: str, times: list[Time]) -> list[Any]:
    """Return poses `[rows, 7]` as PoseStamped, without those that are NaN: they say no orientation."""
    kind, found = message_class(POSE_TYPE), []
    for row, time in zip(rows, times, strict=True):
        if np.isnan(row).any():
            continue
        message = kind(header=Header(stamp=time.to_msg(), frame_id=frame))
        place, turn = message.pose.position, message.pose.orientation
        place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w = row.tolist()
        found.append(message)
    return found


class PlanPreview:
    """Publishes the actions ahead whenever a chunk has joined them, and once when none is left.

    They are what the robot does if nothing newer comes, before the guard and in its units: points of one
    JointTrajectory, and each pose also a Path on a topic of its own. A point's time after the stamp is when
    its action has begun at the latest.
    """

    def __init__(self, node: Node, contract: Contract, queue: ActionQueue) -> None:
        """Create the publishers.

        Raises StartupError where there are poses and nav_msgs is not installed, and for a pose whose name no
        topic can have.
        """
        self._clock = node.get_clock()
        self._queue = queue
        self._row_s = contract.row_period_s
        self._actions = contract.actions
        self._poses = Poses(contract.actions.poses, contract.actions.names)
        self._shown: Any = None  # identifies the chunks of what was published last; None: nothing
        self._trajectory = node.create_publisher(JointTrajectory, PREVIEW_TOPIC, LATCHED_QOS)
        self._paths: list[tuple[Publisher, Any, str]] = []  # of each pose, with its type and its frame
        for title, pose in contract.actions.poses.items():
            topic = f"{PREVIEW_TOPIC}/{title}"
            if problem := find_topic_name_problem(topic):
                raise StartupError(f"parameter preview: pose {title!r}: {problem}")
            try:
                kind = message_class(PATH_TYPE)
            except WireError as error:
                raise StartupError(f"parameter preview: pose {title!r}: {error}") from error
            frames = (sink.constant.get(FRAME) for sink in contract.commands if pose.names[0] in sink.names)
            publisher = node.create_publisher(kind, topic, LATCHED_QOS)
            self._paths.append((publisher, kind, str(next(frames, None) or "")))

    def publish(self) -> None:
        """Publish what is ahead, if other chunks are part of it than at the last call."""
        plan = self._queue.plan
        ahead = plan.actions if plan else None  # the same tuple until a chunk joins: the begun stay in it
        if ahead is self._shown:
            return
        self._shown = ahead
        points = plan.points[plan.begin :].reshape(-1, len(self._actions.names))
        now = self._clock.now()
        times = [Duration(seconds=(row + 1) * self._row_s) for row in range(len(points))]
        self._trajectory.publish(trajectory_of(points, self._actions, times, now.to_msg()))
        if not self._paths:
            return
        whole = np.array([self._poses.normalize(point) for point in points]).reshape(points.shape)
        instants = [now + time for time in times]
        for (publisher, kind, frame), columns in zip(self._paths, self._poses.columns, strict=True):
            poses = poses_of(whole[:, columns], frame, instants)
            publisher.publish(kind(header=Header(stamp=now.to_msg(), frame_id=frame), poses=poses))
