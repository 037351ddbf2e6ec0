# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Files are named by what they hold: users see which of their copies, downloads and clones went wrong."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from remote_inference.server.policies.file_content import (
    Content,
    explain_damage,
    find_mismatch,
    read_head,
    recognise,
)


def torch_saved() -> bytes:
    file = io.BytesIO()
    torch.save({"weight": torch.zeros(2)}, file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", Content.EMPTY),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 1\n", Content.LFS_POINTER),
        (b"\n<!doctype html>\n<html>", Content.WEB_PAGE),
        (b"\xef\xbb\xbf<HTML><body>", Content.WEB_PAGE),
        (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', Content.WEB_PAGE),
        (torch_saved(), Content.ZIP),
        *((pickle.dumps({"a": 1}, protocol), Content.PICKLE) for protocol in (2, 3, 4, 5)),
        (save({"weight": np.zeros(3, np.float32)}), Content.SAFETENSORS),
        (save({f"weight.{index}": np.zeros(3, np.float32) for index in range(9000)}), Content.SAFETENSORS),
        (b"{}", None),
        (b"x", None),
        (b"\x08\x0a", None),
        (b"\x80", None),
    ],
)
def test_the_first_bytes_tell_what_a_file_is(content: bytes, found: Content | None) -> None:
    assert recognise(content) is found
    assert recognise(content[:512]) is found


def test_an_onnx_file_is_recognised() -> None:
    pytest.importorskip("onnx", reason="found no onnx, which requirements/server.txt lists")
    from support.policies.onnx_models import make_model

    assert recognise(make_model().SerializeToString()) is Content.ONNX


def test_a_head_is_the_begin_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 9)
    assert read_head(tmp_path / "file") == bytes(range(256)) * 2


def test_a_file_that_may_be_what_is_expected_is_no_mismatch() -> None:
    assert find_mismatch(b"{}", Content.SAFETENSORS) == ""
    assert find_mismatch(save({}), Content.SAFETENSORS) == ""
    assert find_mismatch(b"\x80\x04.", Content.ONNX).startswith("found a pickle: ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            save({"weight": np.zeros(3, np.float32)})[:-4],
            "a safetensors file that is damaged or cut off, expected it whole",
        ),
        (b"Invalid username.", "the text 'Invalid username.', expected a safetensors file"),
        (b"\xff\xfe\x00\x01", "bytes of another format, expected a safetensors file"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(content: bytes, words: str) -> None:
    problem = explain_damage(content, Content.SAFETENSORS, ValueError("no\nheader"))
    assert problem == f"found {words}: no header"
