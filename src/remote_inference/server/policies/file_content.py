# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Recognises a file's format by its first bytes, whatever its name; nothing of it is loaded."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from remote_inference.base.policy import PolicyError

HEAD_BYTES = 512  # enough to recognise a format
_LONGEST_TEXT = 60  # of a file that is quoted


class Content(Enum):
    """What a file can be; the value names it in errors."""

    EMPTY = "an empty file"
    LFS_POINTER = "a Git LFS pointer in the place of the file"
    WEB_PAGE = "an answer of a web server (HTML or XML)"
    ZIP = "a zip archive as of torch.save or torch.export: loading one can execute code"
    PICKLE = "a pickle: loading one can execute code"
    SAFETENSORS = "a safetensors file"
    ONNX = "an ONNX file"
    ONNX_DATA = "the tensors' data of an ONNX file"
    JSON = "a JSON file"


# What stands in the place of a file that was not fetched; no tensors' data begins so.
PLACEHOLDERS = frozenset({Content.LFS_POINTER, Content.WEB_PAGE})
_REMEDIES = {
    Content.EMPTY: "copy or download it again",
    Content.LFS_POINTER: "run `git lfs pull` where it was cloned",
    Content.WEB_PAGE: "download the file itself, and not the page that shows it",
}
_ONNX_TAGS = frozenset(b"\x12\x1a\x22\x28\x32\x3a\x42\x72\xa2")  # of the fields after a model's first one


def read_file(path: Path, size: int = -1) -> bytes:
    """Return a file's content, or its first bytes. Raises PolicyError."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror}") from error


def read_head(path: Path) -> bytes:
    """Return the bytes by which a file is recognised. Raises PolicyError."""
    return read_file(path, HEAD_BYTES)


def recognise(head: bytes) -> Content | None:
    """Return what a file with these first bytes is, None when they do not show it."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:16].lower()
    if not head:
        return Content.EMPTY
    if head.startswith(b"version https://git-lfs"):
        return Content.LFS_POINTER
    if text.startswith((b"<!doctype html", b"<html", b"<?xml")):
        return Content.WEB_PAGE
    if head.startswith(b"PK\x03\x04"):
        return Content.ZIP
    if head[0] == 0x80 and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:  # and its protocol
        return Content.PICKLE
    if head[8:9] == b"{" and head[4:8] == bytes(4):  # behind the header's length, below 4 GiB
        return Content.SAFETENSORS
    if len(head) > 2 and head[0] == 0x08 and 0 < head[1] < 0x80 and head[2] in _ONNX_TAGS:
        return Content.ONNX
    return None


def find_mismatch(head: bytes, expected: Content) -> str:
    """Return in words that a file is another than expected, with the remedy; empty if its bytes may fit."""
    found = recognise(head)
    if found is None or found is expected:
        return ""
    remedy = f"; {_REMEDIES[found]}" if found in _REMEDIES else ""
    return f"found {found.value}, expected {expected.value}{remedy}"


def explain_damage(head: bytes, expected: Content, reason: object) -> str:
    """Return in words why a file could not be read. reason: in the words of what has tried to."""
    if problem := find_mismatch(head, expected):
        return problem
    if recognise(head) is expected:
        return f"found {expected.value} that is damaged or cut off, expected it whole: {one_line(reason)}"
    text = head[:_LONGEST_TEXT].decode("ascii", "replace").strip()
    found = f"the text {text!r}" if text.isprintable() and text.isascii() else "bytes of another format"
    return f"found {found}, expected {expected.value}: {one_line(reason)}"


def one_line(error: object) -> str:
    """Return an error's text on one line; the name of its class where it has none."""
    return " ".join(str(error).split()) or type(error).__name__
