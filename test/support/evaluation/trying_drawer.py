# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A drawer for evaluations: it may be slow, raise or die, and it says by which process it can be killed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.learn.environment import EnvError, EnvironmentObservation, Metrics, Step
from support.environments.drawer import Drawer


class TryingDrawer(Drawer):
    """broken_seed: of the episode whose third step raises. deadly_seed: whose third step ends all, once.

    folder: gets a file by each process's id, and one that tells that the deadly episode has been. deadly_in:
    `make` or `reset`, the first of which ends all, once.
    """

    def __init__(
        self,
        step_s: float = 0.0,
        broken_seed: int | None = None,
        deadly_seed: int | None = None,
        folder: str = "",
        deadly_in: str = "",
    ) -> None:
        super().__init__(step_s=step_s)
        self._broken_seed, self._deadly_seed = broken_seed, deadly_seed
        self._folder = Path(folder)
        self._seed = self._made = 0
        self._deadly_in = deadly_in
        self._die_once("make")
        if folder:
            (self._folder / f"pid_{os.getpid()}").touch()

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self._seed, self._made = seed, 0
        self._die_once("reset")
        return super().reset(seed, task, wanted)

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        self._made += 1
        if self._made == 3 and self._seed == self._broken_seed:
            raise EnvError("drawer: it is stuck")
        died = self._folder / "died"
        if self._made == 3 and self._seed == self._deadly_seed and not died.exists():
            died.touch()
            os._exit(3)
        return super().step(action)

    def _die_once(self, where: str) -> None:
        died = self._folder / "died"
        if where == self._deadly_in and not died.exists():
            died.touch()
            os._exit(3)

    def metrics(self) -> Metrics:
        found = super().metrics()
        return Metrics(found.success, {"pull": found.values["pull"], "nothing": float("nan")})


class DeadDrawer(Drawer):
    """Ends its process whenever it is made."""

    def __init__(self) -> None:
        os._exit(3)
