# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds the lines of a server's request log that belong to requests of a bag."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from remote_inference.errors import UserError
from remote_inference.recording.requests.request_log import OLD_FILES
from remote_inference.recording.timeline.answers import RequestKey


class RequestLogError(UserError):
    """The request log cannot be read; names the file."""


def find_lines(path: Path, wanted: Collection[RequestKey]) -> dict[RequestKey, dict[str, Any]]:
    """Return the lines by request, of the file and of the rotated ones beside it, newest file first.

    What is no line of a request log is passed over: a server that was killed leaves half a line. Raises
    RequestLogError when the file cannot be read.
    """
    found: dict[RequestKey, dict[str, Any]] = {}
    old = [path.with_name(f"{path.name}.{number}") for number in range(1, OLD_FILES + 1)]
    for file in (path, *(one for one in old if one.exists())):
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    _take(line, wanted, found)
        except OSError as error:
            raise RequestLogError(f"--request-log: {file}: {error.strerror}") from error
        if len(found) == len(wanted):
            break
    return found


def _take(line: str, wanted: Collection[RequestKey], found: dict[RequestKey, dict[str, Any]]) -> None:
    try:
        fields = json.loads(line, parse_constant=lambda _: None)  # NaN is no JSON
        key = fields["session_id"], int(fields["seq_id"])
        is_wanted = key in wanted
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return
    if is_wanted:
        found.setdefault(key, fields)
