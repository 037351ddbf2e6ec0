# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One record per request: who asked, how long it took, how it ended; and the file that keeps them."""

from __future__ import annotations

import json
import logging
import logging.handlers
import queue
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

MAX_FILE_BYTES = 64 * 1024 * 1024
OLD_FILES = 4  # kept beside the newest as <file>.1 to <file>.4
MAX_WAITING = 10_000  # lines on their way to a slow disk; more are dropped and counted

# Of a line in the file, in this order. `make docs` shows them to people.
DESCRIPTIONS: Mapping[str, str] = {
    "time": "when the answer was ready, by the server's wall clock: UTC, ISO 8601 with milliseconds",
    "server": "fully qualified name of the server's node",
    "instance": "id of the server's process, as in ServerStatus",
    "session_id": "session that the request named; with seq_id, the key to the robot's bag",
    "robot": "the robot's namespace",
    "client": "fully qualified name of the robot's node",
    "seq_id": "request number, counted by the robot; 0 when the request was unreadable",
    "episode_id": "episode of the request; 0 when it was unreadable",
    "batch_size": "requests that were served together, this one included; 0 when it was unreadable",
    "queue_wait_ms": "arrival of the request until the worker took it [ms]",
    "inference_ms": "from there until the chunk was ready: decoding, policy, processors [ms]",
    "staleness_ms": "how long the robot had been waiting here when its chunk was ready [ms]: from the first "
    "request since its last chunk, superseded ones included",
    "superseded": "requests of this robot that this one replaced unserved",
    "status": "`ok` or `error`",
    "outcome": "`ok`, or what the ERROR chunk says",
}


@dataclass(frozen=True)
class AuditRecord:
    """What the worker knows of one request; DESCRIPTIONS says what each field means."""

    session_id: str
    robot: str
    client: str
    seq_id: int = 0
    episode_id: int = 0
    batch_size: int = 0
    queue_wait_ms: float = 0.0
    inference_ms: float = 0.0
    staleness_ms: float = 0.0
    superseded: int = 0
    status: Literal["ok", "error"] = "ok"
    outcome: str = "ok"

    def to_json(self, **head: str) -> str:
        """Return one line; `head` comes first."""
        return json.dumps({**head, **asdict(self)}, separators=(",", ":"))


class AuditLog:
    """The audit file. Writing happens on a thread of its own: a slow disk costs lines, never inference time.

    Raises OSError when the file cannot be opened.
    """

    def __init__(self, path: str | Path, server: str, instance: str) -> None:
        self._file = _RotatingFile(path, maxBytes=MAX_FILE_BYTES, backupCount=OLD_FILES, encoding="utf-8")
        self._file.setFormatter(_LineFormatter(server, instance))
        self._entrance = _Entrance(queue.Queue(MAX_WAITING))
        self._writer = _Writer(self._entrance.queue, self._file)
        self._logger = logging.Logger("audit", logging.INFO)  # ours alone: not in logging's registry
        self._logger.addHandler(self._entrance)
        self._writer.start()

    @property
    def dropped(self) -> int:
        """Lines lost to a full queue or a file that could not be written."""
        return self._entrance.dropped + self._file.dropped

    def write(self, record: AuditRecord) -> None:
        """Hand over one record; never blocks."""
        self._logger.info(record)

    def close(self) -> None:
        """Write what is waiting and close the file."""
        self._writer.stop()
        with suppress(OSError):  # a full disk: what could not be written has been counted
            self._file.close()


class _LineFormatter(logging.Formatter):
    def __init__(self, server: str, instance: str) -> None:
        super().__init__()
        self._head = {"server": server, "instance": instance}

    def format(self, record: logging.LogRecord) -> str:
        assert isinstance(record.msg, AuditRecord)
        time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        return record.msg.to_json(time=time.replace("+00:00", "Z"), **self._head)


class _Entrance(logging.handlers.QueueHandler):
    """Drops and counts what finds the queue full; leaves the formatting to the writer's thread."""

    queue: queue.Queue[logging.LogRecord]
    dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _Writer(logging.handlers.QueueListener):
    queue: queue.Queue[logging.LogRecord | None]

    def enqueue_sentinel(self) -> None:
        # Where the queue is full, the standard's put_nowait would raise.
        self.queue.put(None)


class _RotatingFile(logging.handlers.RotatingFileHandler):
    """Counts what cannot be written, as on a full disk, instead of printing a traceback for each line."""

    dropped = 0

    def handleError(self, _: logging.LogRecord) -> None:  # noqa: N802  the base class's name
        self.dropped += 1
