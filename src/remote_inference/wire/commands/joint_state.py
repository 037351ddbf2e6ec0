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

from remote_inference.core.contract.commands.interfaces import JOINT_FIELDS, Kind
from remote_inference.core.contract.state_source import StateSource
from remote_inference.wire.arrays import float64_field
from remote_inference.wire.commands.reader import CommandReader
from remote_inference.wire.commands.writer import CommandWriter
from remote_inference.wire.sensors import JointReader


class JointStateWriter(CommandWriter):
    """For simulators and drivers that take a JointState: the field of the actions' kind is set."""

    message_type = JointState

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> JointState:
        message = JointState(header=Header(stamp=stamp), name=list(self._sink.joints))
        setattr(message, self.kind, float64_field(rows[0]))
        return message


class JointStateReader(CommandReader):
    """Joints by the names of the actions, others are ignored.

    Each is read from the field of its kind, a switch as a position.
    """

    message_type = JointState

    def __init__(self, topic: str, kinds: Sequence[Kind], names: Sequence[str]) -> None:
        super().__init__(topic, kinds, names)
        self._joints: list[tuple[JointReader, list[int]]] = []  # and the places of each reader's joints
        fields = [JOINT_FIELDS[kind] for kind in kinds]
        for field in dict.fromkeys(fields):
            places = [place for place, of_one in enumerate(fields) if of_one == field]
            joints = tuple(self._names[place] for place in places)
            source = StateSource(topic=topic, type="sensor_msgs/msg/JointState", field=field, names=joints)
            self._joints.append((JointReader(source), places))

    def read(self, message: JointState) -> NDArray[np.float64]:
        values = np.empty(len(self._names))
        for reader, places in self._joints:
            values[places] = reader.read(message)
        return values
