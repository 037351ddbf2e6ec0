# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The interface of a policy: a specification, a version, per-session processors and one batched call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.errors import UserError
from remote_inference.base.limits import MAX_OBSERVATION_STEPS

Float32Array = NDArray[np.float32]
DTYPES = ("float32", "bfloat16", "float16")
_MARK = "@"


def show_policy_version(fingerprint: str, weights_version: int) -> str:
    """Return the policy's fingerprint, and `@` with the version of weights that came while it was served.

    weights_version: 0 for the weights that were loaded, which the fingerprint names.
    """
    return f"{fingerprint}{_MARK}{weights_version}" if weights_version else fingerprint


def fingerprint_of(policy_version: str) -> str:
    """Return the fingerprint in a `policy_version`: that of the session, whatever weights came since."""
    return policy_version.partition(_MARK)[0]


class PolicyError(UserError):
    """A policy cannot be loaded or cannot answer; the message names the file or the feature."""


class DeviceError(PolicyError):
    """The device cannot be used on this machine; another machine may serve the policy."""


class DeviceLostError(PolicyError):
    """The device no longer works in this process; only a new process can use it."""


class ServingMode(str, Enum):
    """How many sessions may use one policy instance."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class Continuation(str, Enum):
    """How a chunk continues the actions that the robot executes until it arrives."""

    NONE = "none"  # the policy does not read them
    GUIDANCE = "guidance"  # real-time chunking at inference, for policies that were trained without it
    TRAINED = "trained"  # the policy was trained with them and with the delay as inputs


@dataclass(frozen=True)
class PolicySpec:
    """What a policy expects and produces; robots are admitted against it.

    Raises PolicyError when a number is out of bounds, or for units of others.
    """

    name: str
    """of the policy, for logs, states and pages"""
    revision: str
    """of the policy, in words of its own, for people"""
    fingerprint: str
    """what `base.fingerprint.make_fingerprint` returns for weights, configuration, processors, options and
    precision: equal fingerprints give equal chunks for equal observations"""
    state_names: tuple[str, ...]
    """entries of the state, in the order in which the policy reads them"""
    action_names: tuple[str, ...]
    """actions, in the order of a chunk's columns"""
    image_shapes: Mapping[str, tuple[int, int, int]]
    """by image feature, its training `(height, width, channels)`; a robot must send each, in any size"""
    chunk_size: int
    """actions of a chunk"""
    trained_fps: float
    """rate of a chunk's actions [Hz]"""
    continuation: Continuation = Continuation.NONE
    """how a chunk continues the actions that the robot executes meanwhile: `NONE`, `GUIDANCE` or `TRAINED`"""
    observation_steps: int = 1
    """control ticks that one observation shows, at most 16: the present one and those before it, one action
    of a chunk apart"""
    serving_mode: ServingMode = ServingMode.SHARED
    """`EXCLUSIVE`: for a policy that may serve one session at a time only"""
    max_batch: int = 1
    """most inputs in one call of `predict`"""
    samples: bool = True
    """whether chunks depend on the observation's seed; observations of a policy that says no have none, which
    spares the server reading every byte of an image"""
    units: Mapping[str, str] = field(default_factory=dict)
    """of state entries and actions by name, such as `degrees`, as far as they are known: a robot that says
    another unit is refused"""
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """what actions may command on a robot, by name, as a contract's `kind` calls it, as far as is known: a
    robot on which one commands something else is refused"""
    reads_task: bool = False
    """whether a chunk depends on the task; requests without any are refused then"""
    dtype: str = "float32"
    """coarsest precision of what computes a chunk: by it, chunks of a batch are compared with chunks computed
    alone"""
    state_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """where most of the training data's state entries were, by name, lowest and highest in the policy's
    units, as far as known: `check` compares the contract's limits with it"""
    action_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """the same of the actions, as the robot gets them"""
    notes: tuple[str, ...] = ()
    """what people should know of the policy's files, in words: `check` and the server's log say it"""

    def __post_init__(self) -> None:
        if not 0.0 < self.trained_fps < math.inf:
            raise self._error("trained_fps", self.trained_fps, "more than 0")
        for key in ("chunk_size", "max_batch"):
            if (number := getattr(self, key)) < 1:
                raise self._error(key, number, "at least 1")
        if not 1 <= self.observation_steps <= MAX_OBSERVATION_STEPS:
            raise self._error("observation_steps", self.observation_steps, f"1 to {MAX_OBSERVATION_STEPS}")
        if self.dtype not in DTYPES:
            raise self._error("dtype", repr(self.dtype), ", ".join(DTYPES))
        both = sorted({*self.state_names, *self.action_names})
        for key, known, what in (
            ("kinds", self.action_names, "actions"),
            ("units", both, "the state or of actions"),
        ):
            if alien := [name for name in getattr(self, key) if name not in known]:
                raise self._error(key, repr(alien[0]), f"names of {what}: {', '.join(known)}")

    def _error(self, key: str, found: object, expected: str) -> PolicyError:
        return PolicyError(f"{self.name}: {key}: found {found}, expected {expected}")

    @property
    def supports_rtc(self) -> bool:
        """Whether a chunk continues the actions that are being executed, and so may replace them."""
        return self.continuation is not Continuation.NONE

    @property
    def without_unit(self) -> tuple[str, ...]:
        """State entries and actions whose unit the policy does not say: it is taken for the robot's."""
        names = dict.fromkeys((*self.state_names, *self.action_names))
        return tuple(name for name in names if not self.units.get(name))

    @property
    def action_dim(self) -> int:
        return len(self.action_names)

    @property
    def sample_task(self) -> str:
        """Task of the server's own requests when its manifest names none."""
        return "wave" if self.reads_task else ""


def predict_all(policy: Policy, batch: Sequence[Any]) -> Sequence[Float32Array]:
    """Return copies of what `policy.predict(batch)` returns. Raises PolicyError for a wrong number of chunks.

    Copies, as a policy may answer with views of a buffer that it uses again.
    """
    chunks = policy.predict(batch)
    if len(chunks) != len(batch):
        raise PolicyError(f"policy returned {len(chunks)} chunks, expected {len(batch)}")
    return [rows.copy() if isinstance(rows, np.ndarray) else rows for rows in chunks]


def find_chunk_problem(spec: PolicySpec, chunk_model: Float32Array, chunk_robot: Float32Array) -> str:
    """Return what is wrong with a policy's answer, or an empty string."""
    expected = (spec.chunk_size, spec.action_dim)
    for space, rows in (("model", chunk_model), ("robot", chunk_robot)):
        if not isinstance(rows, np.ndarray) or rows.shape != expected:
            found = f"{type(rows).__name__} of shape {list(np.shape(rows))}"
            return f"chunk_{space}: found {found}, expected ndarray of shape {list(expected)}"
        if rows.dtype.kind not in "fiu":
            return f"chunk_{space}: found an array of {rows.dtype}, expected real numbers"
        with np.errstate(over="ignore"):
            travelling = rows.astype(np.float32, copy=False)
        if not np.isfinite(travelling).all():
            return f"chunk_{space}: found non-finite values, expected finite float32 values"
    return ""


def find_task_problem(spec: PolicySpec, task: str) -> str:
    """Return what is wrong with a task, an empty string if nothing is. task: the robot's, or the server's."""
    if not spec.reads_task or task.strip():
        return ""
    return (
        f"policy {spec.name} reads the task: found none, expected `task` in the robot's contract or in its "
        "reset, or `default_task` in the server's manifest"
    )


@dataclass(frozen=True)
class PastStep:
    """What the robot saw at an earlier control tick; state and images are as in PolicyObservation."""

    state: Float32Array
    images: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class PolicyObservation:
    """One decoded request."""

    state: Float32Array
    """float32 `[state_dim]`, in the order of `state_names` and in the policy's units"""
    images: Mapping[str, NDArray[Any]]
    """by feature, uint8 RGB `[height, width, 3]`, for depth uint16 `[height, width]`; at the camera's own
    resolution"""
    task: str
    """what to do, in words; may be empty unless the policy `reads_task`"""
    inference_delay_steps: int = 0
    """control ticks from capture until the chunk arrives"""
    prefix_model: Float32Array | None = None
    """float32 `[steps, action_dim]` in model space, action k for the k-th control tick after capture as in
    a chunk; none when the robot's queue is drained"""
    prefix_robot: Float32Array | None = None
    """the same actions in robot space"""
    seed: int = 0
    """below `2**63`, of everything random in the answer: a hash of the other fields, so that equal requests
    get equal chunks; rollouts of a group have seeds of their own; 0 for a policy that does not sample"""
    past: Sequence[PastStep] = ()
    """the control ticks before, oldest first, `observation_steps - 1` of them, each with `state` and
    `images`; early in an episode its first tick is repeated"""
    temperature: float = 1.0
    """scale of the noise that a policy draws, where it draws some; 0: none"""

    @property
    def states(self) -> Float32Array:
        """The states of all steps `[observation_steps, state_dim]`, oldest first, the present one last."""
        return np.stack([*(step.state for step in self.past), self.state])

    def image_steps(self, feature: str) -> tuple[NDArray[Any], ...]:
        """Return a camera's images of all steps, oldest first, the present one last.

        Steps between which the camera delivered nothing share one array.
        """
        return (*(step.images[feature] for step in self.past), self.images[feature])

    @property
    def executed_steps(self) -> int:
        """Prefix actions that the robot will have executed when the chunk arrives."""
        rows = 0 if self.prefix_robot is None else len(self.prefix_robot)
        return min(self.inference_delay_steps, rows)


class Processors(Protocol):
    """The pre/post pair of one session; `post` may read what `pre` cached for the same request.

    A server prepares several sessions at once: the calls of one pair come one at a time and in the order of
    its requests, but on different threads, and beside those of other pairs and of the policy.
    """

    def pre(self, observation: PolicyObservation) -> Any:
        """Return the policy's input for a robot's observation; the server does not read it.

        Raises PolicyError when a feature is missing or has the wrong shape.
        """

    def post(self, chunk_model: Float32Array) -> Float32Array:
        """Return a model-space chunk `[chunk_size, action_dim]` in robot space, in the same shape."""

    def reset(self) -> None:
        """Forget the episode that has ended."""


class Policy(Protocol):
    """A loaded policy. One thread loads and calls it; any thread may call `make_processors`."""

    spec: PolicySpec

    def make_processors(self) -> Processors:
        """Return a fresh processor pair for one session."""

    def predict(self, batch: Sequence[Any]) -> Sequence[Float32Array]:
        """Return one model-space chunk `[chunk_size, action_dim]` per input, in order.

        `len(batch)` is at most `spec.max_batch`, which is 1 for a policy that cannot batch. All inputs have
        one shape: processors resize the robots' images. A chunk must not depend on the other inputs of the
        batch, and what is random in it must depend on the observation's `seed` alone. A policy whose noise
        cannot be given seeds the global generators of random numbers at each call and has a `max_batch` of 1.
        Raises PolicyError when the policy cannot answer, DeviceLostError when it never will again.
        """

    def reset(self) -> None:
        """Forget the episode. The server calls it between episodes in exclusive mode, and in the warm-up."""

    def close(self) -> None:
        """Free the device."""


@runtime_checkable
class UpdatablePolicy(Policy, Protocol):
    """A policy whose weights may change between two calls of `predict`."""

    def weights(self) -> Mapping[str, Any]:
        """Return the tensors that `predict` reads, by name: numpy arrays, or tensors of torch.

        They are the served memory itself: what is written into them is in the next chunk.
        """

    def check_weights(self) -> None:
        """Raise PolicyError when the tensors as they are now cannot be served.

        For example since processors have copied what they were. Called after each update, on the thread that
        calls `predict`.
        """
