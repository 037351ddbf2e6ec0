# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out at any step of an update, or of the way back: all is as it was, and it is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
import torch

from remote_inference.learn.weights import Reason, SenderConfig, WeightsError, device, served
from remote_inference.learn.weights.frames import Applied, Refused
from support.weights.weight_models import Pair, bits_of, change, handled_as_in, make_model

KINDS = (("bfloat16", (60, 70)), ("float32", (500,)), ("int64", (40,)))
SHARES = {"patch": 0.15, "bucket": 1.0}


@contextmanager
def pair_in(memory: str, strategy: str) -> Iterator[Pair]:
    """Yield a pair with an update to come that is exchanged in several blocks."""
    with handled_as_in(memory), pytest.MonkeyPatch.context() as patched:
        for kind in (served.HostTensor, device.DeviceTensor):
            patched.setattr(kind, "block", 300)
        pair = Pair(make_model(KINDS), config=SenderConfig(strategy, 1024))
        change(pair.model, SHARES[strategy], 1)
        pair.ledger.advance(pair.model, 2)
        yield pair


def full_at(real: Callable[..., Any], calls: range, error: type[Exception]) -> Callable[..., Any]:
    """Return a function that finds no memory at these of its calls."""
    number = count()

    def work(*args: Any, **options: Any) -> Any:
        if next(number) in calls:
            raise error("out of memory")
        return real(*args, **options)

    return work


@contextmanager
def blocks_without_memory(memory: str, calls: range) -> Iterator[None]:
    """Let these of the blocks that are exchanged from now on find no memory."""
    with pytest.MonkeyPatch.context() as patched:
        if memory == "host":
            swap = served.HostTensor.swap
            patched.setattr(served.HostTensor, "swap", full_at(swap, calls, MemoryError))
        else:
            clone = full_at(torch.Tensor.clone, calls, torch.OutOfMemoryError)
            patched.setattr(torch.Tensor, "clone", clone)
        yield


memories = pytest.mark.parametrize("memory", ["host", "device code"])
strategies = pytest.mark.parametrize("strategy", ["patch", "bucket"])


@pytest.mark.parametrize("step", ["checked", "staged"])
def test_a_gpu_that_is_full_while_an_update_is_prepared_is_a_reason(step: str):
    with pair_in("device code", "patch") as pair:
        before, frames = bits_of(pair.served), pair.next_frames()
        call = {"checked": 0, "staged": len(KINDS)}[step]  # places go to the GPU for each
        with pytest.MonkeyPatch.context() as patched:
            to_device = full_at(device.to_device, range(call, call + 1), torch.OutOfMemoryError)
            patched.setattr(device, "to_device", to_device)
            answer = pair.deliver(frames)
        assert isinstance(answer, Refused)
        assert answer.reason is Reason.MEMORY
        assert bits_of(pair.served) == before
        assert isinstance(pair.deliver(frames), Applied)
        assert bits_of(pair.served) == bits_of(pair.model)


@memories
@strategies
def test_an_update_whose_exchange_finds_no_memory_is_refused_whole(memory: str, strategy: str):
    with pair_in(memory, strategy) as pair:
        before, frames = bits_of(pair.served), pair.next_frames()
        for call in count():
            with blocks_without_memory(memory, range(call, call + 1)):
                answer = pair.deliver(frames)
            if isinstance(answer, Applied):
                break
            assert (answer.reason, answer.version) == (Reason.MEMORY, 2)
            assert "1 is served on" in answer.text
            assert (bits_of(pair.served), pair.receiver.version) == (before, 1)
        assert call > len(KINDS), "blocks in the middle of a tensor failed, too"
        assert bits_of(pair.served) == bits_of(pair.model)
        assert pair.receiver.rollback() == 1
        assert bits_of(pair.served) == before


@memories
@strategies
def test_a_rollback_that_finds_no_memory_changes_nothing_and_can_be_asked_for_again(
    memory: str, strategy: str
):
    with pair_in(memory, strategy) as pair:
        before = bits_of(pair.served)
        assert isinstance(pair.deliver(pair.next_frames()), Applied)
        with (
            blocks_without_memory(memory, range(3, 4)),
            pytest.raises(WeightsError, match=r"rollback: found no memory .*; 2 is served on") as caught,
        ):
            pair.receiver.rollback()
        assert caught.value.reason is Reason.MEMORY
        assert (bits_of(pair.served), pair.receiver.version) == (bits_of(pair.model), 2)
        assert pair.receiver.rollback() == 1
        assert bits_of(pair.served) == before


@memories
def test_a_mixture_that_cannot_be_taken_back_is_no_refusal(memory: str):
    """Whoever applies must not go on with it."""
    with (
        pair_in(memory, "bucket") as pair,
        blocks_without_memory(memory, range(3, 99)),
        pytest.raises(RuntimeError, match="no memory to take an update back"),
    ):
        pair.deliver(pair.next_frames())
