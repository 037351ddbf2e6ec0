# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Imports one back end, and says in a file what is wrong with it: in a process of its own.

    python -m remote_inference.deployment.serving.back_end_import NAME ANSWER_FILE

A back end's module is somebody else's: it may take its time and memory, print, hang, or end the process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from remote_inference.core.server.manifest.backends import BACK_ENDS
from remote_inference.core.server.policy_error import explain_policy_error
from remote_inference.policies import import_back_end


@dataclass(frozen=True)
class ImportOutcome:
    """What came of an import: why it failed, and the first line that the module printed on stdout."""

    failure: str = ""
    prints: str = ""


def try_import(name: str, deadline_s: float) -> ImportOutcome:
    """Import a back end in a process of its own, which is killed when it takes longer than `deadline_s`."""
    with TemporaryDirectory() as folder:
        answer, printed = Path(folder) / "answer", Path(folder) / "printed"
        command = [sys.executable, "-m", __name__, name, str(answer)]
        with printed.open("wb") as output:
            try:
                ended = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    timeout=deadline_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return ImportOutcome(f"cannot be imported: it has not ended after {deadline_s:g} s")
        if not answer.exists():
            return ImportOutcome(f"cannot be imported: it ends the process, {_end_of(ended.returncode)}")
        lines = printed.read_text(errors="replace").split("\n")
        return ImportOutcome(answer.read_text(), next((line.strip() for line in lines if line.strip()), ""))


def _end_of(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"signal {-code}"


def _find_failure(name: str) -> str:
    """Import a back end in this process; return why it cannot be used, in one line, or an empty string."""
    try:
        import_back_end(name)
    except Exception as error:
        place = f"model.backend: {BACK_ENDS.describe(name)}"
        return explain_policy_error(error).removeprefix(place).lstrip(": ")
    except BaseException as error:  # such as KeyboardInterrupt, which a module may raise, too
        return f"cannot be imported: {explain_policy_error(error)}"
    return ""


if __name__ == "__main__":
    said = _find_failure(sys.argv[1])
    with suppress(Exception):  # a module may have replaced or closed it
        sys.stdout.flush()
    Path(sys.argv[2]).write_text(said)
    os._exit(0)  # threads that the module has started would go on
