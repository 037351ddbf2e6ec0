# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One running router, shared by the tests that only open sessions to it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("zenoh") is None:  # an installed ROS 2 has no Python binding of Zenoh
    collect_ignore = ["test_access.py", "test_access_refused.py", "test_routers.py", "test_rules.py"]


@pytest.fixture(scope="session")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from keys_rig import FleetRig

    made = FleetRig(tmp_path_factory.mktemp("fleet") / "fleet")
    made.start_router()
    yield made
    made.close_sessions()


@pytest.fixture
def rig(_running: Any) -> Iterator[Any]:
    """A fleet with a running router; the sessions are closed after the test."""
    yield _running
    _running.close_sessions(keep=1)


@pytest.fixture
def own_rig(tmp_path: Path) -> Iterator[Any]:
    """A fleet for one test, with no router running."""
    from keys_rig import FleetRig

    made = FleetRig(tmp_path / "fleet")
    yield made
    made.close_sessions()
