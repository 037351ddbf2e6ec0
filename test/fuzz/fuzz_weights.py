# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What trainers and servers of live weights send: frames, updates of a broken trainer, and answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random

import msgpack
import numpy as np
from fuzz_target import Target
from mutation import MAX_INPUT_BYTES, spoil_bytes

from remote_inference.learn.weights import ReceiverState, SenderConfig, WeightReceiver, WeightsError
from remote_inference.learn.weights.frames import (
    Kind,
    pack_frame,
    pack_message,
    pack_part,
    read_applied,
    read_frame,
    read_refused,
    read_welcome,
)
from remote_inference.learn.weights.ledger import Ledger
from remote_inference.learn.weights.receiver import Peer

_TRAINER = b"trainer1"
_READERS = {Kind.WELCOME: read_welcome, Kind.APPLIED: read_applied, Kind.REFUSED: read_refused}


def _make_model() -> dict[str, np.ndarray]:
    return {
        "head": np.zeros((30, 40), np.float32),
        "mask": np.zeros((40,), np.bool_),
        "count": np.zeros((), np.int64),
    }


@cache
def _updates() -> list[list[tuple[Kind, bytes]]]:
    """Return valid updates of that model: the kinds and bodies of their frames."""
    updates = []
    for config in (
        SenderConfig("patch", 1024),
        SenderConfig("patch", 1024, compression="zstd"),
        SenderConfig("bucket", 1024, "bfloat16"),
    ):
        model = _make_model()
        ledger = Ledger(WeightReceiver(model).table, model, 1, config)
        model["head"][::3, ::5] = 1.5
        model["mask"][3] = True
        ledger.advance(model, 2)
        receiver = WeightReceiver(_make_model())
        update = ledger.find_update(0, receiver.digest, False)
        frames = [pack_message(_TRAINER, update.header)]
        frames += [pack_part(_TRAINER, 2, *part) for part in enumerate(update.parts())]
        read = map(read_frame, frames)
        updates.append([(frame.kind, bytes(frame.body)) for frame in read])
    return updates


class _Receiver(WeightReceiver):
    """Keeps the first error, which says what way the input took."""

    error: WeightsError | None = None

    def _refuse(self, peer: Peer, error: WeightsError) -> None:
        self.error = self.error or error
        super()._refuse(peer, error)


def _handle_frame(data: bytes) -> None:
    """Give a receiver one frame as it comes from outside."""
    receiver = _Receiver(_make_model())
    receiver.handle(pack_frame(Kind.HELLO, _TRAINER))
    receiver.handle(data)
    _judge(receiver)


def _spoil_body(random: Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """Spoil one frame's body of an update."""
    frames = msgpack.unpackb(data)
    number = random.randrange(len(frames))
    frames[number][1] = spoil_bytes(random, frames[number][1], [body for _, body in frames])
    packed: bytes = msgpack.packb(frames)
    return packed if len(packed) <= MAX_INPUT_BYTES else data


def _handle_bodies(data: bytes) -> None:
    """Give a receiver an update whose bodies are spoiled and sealed afterwards, as a broken trainer would."""
    pairs = [(Kind(kind), body) for kind, body in msgpack.unpackb(data)]
    receiver = _Receiver(_make_model())
    receiver.handle(pack_frame(Kind.HELLO, _TRAINER))
    for pair in pairs:
        receiver.handle(pack_frame(*_sealed(pair)))
    _judge(receiver)


def _judge(receiver: _Receiver) -> None:
    """Require that nothing is served but what has passed every check, and that each answer can be read."""
    for _, reply in receiver.take_answers():
        frame = read_frame(reply)
        _READERS[frame.kind](frame)
    is_prepared = receiver.state is ReceiverState.STAGED
    if (receiver.apply() != 0) != is_prepared:
        raise AssertionError("an update is served that was not prepared, or the other way round")
    if receiver.error:
        raise receiver.error


def _sealed(pair: tuple[Kind, bytes]) -> tuple[Kind, bytes, bytes]:
    kind, body = pair
    return kind, _TRAINER, body


def _read_answer(data: bytes) -> None:
    """Read an answer's body as a trainer does, whatever it says it is."""
    for kind, read in _READERS.items():
        read(read_frame(pack_frame(kind, _TRAINER, data)))


def _frames() -> list[bytes]:
    return [pack_frame(*_sealed(pair)) for update in _updates() for pair in update]


def _bodies() -> list[bytes]:
    return [msgpack.packb([[int(kind), body] for kind, body in update]) for update in _updates()]


def _answers() -> list[bytes]:
    table = [["head", "float32", [30, 40]], ["mask", "bool", [40]]]
    welcome = {"version": 1, "digest": 7, "table": table, "highest": 2}
    return [msgpack.packb({**welcome, "seconds": 0.5, "reason": "base", "text": "no"})]


TARGETS = (
    Target("weight_frame", _handle_frame, _frames, spoil_bytes, (WeightsError,), 2),
    Target("weight_update", _handle_bodies, _bodies, _spoil_body, (WeightsError,), 2),
    Target("weight_answer", _read_answer, _answers, spoil_bytes, (WeightsError,), 4),
)
