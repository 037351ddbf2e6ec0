# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The reasons for which an update of weights is refused, and the error that carries one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from remote_inference.base.errors import UserError


class Reason(str, Enum):
    """Why the weights that are served stay as they are; the values travel."""

    FRAME = "frame"
    SCHEMA = "schema"
    CLAIMED = "claimed"
    ARCHITECTURE = "architecture"
    UNKNOWN = "unknown"
    BASE = "base"
    ORDER = "order"
    SIZE = "size"
    PAYLOAD = "payload"
    VALUES = "values"
    DIGEST = "digest"
    PROBE = "probe"
    MEMORY = "memory"
    FAILED = "failed"
    STALLED = "stalled"
    TRANSPORT = "transport"


DESCRIPTIONS: Mapping[Reason, str] = {
    Reason.FRAME: "the bytes are no frame of this protocol: truncated, or a bit has changed",
    Reason.SCHEMA: "the other side speaks another version of this protocol",
    Reason.CLAIMED: "another trainer updates this server",
    Reason.ARCHITECTURE: "a tensor is missing, unknown, or of another shape or type",
    Reason.UNKNOWN: "a strategy, compression or type that this side does not have",
    Reason.BASE: "the patch is for another version, or for other weights",
    Reason.ORDER: "out of order: a version not above all served so far, a missing part, two updates at once",
    Reason.SIZE: "more bytes than the model has, or than were announced",
    Reason.PAYLOAD: "the bytes do not decode to entries of the tensors",
    Reason.VALUES: "a value is not finite, or neither true nor false",
    Reason.DIGEST: "the result is not what the trainer has",
    Reason.PROBE: "the policy does not answer as it should with these weights; those before are served again",
    Reason.MEMORY: "no memory to prepare the update, or to exchange it for the weights that are served",
    Reason.FAILED: "an unexpected error; the log of that side has it",
    Reason.STALLED: "the trainer fell silent in the middle of an update",
    Reason.TRANSPORT: "the server was not reached, or did not answer in time",
}


class WeightsError(UserError):
    """An update is refused whole. `reason` is its kind, the text names what was found and expected."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
