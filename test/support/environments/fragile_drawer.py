# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Drawers of slots that fail where a test says."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from remote_inference.learn.environment import EnvironmentObservation
from support.environments.drawer import Drawer


class Injector:
    """Decides which touch of which environment fails, and counts what is open."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failing: dict[tuple[str, int], Exception] = {}  # by step and number of its call since `arm`
        self.calls: dict[str, int] = {}
        self.raised: list[Exception] = []
        self.open = self.made = 0

    def arm(self, failing: dict[tuple[str, int], Exception]) -> None:
        with self.lock:
            self.failing, self.calls, self.raised = failing, {}, []

    def reach(self, step: str) -> None:
        with self.lock:
            number = self.calls[step] = self.calls.get(step, 0) + 1
            if (error := self.failing.get((step, number))) is not None:
                self.raised.append(error)
                raise error


class Fragile(Drawer):
    """A slot's environment without a process, that fails where the injector says."""

    process_id = None

    def __init__(self, injector: Injector) -> None:
        super().__init__()
        self._injector = injector
        self._is_open = False
        injector.reach("make")
        with injector.lock:
            injector.made += 1

    def start(self) -> None:
        self._injector.reach("start")
        if not self._is_open:
            with self._injector.lock:
                self._injector.open += 1
            self._is_open = True

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self._injector.reach("reset")
        return super().reset(seed, task, wanted)

    def abort(self) -> None:
        pass

    def close(self) -> None:
        if self._is_open:
            with self._injector.lock:
                self._injector.open -= 1
            self._is_open = False
        self._injector.reach("close")
