# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An environment in a process of its own: one that hangs is ended, and the next reset starts another.

Owner and process exchange msgpack over pipes, which are read with a deadline. Nothing is unpickled: an
environment is other people's code.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.errors import UserError
from remote_inference.base.wire.arrays import WireError
from remote_inference.learn.environment import (
    ActionSpec,
    EnvError,
    Environment,
    EnvironmentObservation,
    EnvironmentSpec,
    EnvLostError,
    Feature,
    FeatureKind,
    Metrics,
    NotFiniteError,
    Step,
    plain_metrics,
    require_promised,
)
from remote_inference.learn.environments import make_environment
from remote_inference.learn.environments.runners import Timeouts
from remote_inference.server.frameworks.openpi import pack, unpack_map

MAX_FRAME_BYTES = 1 << 28  # of an observation: a dozen cameras with depth
_HEAD = struct.Struct("<I")


class PipeClosedError(Exception):
    """The other process has ended."""


def write_frame(pipe: int, message: Mapping[str, Any]) -> None:
    """Write a message to a file descriptor. Raises PipeClosedError when nobody reads any more."""
    data = pack(message)
    frame = memoryview(_HEAD.pack(len(data)) + data)
    try:
        while frame:
            frame = frame[os.write(pipe, frame) :]
    except OSError as error:
        raise PipeClosedError from error


def read_frame(pipe: int, timeout_s: float | None = None) -> dict[str, Any]:
    """Return the next message of a file descriptor.

    Raises TimeoutError when it does not come whole in time, PipeClosedError at the end, WireError when it
    cannot be read.
    """
    end_s = None if timeout_s is None else time.monotonic() + timeout_s
    (length,) = _HEAD.unpack(_read(pipe, _HEAD.size, end_s))
    return unpack_map(_read(pipe, min(length, MAX_FRAME_BYTES), end_s), MAX_FRAME_BYTES)


def _read(pipe: int, length: int, end_s: float | None) -> bytes:
    parts: list[bytes] = []
    while length:
        left_s = None if end_s is None else end_s - time.monotonic()
        if left_s is not None and (left_s <= 0 or not select.select([pipe], [], [], left_s)[0]):
            raise TimeoutError
        part = os.read(pipe, min(length, 1 << 20))
        if not part:
            raise PipeClosedError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def spec_to_map(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return a specification as plain values."""
    features = {
        name: [feature.kind.value, feature.shape, feature.meaning] for name, feature in spec.features.items()
    }
    return {**vars(spec), "actions": vars(spec.actions), "features": features}


def spec_from_map(found: Mapping[str, Any]) -> EnvironmentSpec:
    """Return the specification that `spec_to_map` has written."""
    features = {
        name: Feature(FeatureKind(kind), tuple(shape), meaning)
        for name, (kind, shape, meaning) in found["features"].items()
    }
    actions = ActionSpec(**_with_tuples(found["actions"]))
    return EnvironmentSpec(**{**_with_tuples(found), "actions": actions, "features": features})


def _with_tuples(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}


def observation_to_map(observation: EnvironmentObservation) -> dict[str, Any]:
    return {"values": dict(observation.values), "time_s": observation.time_s}


def observation_from_map(found: Mapping[str, Any]) -> EnvironmentObservation:
    return EnvironmentObservation(found["values"], found["time_s"])


def step_to_map(step: Step) -> dict[str, Any]:
    return {
        **observation_to_map(step.observation),
        "reward": float(step.reward),
        "terminated": bool(step.terminated),
        "truncated": bool(step.truncated),
    }


def step_from_map(found: Mapping[str, Any]) -> Step:
    return Step(observation_from_map(found), found["reward"], found["terminated"], found["truncated"])


# What an environment shows without a step, by method: how it is asked, written and read.
_SHOWN: Mapping[
    str, tuple[Callable[[Environment], Any], Callable[[Any], dict[str, Any]], Callable[[Any], Any]]
] = {
    "metrics": (
        lambda environment: environment.metrics(),
        lambda metrics: vars(plain_metrics(metrics)),
        lambda found: Metrics(found["success"], found["values"]),
    ),
    "render": (
        lambda environment: environment.render(),
        lambda picture: {"picture": picture},
        lambda found: found["picture"],
    ),
}

# -- The owner's side, and the process that holds the environment -----------------------------------------

END_S = 5.0  # for a process to end when its pipe is closed; then it is killed


class HostedEnvironment(ABC):
    """An environment that a `Host` elsewhere runs. For one thread at a time; any may call `abort`.

    A call that takes too long, or a host that ends, is an EnvLostError with the environment's name, after
    which only `reset` is possible: it starts a new host.
    """

    spec: EnvironmentSpec  # once it is started

    def __init__(self, name: str, options: Mapping[str, Any], timeouts: Timeouts | None = None) -> None:
        """name, options: of `make_environment`; the host starts by `start` or the first reset."""
        self._name = name
        self._options = dict(options)
        self._timeouts = timeouts or Timeouts()
        self._lost = "it was not started"
        self._is_aborted = False

    @property
    @abstractmethod
    def process_id(self) -> int | None:
        """Of the host; None after it was lost, until the next reset."""

    @abstractmethod
    def _launch(self) -> None:
        """Start a host. Raises EnvError."""

    @abstractmethod
    def _exchange(self, method: str, timeout_s: float, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return the host's answer to a call. Raises what `_lose` returns."""

    @abstractmethod
    def _end(self, grace_s: float) -> None:
        """End the host, which gets some time to do so by itself."""

    @abstractmethod
    def _kill(self) -> None:
        """End the host at once, without waiting; from any thread."""

    def start(self) -> None:
        """Start the host unless it runs. Raises EnvError when the environment cannot be made."""
        if self.process_id is not None:
            return
        self._launch()
        call = {"name": self._name, "options": self._options}
        try:
            self.spec = spec_from_map(self._call("make", self._timeouts.make_s, call))
        except EnvError:
            self._end(END_S)
            raise

    def abort(self) -> None:
        """End the host for good, without waiting: this call and all later ones raise EnvError."""
        self._is_aborted = True
        self._kill()

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self.start()
        call = {"seed": seed, "task": task, "wanted": list(wanted)}
        return observation_from_map(self._call("reset", self._timeouts.reset_s, call))

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        call = {"action": np.asarray(action, np.float64)}
        return step_from_map(self._call("step", self._timeouts.step_s, call))

    def metrics(self) -> Metrics:
        metrics: Metrics = self._show("metrics")
        return metrics

    def render(self) -> NDArray[np.uint8]:
        return np.asarray(self._show("render"))

    def close(self) -> None:
        self._lost = "it was closed"
        self._end(END_S)

    def _show(self, method: str) -> Any:
        return _SHOWN[method][2](self._call(method, self._timeouts.step_s, {}))

    def _call(self, method: str, timeout_s: float, call: Mapping[str, Any]) -> dict[str, Any]:
        if self.process_id is None:
            raise EnvError(f"{self._name}: {method} refused: {self._lost}; a reset starts it anew")
        if self._is_aborted:  # maybe before the host was started
            raise self._lose(f"{method}: it was aborted")
        answer = self._exchange(method, timeout_s, call)
        if "error" in answer:
            raise (NotFiniteError if answer.get("is_not_finite") else EnvError)(str(answer["error"]))
        return answer

    def _lose(self, reason: str) -> EnvLostError:
        self._lost = reason
        self._end(0.0)
        return EnvLostError(f"{self._name}: {reason}")


class ProcessEnvironment(HostedEnvironment):
    """The environment of a process of this machine."""

    _process: subprocess.Popen[bytes] | None = None

    @property
    def process_id(self) -> int | None:
        return self._process.pid if self._process else None

    def _launch(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C is for its owner, who ends it and its helpers
        )

    def _kill(self) -> None:
        if (process := self._process) is not None:
            _kill(process)

    def _exchange(self, method: str, timeout_s: float, call: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            write_frame(process.stdin.fileno(), {"method": method, **call})
            return read_frame(process.stdout.fileno(), timeout_s)
        except TimeoutError as error:
            raise self._lose(f"{method} took longer than {timeout_s:g} s") from error
        except PipeClosedError as error:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            raise self._lose(f"{method}: its process has ended (code {process.returncode})") from error
        except WireError as error:
            raise self._lose(f"{method}: {error}") from error

    def _end(self, grace_s: float) -> None:
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


class Host:
    """Holds an environment and runs the calls of its owner, in order."""

    def __init__(self) -> None:
        self._made: Environment | None = None
        self._wanted: tuple[str, ...] = ()

    def answer(self, method: str, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call; its key `error` has what it raised."""
        try:
            return self._answer(method, call)
        except UserError as error:
            return {"error": str(error), "is_not_finite": isinstance(error, NotFiniteError)}
        except Exception as error:  # a simulator may raise anything
            return {"error": f"{method}: {type(error).__name__}: {error}"}

    def _answer(self, method: str, call: Mapping[str, Any]) -> dict[str, Any]:
        if method == "make":
            self._made = make_environment(call["name"], call["options"])
            return spec_to_map(self._made.spec)
        assert self._made is not None, "its owner makes it first"
        environment = self._made
        if method == "reset":
            self._wanted = tuple(call["wanted"])
            shown = environment.reset(call["seed"], call["task"], self._wanted)
            return observation_to_map(require_promised(environment.spec, self._wanted, shown))
        if method == "step":
            step = environment.step(call["action"])
            require_promised(environment.spec, self._wanted, step.observation, step.reward)
            return step_to_map(step)
        show, to_map, _ = _SHOWN[method]
        return to_map(show(environment))

    def close(self) -> None:
        if self._made is not None:
            self._made.close()


def main() -> None:
    """Serve an owner until it closes the pipe: calls on standard input, answers on standard output."""
    calls, answers = 0, os.dup(1)
    os.dup2(2, 1)  # for what an environment prints
    sys.stdout = sys.stderr
    host = Host()
    with suppress(PipeClosedError, KeyboardInterrupt):
        while True:
            call = read_frame(calls)
            write_frame(answers, host.answer(call["method"], call))
    host.close()


if __name__ == "__main__":
    main()
