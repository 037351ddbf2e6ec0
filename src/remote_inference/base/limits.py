# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bounds of what others send: nothing is echoed, logged or kept at any length."""

from __future__ import annotations

from dataclasses import dataclass

MAX_NAME_LENGTH = 256  # characters of a node, process, robot type, joint or camera
MAX_TASK_LENGTH = 4096  # characters of an instruction
MAX_CAMERAS = 16  # of one robot
MAX_OBSERVATION_STEPS = 16  # control ticks that one observation shows, each with all cameras
MAX_REMARK_LENGTH = 1024  # characters of a reason in an answer, a log or a request log
MAX_QUOTE_LENGTH = 64  # characters of what was found, within a reason


@dataclass(frozen=True)
class RequestLimits:
    """What one request may hold; a server's manifest may say otherwise."""

    cameras: int = 8
    pixels: int = 33_554_432  # of all images together, for example four of 3840x2160
    size_bytes: int = 16_777_216  # of images, numbers and additions together


DEFAULT_LIMITS = RequestLimits()


def find_length_problem(what: str, text: str, most: int) -> str:
    """Return why a text is refused for its length; empty when it has `most` characters or fewer."""
    return "" if len(text) <= most else f"{what}: found {len(text)} characters, expected {most} at most"


def shorten(text: str, most: int = MAX_REMARK_LENGTH) -> str:
    """Return a text of `most` characters at most; one that is cut says how much is missing."""
    if len(text) <= most:
        return text
    note = f"... ({len(text)} characters)"
    return text[: max(0, most - len(note))] + note
