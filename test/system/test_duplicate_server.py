# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A second server of one name refuses to start; what a killed one has left behind keeps nobody out."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from remote_inference.srv import GetStatus
from remote_inference.tools.deployment import bringup
from support.nodes.fleet import SERVER
from support.nodes.rig import Rig, write_manifest

DEADLINE_S = 60.0
SEARCH_S = 15.0  # for a start and its search on a busy machine
ATTEMPTS = 4


def start_second(manifest: Path) -> str:
    """Start another server of the name; return its refusal, or an empty string when it runs on."""
    command = bringup.server(manifest).command()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as second:
        try:
            _, said = second.communicate(timeout=SEARCH_S)
        except subprocess.TimeoutExpired:
            second.send_signal(signal.SIGINT)
            second.communicate(timeout=DEADLINE_S)
            return ""
    assert second.returncode == 2, said
    return said


def test_a_second_server_of_a_name_refuses_to_start(rig: Rig, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path)
    rig.start_server(manifest)
    instance = rig.call(GetStatus, f"{SERVER}/get_status").status.instance_id
    # Discovery may take longer than the search of a server's start; then the robots name both servers.
    refusal = next(filter(None, (start_second(manifest) for _ in range(ATTEMPTS))), "")
    assert f"cannot start: another server is called {SERVER} (instance {instance})" in refusal
    assert "give this one another name: --name with `remote-inference server`" in refusal
    assert rig.server.poll() is None


def test_a_server_that_was_killed_does_not_keep_its_successor_out(rig: Rig, tmp_path: Path) -> None:
    """Its endpoints stay in the graph for the lease of the middleware, 10 s or more."""
    manifest = write_manifest(tmp_path)
    rig.start_server(manifest)
    first = rig.call(GetStatus, f"{SERVER}/get_status").status.instance_id
    rig.server.send_signal(signal.SIGKILL)
    rig.server.wait(DEADLINE_S)
    rig.start_server(manifest)
    rig.wait_for(
        lambda: rig.call(GetStatus, f"{SERVER}/get_status").status.instance_id != first, "the successor"
    )
    assert rig.server.poll() is None
