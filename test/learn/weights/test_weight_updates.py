# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""After any sequence of updates the server's weights are the trainer's, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from weight_links import TRANSPORTS

from remote_inference.learn.weights import COMPRESSIONS, SenderConfig, WeightSyncer, state_digest
from remote_inference.learn.weights.frames import Applied, Refused
from remote_inference.learn.weights.ledger import Ledger
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import describe
from support.weights.weight_models import (
    ALL_VALUES,
    MEMORIES,
    Pair,
    Served,
    bits_of,
    change,
    copy_of,
    frames_of,
    handled_as_in,
    kinds,
    make_model,
    updates,
    view,
)

configs = st.builds(
    SenderConfig,
    strategy=st.sampled_from(("patch", "bucket")),
    bucket_size=st.sampled_from((1024, 4096, 1 << 20)),
    compression=st.sampled_from(COMPRESSIONS.names),
)
MIXED = (
    ("bfloat16", (60, 70)),
    ("float16", (2, 3, 4)),
    ("float32", (500,)),
    ("int64", ()),
    ("bool", (40, 30)),
    ("float64", (0, 4)),
    ("bfloat16", (2, 2, 1, 3, 2)),
)


def require_equal(pair: Pair) -> None:
    bits = view(pair.served)
    assert bits_of(pair.served) == bits_of(pair.model)
    assert pair.receiver.digest == state_digest((spec, bits[spec.name]) for spec in pair.receiver.table)
    assert pair.receiver.digest == pair.ledger.newest.digest


@contextmanager
def pair_in(memory: str, kinds, config: SenderConfig, served_seed: int = 0) -> Iterator[Pair]:
    """Yield a trainer and a server whose tensors lie in a kind of memory, the snapshot of patches, too."""
    with handled_as_in(memory) as snapshot_device:
        if config.strategy == "patch":
            config = replace(config, snapshot_device=snapshot_device)
        yield Pair(make_model(kinds, 0, memory), make_model(kinds, served_seed, memory), config)


memories = st.sampled_from(MEMORIES)


@given(memories, kinds, updates, configs)
def test_any_sequence_of_updates_gives_the_same_bits(memory, kinds, updates, config: SenderConfig):
    with pair_in(memory, kinds, config) as pair:
        for version, (share, seed) in enumerate(updates, 2):
            change(pair.model, share, seed)
            pair.ledger.advance(pair.model, version)
            assert isinstance(answer := pair.deliver(pair.next_frames()), Applied), answer
            assert pair.receiver.version == version
            require_equal(pair)


@given(memories, kinds, updates, configs)
def test_a_server_that_starts_in_the_middle_gets_everything(memory, kinds, updates, config: SenderConfig):
    with pair_in(memory, kinds, config, served_seed=1) as pair:
        for version, (share, seed) in enumerate(updates, 2):
            change(pair.model, share, seed)
            pair.ledger.advance(pair.model, version)
        pair.deliver(pair.next_frames())
        require_equal(pair)


@given(memories, kinds, updates, configs)
def test_a_rollback_gives_the_bits_of_the_version_before(memory, kinds, updates, config: SenderConfig):
    with pair_in(memory, kinds, config) as pair:
        for share, seed in updates:
            before, digest, version = bits_of(pair.served), pair.receiver.digest, pair.receiver.version
            change(pair.model, share, seed)
            pair.ledger.advance(pair.model, version + 1)
            pair.deliver(pair.next_frames())
            assert pair.receiver.rollback() == version
            assert (bits_of(pair.served), pair.receiver.digest) == (before, digest)
            pair.ledger.advance(pair.model, version + 2)
            assert isinstance(answer := pair.deliver(pair.next_frames(wants_all=True)), Applied), answer
        require_equal(pair)


@given(kinds, updates, st.booleans())
def test_a_snapshot_on_the_device_finds_what_one_in_the_machine_s_memory_finds(kinds, updates, widens):
    """Also for a trainer whose tensors have more bits than its server's."""
    served = make_model(kinds)
    model = {
        name: tensor.double() if widens and tensor.is_floating_point() else tensor.clone()
        for name, tensor in served.items()
    }
    with handled_as_in("device code") as device:
        table = describe(served)
        on_host, on_device = (
            Ledger(table, model, 1, SenderConfig(snapshot_device=each)) for each in ("cpu", device)
        )
        for version, (share, seed) in enumerate(updates, 2):
            digest = on_host.newest.digest
            change(model, share, seed)
            built = [replace(ledger.advance(model, version), seconds=0.0) for ledger in (on_host, on_device)]
            assert built[0] == built[1]
            frames = [ledger.find_update(version - 1, digest, False) for ledger in (on_host, on_device)]
            assert frames_of(frames[0]) == frames_of(frames[1]) if frames[0] else frames[1] is None


def test_a_trainer_goes_on_when_its_tensors_have_been_taken():
    """A snapshot is a copy, wherever it lies."""
    for memory in MEMORIES:
        with pair_in(memory, MIXED, SenderConfig(bucket_size=1024)) as pair:
            change(pair.model, 0.01, 1)
            sent = copy_of(pair.model)
            pair.ledger.advance(pair.model, 2)
            change(pair.model, 1.0, 2)
            pair.deliver(pair.next_frames())
            assert bits_of(pair.served) == bits_of(sent)


def test_a_snapshot_on_a_gpu_wants_tensors_that_are_there():
    with pytest.raises(WeightsError, match=r"layer_0\.weight: found it on cpu, expected it on cuda"):
        Pair(make_model(MIXED), config=SenderConfig(snapshot_device="cuda"))
    with pytest.raises(WeightsError, match="snapshot_device: found 'cuda' with strategy 'bucket'"):
        SenderConfig("bucket", snapshot_device="cuda").check()
    with pytest.raises(WeightsError, match="snapshot_device: found 'tpu', expected cpu or cuda"):
        SenderConfig(snapshot_device="tpu").check()


@pytest.mark.parametrize("served_type", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("bucket_dtype", ["float32", "bfloat16", "float16"])
@settings(max_examples=20)
@given(updates)
def test_a_bucket_s_type_rounds_floating_point_tensors_alone(served_type, bucket_dtype, updates):
    model = make_model(((served_type, (30, 40)), ("int64", (50,)), ("bool", (9,))))
    pair = Pair(model, config=SenderConfig("bucket", 1024, bucket_dtype))
    for version, (share, seed) in enumerate(updates, 2):
        change(model, share, seed)
        pair.ledger.advance(model, version)
        assert isinstance(answer := pair.deliver(pair.next_frames()), Applied), answer
    rounded, exact = "layer_0.weight", ("layer_1.weight", "layer_2.weight")
    assert all(torch.equal(pair.served[name], model[name]) for name in exact)
    through = model[rounded].to(getattr(torch, bucket_dtype)).to(getattr(torch, served_type))
    torch.testing.assert_close(pair.served[rounded], through, rtol=0, atol=0, equal_nan=True)


def test_a_trainer_in_float32_sends_what_its_bfloat16_server_lacks():
    served = {"t": torch.randn(50, 50).bfloat16()}
    model = {"t": served["t"].float()}
    pair = Pair(model, served)
    model["t"] += 1e-6 * model["t"]  # less than a step of bfloat16, for most values
    built = pair.ledger.advance(model, 2)
    pair.deliver(pair.next_frames())
    assert torch.equal(served["t"], model["t"].bfloat16())
    assert built.entries < 100


def test_two_names_of_one_tensor_are_updated_and_rolled_back():
    shared = torch.zeros(300)
    pair = Pair(
        {"a": torch.zeros(300), "b": torch.zeros(300), "c": torch.zeros(900)},
        {"a": shared, "b": shared, "c": torch.zeros(900)},
    )
    for name in "ab":
        pair.model[name][7] = 5.0
    pair.ledger.advance(pair.model, 2)
    pair.deliver(pair.next_frames())
    assert shared[7] == 5.0
    pair.receiver.rollback()
    assert (shared == 0.0).all()


@pytest.mark.parametrize("strategy", ["patch", "bucket"])
@pytest.mark.parametrize(
    ("a", "b"), [({7: 5.0}, {}), ({}, {7: 5.0}), ({7: 5.0}, {7: 6.0}), ({7: 5.0}, {8: 5.0}), ({}, {})]
)
def test_an_update_that_wants_two_contents_of_one_tensor_is_refused_whole(strategy: str, a: dict, b: dict):
    """A trainer that has not tied what its server has."""
    shared = torch.zeros(300)
    pair = Pair(
        {"a": torch.zeros(300), "b": torch.zeros(300), "c": torch.zeros(900)},
        {"a": shared, "b": shared, "c": torch.zeros(900)},
        SenderConfig(strategy),
    )
    for name, changed in (("a", a), ("b", b), ("c", {1: 1.0})):
        for place, value in changed.items():
            pair.model[name][place] = value
    pair.ledger.advance(pair.model, 2)
    answer = pair.deliver(pair.next_frames())
    if a == b:
        assert isinstance(answer, Applied), answer
        return
    assert isinstance(answer, Refused), answer
    assert answer.reason is Reason.DIGEST
    assert answer.text == "update 2: a and b are one tensor: found different values, expected equal ones"
    assert not pair.served["c"].any()
    assert not shared.any()


def test_tensors_that_share_a_part_of_their_memory_are_not_served():
    memory = torch.zeros(10)
    with pytest.raises(WeightsError, match="a, b: they share a part of their memory, expected all of it or"):
        Pair({"a": torch.zeros(6), "b": torch.zeros(6)}, {"a": memory[:6], "b": memory[4:]})
    memory = np.zeros(10, np.float32)
    with pytest.raises(WeightsError, match="part of their memory"):
        Pair({"a": np.zeros(10, np.float32), "b": np.zeros(3, np.float32)}, {"a": memory, "b": memory[:3]})
    beside = {"a": memory[:5], "b": memory[5:], "empty": memory[2:2]}
    pair = Pair({name: bits.copy() for name, bits in beside.items()}, beside)
    pair.model["b"][0] = 1.0
    pair.ledger.advance(pair.model, 2)
    assert isinstance(answer := pair.deliver(pair.next_frames()), Applied), answer
    assert memory.tolist() == [0.0] * 5 + [1.0] + [0.0] * 4


def test_a_patch_that_is_not_small_becomes_a_bucket_sync():
    pair = Pair(make_model((("bfloat16", (100, 100)),)))
    kinds_sent = []
    for version, share in enumerate((0.01, 0.9, 0.01), 2):
        change(pair.model, share, version)
        kinds_sent.append(pair.ledger.advance(pair.model, version).strategy)
        pair.deliver(pair.next_frames())
        require_equal(pair)
    assert kinds_sent == ["patch", "bucket", "patch"]


def test_a_server_that_lags_is_sent_the_patches_in_between_while_they_are_less_than_everything():
    pair = Pair(make_model((("bfloat16", (100, 100)),)))
    for version in range(2, 6):
        change(pair.model, 0.005, version)
        pair.ledger.advance(pair.model, version)
    versions = []
    while frames := pair.next_frames():
        versions.append(pair.deliver(frames).version)
    assert versions == [2, 3, 4, 5]
    require_equal(pair)
    for version in range(6, 200):
        change(pair.model, 0.02, version)
        pair.ledger.advance(pair.model, version)
    assert pair.deliver(pair.next_frames()).version == 199
    require_equal(pair)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("compression", COMPRESSIONS.names)
@pytest.mark.parametrize("strategy", ["patch", "bucket"])
def test_every_transport_and_compression_gives_the_same_bits(transport: str, compression: str, strategy: str):
    model = make_model(MIXED)
    server = Served(make_model(MIXED, seed=1), transport)
    syncer = WeightSyncer(SenderConfig(strategy, 1024, compression=compression), ALL_VALUES)
    try:
        syncer.init_sender(lambda: model, {"server": server.connect})
        assert syncer.sender.wait(30.0)["server"].is_current
        assert bits_of(server.served) == bits_of(model)
        for version, share in enumerate((0.002, 1.0, 0.0, 0.01), 2):
            change(model, share, version)
            sent = copy_of(model)
            syncer.sync(version)
            change(model, 1.0, 0)  # a trainer goes on when `sync` returns
            status = syncer.sender.wait(30.0)["server"]
            assert (status.is_current, status.version) == (True, version), status
            assert bits_of(server.served) == bits_of(sent)
    finally:
        syncer.close()
        server.close()
