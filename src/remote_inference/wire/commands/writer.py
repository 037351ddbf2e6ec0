# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a writer of commands is.

It takes what one control tick decided, `[rows, action_dim]`: the command, then what would follow it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray

from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.core.contract.contract import Contract
from remote_inference.wire.arrays import WireError


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

        late_ns: time [ns] that controllers get beyond a period for each row, where their kind is told. Raises
        WireError for other shapes.
        """
        if horizon.ndim != 2 or not len(horizon) or horizon.shape[1] != self._action_dim:
            raise WireError(
                f"{self._sink.destination}: found an action {list(horizon.shape)}, "
                f"expected [rows, {self._action_dim}]"
            )
        return self._write_late(horizon[:, self._index], stamp, late_ns)

    def _write_late(self, rows: NDArray[np.float64], stamp: Time, late_ns: int) -> Any:  # noqa: ARG002
        return self._write(rows, stamp)

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> Any:
        raise NotImplementedError
