# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads joints by name, in whatever order a driver has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import JointState

from remote_inference.core.contract.state_source import StateSource
from remote_inference.wire.sensors.error import SensorError, find_odd


class JointReader:
    """Picks a state source's joints out of JointState messages, in any order of the message."""

    def __init__(self, source: StateSource) -> None:
        assert source.field is not None, "a source of joints has a field"
        self._source = source
        self._field = source.field
        self._seen: Sequence[str] = ()  # names of the last message, to which _index applies
        self._index: NDArray[np.intp] = np.empty(0, np.intp)

    def read(self, message: JointState) -> NDArray[np.float64]:
        """Return float64 `[len(source.names)]` in the source's order and the message's units.

        Raises SensorError naming topic, field and joints when a joint is missing, the field does not have one
        value for each name, or the value of one of the source's joints is not finite.
        """
        source = self._source
        if message.name != self._seen:
            self._index = self._locate(message.name)
            self._seen = list(message.name)
        field = getattr(message, self._field)
        if len(field) != len(message.name):
            raise self._error(
                f"found {len(field)} values for {len(message.name)} names, expected one for each"
            )
        values: NDArray[np.float64] = np.frombuffer(field, np.float64)[self._index]
        if odd := find_odd(source.names, values):
            raise self._error(odd)
        return values

    def find_missing(self, names: Sequence[str]) -> list[str]:
        """Return the source's joints that a message with these names does not have."""
        return [name for name in self._source.joints if name not in names]

    def _locate(self, names: Sequence[str]) -> NDArray[np.intp]:
        positions = {name: position for position, name in enumerate(names)}
        if missing := self.find_missing(names):
            raise self._error(f"found no {', '.join(missing)} among {', '.join(names) or 'no names'}")
        return np.array([positions[name] for name in self._source.joints], np.intp)

    def _error(self, problem: str) -> SensorError:
        return SensorError(f"{self._source.topic}: {self._field}: {problem}")
