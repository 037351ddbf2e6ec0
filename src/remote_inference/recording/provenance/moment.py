# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Instants as people write them: seconds of the run, seconds since 1970, or a date."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from decimal import Decimal

from remote_inference.errors import UserError

EPOCH_FROM_S = 1e8  # numbers from here on are seconds since 1970: no recording lasts three years
EXPECTED = "seconds of the run, seconds since 1970, or a time as 2026-11-22T15:04:29.5Z"


class MomentError(UserError):
    """A text is no instant; the message says what was found and expected."""


def parse_moment(text: str, start_ns: int, option: str) -> int:
    """Return the instant [ns] since 1970 that a text names. start_ns: of the run. Raises MomentError."""
    try:
        seconds = float(text)
    except ValueError:
        return _parse_date(text, option)
    if not math.isfinite(seconds) or seconds < 0 or seconds > 1e11:
        raise MomentError(f"{option}: found {text}, expected {EXPECTED}")
    if seconds < EPOCH_FROM_S:
        return start_ns + round(seconds * 1e9)
    return int(Decimal(text) * 10**9)  # a float of this size is exact to a fifth of a microsecond only


def _parse_date(text: str, option: str) -> int:
    tidy = text.strip()
    for zone in ("Z", " UTC"):  # as this package writes instants
        tidy = tidy[: -len(zone)] + "+00:00" if tidy.endswith(zone) else tidy
    try:
        moment = datetime.fromisoformat(tidy)
    except ValueError:
        raise MomentError(f"{option}: found {text!r}, expected {EXPECTED}") from None
    if moment.tzinfo is None:
        raise MomentError(f"{option}: found {text!r} without a time zone, expected one, as in {text}Z")
    since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def show_instant(t_ns: int) -> str:
    """Return an instant in UTC, ISO 8601 with milliseconds."""
    moment = datetime.fromtimestamp(t_ns // 10**9, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{t_ns % 10**9 // 10**6:03d}Z"
