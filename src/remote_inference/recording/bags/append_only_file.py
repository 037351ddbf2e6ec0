# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A new file to append to, from which a killed process loses nothing that it has written."""

from __future__ import annotations

import os
from pathlib import Path


class AppendOnlyFile:
    """A new file to append to, without a buffer: what `write` took is the kernel's."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self.offset = 0

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest:
            written = os.write(self._file, rest)
            self.offset += written
            rest = rest[written:]
        return len(data)

    def tell(self) -> int:
        return self.offset

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def close(self, *, sync: bool = True) -> None:
        """Close the file; a second call does nothing."""
        file, self._file = self._file, -1
        if file >= 0:
            try:
                if sync:
                    os.fsync(file)
            finally:
                os.close(file)
