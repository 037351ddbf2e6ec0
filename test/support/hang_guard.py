# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Ends a test process that hangs: Fast DDS can deadlock when a node is destroyed."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator
from typing import IO

import pytest


class HangGuard:
    """A pytest plugin. With pytest-xdist another process goes on, and the test counts as failed."""

    def __init__(self, config: pytest.Config, most_s: float) -> None:
        """most_s: of one test with its fixtures."""
        self._most_s = most_s
        with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            self._stderr: IO[str] = os.fdopen(os.dup(2), "w")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        faulthandler.dump_traceback_later(self._most_s, exit=True, file=self._stderr)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
