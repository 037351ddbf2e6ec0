# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The reasons for which an update of weights is refused, and the error that carries one."""

from __future__ import annotations

from enum import Enum

from typing_extensions import Self

from remote_inference.base.errors import UserError


class Reason(str, Enum):
    """Why the weights that are served stay as they are; the values travel. meaning: in words."""

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> Self:
        reason = str.__new__(cls, value)
        reason._value_, reason.meaning = value, meaning
        return reason

    FRAME = "frame", "the bytes are no frame of this protocol: truncated, or a bit has changed"
    SCHEMA = "schema", "the other side speaks another version of this protocol"
    CLAIMED = "claimed", "another trainer updates this server"
    ARCHITECTURE = "architecture", "a tensor is missing, unknown, or of another shape or type"
    UNKNOWN = "unknown", "a strategy, compression or type that this side does not have"
    BASE = "base", "the patch is for another version, or for other weights"
    ORDER = "order", "a version not above all served so far, a missing part, two updates at once"
    SIZE = "size", "more bytes than the model has, or than were announced"
    PAYLOAD = "payload", "the bytes do not decode to entries of the tensors"
    VALUES = "values", "a value is not finite, or neither true nor false"
    DIGEST = "digest", "the result is not what the trainer has"
    PROBE = "probe", "the policy does not answer as it should with them; those before are served again"
    MEMORY = "memory", "no memory to prepare the update, or to exchange it for the weights that are served"
    FAILED = "failed", "an unexpected error; the log of that side has it"
    STALLED = "stalled", "the trainer fell silent in the middle of an update"
    TRANSPORT = "transport", "the server was not reached, or did not answer in time"


class WeightsError(UserError):
    """An update is refused whole. `reason` is its kind, the text names what was found and expected."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
