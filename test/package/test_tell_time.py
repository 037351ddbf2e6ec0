# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`make` says that a silent step goes on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "tell_time.sh"


def tell_time(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, "sh", "-c", command],
        env={**os.environ, "PERIOD_S": "1"},
        capture_output=True,
        text=True,
        timeout=60.0,
    )


def test_a_silent_step_is_said_to_go_on_and_ends_as_it_would_alone() -> None:
    ended = tell_time("sleep 2.5; echo done; exit 3")
    lines = ended.stdout.splitlines()
    assert lines[0] == "  ... 1 s"
    assert lines[-1] == "done"
    assert (ended.returncode, ended.stderr) == (3, "")


def test_a_quick_step_is_left_alone() -> None:
    ended = tell_time("echo done")
    assert (ended.stdout, ended.stderr, ended.returncode) == ("done\n", "", 0)
