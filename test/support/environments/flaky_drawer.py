# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A drawer whose process fails as a file says: for pools of real processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from remote_inference.learn.environment import EnvironmentObservation
from support.environments.drawer import Drawer


class Flaky(Drawer):
    """plan: a file with the place of the next failure, `make` or `reset`, and its kind, `raise` or `exit`."""

    def __init__(self, plan: str, step_s: float = 0.0) -> None:
        super().__init__(step_s)
        self._plan = Path(plan)
        self._fail("make")

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self._fail("reset")
        return super().reset(seed, task, wanted)

    def _fail(self, place: str) -> None:
        planned = self._plan.read_text().split() if self._plan.exists() else []
        if planned[:1] == [place]:
            if planned[1] == "exit":
                os._exit(7)
            raise RuntimeError(f"planned in {place}")
