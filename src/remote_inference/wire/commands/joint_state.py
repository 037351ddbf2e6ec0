# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands as sensor_msgs/JointState."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from remote_inference.core.contract.command_interfaces import Kind
from remote_inference.core.contract.sections import StateSource
from remote_inference.wire.arrays import float64_field
from remote_inference.wire.commands.reader import CommandReader
from remote_inference.wire.commands.writer import CommandWriter
from remote_inference.wire.sensors import JointReader


class JointStateWriter(CommandWriter):
    """For simulators and drivers that take a JointState: the field of the actions' kind is set."""

    message_type = JointState

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> JointState:
        message = JointState(header=Header(stamp=stamp), name=list(self._sink.names))
        setattr(message, self._kind, float64_field(rows[0]))
        return message


class JointStateReader(CommandReader):
    """Joints by the names of the actions, others are ignored."""

    message_type = JointState

    def __init__(self, topic: str, kind: Kind, names: Sequence[str]) -> None:
        super().__init__(topic, kind, names)
        self._joints = JointReader(
            StateSource(topic=topic, type="sensor_msgs/msg/JointState", field=kind, names=tuple(names))
        )

    def read(self, message: JointState) -> NDArray[np.float64]:
        return self._joints.read(message)
