# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How much longer a group of rollouts takes than one, with a simulator that sleeps instead of computing.

make bench-rollouts ARGS="--group 8 --step-ms 20"

Every environment is a process of its own. The policy sleeps, too, once for each batch.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.policy import Float32Array, PolicyObservation, PolicySpec
from remote_inference.learn.environment import (
    ActionSpec,
    EnvironmentObservation,
    EnvironmentSpec,
    Feature,
    FeatureKind,
    Metrics,
    Step,
)
from remote_inference.learn.rollouts import LocalPolicy, LocalTransport, RolloutPool

STATE, CAMERA = "observation.state", "observation.images.front"
STEPS, CHUNK = 60, 10
IMAGE = (120, 160, 3)


class Sleeper:
    """Sleeps in each step; shows a camera's image as a simulator would."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self.spec = EnvironmentSpec(
            "sleeper",
            30.0,
            ActionSpec("position", ("x",), (-1.0,), (1.0,), (9.0,)),
            ("x",),
            {STATE: Feature(FeatureKind.STATE, (1,)), CAMERA: Feature(FeatureKind.RGB, IMAGE)},
            ("sleep",),
            STEPS / 30.0,
        )
        self._steps = 0
        self._wanted: Sequence[str] = ()

    def reset(self, _seed: int, _task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self._steps, self._wanted = 0, wanted
        return self._observe()

    def step(self, _action: NDArray[np.floating[Any]]) -> Step:
        time.sleep(self._step_s)
        self._steps += 1
        return Step(self._observe(), 0.0, False, self._steps >= STEPS)

    def metrics(self) -> Metrics:
        return Metrics(True)

    def render(self) -> NDArray[np.uint8]:
        return np.zeros(IMAGE, np.uint8)

    def close(self) -> None:
        pass

    def _observe(self) -> EnvironmentObservation:
        values = {STATE: np.zeros(1, np.float32), CAMERA: np.zeros(IMAGE, np.uint8)}
        return EnvironmentObservation({name: values[name] for name in self._wanted}, self._steps / 30.0)


class SleepyPolicy:
    """Sleeps for each batch, as a device computes."""

    def __init__(self, batch_s: float) -> None:
        self._batch_s = batch_s
        self.calls = 0
        self.spec = PolicySpec("sleepy", "", "0", ("x",), ("x",), {CAMERA: IMAGE}, CHUNK, 30.0, max_batch=64)

    def make_processors(self) -> SleepyPolicy:
        return self

    def pre(self, observation: PolicyObservation) -> Float32Array:
        return observation.state

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        self.calls += 1
        time.sleep(self._batch_s)
        return [np.zeros((CHUNK, 1), np.float32) for _ in batch]

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass


async def measure(count: int, step_s: float, batch_s: float, repeats: int) -> tuple[list[float], int]:
    """Return the wall times of groups of `count` rollouts [s], and the model's calls for one group."""
    times_s = []
    policy = SleepyPolicy(batch_s)
    asked = LocalPolicy(policy)
    async with RolloutPool(
        LocalTransport.of("rollout_group:Sleeper", {"step_s": step_s}, count), count
    ) as pool:
        for seed in range(repeats + 1):
            begin_s = time.monotonic()
            await pool.run_group(asked, seed=seed)
            times_s.append(time.monotonic() - begin_s)
    asked.close()
    return times_s[1:], policy.calls // (repeats + 1)  # the first warms up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--group", type=int, default=8, help="rollouts (default 8)")
    parser.add_argument(
        "--step-ms", type=float, default=20.0, help="time of a step of the simulator (default 20)"
    )
    parser.add_argument(
        "--batch-ms", type=float, default=30.0, help="time of a call of the model (default 30)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="groups of each size (default 5)")
    arguments = parser.parse_args()
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    found = {}
    for count in (1, arguments.group):
        times_s, calls = asyncio.run(
            measure(count, arguments.step_ms / 1e3, arguments.batch_ms / 1e3, arguments.repeats)
        )
        found[count] = statistics.median(times_s)
        shown = ", ".join(f"{each:.2f}" for each in times_s)
        print(f"{count} rollouts of {STEPS} steps: {found[count]:.3f} s (median of {shown}), {calls} batches")
    print(f"ratio {found[arguments.group] / found[1]:.3f}; one after another: {arguments.group}")


if __name__ == "__main__":
    main()
