# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When a message says that it was made, where its type has a header."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def is_stamped(kind: Any) -> bool:
    """Return whether the messages of a class have a header, whose stamp tells a repeated message."""
    return bool(kind.get_fields_and_field_types().get("header") == "std_msgs/Header")


def stamp_reader(kind: Any) -> Callable[[Any], int]:
    """Return what tells the stamp of a class's messages [ns]: 0 of those without a header."""
    return stamp_ns if is_stamped(kind) else _no_stamp


def stamp_ns(message: Any) -> int:
    """Return a message's stamp [ns]."""
    stamp = message.header.stamp
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def _no_stamp(_: Any) -> int:
    return 0
