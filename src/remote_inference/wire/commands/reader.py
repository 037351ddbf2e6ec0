# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a reader of a person's commands is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.contract import Contract
from remote_inference.wire.sensors import SensorError


class CommandReader:
    """Reads a person's command as an action `[action_dim]`, in the contract's order."""

    message_type: type[Any]

    def __init__(self, topic: str, contract: Contract) -> None:
        self._topic = topic
        self._actions = contract.actions

    def read(self, message: Any) -> NDArray[np.float64]:
        """Return the action. Raises SensorError naming the topic, what was found and expected."""
        raise NotImplementedError

    def _error(self, problem: str) -> SensorError:
        return SensorError(f"{self._topic}: {problem}")
