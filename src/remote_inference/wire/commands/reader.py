# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a reader of commands is: those of a person to the robot, or those to a simulated controller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.contract.commands.interfaces import Kind
from remote_inference.wire.sensors import SensorError


class CommandReader:
    """Reads a command as values `[n]`, one for each name, in the order of the names."""

    message_type: type[Any]

    def __init__(self, topic: str, kinds: Sequence[Kind], names: Sequence[str]) -> None:
        """kinds, names: of the actions that the topic carries, in its own order."""
        self._topic = topic
        self._kinds = tuple(kinds)
        self._names = tuple(names)

    def read(self, message: Any) -> NDArray[np.float64]:
        """Return the values. Raises SensorError naming the topic, what was found and expected."""
        raise NotImplementedError

    def _require_finite(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if not np.isfinite(values).all():
            odd = int(np.argmin(np.isfinite(values)))
            raise self._error(f"found {self._names[odd]} = {values[odd]}, expected finite values")
        return values

    def _error(self, problem: str) -> SensorError:
        return SensorError(f"{self._topic}: {problem}")
