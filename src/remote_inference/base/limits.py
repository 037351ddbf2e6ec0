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
# What a terminal obeys in place of showing it: C0 and C1 controls, line separators and marks of direction.
_OBEYED = (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_SHOWN = {code: ascii(chr(code))[1:-1] for code in _OBEYED}
_SHOWN_IN_LINES = {code: shown for code, shown in _SHOWN.items() if chr(code) not in "\n\t"}


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


def visible(text: str, *, in_lines: bool = False) -> str:
    """Return another's text for a terminal or a log, which obeys none of it: control characters as escapes.

    in_lines: it may have several, and tabs.
    """
    return text.translate(_SHOWN_IN_LINES if in_lines else _SHOWN)


MOST_TIMES = 1024  # the pixels that the policy sees of a camera, which one of its images may have
ALWAYS_PIXELS = 1920 * 1080  # that it may have in any case


def find_size_problem(pixels: int, height: int, width: int) -> str:
    """Return why an image has too many pixels for a policy that sees `height x width`, "" if it has not."""
    most = max(ALWAYS_PIXELS, MOST_TIMES * height * width)
    if pixels <= most:
        return ""
    return f"found {pixels} pixels, expected {most} at most for a policy that sees {height}x{width}"


def shorten(text: str, most: int = MAX_REMARK_LENGTH) -> str:
    """Return a text of `most` characters at most; one that is cut says how much is missing."""
    if len(text) <= most:
        return text
    note = f"... ({len(text)} characters)"
    return text[: max(0, most - len(note))] + note
