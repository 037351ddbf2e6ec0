# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a verb prints: text for people, JSON for programs, only errors with `--quiet`."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def add_output_arguments(
    parser: argparse.ArgumentParser, *, json_shape: str, quiet: str = "print nothing but errors"
) -> None:
    """Declare `--json`, whose one shape the help says, and `--quiet`, unless `quiet` is empty."""
    parser.add_argument("--json", action="store_true", help=f"print JSON: {json_shape.replace('%', '%%')}")
    if quiet:
        add_quiet(parser, quiet)


def add_quiet(parser: argparse.ArgumentParser, text: str) -> None:
    """Declare `--quiet`. text: what is still printed."""
    parser.add_argument("--quiet", action="store_true", help=text)


def print_error(verb: str, text: str) -> None:
    """Print an error of a verb: each of its lines says whose it is."""
    sys.stdout.flush()
    for line in text.splitlines() or [""]:
        print(f"remote-inference {verb}: {line}", file=sys.stderr)


def print_json(value: Any) -> None:
    """Print one JSON value on one line; numbers that are not finite become null, because JSON lacks them."""
    print(json.dumps(_finite(value), allow_nan=False), flush=True)


@contextmanager
def results_apart() -> Iterator[None]:
    """Let only results reach the standard output: within the block, file descriptor 1 is standard error.

    rmw_zenoh logs to file descriptor 1, where its lines would stand between those of `--json`. What Python
    prints goes to a copy of what that descriptor was before.
    """
    stream = sys.stdout
    if not _is_descriptor_1(stream):  # there is none, or it is a test's
        yield
        return
    stream.flush()
    original = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(original), "w", encoding=stream.encoding, errors=stream.errors) as results:
            sys.stdout = results
            yield
    finally:
        sys.stdout = stream
        os.dup2(original, 1)
        os.close(original)


def _is_descriptor_1(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == 1)
    except (AttributeError, OSError, ValueError):  # None, a stream without one, or closed
        return False


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
