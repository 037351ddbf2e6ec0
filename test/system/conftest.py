# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that start nodes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote_inference.base.clients.operator_client import OperatorClient
from support.free_ports import free_port
from support.log_folder import LOG_FOLDER
from support.nodes.rig import Rig


@pytest.fixture
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rig]:
    request.node.stash[LOG_FOLDER] = tmp_path
    made = Rig(tmp_path)
    yield made
    made.close()


@pytest.fixture
def port() -> int:
    """A server's `health_port`."""
    return free_port()


@pytest.fixture
def told_before_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what verbs of this process have printed before their nodes end, where rmw_zenoh may hang."""
    told: list[str] = []
    close = OperatorClient.close

    def look_and_close(client: OperatorClient) -> None:
        captured = capsys.readouterr()
        told.append(captured.out + captured.err)
        sys.stdout.write(captured.out)
        sys.stderr.write(captured.err)
        close(client)

    monkeypatch.setattr(OperatorClient, "close", look_and_close)
    return told
