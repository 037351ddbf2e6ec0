# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The recorder's parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field, model_validator
from typing_extensions import Self

from remote_inference.bags.storage.bag_writer import (
    MAX_SPLIT_BYTES,
    MAX_SPLIT_DURATION_S,
    BagLimits,
    WhenFull,
)
from remote_inference.base.contract.fields import find_topic_name_problem
from remote_inference.base.nodes.parameters import NodeParameters
from remote_inference.base.nodes.runtime import StartupError
from remote_inference.base.wire import message_types
from remote_inference.base.wire.arrays import WireError

MIN_SPLIT_BYTES = 1 << 20
MIN_BYTES = 8 << 20  # of a budget: some chunks and the index


class RecorderError(StartupError):
    """The recorder cannot start; names the parameter and what is wrong with it."""


class RecorderConfig(NodeParameters):
    """The recorder's parameters."""

    path: Annotated[str, Field(min_length=1)]
    """folder of the bag to create"""
    topics: tuple[str, ...]
    """absolute topic names; `/name:pkg/msg/Type` is recorded after five seconds at most, also while nobody
    publishes it; without type a topic is recorded once it shows in the graph, with the QoS that is offered"""
    contract: str = ""
    """the recorded robot's contract; the bag carries its text: joints, units, limits"""
    robot: str = ""
    """full name of the robot's node, such as `/robot_1/remote_inference`: the bag carries its parameters;
    empty: none"""
    queue_size: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """messages that may wait to be written; more are lost, and counted"""
    queue_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 36)] = 256 << 20
    """bytes that they may have together [bytes]"""
    max_split_bytes: Annotated[int, Field(ge=0, le=1 << 50)] = MAX_SPLIT_BYTES
    """the bag goes on in a new file at this size [bytes]; 0: at none"""
    max_split_duration_s: Annotated[float, Field(ge=0.0, le=1e9)] = MAX_SPLIT_DURATION_S
    """the bag goes on in a new file after this time [s]; 0: after none"""
    max_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0
    """disk budget of the whole bag [bytes]; 0: none"""
    min_free_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 1 << 30
    """what stays free on the disk [bytes]; 0: the disk is filled"""
    when_full: WhenFull = "stop"
    """at `max_bytes` or `min_free_bytes`, end the recording or drop the bag's oldest file"""

    @model_validator(mode="after")
    def _check_split(self) -> Self:
        if 0 < self.max_split_bytes < MIN_SPLIT_BYTES:
            expected = f"0 or at least {MIN_SPLIT_BYTES}"
            raise ValueError(f"max_split_bytes: found {self.max_split_bytes}, expected {expected}")
        if 0 < self.max_bytes < MIN_BYTES:
            raise ValueError(f"max_bytes: found {self.max_bytes}, expected 0 or at least {MIN_BYTES}")
        if self.when_full != "drop_oldest":
            return self
        if not (self.max_bytes or self.min_free_bytes):
            raise ValueError("when_full: found drop_oldest, expected max_bytes or min_free_bytes with it")
        if not self.max_split_bytes:
            expected = "a size: files are dropped whole"
            raise ValueError(f"when_full: found drop_oldest and max_split_bytes 0, expected {expected}")
        if 0 < self.max_bytes < 2 * self.max_split_bytes:
            expected = f"at least twice max_split_bytes, {2 * self.max_split_bytes}, to drop the oldest file"
            raise ValueError(f"max_bytes: found {self.max_bytes}, expected {expected}")
        return self

    def limits(self) -> BagLimits:
        return BagLimits(**{name: getattr(self, name) for name in BagLimits.__dataclass_fields__})


def parse_topics(entries: Iterable[str]) -> dict[str, str]:
    """Return message type by topic from entries `/name:type`, or `/name` with an empty type.

    Raises RecorderError when there is no entry, a name is not absolute, or a topic is named twice.
    """
    topics: dict[str, str] = {}
    for entry in entries:
        name, _, msgtype = entry.partition(":")
        if not name.startswith("/"):
            expected = "an absolute name, which begins with '/'"
            raise RecorderError(f"parameter topics: found {entry!r}, expected {expected}")
        if problem := find_topic_name_problem(name):
            raise RecorderError(f"parameter topics: {problem}")
        if name in topics:
            raise RecorderError(f"parameter topics: {name} is named twice")
        topics[name] = msgtype
    if not topics:
        expected = "entries '/name' or '/name:pkg/msg/Type'"
        raise RecorderError(f"parameter topics: no topic named, expected {expected}")
    return topics


def message_class(msgtype: str) -> Any:
    """Return the Python class of `package/msg/Name`. Raises RecorderError when it is not installed."""
    try:
        return message_types.message_class(msgtype)
    except WireError as error:
        raise RecorderError(str(error)) from error
