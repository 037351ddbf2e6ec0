# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a writer of commands is.

It takes what one control tick decided, `[rows, action_dim]`: the command, then what would follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray

from remote_inference.base.contract.action_kinds import Kind
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.wire.arrays import SensorError, WireError

# -- What a reader of commands is: those of a person to the robot, or those to a simulated controller ----


class CommandReader:
    """Reads a command as values `[n]`, one for each name, in the order of the names."""

    message_type: type[Any]

    def __init__(self, topic: str, kinds: Sequence[Kind], names: Sequence[str]) -> None:
        """kinds, names: of the actions that the topic carries, in its own order."""
        self.topic = topic
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
        return SensorError(f"{self.topic}: {problem}")


class CommandWriter:
    """Picks one controller's joints out of the action vector, in the controller's order."""

    message_type: type[Any]

    def __init__(self, sink: CommandSink, contract: Contract) -> None:
        names = contract.actions.names
        self._sink = sink
        self.kind = contract.kind_of(sink)
        self._period_ns = round(contract.period_s * 1e9)
        self._action_dim = len(names)
        self._index = np.array([names.index(name) for name in sink.names], np.intp)

    def message(self, horizon: NDArray[np.float64], stamp: Time, late_ns: int = 0) -> Any:
        """Write a horizon `[rows, action_dim]`, rows >= 1. stamp: of the node's clock.

        late_ns: time [ns] that controllers get beyond a period for each row, for a trajectory. Raises
        WireError for other shapes.
        """
        if horizon.ndim != 2 or not len(horizon) or horizon.shape[1] != self._action_dim:
            found = f"{self._sink.destination}: found an action {list(horizon.shape)}"
            raise WireError(f"{found}, expected [rows, {self._action_dim}]")
        return self._write_late(horizon[:, self._index], stamp, late_ns)

    def _write_late(self, rows: NDArray[np.float64], stamp: Time, late_ns: int) -> Any:  # noqa: ARG002
        return self._write(rows, stamp)

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> Any:
        raise NotImplementedError
