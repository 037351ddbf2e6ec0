# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One policy on several devices: a replica on each, among which the sessions are spread."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, islice
from typing import Any

from remote_inference.base.calls import Calls
from remote_inference.base.policy import (
    DeviceLostError,
    Float32Array,
    Policy,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    ServingMode,
    predict_all,
)
from remote_inference.server.policy_error import explain_loss, is_device_lost


@dataclass(frozen=True)
class ReplicaInput:
    """What a session's processors have made of an observation, on the device of the session's replica."""

    replica: _Replica
    content: Any


class ReplicaProcessors:
    """The processors of a session, which belongs to one replica."""

    def __init__(self, replica: _Replica) -> None:
        self._replica = replica
        self._processors = replica.policy.make_processors()

    def pre(self, observation: PolicyObservation) -> ReplicaInput:
        with self._replica.noting_device_loss():
            return ReplicaInput(self._replica, self._processors.pre(observation))

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return self._processors.post(chunk_model)

    def reset(self) -> None:
        self._processors.reset()


@dataclass
class _Part:
    """A replica's part of a batch, and its answer.

    It is emptied afterwards: the replica's thread keeps its last call until the next one, and an error keeps
    the frames that it has passed, with the inputs and the device memory in them.
    """

    places: list[int] = field(default_factory=list)  # in the batch
    inputs: list[Any] = field(default_factory=list)
    chunks: list[Float32Array] = field(default_factory=list)
    error: BaseException | None = None

    def empty(self) -> None:
        self.inputs.clear()
        self.chunks.clear()
        self.error = None


class _Replica:
    """A policy on a thread of its own, from loading to freeing it."""

    def __init__(self, load: Callable[[], Policy], device: str) -> None:
        self.device = device
        self._calls = Calls()
        self._calls.start(f"replica_{device}")
        self.loading = self._calls.submit(load)
        self.sessions: weakref.WeakSet[ReplicaProcessors] = weakref.WeakSet()
        self.lost = ""  # why the device is, as text: the error would keep the device's memory
        self._tried = 1  # largest call so far

    @property
    def policy(self) -> Policy:
        return self.loading.result()

    @contextmanager
    def noting_device_loss(self) -> Iterator[None]:
        """Note when what is called within finds the device lost."""
        try:
            yield
        except Exception as error:
            if is_device_lost(error):
                self.lost = f"{self.device}: {explain_loss(error)}"
            raise

    def answer(self, part: _Part, batch_size: int) -> Future[None]:
        """Answer a part of any size, in as many calls as the policy needs. batch_size: of the whole batch."""
        return self._calls.submit(partial(self._answer, part, batch_size))

    def _answer(self, part: _Part, batch_size: int) -> None:
        most = self.policy.spec.max_batch
        try:
            with self.noting_device_loss():
                self._try_largest(part.inputs, min(batch_size, most))
                for begin in range(0, len(part.inputs), most):
                    part.chunks += predict_all(self.policy, part.inputs[begin : begin + most])
        except BaseException as error:  # whoever asked gets whatever it raises
            part.error = error

    def _try_largest(self, inputs: Sequence[Any], size: int) -> None:
        """Make once the largest call that a batch like this may bring, when all its sessions are here.

        The sessions of a warm-up are spread evenly, those of the robots that ask later may not be.
        """
        if size > self._tried:
            self._tried = size
            if len(inputs) < size:
                predict_all(self.policy, list(islice(cycle(inputs), size)))

    def reset(self) -> Future[None]:
        return self._calls.submit(self.policy.reset)

    def close(self) -> None:
        if not self.loading.exception():
            wait([self._calls.submit(self.policy.close)])
        self._calls.close()


class ReplicatedPolicy:
    """Serves one policy with a replica for each device.

    A session belongs to the replica with the fewest sessions. The replicas answer their parts of a batch at
    the same time, so that a batch may be as many times larger as there are replicas. `max_batch` counts all.
    A replica whose device is lost gets no new sessions while another is there.
    """

    def __init__(self, load: Callable[[str], Policy], devices: Sequence[str]) -> None:
        """load: returns the policy on a device; called on the replica's thread, for all at the same time.

        Raises what it raises, and PolicyError for policies that differ, that serve one robot at a time, or
        that may draw from generators of the whole process.
        """
        self._replicas = [_Replica(partial(load, device), device) for device in devices]
        self._next = 0  # of those with equally few sessions
        try:
            wait([replica.loading for replica in self._replicas])
            self.spec = _common_spec([replica.policy for replica in self._replicas])
        except BaseException:
            self.close()
            raise

    def make_processors(self) -> ReplicaProcessors:
        in_turn = [*self._replicas[self._next :], *self._replicas[: self._next]]
        working = [replica for replica in in_turn if not replica.lost] or in_turn
        replica = min(working, key=lambda one: len(one.sessions))
        self._next = (self._replicas.index(replica) + 1) % len(self._replicas)
        processors = ReplicaProcessors(replica)
        replica.sessions.add(processors)
        return processors

    def predict(self, batch: Sequence[ReplicaInput]) -> list[Float32Array]:
        """Return one chunk per input. Raises what a replica raises, after all have answered.

        DeviceLostError goes first. It is raised at once when the device of an input has been lost before.
        """
        parts: dict[_Replica, _Part] = {}
        for place, one in enumerate(batch):
            part = parts.setdefault(one.replica, _Part())
            part.places.append(place)
            part.inputs.append(one.content)
        for replica in parts:
            if replica.lost:
                raise DeviceLostError(replica.lost)
        chunks: dict[int, Float32Array] = {}  # by place
        try:
            wait([replica.answer(part, len(batch)) for replica, part in parts.items()])
            for part in sorted(
                parts.values(), key=lambda part: part.error is None or not is_device_lost(part.error)
            ):
                if part.error is not None:
                    raise part.error
                chunks |= zip(part.places, part.chunks, strict=True)
        finally:
            for part in parts.values():
                part.empty()
        return [chunks[place] for place in range(len(batch))]

    def reset(self) -> None:
        for resetting in [replica.reset() for replica in self._replicas]:
            resetting.result()

    def close(self) -> None:
        for replica in self._replicas:
            replica.close()


def _common_spec(policies: Sequence[Policy]) -> PolicySpec:
    first = policies[0].spec
    if any(policy.spec != first for policy in policies):
        raise PolicyError(f"model.replicas: {first.name} differs by device, expected equal specifications")
    found = f"model.replicas: found {len(policies)}, expected none: {first.name}"
    if first.serving_mode is ServingMode.EXCLUSIVE:
        raise PolicyError(f"{found} serves one robot at a time")
    # Such a policy may seed and use the process's generators (`base.policy`): calls at once would mix their
    # draws. One with generators of its own says that it `draws_by_itself`.
    if first.samples and first.max_batch == 1 and not getattr(policies[0], "draws_by_itself", False):
        why = "samples with max_batch 1, and so may draw from generators of random numbers"
        raise PolicyError(f"{found} {why} that all replicas would share")
    return replace(first, max_batch=first.max_batch * len(policies))
