# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands to the robot's controllers: one writer for each message type a contract may name.

A writer takes what one control tick decided, `[rows, action_dim]`: the command, then what would follow it.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration, Time
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from remote_inference.core.contract import (
    FLOAT64_MULTI_ARRAY,
    JOINT_STATE,
    JOINT_TRAJECTORY,
    CommandSink,
    Contract,
)
from remote_inference.wire.arrays import WireError, float64_field


class CommandWriter:
    """Picks one controller's joints out of the action vector, in the controller's order."""

    message_type: type[Any]
    takes_horizon = False  # true: the controller goes on by itself, and is told when to end

    def __init__(self, sink: CommandSink, contract: Contract) -> None:
        names = contract.actions.names
        self._sink = sink
        self._kind = contract.actions.kind
        self._period_ns = round(contract.period_s * 1e9)
        self._action_dim = len(names)
        self._index = np.array([names.index(name) for name in sink.names], np.intp)

    def message(self, horizon: NDArray[np.float64], stamp: Time) -> Any:
        """Write a horizon `[rows, action_dim]`, rows >= 1. stamp: wall clock. Raises WireError for others."""
        if horizon.ndim != 2 or not len(horizon) or horizon.shape[1] != self._action_dim:
            raise WireError(
                f"{self._sink.topic}: found an action {list(horizon.shape)}, "
                f"expected [rows, {self._action_dim}]"
            )
        return self._write(horizon[:, self._index], stamp)

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> Any:
        raise NotImplementedError


class ArrayWriter(CommandWriter):
    """For ros2_control's forward_command_controller and its relatives."""

    message_type = Float64MultiArray

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> Float64MultiArray:  # noqa: ARG002
        return Float64MultiArray(data=float64_field(rows[0]))


class JointStateWriter(CommandWriter):
    """For simulators and drivers that take a JointState: the field of the actions' kind is set."""

    message_type = JointState

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> JointState:
        message = JointState(header=Header(stamp=stamp), name=list(self._sink.names))
        setattr(message, self._kind, float64_field(rows[0]))
        return message


class TrajectoryWriter(CommandWriter):
    """For ros2_control's joint_trajectory_controller: it is handed the whole horizon.

    The stamp stays zero: the trajectory begins when it arrives and replaces the one before. Points carry no
    velocities: the controller refuses a last point that moves.
    """

    message_type = JointTrajectory
    takes_horizon = True

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> JointTrajectory:  # noqa: ARG002
        return JointTrajectory(
            joint_names=list(self._sink.names),
            points=[
                JointTrajectoryPoint(
                    positions=array("d", row.tobytes()),
                    time_from_start=_duration((index + 1) * self._period_ns),
                )
                for index, row in enumerate(rows)
            ],
        )


_WRITERS: dict[str, type[CommandWriter]] = {
    FLOAT64_MULTI_ARRAY: ArrayWriter,
    JOINT_STATE: JointStateWriter,
    JOINT_TRAJECTORY: TrajectoryWriter,
}


def make_command_writer(sink: CommandSink, contract: Contract) -> CommandWriter:
    """Return the writer of a sink's message type."""
    return _WRITERS[sink.type](sink, contract)


def _duration(duration_ns: int) -> Duration:
    seconds, nanoseconds = divmod(duration_ns, 1_000_000_000)
    return Duration(sec=seconds, nanosec=nanoseconds)
