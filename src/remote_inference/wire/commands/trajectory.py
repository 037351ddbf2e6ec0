# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands as trajectory_msgs/JointTrajectory."""

from __future__ import annotations

from array import array

import numpy as np
from builtin_interfaces.msg import Duration, Time
from numpy.typing import NDArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from remote_inference.wire.commands.reader import CommandReader
from remote_inference.wire.commands.writer import CommandWriter


class TrajectoryWriter(CommandWriter):
    """For ros2_control's joint_trajectory_controller: it is handed the whole horizon.

    The stamp stays zero: the trajectory begins when it arrives and replaces the one before. Points carry no
    velocities: the controller refuses a last point that moves.
    """

    message_type = JointTrajectory

    def _write_late(self, rows: NDArray[np.float64], stamp: Time, late_ns: int) -> JointTrajectory:  # noqa: ARG002
        return JointTrajectory(
            joint_names=list(self._sink.joints),
            points=[
                JointTrajectoryPoint(
                    positions=array("d", row.tobytes()),
                    time_from_start=_duration(late_ns + (index + 1) * self._period_ns),
                )
                for index, row in enumerate(rows)
            ],
        )


class TrajectoryReader(CommandReader):
    """The first point of a trajectory: what the robot commands now. Joints are taken by name."""

    message_type = JointTrajectory

    def read(self, message: JointTrajectory) -> NDArray[np.float64]:
        if not message.points:
            raise self._error("found a trajectory without points, expected one at least")
        positions = message.points[0].positions
        if len(positions) != len(message.joint_names):
            raise self._error(f"found {len(positions)} positions for {len(message.joint_names)} joints")
        found = dict(zip(message.joint_names, positions, strict=True))
        if missing := [name for name in self._names if name not in found]:
            raise self._error(f"found no {', '.join(missing)} in {', '.join(found)}")
        return self._require_finite(np.array([found[name] for name in self._names]))


def _duration(duration_ns: int) -> Duration:
    seconds, nanoseconds = divmod(duration_ns, 1_000_000_000)
    return Duration(sec=seconds, nanosec=nanoseconds)
