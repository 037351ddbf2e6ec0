# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An environment in a process of its own: one that hangs is ended, and the next reset starts another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.environment import (
    EnvError,
    EnvironmentObservation,
    EnvironmentSpec,
    EnvLostError,
    Metrics,
    Step,
)
from remote_inference.environments.process_frames import (
    PipeClosedError,
    metrics_from_map,
    observation_from_map,
    read_frame,
    spec_from_map,
    step_from_map,
    write_frame,
)
from remote_inference.environments.runners import Timeouts
from remote_inference.wire.arrays import WireError

HOST_MODULE = "remote_inference.environments.process_host"
END_S = 5.0  # for a process to end when its pipe is closed; then it is killed


class ProcessEnvironment:
    """The environment of another process. For one thread; any thread may own it, and any may call `abort`.

    A touch that takes too long, or a process that ends, is an EnvLostError with the environment's name, after
    which only `reset` is possible: it starts a new process.
    """

    spec: EnvironmentSpec  # once it is started

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        timeouts: Timeouts | None = None,
        *,
        starts_now: bool = True,
    ) -> None:
        """Start the process, or let `start` or the first reset do so. name, options: of `make_environment`.

        Raises EnvError when it cannot be made.
        """
        self._name = name
        self._options = dict(options)
        self._timeouts = timeouts or Timeouts()
        self._process: subprocess.Popen[bytes] | None = None
        self._lost = "it was not started"
        self._is_aborted = False
        if starts_now:
            self.start()

    def start(self) -> None:
        """Start the process unless it runs. Raises EnvError when the environment cannot be made."""
        if self._process is None:
            self._start()

    def abort(self) -> None:
        """End the process for good, without waiting: this touch and all later ones raise EnvError."""
        self._is_aborted = True
        process = self._process
        if process is not None:
            _kill(process)

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self.start()
        call = {"seed": seed, "task": task, "wanted": list(wanted)}
        return observation_from_map(self._call("reset", self._timeouts.reset_s, call))

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        call = {"action": np.asarray(action, np.float64)}
        return step_from_map(self._call("step", self._timeouts.step_s, call))

    def metrics(self) -> Metrics:
        return metrics_from_map(self._call("metrics", self._timeouts.step_s, {}))

    def render(self) -> NDArray[np.uint8]:
        picture: NDArray[np.uint8] = self._call("render", self._timeouts.step_s, {})["picture"]
        return picture

    def close(self) -> None:
        self._lost = "it was closed"
        self._end(END_S)

    @property
    def process_id(self) -> int | None:
        """Of the process; None after it was lost, until the next reset."""
        return self._process.pid if self._process else None

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", HOST_MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C is for its owner, who ends it and its helpers
        )
        call = {"name": self._name, "options": self._options}
        try:
            self.spec = spec_from_map(self._call("make", self._timeouts.make_s, call))
        except EnvError:
            self._end(END_S)
            raise

    def _call(self, method: str, timeout_s: float, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call. Raises EnvError when there is none in time."""
        process = self._process
        if process is None:
            raise EnvError(f"{self._name}: {method} refused: {self._lost}; a reset starts it anew")
        if self._is_aborted:  # maybe before the process was started
            raise self._lose(f"{method}: it was aborted")
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            write_frame(process.stdin.fileno(), {"method": method, **call})
            answer = read_frame(process.stdout.fileno(), timeout_s)
        except TimeoutError as error:
            raise self._lose(f"{method} took longer than {timeout_s:g} s") from error
        except PipeClosedError as error:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            raise self._lose(f"{method}: its process has ended (code {process.returncode})") from error
        except WireError as error:
            raise self._lose(f"{method}: {error}") from error
        if "error" in answer:
            raise EnvError(str(answer["error"]))
        return answer

    def _lose(self, reason: str) -> EnvLostError:
        self._lost = reason
        self._end(0.0)
        return EnvLostError(f"{self._name}: {reason}")

    def _end(self, grace_s: float) -> None:
        """End the process, which gets some time to do so by itself."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()  # by which it ends
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait(END_S)
        _end_session(process)
        if process.stdout is not None:
            process.stdout.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its helpers, unless it has ended: then its owner ends the helpers."""
    if process.poll() is None:
        _end_session(process)


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill all that is left of a process: simulators and their libraries start helpers of their own."""
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(process.pid, signal.SIGKILL)
