# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads serialized messages, as raw subscriptions and files give them."""

from __future__ import annotations

from typing import Any

from rclpy.serialization import deserialize_message

from remote_inference.wire.arrays import WireError


def read_message(data: bytes, message_type: type[Any], what: str) -> Any:
    """Return the message in CDR bytes. Raises WireError, naming `what`, for bytes that are none."""
    try:
        return deserialize_message(data, message_type)
    except Exception as error:  # rclpy raises many kinds for damaged bytes
        raise WireError(
            f"{what}: found {len(data)} bytes that cannot be read ({type(error).__name__}), "
            f"expected a serialized {message_type.__name__}"
        ) from error
