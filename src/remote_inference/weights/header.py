# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The header of an update, and the other messages: their fields, written and read within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from remote_inference.core.documents.problems import show_value
from remote_inference.weights.frames import MAX_BUCKET_BYTES, Frame, Kind, pack_map, read_map
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.tensors.digest import show_digest
from remote_inference.weights.tensors.tensors import TensorSpec, table_from_list, table_to_list

MIN_BUCKET_BYTES = 1024
_OPTIONAL_INT = (int, type(None))


@dataclass(frozen=True)
class Header:
    """What an update is, sent before its payload.

    base_version, base_digest: of the weights that it changes; None: it holds all of them. digest: of the
    result. table: digest of names, types and shapes. bucket_size: most bytes of a part before compression.
    details: what the strategy says of its payload.
    """

    strategy: str
    version: int
    digest: int
    base_version: int | None
    base_digest: int | None
    table: bytes
    compression: str
    bucket_size: int
    details: Any


@dataclass(frozen=True)
class Welcome:
    """What a receiver serves, said to a trainer that it accepts.

    highest: version that it ever served, which is above `version` after a rollback.
    """

    version: int
    digest: int
    table: tuple[TensorSpec, ...]
    highest: int


@dataclass(frozen=True)
class Applied:
    """An update is served. seconds: that the exchange of the weights took."""

    version: int
    digest: int
    seconds: float


@dataclass(frozen=True)
class Refused:
    """Nothing was changed. version: of the update, 0 where none is known."""

    version: int
    reason: Reason
    text: str


def pack_header(sender: bytes, header: Header) -> bytes:
    return pack_map(Kind.UPDATE, sender, vars(header))


def read_header(frame: Frame) -> Header:
    """Return an update's header. Raises WeightsError for one that is none, or whose parts are too large."""
    header = Header(
        **read_map(
            frame.body,
            {
                "strategy": str,
                "version": int,
                "digest": int,
                "base_version": _OPTIONAL_INT,
                "base_digest": _OPTIONAL_INT,
                "table": bytes,
                "compression": str,
                "bucket_size": int,
                "details": (list, str, type(None)),
            },
        )
    )
    if not MIN_BUCKET_BYTES <= header.bucket_size <= MAX_BUCKET_BYTES:
        raise WeightsError(
            Reason.SIZE,
            f"header: bucket_size: found {header.bucket_size}, "
            f"expected {MIN_BUCKET_BYTES} to {MAX_BUCKET_BYTES}",
        )
    return header


def check_header(header: Header, table: bytes, served: tuple[int, int], highest: int) -> None:
    """Raise WeightsError for an update that cannot follow on what is served.

    table: digest of the tensors. served: version and digest. highest: version that was ever served.
    """
    if header.table != table:
        text = f"found {header.table.hex()} as digest of the tensors, expected {table.hex()}"
        raise WeightsError(Reason.ARCHITECTURE, text)
    if header.base_digest is not None and (header.base_version, header.base_digest) != served:
        found = f"{header.base_version} ({show_digest(header.base_digest)})"
        expected = f"{served[0]} ({show_digest(served[1])})"
        raise WeightsError(Reason.BASE, f"found base {found}, expected {expected}, which is served")
    if header.version <= highest:
        text = f"found version {header.version}, expected one above {highest}, the highest that was served"
        raise WeightsError(Reason.ORDER, text)


def pack_welcome(sender: bytes, welcome: Welcome) -> bytes:
    return pack_map(Kind.WELCOME, sender, {**vars(welcome), "table": table_to_list(welcome.table)})


def read_welcome(frame: Frame) -> Welcome:
    """Return what a server has said. Raises WeightsError for anything but a welcome."""
    fields = {"version": int, "digest": int, "table": list, "highest": int}
    values = read_map(frame.body, fields)
    return Welcome(**{**values, "table": table_from_list(values["table"])})


def pack_applied(sender: bytes, applied: Applied) -> bytes:
    return pack_map(Kind.APPLIED, sender, vars(applied))


def read_applied(frame: Frame) -> Applied:
    """Return what a server has said. Raises WeightsError for anything but that an update is applied."""
    return Applied(**read_map(frame.body, {"version": int, "digest": int, "seconds": float}))


def pack_refused(sender: bytes, refused: Refused) -> bytes:
    return pack_map(Kind.REFUSED, sender, {**vars(refused), "reason": refused.reason.value})


def read_refused(frame: Frame) -> Refused:
    """Return what a server has said. Raises WeightsError for anything but a refusal."""
    values = read_map(frame.body, {"version": int, "reason": str, "text": str})
    if values["reason"] not in {reason.value for reason in Reason}:
        raise WeightsError(Reason.FRAME, f"refusal: found the reason {show_value(values['reason'])}")
    return Refused(values["version"], Reason(values["reason"]), values["text"])
