# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a policy's author may write: buffers used again, work in place, panics; and a GPU that is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from remote_inference.base.exchange import ChunkStatus
from remote_inference.base.policy import DeviceLostError, PolicyError, PolicyObservation
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.policy_error import explain_loss, is_device_lost
from remote_inference.server.warmup import find_serving_mode, require_batches_to_agree
from support.builders import CHUNK_SIZE, ShiftProcessors, SteadyPolicy
from support.server.bench import MS, AllAtOnce, Bench, JsonDecoder
from support.server.misbehaviour import PanicError

LOST = "CUDA error: an illegal memory access was encountered\nCompile with `TORCH_USE_CUDA_DSA`"


class Hooked(ShiftProcessors):
    """Processors that do something besides."""

    def __init__(self, **hooks: Callable[[], None]) -> None:
        super().__init__()
        self._hooks = hooks

    def _call(self, name: str) -> None:
        self._hooks.get(name, lambda: None)()

    def pre(self, observation: PolicyObservation) -> Any:
        self._call("pre")
        return super().pre(observation)

    def post(self, chunk_model: np.ndarray) -> Any:
        self._call("post")
        return super().post(chunk_model)

    def reset(self) -> None:
        self._call("reset")


class BufferedPolicy(SteadyPolicy):
    """Answers with views of one buffer, as a captured graph does; `limit` fails larger batches."""

    def __init__(self, limit: int = 8) -> None:
        super().__init__(max_batch=8)
        self._buffer = np.zeros((8, CHUNK_SIZE, 2), np.float32)
        self._limit = limit
        self.answer = self._fill

    def _fill(self, batch: Sequence[Any]) -> list[np.ndarray]:
        if len(batch) > self._limit:
            raise RuntimeError("CUDA out of memory")
        for rows, state in zip(self._buffer, batch, strict=False):
            rows[:] = state
        return list(self._buffer[: len(batch)])


def fail(error: BaseException) -> Callable[[], None]:
    def hook() -> None:
        raise error

    return hook


# -- buffers -------------------------------------------------------------------------------------------------


def states_of(bench: Bench) -> dict[str, float]:
    return {session.session_id: float(chunk.model[0, 0]) for session, chunk in bench.chunks}


def test_a_robot_gets_its_own_chunk_from_a_policy_that_uses_its_buffer_again() -> None:
    """The next batch is computed while the last one is postprocessed."""
    tasks: list[Callable[[], None]] = []
    bench = Bench(BufferedPolicy(), AllAtOnce(), robots=2, finish=tasks.append)
    for index in range(2):
        bench.put(index, state=(index + 1.0, index + 1.0))
        bench.worker.step(bench.sessions)
    for task in tasks:
        task()
    assert states_of(bench) == {"s0": 1.0, "s1": 2.0}


def test_the_parts_of_a_failed_batch_do_not_overwrite_each_other() -> None:
    bench = Bench(BufferedPolicy(limit=2), AllAtOnce(), robots=4)
    for index in range(4):
        bench.put(index, state=(index + 1.0, index + 1.0))
    bench.serve()
    assert states_of(bench) == {"s0": 1.0, "s1": 2.0, "s2": 3.0, "s3": 4.0}


def test_the_server_s_own_comparisons_keep_what_they_compare() -> None:
    """Else two different answers look equal, as both are the buffer."""
    policy = BufferedPolicy()
    remembered = np.zeros(2, np.float32)

    def remember(batch: Sequence[Any]) -> list[np.ndarray]:
        remembered[:] += 1.0
        return policy._fill([state + remembered for state in batch])

    policy.answer = remember
    assert find_serving_mode(policy, "").difference
    manifest = Manifest(model={"backend": "hold", "path": "."}, scheduler="micro_batch")
    with pytest.raises(PolicyError, match="answers differently in a batch of 4 than alone"):
        require_batches_to_agree(policy, 4, manifest)


def test_a_postprocessor_that_works_in_place_leaves_the_chunk_in_model_space_as_it_was() -> None:
    class InPlace(ShiftProcessors):
        def post(self, chunk_model: np.ndarray) -> Any:
            chunk_model *= 10.0
            return chunk_model

    bench = Bench(robots=1)
    bench.sessions[0].processors = InPlace()
    bench.put(0, state=(0.5, -0.5))
    (chunk,) = bench.serve()
    np.testing.assert_allclose(chunk.robot, 10.0 * chunk.model)


def test_a_record_says_how_many_shared_the_call_that_answered() -> None:
    """A chunk that was computed alone after its batch had failed can be computed again, bit for bit."""
    bench = Bench(BufferedPolicy(limit=1), AllAtOnce(), robots=2)
    for index in range(2):
        bench.put(index)
    bench.serve()
    assert [record.batch_size for record in bench.records] == [1, 1]


# -- what is no Exception ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [PanicError("index out of bounds"), SystemExit(3)])
@pytest.mark.parametrize("stage", ["pre", "post", "reset", "predict"])
def test_a_panic_costs_an_error_chunk_and_no_other_robot(stage: str, error: BaseException) -> None:
    bench = Bench(scheduler=AllAtOnce())
    if stage == "predict":
        healthy = bench.policy.answer
        bench.policy.answer = lambda batch: healthy(batch) if batch[0][0] != 7.0 else fail(error)()
        bench.policy.spec = SteadyPolicy(max_batch=1).spec
    else:
        bench.sessions[0].processors = Hooked(**{stage: fail(error)})
    bench.put(0, state=(7.0, 7.0), episode_start=True)
    first = bench.serve()
    bench.put(1)
    (other,) = bench.serve()
    assert [chunk.status for chunk in (*first, other)] == [ChunkStatus.ERROR, ChunkStatus.OK]
    assert f"{type(error).__name__}: {error}" in first[0].message


def test_ctrl_c_is_no_error_of_the_author_s() -> None:
    bench = Bench(robots=1)
    bench.policy.answer = lambda batch: fail(KeyboardInterrupt())()
    bench.put(0)
    with pytest.raises(KeyboardInterrupt):
        bench.serve()


def test_a_mistake_in_the_author_s_processors_is_not_blamed_on_the_robot() -> None:
    bench = Bench(robots=1, max_consecutive_failures=2)
    bench.sessions[0].processors = Hooked(pre=fail(ValueError("operands could not be broadcast together")))
    bench.put(0)
    (chunk,) = bench.serve()
    assert chunk.message.startswith("preprocessing failed: ValueError: operands")
    assert bench.watch.failed_batches == 1


def test_a_request_that_cannot_be_read_costs_its_session_the_time_that_it_took() -> None:
    """Else a flood of them takes a place in every batch for nothing."""

    class SlowDecoder(JsonDecoder):
        def request(self, data: bytes) -> Any:
            bench.now_ns += 7 * MS
            return super().request(data)

    bench = Bench(decoder=SlowDecoder())
    bench.sessions[0].mailbox.put(b"no request", bench.now_ns)
    bench.serve()
    assert bench.sessions[0].account.virtual_ns == 7 * MS


# -- a device that is lost -----------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["pre", "post", "reset", "predict"])
def test_a_lost_device_asks_for_a_restart_wherever_it_shows(stage: str) -> None:
    """Processors that copy to the GPU raise its error, too, and then the policy is never asked."""
    bench = Bench(robots=1)
    if stage == "predict":
        bench.policy.answer = lambda batch: fail(RuntimeError(LOST))()
    else:
        bench.sessions[0].processors = Hooked(**{stage: fail(RuntimeError(LOST))})
    bench.put(0, episode_start=True)
    bench.serve()
    assert "the device is lost: RuntimeError: CUDA error" in bench.watch.unhealthy_reason(bench.now_ns)


def test_one_lost_device_of_several_stays_lost_though_the_others_answer() -> None:
    bench = Bench(scheduler=AllAtOnce())
    bench.sessions[0].processors = Hooked(pre=fail(DeviceLostError("CUDA error: unspecified launch failure")))
    bench.put(0)
    bench.put(1)
    bench.serve()
    bench.put(1)
    assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.OK]
    assert "unspecified launch failure" in bench.watch.unhealthy_reason(bench.now_ns)


def test_the_driver_s_errors_are_told_from_those_that_pass() -> None:
    class AcceleratorError(RuntimeError):
        """What torch raises of late."""

    wrapped = PolicyError("arm: cannot predict")
    wrapped.__cause__ = RuntimeError(LOST)
    assert all(
        map(is_device_lost, (RuntimeError(LOST), AcceleratorError(LOST), DeviceLostError("gone"), wrapped))
    )
    passing = (
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        PolicyError("ws://gpu:8000: the server says: CUDA error: an illegal memory access"),
        ValueError("CUDA error:"),
    )
    assert not any(map(is_device_lost, passing))
    assert str(explain_loss(RuntimeError(LOST))) == LOST.splitlines()[0]
