# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot's request loop and ours, driven by one script on a clock that only the script moves."""

from __future__ import annotations

import threading
import time
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from real_lerobot import RTCConfig, rtc, torch

from remote_inference.robot.queue.action_queue import ActionQueue, DelayPolicy, MergeMode
from remote_inference.robot.queue.latency import LatencyWindow, steps
from support.builders import CHUNK_SIZE, FPS, make_rows, make_source
from support.robot.queue_operations import content


@dataclass(frozen=True)
class Cycle:
    """One request: the actions taken while it is under way, and when its chunk comes."""

    latency_s: float
    executed: int = 0
    resets: bool = False  # the operator begins a new episode meanwhile


def chunk_of(number: int) -> np.ndarray:
    """Return the model-space rows of the n-th request's chunk; its robot-space rows are twice these."""
    return make_rows(CHUNK_SIZE, first=100.0 * (number + 1))


class LeRobotLoop:
    """LeRobot's RTCInferenceEngine in its own thread. Its policy is the script."""

    def __init__(
        self,
        *,
        rtc_enabled: bool = True,
        fps: float = FPS,
        execution_horizon: int = CHUNK_SIZE,
        skip_first_latency: bool = True,
    ) -> None:
        self.delays: list[int] = []  # as told to the policy
        self.prefixes: list[np.ndarray | None] = []
        self.executed: list[bytes] = []
        self._script: Sequence[Cycle] = ()
        self._clock_s = 0.0
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self.engine = rtc.RTCInferenceEngine(
            policy=types.SimpleNamespace(predict_action_chunk=self._predict, reset=lambda: None),
            preprocessor=_Pipeline(1.0),
            postprocessor=_Pipeline(2.0),
            robot_wrapper=types.SimpleNamespace(robot_type="two_joints"),
            rtc_config=RTCConfig(enabled=rtc_enabled, execution_horizon=execution_horizon),
            hw_features={},
            task="wave",
            fps=fps,
            device="cpu",
            use_torch_compile=skip_first_latency,  # what it calls warm-up
            compile_warmup_inferences=1,
            rtc_queue_threshold=10**9,
        )

    def run(self, script: Sequence[Cycle]) -> None:
        self._script = script
        clock = types.SimpleNamespace(perf_counter=lambda: self._clock_s, sleep=lambda _: time.sleep(0.001))
        with mock.patch.object(rtc, "time", clock):
            self.engine.start()
            self.engine.resume()
            self.engine.notify_observation({})
            finished = self._finished.wait(60.0)
            self.engine.stop()  # joins the thread, which has merged the last chunk by then
        assert finished
        if self._error is not None:
            raise self._error

    def take(self) -> bytes:
        action = self.engine.get_action(None)
        return b"" if action is None else content(action.numpy())

    def left_over(self) -> tuple[bytes, bytes]:
        queue = self.engine.action_queue
        return content(queue.get_left_over().numpy()), content(queue.get_processed_left_over().numpy())

    def _predict(
        self, _batch: Any, inference_delay: int, prev_chunk_left_over: torch.Tensor | None
    ) -> torch.Tensor:
        try:
            number = len(self.delays)
            self.delays.append(inference_delay)
            self.prefixes.append(None if prev_chunk_left_over is None else prev_chunk_left_over.numpy())
            cycle = self._script[number]
            self.executed += [self.take() for _ in range(cycle.executed)]
            if cycle.resets:
                self.engine.reset()
            self._clock_s += cycle.latency_s
        except BaseException as error:  # LeRobot would log it and try again
            self._error = error
        if self._error is not None or len(self.delays) == len(self._script):
            self.engine.pause()
            self._finished.set()
        return torch.from_numpy(chunk_of(len(self.delays) - 1)).unsqueeze(0)


class _Pipeline:
    """A processor that multiplies actions and leaves an observation alone."""

    steps = ()

    def __init__(self, factor: float) -> None:
        self._factor = factor

    def __call__(self, data: Any) -> Any:
        return data * self._factor if isinstance(data, torch.Tensor) else data

    def reset(self) -> None: ...


class OurLoop:
    """Our queue and latency window, used as RequestCycle uses them; capture and request are one instant."""

    def __init__(
        self,
        *,
        rtc_enabled: bool = True,
        delay_policy: DelayPolicy = DelayPolicy.LATENCY,
        quantile: float = 1.0,
    ) -> None:
        self.delays: list[int] = []
        self.prefixes: list[np.ndarray | None] = []
        self.executed: list[bytes] = []
        self.queue = ActionQueue(delay_policy)
        self._latency = LatencyWindow(quantile)
        self._mode = MergeMode.REPLACE if rtc_enabled else MergeMode.APPEND

    def run(self, script: Sequence[Cycle]) -> None:
        for number, cycle in enumerate(script):
            executed_before = self.queue.executed
            self.delays.append(self._latency.delay_steps(1 / FPS))
            self.prefixes.append(self.queue.prefixes().model)
            self.executed += [self.take() for _ in range(cycle.executed)]
            model = chunk_of(number)
            self.queue.merge(
                make_source(number),
                model,
                model * 2,
                self._mode,
                latency_steps=steps(cycle.latency_s, 1 / FPS),
                executed_before=executed_before,
            )
            self._latency.add(cycle.latency_s)

    def take(self) -> bytes:
        action = self.queue.get()
        return b"" if action is None else action.robot.tobytes()

    def left_over(self) -> tuple[bytes, bytes]:
        return content(self.queue.left_over()), content(self.queue.left_over_robot())
