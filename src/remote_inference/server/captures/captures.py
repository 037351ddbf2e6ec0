# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Captures: served requests with their chunks, one file each in a bounded ring, to be served again."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from remote_inference.base.background_writer import BackgroundWriter
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.errors import UserError
from remote_inference.base.exchange import Chunk, ImageFeature, SessionKind, SessionOffer
from remote_inference.base.policy import Float32Array
from remote_inference.server.throttle import Throttle

SUFFIX = ".capture"
VERSION = 3  # 2: batch_size; 3: observations with a history
WAITING_MAX = 16  # captures; more are dropped, the newest first
CLOSE_TIMEOUT_S = 5.0
WARNING_PERIOD_S = 10.0


class CaptureError(UserError):
    """A file is not a capture; the message names the file."""


@dataclass(frozen=True)
class Capture:
    """One request as it arrived, and its answer.

    data: serialized Observation. model and robot: float32 `[chunk_size, action_dim]`. batch_size: requests
    that were served together, this one included.
    """

    offer: SessionOffer
    data: bytes
    model: Float32Array
    robot: Float32Array
    policy_version: str
    seq_id: int
    batch_size: int


class CaptureRing:
    """Keeps the newest `maximum` captures of a folder; captures of earlier runs count, too."""

    def __init__(self, folder: Path, maximum: int) -> None:
        """Create the folder. Raises OSError when it cannot be written."""
        self._folder = folder
        self._maximum = maximum
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:  # the folder may be read-only
            probe.write(b"probe")
        self._files = sorted(folder.glob(f"*{SUFFIX}"))
        self._next = int(self._files[-1].stem) + 1 if self._files else 0

    def put(self, capture: Capture) -> Path:
        """Write a capture and remove the oldest beyond the maximum; return the new file."""
        path = self._folder / f"{self._next:010d}{SUFFIX}"
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(_to_bytes(capture))
        unfinished.rename(path)  # a reader never sees half a capture
        self._next += 1
        self._files.append(path)
        while len(self._files) > self._maximum:
            self._files.pop(0).unlink(missing_ok=True)
        return path


class CaptureWriter:
    """Writes the ring of a manifest's `capture_dir` on its own thread: inference never waits for a disk.

    Raises DocumentError when the folder cannot be written.
    """

    def __init__(self, folder: str, maximum: int, warn: Callable[[str], None]) -> None:
        """warn: called with what is lost, at most once in WARNING_PERIOD_S, on the thread that lost it."""
        try:
            ring = CaptureRing(Path(folder), maximum)
        except (OSError, ValueError) as error:
            raise DocumentError(f"capture_dir: cannot use {folder}: {error}") from error
        self._log = warn
        self._warnings = Throttle(WARNING_PERIOD_S)
        self._writer = BackgroundWriter("captures", ring.put, WAITING_MAX, self._warn)

    @property
    def dropped(self) -> int:
        """Captures lost to a disk that is slow, full or gone."""
        return self._writer.dropped

    def put(self, offer: SessionOffer, data: bytes, chunk: Chunk, batch_size: int) -> None:
        """Queue a request and its answer, or drop both when the disk does not keep up."""
        version, seq_id = chunk.policy_version, chunk.seq_id
        self._writer.put(Capture(offer, data, chunk.model, chunk.robot, version, seq_id, batch_size))

    def close(self) -> None:
        """Write the waiting captures and end."""
        if not self._writer.close(CLOSE_TIMEOUT_S):
            self._log(f"captures: the disk has not answered for {CLOSE_TIMEOUT_S:g} s: {self.dropped} lost")

    def _warn(self, reason: str) -> None:
        """Warn of lost captures, at most once in WARNING_PERIOD_S."""
        if self._warnings.admits("lost", time.monotonic()):
            self._log(f"a capture is lost, {self.dropped} so far: {reason}")


def load_capture(path: Path) -> Capture:
    """Read a capture. Raises CaptureError naming the file."""
    try:
        fields = msgpack.unpackb(path.read_bytes())
        if fields["version"] != VERSION:
            raise CaptureError(f"{path}: version: found {fields['version']}, expected {VERSION}")
        offer = fields["offer"]
        offer = {key: tuple(value) if isinstance(value, list) else value for key, value in offer.items()}
        offer["kind"] = SessionKind(offer["kind"])
        offer["images"] = tuple(ImageFeature(**image) for image in offer["images"])
        arrays = {
            space: np.frombuffer(fields[space], np.float32).reshape(fields["shape"])
            for space in ("model", "robot")
        }
        return Capture(
            offer=SessionOffer(**offer),
            data=fields["data"],
            policy_version=fields["policy_version"],
            seq_id=fields["seq_id"],
            batch_size=fields["batch_size"],
            **arrays,
        )
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}") from error
    except CaptureError:
        raise
    except Exception as error:  # msgpack and numpy raise many kinds for other bytes
        raise CaptureError(f"{path}: is not a capture: {type(error).__name__}: {error}") from error


def _to_bytes(capture: Capture) -> bytes:
    fields: dict[str, Any] = {
        "version": VERSION,
        "offer": {**asdict(capture.offer), "kind": capture.offer.kind.value},
        "data": capture.data,
        "shape": list(capture.model.shape),
        "model": capture.model.astype(np.float32).tobytes(),
        "robot": capture.robot.astype(np.float32).tobytes(),
        "policy_version": capture.policy_version,
        "seq_id": capture.seq_id,
        "batch_size": capture.batch_size,
    }
    packed: bytes = msgpack.packb(fields)
    return packed
