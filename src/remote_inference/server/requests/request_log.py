# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The request log: one JSON line per request that a server has taken, in a file that rotates."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from remote_inference.base.background_writer import BackgroundWriter
from remote_inference.base.exchange import SessionOffer
from remote_inference.base.limits import shorten


@dataclass(frozen=True)
class RequestRecord:
    """What the worker knows of one request: who asked, how long it took, how it ended (see DESCRIPTIONS)."""

    session_id: str
    robot: str
    client: str
    seq_id: int = 0
    episode_id: int = 0
    policy_version: str = ""
    batch_size: int = 0
    queue_wait_ms: float = 0.0
    inference_ms: float = 0.0
    staleness_ms: float = 0.0
    slack_ms: float | None = None
    capture_skew_ms: float = 0.0
    superseded: int = 0
    status: Literal["ok", "error"] = "ok"
    outcome: str = "ok"
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, offer: SessionOffer, session_id: str, problem: str, **values: Any) -> RequestRecord:
        """Return the record of a request of the offer's robot. problem: why it failed; empty: it did not."""
        return cls(
            session_id=session_id,
            robot=offer.robot_namespace,
            client=offer.client,
            status="error" if problem else "ok",
            outcome=shorten(problem) or "ok",
            tags=offer.tags,
            **values,
        )

    @property
    def late(self) -> bool:
        """Whether the chunk was ready after the robot's queue had ended."""
        return self.slack_ms is not None and self.slack_ms < 0.0

    def to_json(self, **head: str) -> str:
        """Return one line; `head` comes first."""
        return json.dumps({**head, **asdict(self)}, separators=(",", ":"))


MAX_FILE_BYTES = 64 * 1024 * 1024
OLD_FILES = 4  # beside the newest, as <file>.1 to <file>.4
MAX_WAITING = 10_000  # lines on their way to a slow disk; more are dropped and counted
MAX_WAITING_BYTES = 8_000_000  # of them: an outcome may hold a thousand characters
ENTRY_BYTES = 400  # of memory for a waiting line, besides its texts
CLOSE_TIMEOUT_S = 2.0  # for the lines that wait when the server ends

# Fields of a line in the file, in this order. `make docs` writes them into the pages.
DESCRIPTIONS: Mapping[str, str] = {
    "time": "when the answer was ready, by the server's wall clock: UTC, ISO 8601 with milliseconds",
    "server": "fully qualified name of the server's node",
    "instance": "id of the server's process, as in ServerStatus",
    "session_id": "session that the request named; with seq_id, the key to the robot's bag",
    "robot": "the robot's namespace; `openpi:1` and so on for clients of openpi's wire",
    "client": "fully qualified name of the robot's node",
    "seq_id": "request number, counted by the robot; 0 when the request was unreadable",
    "episode_id": "episode of the request; 0 when it was unreadable",
    "policy_version": "fingerprint of the policy, and `@` with the version of its live weights; empty when "
    "it was not answered",
    "batch_size": "requests that were served together, this one included; 0 when it was not answered",
    "queue_wait_ms": "how long it waited here: for its turn, the others of its batch, the device [ms]",
    "inference_ms": "its own decoding and preprocessing, then policy and postprocessing of its batch [ms]",
    "staleness_ms": "how long the robot had been waiting here when its chunk was ready [ms]: from the first "
    "request since its last chunk, superseded ones included",
    "slack_ms": "how long the robot's queue still lasted when its chunk was ready [ms]; negative: it had "
    "ended; null of a client that does not say it",
    "capture_skew_ms": "time between the oldest and the newest content of the observation [ms]; 0 of a "
    "client that does not say it",
    "superseded": "requests of this robot that this one replaced unserved",
    "status": "`ok` or `error`",
    "outcome": "`ok`, or what went wrong: the words of the ERROR chunk, or why none was sent",
    "tags": "the robot's notes, by key",
}


class RequestLog:
    """The audit file, written on its own thread: a slow disk costs lines, never inference time.

    Raises OSError when the file cannot be opened.
    """

    def __init__(self, path: str | Path, server: str, instance: str) -> None:
        self._file = _RotatingFile(Path(path))
        self._head = {"server": server, "instance": instance}
        self._writer = BackgroundWriter(
            "audit", self._append, MAX_WAITING, size=_size, waiting_bytes_max=MAX_WAITING_BYTES
        )

    @property
    def dropped(self) -> int:
        """Lines lost to a full queue or a file that could not be written."""
        return self._writer.dropped

    def write(self, record: RequestRecord) -> None:
        """Queue one record; never blocks."""
        self._writer.put((time.time(), record))

    def close(self) -> bool:
        """Write the waiting lines and close the file; return False when the disk does not finish in time."""
        if not self._writer.close(CLOSE_TIMEOUT_S):
            return False  # the file is still being written to
        self._file.close()
        return True

    def _append(self, entry: tuple[float, RequestRecord]) -> None:
        time_s, record = entry
        utc = datetime.fromtimestamp(time_s, timezone.utc).isoformat(timespec="milliseconds")
        line = record.to_json(time=utc.replace("+00:00", "Z"), **self._head)
        self._file.append(f"{line}\n".encode())


def _size(entry: tuple[float, RequestRecord]) -> int:
    """Return about how many bytes of memory an entry takes, which its texts decide about."""
    record = entry[1]
    texts = (record.session_id, record.robot, record.client, record.outcome)
    return ENTRY_BYTES + sum(map(sys.getsizeof, texts))


class _RotatingFile:
    """Appends lines. A full file becomes `<file>.1`, older files are renumbered, the oldest is removed.

    The standard library's handler would do, but logging closes every handler when the process ends, and so
    waits for a disk that does not answer.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._open()

    def append(self, line: bytes) -> None:
        """Write a whole line or nothing. Raises OSError."""
        if self._file.closed:  # the new file could not be opened when the last one was full
            self._file = self._open()
        size = self._size()
        if size and size + len(line) > MAX_FILE_BYTES:
            self._rotate()
            size = self._size()
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with suppress(OSError):  # a pipe, for example, cannot be truncated
                self._file.truncate(size)
            raise

    def close(self) -> None:
        self._file.close()

    def _open(self) -> io.FileIO:
        return self._path.open("ab", buffering=0)

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _rotate(self) -> None:
        self._file.close()
        try:
            for number in range(OLD_FILES, 1, -1):
                with suppress(FileNotFoundError):
                    self._old(number - 1).replace(self._old(number))
            self._path.replace(self._old(1))
        finally:
            self._file = self._open()

    def _old(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
