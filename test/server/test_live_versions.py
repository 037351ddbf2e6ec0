# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Weights change between two batches, never within one: every chunk is of one version, and says which."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from weight_links import in_process

from remote_inference.base.exchange import Chunk, ChunkStatus
from remote_inference.base.policy import Float32Array, fingerprint_of, show_policy_version
from remote_inference.learn.weights import SenderConfig, WeightReceiver, WeightSyncer
from remote_inference.learn.weights.syncer import ReceiverPump
from support.builders import CHUNK_SIZE, SteadyPolicy
from support.server.bench import AllAtOnce, Bench

DEADLINE_S = 60.0
UPDATES = 100


class VersionPolicy(SteadyPolicy):
    """Answers with its weights, one of them in each row: rows that differ are of two versions."""

    def __init__(self, **spec_changes: Any) -> None:
        super().__init__(max_batch=4, **spec_changes)
        self.tensor = np.zeros(CHUNK_SIZE, np.float32)
        self.answer = self._show_weights

    def weights(self) -> dict[str, Float32Array]:
        return {"version": self.tensor}

    def _show_weights(self, batch: Sequence[Any]) -> list[Float32Array]:
        # One value after the other: an exchange in the middle of a call would show.
        return [np.array([[value, value] for value in self.tensor], np.float32) for _ in batch]


def versions_in(chunk: Chunk) -> set[float]:
    return set(chunk.model.flatten().tolist())


def test_the_version_of_the_loaded_weights_is_the_fingerprint_alone():
    assert show_policy_version("f1", 0) == "f1"
    assert show_policy_version("f1", 12) == "f1@12"


@pytest.mark.parametrize("version", [0, 1, 2**63])
def test_the_fingerprint_of_a_session_is_found_in_every_version(version):
    assert fingerprint_of(show_policy_version("f1", version)) == "f1"


def test_all_chunks_of_a_batch_are_of_the_version_that_was_there_when_it_began():
    versions = iter(range(5, 100))
    bench = Bench(VersionPolicy(), AllAtOnce(), update_weights=lambda: next(versions))
    bench.put(0)
    bench.put(1)
    assert [chunk.policy_version for chunk in bench.serve()] == ["f1@5", "f1@5"]


def test_an_answer_without_a_chunk_is_of_the_version_that_failed():
    policy = VersionPolicy()
    policy.answer = lambda batch: [np.full((CHUNK_SIZE, 2), np.nan, np.float32) for _ in batch]
    bench = Bench(policy, update_weights=lambda: 7)
    bench.put(0)
    (chunk,) = bench.serve()
    assert (chunk.status, chunk.policy_version) == (ChunkStatus.ERROR, "f1@7")


def test_a_batch_that_is_halved_after_a_failure_stays_with_its_version():
    policy = VersionPolicy()

    def fail_together(batch: Sequence[Any]) -> Any:
        if len(batch) > 1:
            raise ValueError("too many")
        return policy._show_weights(batch)

    versions = iter(range(1, 100))
    policy.answer = fail_together
    bench = Bench(policy, AllAtOnce(), update_weights=lambda: next(versions))
    bench.put(0)
    bench.put(1)
    assert [chunk.policy_version for chunk in bench.serve()] == ["f1@1", "f1@1"]


def test_the_request_record_says_the_version():
    bench = Bench(VersionPolicy(), update_weights=lambda: 3)
    bench.put(0)
    bench.serve()
    assert [record.policy_version for record in bench.records] == ["f1@3"]


def test_while_a_trainer_pushes_every_chunk_is_of_exactly_one_version():
    policy = VersionPolicy()
    receiver = WeightReceiver(policy.weights())
    here, there = in_process()
    pump = ReceiverPump(receiver)
    pump.add(here)
    bench = Bench(policy, AllAtOnce(), update_weights=receiver.apply)
    trained = {"version": np.zeros(CHUNK_SIZE, np.float32)}
    failures: list[BaseException] = []

    def push() -> None:
        try:
            trainer = WeightSyncer(SenderConfig())
            trained["version"][:] = 1
            trainer.init_sender(lambda: trained, {"server": lambda: there}, version=1)
            for version in range(2, UPDATES + 1):
                assert trainer.sender is not None
                assert trainer.sender.wait(DEADLINE_S)["server"].is_current
                trained["version"][:] = version
                trainer.sync(version)
            assert trainer.sender.wait(DEADLINE_S)["server"].is_current
            trainer.close()
        except BaseException as error:
            failures.append(error)

    pushing = threading.Thread(target=push)
    pushing.start()
    while pushing.is_alive() or not bench.chunks:
        bench.put(0)
        bench.put(1)
        bench.serve()
    pushing.join(DEADLINE_S)
    pump.close()
    assert not failures
    bench.put(0)
    bench.serve()
    chunks = [chunk for _, chunk in bench.chunks]
    for chunk in chunks:
        (version,) = versions_in(chunk)
        assert chunk.policy_version == show_policy_version("f1", int(version))
    assert {chunk.status for chunk in chunks} == {ChunkStatus.OK}
    assert chunks[-1].policy_version == f"f1@{UPDATES}"
    assert len({chunk.policy_version for chunk in chunks}) > UPDATES / 2
