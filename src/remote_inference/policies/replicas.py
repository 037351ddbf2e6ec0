# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One policy on several devices: a replica on each, among which the sessions are spread."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from remote_inference.core.calls import Calls
from remote_inference.core.policy import (
    Float32Array,
    Policy,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    Processors,
    ServingMode,
    predict_all,
)


@dataclass(frozen=True)
class ReplicaInput:
    """What a session's processors have made of an observation, on the device of the session's replica."""

    replica: int
    content: Any


class ReplicaProcessors:
    """The processors of a session, which belongs to one replica."""

    def __init__(self, replica: int, processors: Processors) -> None:
        self._replica = replica
        self._processors = processors

    def pre(self, observation: PolicyObservation) -> ReplicaInput:
        return ReplicaInput(self._replica, self._processors.pre(observation))

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return self._processors.post(chunk_model)

    def reset(self) -> None:
        self._processors.reset()


class _Replica:
    """A policy on a thread of its own, from loading to freeing it."""

    def __init__(self, load: Callable[[], Policy], device: str) -> None:
        """Begin to load."""
        self.device = device
        self._calls = Calls()
        self._calls.start(f"replica_{device}")
        self.loading = self._calls.submit(load)
        self.sessions: weakref.WeakSet[ReplicaProcessors] = weakref.WeakSet()

    @property
    def policy(self) -> Policy:
        return self.loading.result()

    def predict(self, batch: Sequence[Any]) -> Future[list[Float32Array]]:
        """Answer a batch of any size, in as many calls as the policy needs."""
        most = self.policy.spec.max_batch
        parts = [batch[begin : begin + most] for begin in range(0, len(batch), most)]
        return self._calls.submit(lambda: [row for part in parts for row in predict_all(self.policy, part)])

    def reset(self) -> Future[None]:
        return self._calls.submit(self.policy.reset)

    def close(self) -> None:
        """Free the policy, if it was loaded, and end the thread."""
        if not self.loading.exception():
            wait([self._calls.submit(self.policy.close)])
        self._calls.close()


class ReplicatedPolicy:
    """Serves one policy with a replica for each device.

    A session belongs to the replica with the fewest sessions. The replicas answer their parts of a batch at
    the same time, so that a batch may be as many times larger as there are replicas. `max_batch` counts all.
    """

    def __init__(self, load: Callable[[str], Policy], devices: Sequence[str]) -> None:
        """load: returns the policy on a device; called on the replica's thread, for all at the same time.

        Raises what it raises, and PolicyError for policies that differ or that serve one robot at a time.
        """
        self._replicas = [_Replica(partial(load, device), device) for device in devices]
        self._next = 0  # of those with equally few sessions
        try:
            wait([replica.loading for replica in self._replicas])
            self.spec = _common_spec([replica.policy.spec for replica in self._replicas])
        except BaseException:
            self.close()
            raise

    def make_processors(self) -> ReplicaProcessors:
        count = len(self._replicas)
        in_turn = [(self._next + step) % count for step in range(count)]
        chosen = min(in_turn, key=lambda index: len(self._replicas[index].sessions))
        self._next = (chosen + 1) % count
        replica = self._replicas[chosen]
        processors = ReplicaProcessors(chosen, replica.policy.make_processors())
        replica.sessions.add(processors)
        return processors

    def predict(self, batch: Sequence[ReplicaInput]) -> list[Float32Array]:
        """Return one chunk per input. Raises what a replica raises, after all have answered."""
        asked: dict[int, list[int]] = {}  # places in the batch, by replica
        for place, one in enumerate(batch):
            asked.setdefault(one.replica, []).append(place)
        answers = {
            replica: self._replicas[replica].predict([batch[place].content for place in places])
            for replica, places in asked.items()
        }
        wait(answers.values())
        chunks = {
            place: chunk
            for replica, places in asked.items()
            for place, chunk in zip(places, answers[replica].result(), strict=True)
        }
        return [chunks[place] for place in range(len(batch))]

    def reset(self) -> None:
        for resetting in [replica.reset() for replica in self._replicas]:
            resetting.result()

    def close(self) -> None:
        for replica in self._replicas:
            replica.close()


def _common_spec(specs: Sequence[PolicySpec]) -> PolicySpec:
    """Return the specification of all replicas together."""
    first = specs[0]
    if any(spec != first for spec in specs):
        raise PolicyError(f"model.replicas: {first.name} differs by device, expected equal specifications")
    if first.serving_mode is ServingMode.EXCLUSIVE:
        raise PolicyError(
            f"model.replicas: found {len(specs)}, expected none: {first.name} serves one robot at a time"
        )
    return replace(first, max_batch=first.max_batch * len(specs))
