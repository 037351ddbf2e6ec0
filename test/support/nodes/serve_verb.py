# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference serve` in a terminal of its own, and what its server publishes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from remote_inference.msg import ServerStatus
from support.nodes.rig import DEADLINE_S, DEEP_LATCHED_QOS, Rig


class ServeVerb:
    """The verb at work. folder: takes its output as `serve.log`."""

    def __init__(self, rig: Rig, folder: Path, *arguments: Any) -> None:
        self._rig = rig
        self._log = folder / "serve.log"
        self._statuses: list[ServerStatus] = []
        rig.subscribe(ServerStatus, "/policy_server/status", self._statuses.append, DEEP_LATCHED_QOS)
        command = [sys.executable, "-m", "remote_inference.tools.cli", "serve", *map(str, arguments)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def wait_until_active(self, deadline_s: float = 4 * DEADLINE_S) -> ServerStatus:
        """Wait until the server admits robots; return its status."""

        def is_active() -> bool:
            assert self._process.poll() is None, self.said()
            return bool(self._statuses) and self._statuses[-1].accepting

        self._rig.wait_for(is_active, "a server that admits robots", deadline_s)
        return self._statuses[-1]

    def status(self) -> ServerStatus:
        """Return the newest status."""
        return self._statuses[-1]

    def said(self) -> str:
        """Return what the verb and its server have printed."""
        return self._log.read_text()

    def end(self) -> int:
        """Press Ctrl-C, unless it has ended; return the exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        return self._process.wait(DEADLINE_S)
