# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Merges the JointState messages of several drivers on one topic: the newest value of each joint counts."""

from __future__ import annotations

import math
from array import array
from collections import OrderedDict
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import JointState

from remote_inference.base.contract.state_source import StateSource
from remote_inference.base.wire.arrays import SensorError, find_non_finite
from remote_inference.base.wire.sensors.content_time import ContentClock, stamp_ns

# -- Reads joints by name, in whatever order a driver has them -------------------------------------------


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
            expected = "one for each"
            raise self._error(f"found {len(field)} values for {len(message.name)} names, expected {expected}")
        values: NDArray[np.float64] = np.frombuffer(field, np.float64)[self._index]
        if odd := find_non_finite(source.names, values):
            raise self._error(odd)
        return values

    def _locate(self, names: Sequence[str]) -> NDArray[np.intp]:
        positions = {name: position for position, name in enumerate(names)}
        if missing := [name for name in self._source.joints if name not in positions]:
            raise self._error(f"found no {', '.join(missing)} among {', '.join(names) or 'no names'}")
        return np.array([positions[name] for name in self._source.joints], np.intp)

    def _error(self, problem: str) -> SensorError:
        return SensorError(f"{self._source.topic}: {self._field}: {problem}")


MOST_DRIVERS = 32  # on one topic, whose stamps are tracked separately

Need = tuple[str, str]  # a joint and the field that is read of it


def needs_of(sources: Collection[StateSource], topic: str) -> list[Need]:
    """Return which joints some sources read from a topic."""
    return [
        (name, source.field)
        for source in sources
        if source.topic == topic and source.field is not None
        for name in source.joints
    ]


class JointDrivers:
    """The newest values that the drivers on one topic have of some joints, and how old the oldest of them is.

    Drivers are distinguished by the joints of their messages. A message with all joints passes unchanged
    while no message had fewer: a fault in it is found when it is read.
    """

    def __init__(self, needs: Collection[Need]) -> None:
        """needs: what the contract picks from this topic."""
        self._needs = tuple(dict.fromkeys(needs))
        self._joints = tuple(dict.fromkeys(name for name, _ in self._needs))
        self._values: dict[Need, tuple[float, int]] = {}  # with the content's time [ns]
        self._whole: tuple[JointState, int] | None = None  # last message that had all, while all had
        self._names: Sequence[str] = ()  # of the last message, to which _places applies
        self._places: dict[str, int] = {}
        self._clocks: OrderedDict[frozenset[str], ContentClock] = OrderedDict()  # of each driver

    @property
    def missing(self) -> tuple[str, ...]:
        """What no message has had so far: a joint's name for its position, else `joint.velocity` or so."""
        if self._whole is not None:
            return ()
        return tuple(
            name if field == "position" else f"{name}.{field}"
            for name, field in self._needs
            if (name, field) not in self._values
        )

    @property
    def name_sets(self) -> tuple[frozenset[str], ...]:
        """The joints of the messages so far, a set for each driver."""
        return tuple(self._clocks)

    def describe_missing(self) -> str:
        """Return in words what no message has had so far, and which joints the messages have."""
        found = sorted(frozenset[str]().union(*self._clocks))
        return f"no message so far has {', '.join(self.missing)}, found {', '.join(found) or 'no names'}"

    def take(self, message: JointState, arrival_ns: int) -> tuple[JointState, int] | None:
        """Return all joints, and when the oldest value was captured [ns, on the clock of the arrival].

        None when the message repeats its driver's last one, or something is missing still.
        """
        names = frozenset(message.name)
        clock = self._clocks.setdefault(names, ContentClock())
        self._clocks.move_to_end(names)
        if len(self._clocks) > MOST_DRIVERS:
            self._clocks.popitem(last=False)
        content_ns = clock.content_ns(stamp_ns(message), arrival_ns)
        return None if content_ns is None else self._merge(message, content_ns)

    def _merge(self, message: JointState, time_ns: int) -> tuple[JointState, int] | None:
        """Return all joints and the oldest one's time; None while one is missing. time_ns: of the content."""
        if len(self._locate(message.name)) == len(self._joints) and not self._values:
            self._whole = (message, time_ns)
            return self._whole
        if self._whole is not None:  # until now one driver had them all
            whole, self._whole = self._whole, None
            self._keep(*whole)
        self._keep(message, time_ns)
        if len(self._values) < len(self._needs):
            return None
        return self._merged(message), min(time_ns for _, time_ns in self._values.values())

    def _locate(self, names: Sequence[str]) -> dict[str, int]:
        """Return where our joints are among the names of a message; of a name that stands twice, the last."""
        if names != self._names or not self._names:
            places = {name: place for place, name in enumerate(names)}
            self._places = {name: places[name] for name in self._joints if name in places}
            self._names = list(names)
        return self._places

    def _keep(self, message: JointState, time_ns: int) -> None:
        """Keep the values of a message; a field without one for each name is ignored."""
        places, count = self._locate(message.name), len(message.name)
        for name, field in self._needs:
            values = getattr(message, field)
            if name in places and len(values) == count:
                self._values[name, field] = (values[places[name]], time_ns)

    def _merged(self, newest: JointState) -> JointState:
        """Return a message of all joints with the newest's header; nan is what the contract leaves out."""
        merged = JointState(header=newest.header, name=list(self._joints))
        for field in dict.fromkeys(field for _, field in self._needs):
            values = [self._values.get((name, field), (math.nan, 0))[0] for name in self._joints]
            setattr(merged, field, array("d", values))
        return merged
