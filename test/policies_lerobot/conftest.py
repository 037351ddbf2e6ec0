# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""These tests need LeRobot: `make test-policies` runs them, and elsewhere nothing here is collected."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from remote_inference.base.policy import Policy

if not any(distribution.name == "lerobot" for distribution in distributions()):
    collect_ignore_glob = ["test_*.py"]
else:
    # Before LeRobot is imported: the policies are built and loaded offline, and too small for threads.
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    from support.lerobot.tiny_policies import BUILDERS, VARIANTS, Built


class Shelf(dict):
    """Makes what is asked for and is not there yet."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> Any:
        self[key] = self._make(key)
        return self[key]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """Checkpoints by kind or variant of policy; a test that changes one copies its folder first."""
    folder = tmp_path_factory.mktemp("checkpoints")
    builders = {**BUILDERS, **VARIANTS}
    return Shelf(lambda kind: builders[kind](folder))


@pytest.fixture(scope="session")
def policies(built: dict[str, Built]) -> dict[str, Policy]:
    """The loaded policies by kind or variant."""
    return Shelf(lambda kind: built[kind].load())


@pytest.fixture
def act(built: dict[str, Built], tmp_path: Path) -> Built:
    """A copy of the checkpoint of an ACT policy, for a test to spoil."""
    return built["act"].copy(tmp_path)
