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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
from remote_inference.learn.environments.policy_view import Actions, execute_actions
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


# -- What is done with the environment of a leased slot: in this process, or packed for a holder elsewhere


@dataclass(frozen=True)
class Touch:
    """One call on a slot's environment. kind: one of KINDS, which decides the fields in use.

    actions: `[n, A]` of the environment, executed one after another.
    """

    kind: str
    seed: int = 0
    task: str = ""
    wanted: Sequence[str] = ()
    actions: Actions = field(default_factory=lambda: np.empty(0))

    def run(self, environment: Environment) -> Any:
        """Return what the environment shows: an observation, steps, metrics or a picture. Raises EnvError."""
        if self.kind not in KINDS:
            raise EnvError(f"touch: found {self.kind!r}, expected one of {', '.join(KINDS)}")
        return KINDS[self.kind].run(environment, self)

    def run_packed(self, environment: Environment) -> bytes:
        """Return what the environment shows as a frame for `read`. Raises EnvError."""
        shown = self.run(environment)
        frame = pack(KINDS[self.kind].to_map(shown))
        if len(frame) > MAX_FRAME_BYTES:
            raise EnvError(
                f"{environment.spec.name}: {self.kind}: found an answer of {len(frame)} bytes, expected "
                f"{MAX_FRAME_BYTES} at most: execute fewer actions at a time"
            )
        return frame

    def read(self, frame: bytes) -> Any:
        """Return what `run_packed` has packed. Raises WireError, KeyError, TypeError or ValueError."""
        return KINDS[self.kind].from_map(unpack_map(frame, MAX_FRAME_BYTES))


class _Kind(NamedTuple):
    run: Callable[[Environment, Touch], Any]
    to_map: Callable[[Any], dict[str, Any]]
    from_map: Callable[[Mapping[str, Any]], Any]


def _execute(environment: Environment, touch: Touch) -> list[Step]:
    columns, found = len(environment.spec.actions.names), touch.actions.size
    if found % columns:
        raise EnvError(f"{environment.spec.name}: found {found} actions, expected rows of {columns}")
    return execute_actions(environment.step, touch.actions.reshape(-1, columns))


KINDS: Mapping[str, _Kind] = {
    "reset": _Kind(
        lambda environment, touch: environment.reset(touch.seed, touch.task, touch.wanted),
        observation_to_map,
        observation_from_map,
    ),
    "execute": _Kind(
        _execute,
        lambda steps: {"steps": [step_to_map(step) for step in steps]},
        lambda found: [step_from_map(step) for step in found["steps"]],
    ),
    "metrics": _Kind(
        lambda environment, _: environment.metrics(),
        lambda metrics: vars(plain_metrics(metrics)),
        lambda found: Metrics(found["success"], found["values"]),
    ),
    "render": _Kind(
        lambda environment, _: environment.render(),
        lambda picture: {"picture": picture},
        lambda found: found["picture"],
    ),
}

# -- The owner's side, and the process that holds the environment -----------------------------------------

END_S = 5.0  # for a process to end when its pipe is closed; then it is killed


class ProcessEnvironment:
    """The environment of another process. For one thread at a time; any may call `abort`.

    A call that takes too long, or a process that ends, is an EnvLostError with the environment's name, after
    which only `reset` is possible: it starts a new process.
    """

    spec: EnvironmentSpec  # once it is started

    def __init__(self, name: str, options: Mapping[str, Any], timeouts: Timeouts | None = None) -> None:
        """name, options: of `make_environment`; the process starts by `start` or the first reset."""
        self._name = name
        self._options = dict(options)
        self._timeouts = timeouts or Timeouts()
        self._process: subprocess.Popen[bytes] | None = None
        self._lost = "it was not started"
        self._is_aborted = False

    def start(self) -> None:
        """Start the process unless it runs. Raises EnvError when the environment cannot be made."""
        if self._process is not None:
            return
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
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

    def abort(self) -> None:
        """End the process for good, without waiting: this call and all later ones raise EnvError."""
        self._is_aborted = True
        if (process := self._process) is not None:
            _kill(process)

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

    @property
    def process_id(self) -> int | None:
        """Of the process; None after it was lost, until the next reset."""
        return self._process.pid if self._process else None

    def _show(self, method: str) -> Any:
        return KINDS[method].from_map(self._call(method, self._timeouts.step_s, {}))

    def _call(self, method: str, timeout_s: float, call: Mapping[str, Any]) -> dict[str, Any]:
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
            raise (NotFiniteError if answer.get("is_not_finite") else EnvError)(str(answer["error"]))
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


class Host:
    """The process that holds the environment: it runs the calls of its owner, in order."""

    def __init__(self) -> None:
        self._made: Environment | None = None
        self._wanted: tuple[str, ...] = ()

    def call(self, method: str, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call."""
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
        return KINDS[method].to_map(KINDS[method].run(environment, Touch(method)))

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
            try:
                answer = host.call(call["method"], call)
            except UserError as error:
                answer = {"error": str(error), "is_not_finite": isinstance(error, NotFiniteError)}
            except Exception as error:  # a simulator may raise anything; it is sent to the owner
                answer = {"error": f"{call['method']}: {type(error).__name__}: {error}"}
            write_frame(answers, answer)
    host.close()


if __name__ == "__main__":
    main()
