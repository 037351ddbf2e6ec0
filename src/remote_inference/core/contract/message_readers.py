# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Readers of messages whose numbers stand in no fixed place, by message type.

Most messages need none: a contract names their fields. A reader is for those that carry names beside numbers,
or that must be decoded. Those that are built in stand in `wire.sensors.by_name`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from remote_inference.core.documents.registry import Registry

GROUP = "remote_inference.message_readers"  # of the entry points by which other distributions add types

# Takes a message. Returns numbers `[n]` in an order of its own, which a contract's `names` name one by one;
# or numbers by name, of which `names` picks some. What it raises is said with the sensor's topic.
MessageReader: TypeAlias = Callable[[Any], ArrayLike | Mapping[str, float]]

MESSAGE_READERS = Registry[MessageReader]("message reader", group=GROUP)


def is_read_whole(message_type: str) -> bool:
    """Return whether a reader is known for a message type, built in or by entry point.

    Raises ValueError for a type that several distributions read.
    """
    if conflict := MESSAGE_READERS.find_conflict(message_type):
        raise ValueError(f"found {message_type!r}, {conflict}")
    return message_type in MESSAGE_READERS.every_name
