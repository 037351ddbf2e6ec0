# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands as std_msgs/Float64MultiArray."""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from std_msgs.msg import Float64MultiArray

from remote_inference.wire.arrays import float64_field
from remote_inference.wire.commands.reader import CommandReader
from remote_inference.wire.commands.writer import CommandWriter


class ArrayWriter(CommandWriter):
    """For ros2_control's forward_command_controller and its relatives."""

    message_type = Float64MultiArray

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> Float64MultiArray:  # noqa: ARG002
        return Float64MultiArray(data=float64_field(rows[0]))


class ArrayReader(CommandReader):
    """One value for each name."""

    message_type = Float64MultiArray

    def read(self, message: Float64MultiArray) -> NDArray[np.float64]:
        names = self._names
        if len(message.data) != len(names):
            raise self._error(f"found {len(message.data)} values, expected {len(names)}: {', '.join(names)}")
        return self._require_finite(np.frombuffer(message.data, np.float64))
