# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that start nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
