# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whatever is wrong with an update: refused whole, with the reason; served weights stay, memory is freed."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import msgpack
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from remote_inference.learn.weights import (
    Reason,
    ReceiverLimits,
    ReceiverState,
    SenderConfig,
    WeightReceiver,
    WeightsError,
    patch as patch_module,
)
from remote_inference.learn.weights.changes import COMPRESSIONS, make_compression
from remote_inference.learn.weights.frames import (
    SCHEMA,
    Applied,
    Header,
    Kind,
    Refused,
    pack_frame,
    pack_message,
    pack_part,
    read_frame,
    read_header,
    read_refused,
)
from remote_inference.learn.weights.ledger import Ledger
from support.weights.weight_models import TRAINER, Pair, bits_of, change, frames_of, make_model

KINDS = (("bfloat16", (60, 70)), ("float32", (500,)), ("bool", (40, 30)), ("int64", ()))
OTHER = b"trainer2"


def make_pair(strategy: str = "patch", compression: str = "none", **receiver) -> Pair:
    """Return a pair with an update to come: one of several parts."""
    pair = Pair(make_model(KINDS), config=SenderConfig(strategy, 1024, compression=compression), **receiver)
    change(pair.model, 0.15 if strategy == "patch" else 1.0, 1)
    built = pair.ledger.advance(pair.model, 2)
    assert built.strategy == strategy
    assert len(pair.next_frames()) > 2
    return pair


def require_refused(pair: Pair, frames: list[bytes], *reasons: Reason) -> Refused:
    """Deliver frames; require the refusal, and that the server goes on as if they had never come."""
    before = bits_of(pair.served), pair.receiver.version, pair.receiver.digest
    answer = pair.deliver(frames)
    assert isinstance(answer, Refused), answer
    assert not reasons or answer.reason in reasons, answer
    assert answer.text
    assert (bits_of(pair.served), pair.receiver.version, pair.receiver.digest) == before
    assert pair.receiver.state in {ReceiverState.IDLE, ReceiverState.READY}
    pair.hello()
    while frames := pair.next_frames():
        assert isinstance(pair.deliver(frames), Applied)
    assert bits_of(pair.served) == bits_of(pair.model)
    return answer


def edit_header(frame: bytes, **fields) -> bytes:
    """Return a header's frame with other fields, and a seal that fits them."""
    header = read_header(read_frame(frame))
    return pack_message(TRAINER, replace(header, **fields))


# -- spoiled on the way --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["patch", "bucket"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
@settings(max_examples=60)
@given(data=st.data())
def test_a_changed_bit_or_missing_end_anywhere_is_refused(strategy: str, compression: str, data):
    pair = make_pair(strategy, compression)
    frames = pair.next_frames()
    number = data.draw(st.integers(0, len(frames) - 1))
    spoiled = bytearray(frames[number])
    if data.draw(st.booleans()):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del spoiled[data.draw(st.integers(0, len(spoiled) - 1)) :]
    frames[number] = bytes(spoiled)
    require_refused(pair, frames, Reason.FRAME, Reason.SCHEMA)


@pytest.mark.parametrize("strategy", ["patch", "bucket"])
@settings(max_examples=60)
@given(data=st.data())
def test_what_a_broken_trainer_has_sealed_itself_is_refused(strategy: str, data):
    """A seal that fits proves nothing about what it seals: changed bits are found all the same."""
    pair = make_pair(strategy)
    frames = pair.next_frames()
    number = data.draw(st.integers(1, len(frames) - 1))
    body = bytearray(read_frame(frames[number]).body)
    body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    frames[number] = pack_frame(Kind.PART, TRAINER, body)
    require_refused(pair, frames, Reason.ORDER, Reason.PAYLOAD, Reason.VALUES, Reason.DIGEST)


@pytest.mark.parametrize("strategy", ["patch", "bucket"])
@settings(max_examples=60)
@given(data=st.data())
def test_parts_out_of_order_twice_or_missing_are_refused(strategy: str, data):
    pair = make_pair(strategy)
    header, *parts = pair.next_frames()
    chosen = data.draw(st.lists(st.sampled_from(range(len(parts))), min_size=len(parts), max_size=len(parts)))
    if chosen == list(range(len(parts))):
        return
    require_refused(pair, [header, *(parts[number] for number in chosen)], Reason.ORDER)


def test_a_part_of_another_size_is_refused():
    for end in (b"", b"\0" * 5000):
        pair = make_pair()
        header, *parts = pair.next_frames()
        body = read_frame(parts[0]).body
        part = pack_frame(Kind.PART, TRAINER, body[:-1] if not end else bytes(body) + end)
        require_refused(pair, [header, part, *parts[1:]], Reason.SIZE)


def test_a_compressed_part_that_grows_beyond_its_size_is_refused_before_it_has_the_memory():
    pair = make_pair(compression="zstd")
    header, *_ = pair.next_frames()
    bomb = make_compression("zstd").compress(bytes(200 << 20))
    assert len(bomb) < 100_000
    tracemalloc.start()
    require_refused(pair, [header, pack_part(TRAINER, 2, 0, bomb)], Reason.SIZE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20


# -- for somebody else, or in another state ------------------------------------------------------------


def test_a_patch_for_another_base_is_refused():
    for fields in ({"base_version": 0}, {"base_digest": 5}):
        pair = make_pair()
        header, *parts = pair.next_frames()
        answer = require_refused(pair, [edit_header(header, **fields), *parts], Reason.BASE)
        assert "which is served" in answer.text


def test_a_patch_that_was_skipped_makes_the_next_one_refused():
    pair = make_pair()
    change(pair.model, 0.01, 2)
    pair.ledger.advance(pair.model, 3)
    middle = pair.ledger.find_update(2, pair.ledger._history[0][0].header.digest, False)
    require_refused(pair, frames_of(middle), Reason.BASE)


@pytest.mark.parametrize("strategy", ["patch", "bucket"])
def test_a_version_that_is_not_above_the_one_served_is_refused(strategy: str):
    pair = make_pair(strategy)
    header, *parts = pair.next_frames()
    require_refused(pair, [edit_header(header, version=1), *parts], Reason.ORDER)


def test_the_same_update_twice_is_refused():
    pair = make_pair("bucket")
    frames = pair.next_frames()
    pair.deliver(frames)
    assert pair.deliver(frames).reason is Reason.ORDER
    assert pair.receiver.version == 2


def test_an_update_while_another_waits_to_be_applied_is_refused_and_the_first_is_applied():
    pair = make_pair()
    frames = pair.next_frames()
    for frame in frames:
        pair.receiver.handle(frame)
    assert pair.receiver.state is ReceiverState.STAGED
    assert pair.deliver(frames).reason is Reason.ORDER
    assert pair.receiver.version == 2


def test_an_update_that_was_overtaken_by_a_rollback_is_refused():
    pair = make_pair()
    pair.deliver(pair.next_frames())
    change(pair.model, 0.01, 5)
    pair.ledger.advance(pair.model, 3)
    for frame in pair.next_frames():
        pair.receiver.handle(frame)
    assert pair.receiver.state is ReceiverState.STAGED
    assert pair.receiver.rollback() == 1
    refused = read_refused(read_frame(pair.receiver.take_answers()[-1][1]))
    assert (refused.version, refused.reason) == (3, Reason.BASE)
    assert refused.text == "update 3: the server has gone back to 1 meanwhile"
    before = bits_of(pair.served)
    pair.receiver.apply()
    assert (pair.receiver.version, bits_of(pair.served)) == (1, before)


@pytest.mark.parametrize("strategy", ["patch", "bucket"])
def test_a_version_that_was_taken_back_is_never_given_again(strategy: str):
    pair = make_pair(strategy)
    frames = pair.next_frames()
    assert isinstance(pair.deliver(frames), Applied)
    assert pair.receiver.rollback() == 1
    before = bits_of(pair.served)
    answer = pair.deliver(frames)
    assert isinstance(answer, Refused)
    assert answer.reason is Reason.ORDER
    assert (pair.receiver.version, bits_of(pair.served)) == (1, before)
    assert "found version 2, expected one above 2, the highest that was served" in answer.text
    pair.ledger.advance(pair.model, 3)
    assert isinstance(pair.deliver(pair.next_frames(wants_all=True)), Applied)
    assert bits_of(pair.served) == bits_of(pair.model)


def test_there_is_one_step_back_and_no_more():
    pair = make_pair()
    for version in (3, 4):
        with pytest.raises(WeightsError, match="version 1 has none before it") as caught:
            pair.receiver.rollback()
        assert caught.value.reason is Reason.ORDER
        pair.hello()
        pair.deliver(pair.next_frames(wants_all=True))
        pair.receiver.rollback()
        pair.ledger.advance(pair.model, version)


def test_a_second_trainer_is_refused_and_the_first_goes_on():
    pair = make_pair()
    frames = pair.next_frames()
    pair.receiver.handle(frames[0])
    for intruder in (
        pack_frame(Kind.HELLO, OTHER),
        *frames_of(pair.ledger.find_update(1, pair.receiver.digest, False), OTHER),
        pack_frame(Kind.RELEASE, OTHER),
    ):
        pair.receiver.handle(intruder)
        ((_, reply),) = pair.receiver.take_answers()
        assert read_frame(reply).sender == OTHER
        assert read_refused(read_frame(reply)).reason is Reason.CLAIMED
    assert isinstance(pair.deliver(frames[1:]), Applied)


def test_nobody_sends_an_update_without_a_hello():
    pair = make_pair()
    pair.receiver.handle(pack_frame(Kind.RELEASE, TRAINER))
    answer = pair.deliver(pair.next_frames())
    assert answer.reason is Reason.CLAIMED
    assert "expected a hello first" in answer.text


def test_the_place_of_a_trainer_that_is_silent_for_long_can_be_taken():
    now_s = 0.0
    limits = ReceiverLimits(allow_nonfinite=True, claim_s=10.0)
    pair = make_pair(limits=limits, clock=lambda: now_s)
    pair.receiver.handle(pair.next_frames()[0])
    now_s = 9.0
    pair.receiver.handle(pack_frame(Kind.HELLO, OTHER))
    assert read_frame(pair.receiver.take_answers()[0][1]).kind is Kind.REFUSED
    now_s = 11.0
    pair.receiver.handle(pack_frame(Kind.HELLO, OTHER))
    assert read_frame(pair.receiver.take_answers()[-1][1]).kind is Kind.WELCOME
    assert pair.receiver.state is ReceiverState.READY


@pytest.mark.parametrize("state", [ReceiverState.STAGING, ReceiverState.STAGED])
def test_a_trainer_whose_place_is_taken_learns_that_its_update_went_with_it(state: ReceiverState):
    now_s = 0.0
    limits = ReceiverLimits(allow_nonfinite=True, claim_s=10.0)
    pair = make_pair(limits=limits, clock=lambda: now_s)
    for frame in pair.next_frames()[: 1 if state is ReceiverState.STAGING else None]:
        pair.receiver.handle(frame)
    assert pair.receiver.state is state
    now_s = 11.0
    pair.receiver.handle(pack_frame(Kind.HELLO, OTHER))
    refusal, welcome = (read_frame(frame) for _, frame in pair.receiver.take_answers())
    refused = read_refused(refusal)
    assert (refusal.sender, refused.version, refused.reason) == (TRAINER, 2, Reason.CLAIMED)
    assert (welcome.sender, welcome.kind) == (OTHER, Kind.WELCOME)
    assert pair.receiver.state is ReceiverState.READY


def test_an_update_whose_trainer_falls_silent_is_given_up():
    now_s = 0.0
    pair = make_pair(limits=ReceiverLimits(True, stall_s=5.0), clock=lambda: now_s)
    frames = pair.next_frames()
    pair.receiver.handle(frames[0])
    now_s = 4.0
    pair.receiver.handle(frames[1])
    now_s = 8.0
    pair.receiver.check_time()
    assert pair.receiver.state is ReceiverState.STAGING
    now_s = 10.0
    pair.receiver.check_time()
    assert pair.receiver.refusals == {Reason.STALLED: 1}
    require_refused(pair, frames[2:], Reason.STALLED)


# -- another model -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kinds",
    [
        (("bfloat16", (60, 71)), *KINDS[1:]),
        (("bfloat16", (70, 60)), *KINDS[1:]),
        (("float16", (60, 70)), *KINDS[1:]),
        KINDS[:-1],
        (*KINDS, ("bool", (1,))),
    ],
    ids=["shape", "turned", "type", "missing", "more"],
)
@pytest.mark.parametrize("strategy", ["patch", "bucket"])
def test_an_update_of_another_model_is_refused(kinds, strategy: str):
    pair, model = make_pair(strategy), make_model(kinds)
    other = Ledger(WeightReceiver(make_model(kinds)).table, model, 1, SenderConfig(strategy, 1024))
    change(model, 0.01 if strategy == "patch" else 1.0, 3)
    other.advance(model, 2)
    update = other.find_update(
        1, other._history[0][0].header.base_digest if strategy == "patch" else 0, False
    )
    require_refused(pair, frames_of(update), Reason.ARCHITECTURE)


def test_a_patch_larger_than_the_model_is_refused_before_it_has_the_memory():
    pair = make_pair()
    header = read_header(read_frame(pair.next_frames()[0]))
    most = patch_module.max_size(pair.receiver.table)
    everything = [[0, 4200, 60, 1, 1, 8]]
    assert patch_module.Section(0, pair.receiver.table[0], 4200, 60, (1, 1, 8)).size > most
    require_refused(pair, [pack_message(TRAINER, replace(header, details=everything))], Reason.SIZE)


@pytest.mark.parametrize(
    "section",
    [
        [0, 4201, 60, 1, 1, 1],  # more entries than values
        [0, 5, 6, 1, 1, 1],  # more rows than entries
        [0, 0, 0, 1, 1, 1],
        [9, 1, 1, 1, 1, 1],
        [-1, 1, 1, 1, 1, 1],
        [0, 1, 1, 3, 1, 1],
        [0, 2**63, 1, 1, 1, 1],
        [0, 1, 1, 1, 1],
        [0, 1.0, 1, 1, 1, 1],
        "0",
        None,
    ],
)
def test_a_section_that_no_tensor_has_is_refused(section):
    pair = make_pair()
    header = read_header(read_frame(pair.next_frames()[0]))
    forged = pack_message(TRAINER, replace(header, details=[section]))
    require_refused(pair, [forged], Reason.PAYLOAD, Reason.SIZE)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"strategy": "pickle"}, Reason.UNKNOWN),
        ({"compression": "rar"}, Reason.UNKNOWN),
        ({"bucket_size": 1}, Reason.SIZE),
        ({"bucket_size": 2**40}, Reason.SIZE),
        ({"table": b""}, Reason.ARCHITECTURE),
        ({"details": None}, Reason.FRAME),
        ({"details": "float32"}, Reason.FRAME),
        ({"base_version": None, "base_digest": None}, Reason.FRAME),
        ({"digest": 7}, Reason.DIGEST),
        ({"version": -3}, Reason.FRAME),
        ({"version": True}, Reason.FRAME),
        ({"digest": "7"}, Reason.FRAME),
    ],
)
def test_a_header_that_cannot_be_is_refused(fields, reason: Reason):
    pair = make_pair()
    header, *parts = pair.next_frames()
    values = {**vars(read_header(read_frame(header))), **fields}
    require_refused(pair, [pack_frame(Kind.UPDATE, TRAINER, msgpack.packb(values)), *parts], reason)


@pytest.mark.parametrize("key", Header.__dataclass_fields__)
def test_a_header_without_a_field_is_refused(key: str):
    pair = make_pair()
    values = dict(vars(read_header(read_frame(pair.next_frames()[0]))))
    if key in {"base_version", "base_digest", "details"}:
        return  # nothing stands for them, and is judged as such above
    del values[key]
    require_refused(pair, [pack_frame(Kind.UPDATE, TRAINER, msgpack.packb(values))], Reason.FRAME)


def test_other_versions_of_the_protocol_are_refused():
    pair = make_pair()
    frame = bytearray(pair.next_frames()[0])
    frame[3] = SCHEMA + 1
    assert "version 2, expected 1" in require_refused(pair, [bytes(frame)], Reason.SCHEMA).text


def test_a_map_that_is_nested_or_endless_is_refused():
    for body in (b"\x81" * 100_000, b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", msgpack.packb([1]), b""):
        require_refused(make_pair(), [pack_frame(Kind.UPDATE, TRAINER, body)], Reason.FRAME)


# -- values and memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["patch", "bucket"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused_unless_allowed(strategy: str, value: float):
    model = {"head": torch.zeros(100, 100).bfloat16()}
    for allowed in (False, True):
        config = SenderConfig(strategy, 1024)
        pair = Pair({"head": model["head"].clone()}, config=config, limits=ReceiverLimits(allowed))
        pair.model["head"][3, 4] = value
        pair.ledger.advance(pair.model, 2)
        answer = pair.deliver(pair.next_frames())
        if allowed:
            assert isinstance(answer, Applied)
            assert bits_of(pair.served) == bits_of(pair.model)
        else:
            assert answer.reason is Reason.VALUES
            assert "head: found 1 values that are not finite" in answer.text
            assert (pair.served["head"] == 0).all()


@pytest.mark.parametrize("strategy", ["patch", "bucket"])
def test_an_update_takes_no_more_than_another_model_and_a_bucket(strategy: str):
    bucket_size, kinds = 1 << 20, (("bfloat16", (1000, 1000)),) * 8
    model = make_model(kinds)
    pair = Pair(model, config=SenderConfig(strategy, bucket_size))
    for version in (2, 3, 4):
        change(model, 0.1 if strategy == "patch" else 1.0, version)
        assert pair.ledger.advance(model, version).strategy == strategy
        frames = pair.next_frames()
        tracemalloc.start()
        pair.deliver(frames)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        if version > 2:  # what is kept for a rollback was counted before
            peak += sum(change.memory for change in pair.receiver._inverse[1]) if strategy == "patch" else 0
        largest_decoding = 40 * int(0.11 * 1_000_000)  # of one tensor's places
        assert peak < pair.ledger.full_size + bucket_size + largest_decoding, version


def test_what_was_staged_is_freed_when_an_update_is_refused():
    pair = make_pair("bucket")
    pair = Pair(make_model((("float32", (1000, 1000)),)), config=SenderConfig("bucket", 1 << 20))
    change(pair.model, 1.0, 1)
    pair.ledger.advance(pair.model, 2)
    frames = pair.next_frames()
    tracemalloc.start()
    for frame in [*frames[:-1], frames[0]]:
        pair.receiver.handle(frame)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pair.receiver.state is ReceiverState.READY
    assert held < 100_000


def test_no_memory_for_staging_is_a_reason(monkeypatch: pytest.MonkeyPatch):
    pair = make_pair("bucket")
    frames = pair.next_frames()

    def refuse(*_: object) -> np.ndarray:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("remote_inference.learn.weights.bucket.np.empty", refuse)
        answer = pair.deliver(frames)
    assert answer.reason is Reason.MEMORY
    require_refused(pair, [frames[0], frames[-1]], Reason.ORDER)


@pytest.mark.parametrize("name", COMPRESSIONS.names)
def test_every_compression_that_is_named_works(name: str):
    packed = make_compression(name).compress(b"abc" * 99)
    assert make_compression(name).decompress(packed, 297) == b"abc" * 99
