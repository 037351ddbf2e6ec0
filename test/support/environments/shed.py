# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An environment that prints, hangs, crashes or raises when it is told to: for processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.learn.environment import (
    ActionSpec,
    EnvError,
    EnvironmentObservation,
    EnvironmentSpec,
    Feature,
    FeatureKind,
    Metrics,
    Step,
)

HANG, CRASH, RAISE, REFUSE, FADE = 1.0, 2.0, 3.0, 4.0, 5.0  # actions


class Shed:
    """Counts its steps. Once it has faded, its camera shows floating-point numbers."""

    def __init__(self, size: int = 2, broken: bool = False, helper_file: str = "") -> None:
        if broken:
            raise RuntimeError("no roof")
        if helper_file:
            helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            Path(helper_file).write_text(str(helper.pid))
        features = {
            "observation.state": Feature(FeatureKind.STATE, (1,)),
            "observation.images.door": Feature(FeatureKind.RGB, (size, size, 3)),
            "observation.point_cloud": Feature(FeatureKind.POINT_CLOUD, (None, 3), "camera"),
        }
        actions = ActionSpec("velocity", ("x",), (-np.inf,), (9.0,), (np.inf,))
        self.spec = EnvironmentSpec("shed", 10.0, actions, ("x",), features, ("store", "tidy"), 3.0)
        self._size = size
        self._steps = 0
        self._wanted: Sequence[str] = ()
        self._pixel: type[np.generic] = np.uint8

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        print("a simulator's banner", flush=True)
        self.spec.check_task(task)
        self._steps, self._wanted = seed, wanted
        return self._observe()

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        told = float(action[0])
        if told == HANG:
            time.sleep(600)
        elif told == CRASH:
            os._exit(7)
        elif told == RAISE:
            raise ZeroDivisionError("a plank is missing")
        elif told == REFUSE:
            raise EnvError("shed: the door is locked")
        elif told == FADE:
            self._pixel = np.float64
        self._steps += 1
        return Step(self._observe(), 0.5, terminated=False, truncated=self._steps > 100)

    def metrics(self) -> Metrics:
        return Metrics(self._steps > 3, {"steps": self._steps, "tidy": True, "dust": 0.25})

    def render(self) -> NDArray[np.uint8]:
        return np.full((4, 4, 3), 9, np.uint8)

    def close(self) -> None:
        pass

    def _observe(self) -> EnvironmentObservation:
        values = {
            "observation.state": np.array([self._steps], np.float32),
            "observation.images.door": np.full((self._size, self._size, 3), 5, self._pixel),
            "observation.point_cloud": np.ones((self._steps, 3), np.float32),
        }
        return EnvironmentObservation({name: values[name] for name in self._wanted}, self._steps / 10)
