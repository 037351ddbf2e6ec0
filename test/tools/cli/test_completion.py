# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Completion of the shell's command line by argcomplete, asked as bash asks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("argcomplete", reason="found no argcomplete, which requirements/dev.txt lists")


def complete(line: str) -> list[str]:
    """Return what the program offers for the end of a command line."""
    variables = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    reader, writer = os.pipe()
    with os.fdopen(reader) as offered:
        code = (
            "import os, sys; fd = int(sys.argv.pop()); os.dup2(fd, 8);"
            "sys.argv[0] = 'remote-inference'; from remote_inference.tools import cli; cli.main([])"
        )
        subprocess.run(
            [sys.executable, "-c", code, str(writer)],
            env={**os.environ, **variables},
            pass_fds=[writer],
            check=True,
            timeout=60.0,
        )
        os.close(writer)
        return [word.strip() for word in offered.read().split("\n") if word.strip()]


def test_verbs_and_options_are_completed() -> None:
    assert sorted(complete("remote-inference res")) == ["reset", "resume"]
    assert complete("remote-inference reset --ta") == ["--task"]
    assert complete("remote-inference fleet add rou") == ["router"]


def test_files_are_completed(tmp_path: os.PathLike[str]) -> None:
    file = os.path.join(tmp_path, "arm.contract.yaml")
    with open(file, "w", encoding="utf-8"):
        assert complete(f"remote-inference check {tmp_path}/arm") == [file]
