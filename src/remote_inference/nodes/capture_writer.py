# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes captures on a thread of its own: the inference thread never waits for a disk."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from pathlib import Path

from rclpy.logging import get_logger

from remote_inference.captures import CaptureRing
from remote_inference.core.document import DocumentError
from remote_inference.core.server.capture import Capture
from remote_inference.core.server.manifest import Manifest

WAITING_MAX = 16  # captures; more are dropped, the newest first
JOIN_TIMEOUT_S = 5.0


class CaptureWriter:
    """The ring of a manifest's `capture_dir`. Raises DocumentError when the folder cannot be written."""

    def __init__(self, manifest: Manifest) -> None:
        try:
            self._ring = CaptureRing(Path(manifest.capture_dir), manifest.capture_max)
        except (OSError, ValueError) as error:
            raise DocumentError(f"capture_dir: cannot use {manifest.capture_dir}: {error}") from error
        self._waiting: queue.Queue[Capture | None] = queue.Queue(WAITING_MAX)
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="captures", daemon=True)
        self._thread.start()

    def put(self, capture: Capture) -> None:
        """Hand a capture over, or drop it when the disk does not keep up."""
        try:
            self._waiting.put_nowait(capture)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Write what waits and end."""
        with suppress(queue.Full):  # the thread has ended, or is stuck in a write
            self._waiting.put(None, timeout=JOIN_TIMEOUT_S)
        self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while (capture := self._waiting.get()) is not None:
                self._ring.put(capture)
        except OSError as error:  # a full disk must not end the service
            get_logger("captures").error(f"no more captures: {error}")
