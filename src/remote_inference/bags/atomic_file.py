# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of files: a full disk leaves no half of one, and the one before stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(out: Path) -> Iterator[Path]:
    """Yield a path beside `out`. The file that is written there replaces `out` at the end.

    After an error it is removed. Raises OSError.
    """
    draft = out.with_name(f".{out.name}.draft")
    try:
        yield draft
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
