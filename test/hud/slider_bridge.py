# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A stock RobotBridge around a slider and a camera; a program that HUD's `serve_bridge` runs."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from hud.environment.robot.bridge import RobotBridge, serve_bridge

STEPS = 25
START = 0.25


class SliderBridge(RobotBridge):
    """Ends after STEPS actions, in success if they all left the slider where it began."""

    def __init__(self) -> None:
        super().__init__()
        features: dict[str, Any] = {
            "observation.state": {"role": "observation", "names": ["x", "y"]},
            "front": {"role": "observation", "type": "rgb"},
            "action": {"role": "action", "names": ["x", "y"]},
        }
        self.contract = {"robot_type": "slider", "control_rate": 30, "features": features}
        self._position = np.zeros(2, np.float32)
        self._steps = 0

    def reset(self, seed: int = 0, fail: bool = False) -> str:
        self._position = np.array([START, -START], np.float32) + seed / 100
        self._start, self._steps, self._fails, self._moved = self._position.copy(), 0, fail, False
        return "stay"

    def step(self, action: Any) -> None:
        if self._fails:
            raise RuntimeError("the slider broke")
        self._position = np.asarray(action, np.float32)[0]
        self._moved = self._moved or not np.allclose(self._position, self._start, atol=1e-6)
        self._steps += 1
        self.success = self._steps == STEPS and not self._moved
        self.total_reward += 1.0

    def get_observation(self) -> Any:
        shown = {"observation.state": self._position[None], "front": np.full((1, 8, 8, 3), 9, np.uint8)}
        return shown, np.array([self._steps >= STEPS])


if __name__ == "__main__":
    sys.exit(serve_bridge(SliderBridge()))
