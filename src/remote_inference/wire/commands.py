# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands to the robot's controllers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import Float64MultiArray

from remote_inference.core.contract import CommandSink
from remote_inference.wire.arrays import WireError, float64_field


class CommandWriter:
    """Writes one controller's command out of the action vector, in the controller's order."""

    def __init__(self, sink: CommandSink, action_names: Sequence[str]) -> None:
        self._topic = sink.topic
        self._shape = (len(action_names),)
        self._index = np.array([list(action_names).index(name) for name in sink.names], np.intp)

    def message(self, action: NDArray[np.float64]) -> Float64MultiArray:
        """Write an action `[action_dim]`. Raises WireError for another shape."""
        if action.shape != self._shape:
            raise WireError(
                f"{self._topic}: found an action {list(action.shape)}, expected {list(self._shape)}"
            )
        return Float64MultiArray(data=float64_field(action[self._index]))
