# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tags: notes on a robot, such as `site=lab_2`, that travel with its session into logs and metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from remote_inference.base.limits import MAX_QUOTE_LENGTH, shorten

MAX_TAGS = 16  # of one session
MAX_KEY_LENGTH = 32  # characters
MAX_VALUE_LENGTH = 128  # characters

_KEY = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_KEY_LENGTH - 1}}}")  # each can be a label in Prometheus


def parse_tags(texts: Iterable[str]) -> dict[str, str]:
    """Return tags by key, in the order given.

    Raises ValueError for a text that is not `key=value`, a key or value that is refused, a key that comes
    twice, or more than MAX_TAGS.
    """
    given = tuple(texts)
    if len(given) > MAX_TAGS:
        raise ValueError(f"found {len(given)} tags, expected {MAX_TAGS} at most")
    tags: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"found {_quote(text)}, expected key=value")
        _require_key(key)
        if not value or not value.isprintable() or len(value) > MAX_VALUE_LENGTH:
            expected = f"1 to {MAX_VALUE_LENGTH} printable characters"
            raise ValueError(f"{key}: found {_quote(value)}, expected {expected}")
        if key in tags:
            raise ValueError(f"found {key!r} twice, expected each key once")
        tags[key] = value
    return tags


def check_tags(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return texts of tags as they are. Raises ValueError as `parse_tags`."""
    parse_tags(texts)
    return texts


def check_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return keys of tags as they are. Raises ValueError for a wrong key, one twice, or too many."""
    if len(keys) > MAX_TAGS:
        raise ValueError(f"found {len(keys)} keys, expected {MAX_TAGS} at most")
    for key in keys:
        _require_key(key)
        if keys.count(key) > 1:
            raise ValueError(f"found {key!r} twice, expected each key once")
    return keys


def write_tags(tags: Mapping[str, str]) -> tuple[str, ...]:
    """Return tags as `parse_tags` reads them."""
    return tuple(f"{key}={value}" for key, value in tags.items())


def _require_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        expected = f"a letter, then letters, digits or _, {MAX_KEY_LENGTH} characters at most"
        raise ValueError(f"found the key {_quote(key)}, expected {expected}")


def _quote(text: str) -> str:
    return repr(shorten(text, MAX_QUOTE_LENGTH))
