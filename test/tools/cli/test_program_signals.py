# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends every verb, while it still imports, too: without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from remote_inference.base.paths import share_path
from support.waiting import read_line

DEADLINE_S = 60.0
MOMENTS_S = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)  # after the program's first line
STOPPED = {0, 130, -signal.SIGINT}  # the last while Python itself ends; a shell shows 130 for it
PROGRAM = (
    "import sys; from remote_inference.tools.cli import start; print('begun', flush=True); sys.exit(start())"
)
CONTRACT = str(share_path("config", "belt_arm.contract.yaml"))
MANIFEST = str(share_path("config", "belt_arm.manifest.yaml"))
COMMANDS = {
    "check": ["check", CONTRACT, MANIFEST],
    "server": ["server", "--manifest", MANIFEST],
    "robot": ["robot", "--contract", CONTRACT, "--namespace", "/interrupted"],
    "status": ["status", "interrupted", "--timeout", "60"],
    "top": ["top", "--json"],
}


def start(command: list[str]) -> subprocess.Popen[str]:
    """Start a verb and wait until the program has begun: before that, Python is in its own start."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert read_line(process) == "begun\n"
    return process


def test_nothing_is_imported_before_signals_are_taken() -> None:
    program = (
        "import remote_inference.tools.cli, sys; print(*{'argparse', 'typing', 'pathlib'} & {*sys.modules})"
    )
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (ended.stdout, ended.stderr) == ("\n", "")


@pytest.mark.parametrize("moment_s", MOMENTS_S)
@pytest.mark.parametrize("verb", COMMANDS)
def test_an_interrupt_at_any_moment_leaves_no_traceback(verb: str, moment_s: float) -> None:
    process = start(COMMANDS[verb])
    time.sleep(moment_s)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert "Traceback" not in output
    assert "KeyboardInterrupt" not in output
    assert process.returncode in STOPPED, output


def test_an_interrupt_of_an_import_is_not_taken_for_its_failure(tmp_path: Path) -> None:
    """Extensions turn what is raised while they are imported into an ImportError."""
    (tmp_path / "my_policy.py").write_text(
        "import os, signal\n"
        "try: os.kill(os.getpid(), signal.SIGINT)\n"
        "except BaseException: raise ImportError('numpy is broken')\n"
    )
    (tmp_path / "policy.json").write_text("{}")
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text("model: {backend: 'my_policy:Mine', path: policy.json}")
    ended = subprocess.run(
        [sys.executable, "-m", "remote_inference.tools.cli", "check", str(manifest)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_a_background_job_of_a_shell_goes_on_ignoring_interrupts() -> None:
    program = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {PROGRAM}"
    code = program.replace("sys.exit(start())", "start()")
    check = "; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    ended = subprocess.run(
        [sys.executable, "-c", code + check, "check", CONTRACT],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ended.stdout.endswith("\nTrue\n"), ended.stderr
