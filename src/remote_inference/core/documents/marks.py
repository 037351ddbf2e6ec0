# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Marked values: places of a document that a person has to fill in before the document loads."""

from __future__ import annotations

from typing import Any

FILL_IN = "FILL_IN"  # a text that begins so is marked; what is expected there follows


def mark(expected: str) -> str:
    """Return the value that stands where `expected` is to be filled in."""
    return f"{FILL_IN}: {' '.join(expected.split())}"


def find_marks(content: Any, place: str = "") -> list[str]:
    """Return a line for each marked value of a document's content: the place, and what is expected there."""
    if isinstance(content, str) and content.startswith(FILL_IN):
        expected = content.removeprefix(FILL_IN).lstrip(": ") or "a value"
        return [f"{place}: to be filled in, expected {expected}"]
    items: Any = ()
    if isinstance(content, dict):
        items = content.items()
    elif isinstance(content, list):
        items = enumerate(content)
    return [line for key, item in items for line in find_marks(item, f"{place}.{key}" if place else str(key))]
