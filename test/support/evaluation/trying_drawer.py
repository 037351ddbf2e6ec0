# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A drawer for evaluations: it may be slow, raise, die or show NaN, and it says which process to kill."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.learn.environment import EnvError, EnvironmentObservation, Metrics, Step
from support.environments.drawer import STATE, Drawer


class TryingDrawer(Drawer):
    """broken_seed: of the episode whose third step raises. deadly_seed: whose third step ends all, once.

    folder: gets a file by each process's id, and one that tells that the deadly episode has been. deadly_in:
    `make` or `reset`, the first of which ends all, once. unknown: is NaN in the episode of unknown_seed,
    `reset`: its first state, or `state`, `time_s` or `reward`: of its third step.
    """

    def __init__(
        self,
        step_s: float = 0.0,
        broken_seed: int | None = None,
        deadly_seed: int | None = None,
        folder: str = "",
        deadly_in: str = "",
        unknown_seed: int | None = None,
        unknown: str = "",
    ) -> None:
        super().__init__(step_s=step_s)
        self._broken_seed, self._deadly_seed = broken_seed, deadly_seed
        self._folder = Path(folder)
        self._seed = self._made = 0
        self._deadly_in = deadly_in
        self._unknown_seed, self._unknown = unknown_seed, unknown
        self._die_once("make")
        if folder:
            (self._folder / f"pid_{os.getpid()}").touch()

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self._seed, self._made = seed, 0
        self._die_once("reset")
        shown = super().reset(seed, task, wanted)
        if self._unknown == "reset" and seed == self._unknown_seed:
            shown.values[STATE][0] = np.nan
        return shown

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        self._made += 1
        if self._made == 3 and self._seed == self._broken_seed:
            raise EnvError("drawer: it is stuck")
        died = self._folder / "died"
        if self._made == 3 and self._seed == self._deadly_seed and not died.exists():
            died.touch()
            os._exit(3)
        step = super().step(action)
        if self._made == 3 and self._seed == self._unknown_seed:
            if self._unknown == "state":
                step.observation.values[STATE][0] = np.nan
            elif self._unknown == "time_s":
                return replace(step, observation=replace(step.observation, time_s=math.nan))
            elif self._unknown == "reward":
                return replace(step, reward=math.nan)
        return step

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
