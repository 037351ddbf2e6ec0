# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A bounded ring of served requests with their chunks, one file each, to be served again."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from remote_inference.core.exchange import ImageFeature, SessionOffer
from remote_inference.core.server.capture import Capture

SUFFIX = ".capture"
VERSION = 2  # 2: batch_size


class CaptureError(Exception):
    """A file is no capture; the message names it."""


class CaptureRing:
    """Keeps the newest `maximum` captures of a folder; older ones of earlier runs count."""

    def __init__(self, folder: Path, maximum: int) -> None:
        """Create the folder. Raises OSError when it cannot be written."""
        self._folder = folder
        self._maximum = maximum
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:  # it may be read-only
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


def load_capture(path: Path) -> Capture:
    """Read a capture. Raises CaptureError naming the file."""
    try:
        fields = msgpack.unpackb(path.read_bytes())
        if fields["version"] != VERSION:
            raise CaptureError(f"{path}: version: found {fields['version']}, expected {VERSION}")
        offer = fields["offer"]
        offer |= {key: tuple(offer[key]) for key in ("action_names", "state_names")}
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
    except Exception as error:  # whatever bytes that are no capture make msgpack and the rest raise
        raise CaptureError(f"{path}: is no capture: {type(error).__name__}: {error}") from error


def _to_bytes(capture: Capture) -> bytes:
    fields: dict[str, Any] = {
        "version": VERSION,
        "offer": asdict(capture.offer),
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
