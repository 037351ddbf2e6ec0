# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes captures on a thread of its own: the inference thread never waits for a disk."""

from __future__ import annotations

import time
from pathlib import Path

from rclpy.logging import get_logger

from remote_inference.captures import CaptureRing
from remote_inference.core.document import DocumentError
from remote_inference.core.server.background_writer import BackgroundWriter
from remote_inference.core.server.capture import Capture
from remote_inference.core.server.manifest import Manifest
from remote_inference.core.server.throttle import Throttle

WAITING_MAX = 16  # captures; more are dropped, the newest first
CLOSE_TIMEOUT_S = 5.0
WARNING_PERIOD_S = 10.0


class CaptureWriter:
    """The ring of a manifest's `capture_dir`. Raises DocumentError when the folder cannot be written."""

    def __init__(self, manifest: Manifest) -> None:
        try:
            ring = CaptureRing(Path(manifest.capture_dir), manifest.capture_max)
        except (OSError, ValueError) as error:
            raise DocumentError(f"capture_dir: cannot use {manifest.capture_dir}: {error}") from error
        self._logger = get_logger("captures")
        self._warnings = Throttle(WARNING_PERIOD_S)
        self._writer = BackgroundWriter("captures", ring.put, WAITING_MAX, self._warn)

    @property
    def dropped(self) -> int:
        """Captures lost to a disk that is slow, full or gone."""
        return self._writer.dropped

    def put(self, capture: Capture) -> None:
        """Hand a capture over, or drop it when the disk does not keep up."""
        self._writer.put(capture)

    def close(self) -> None:
        """Write what waits and end."""
        if not self._writer.close(CLOSE_TIMEOUT_S):
            self._logger.error(f"the disk has not answered for {CLOSE_TIMEOUT_S:g} s: {self.dropped} lost")

    def _warn(self, reason: str) -> None:
        """Say at most once in a while what is lost; rclpy's own throttle costs the inference thread more."""
        if self._warnings.admits("lost", time.monotonic()):
            self._logger.warning(f"a capture is lost, {self.dropped} so far: {reason}")
