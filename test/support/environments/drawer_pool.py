# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Drawers in slots of this process, for pools of rollouts."""

from __future__ import annotations

import threading
from typing import Any

from remote_inference.learn.rollouts import LocalTransport
from support.environments.drawer import Drawer


class SlotDrawer(Drawer):
    """A drawer without a process. broken_start: why it cannot be started."""

    process_id = None

    def __init__(self, broken_start: Exception | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._broken_start = broken_start
        self.is_stepped = threading.Event()

    def start(self) -> None:
        if self._broken_start is not None:
            raise self._broken_start

    def abort(self) -> None:
        pass

    def step(self, action: Any) -> Any:
        self.is_stepped.set()
        return super().step(action)


class Drawers:
    """Makes a drawer for each slot; `options` for the next ones may be changed."""

    def __init__(self, slots: int = 4, **options: Any) -> None:
        self.options = options
        self.made: list[SlotDrawer] = []
        self.transport = LocalTransport(self.make, slots)

    def make(self) -> SlotDrawer:
        self.made.append(SlotDrawer(**self.options))
        return self.made[-1]
