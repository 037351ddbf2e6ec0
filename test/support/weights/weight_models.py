# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Models of every type and rank, random updates of them, and a way to deliver updates without threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from hypothesis import strategies as st
from weight_links import TRANSPORTS

from remote_inference.learn.weights import (
    ReceiverLimits,
    SenderConfig,
    WeightReceiver,
    WeightSyncer,
    device,
    ledger,
    served,
)
from remote_inference.learn.weights.frames import (
    Applied,
    Kind,
    Refused,
    pack_frame,
    pack_message,
    pack_part,
    read_applied,
    read_frame,
    read_refused,
)
from remote_inference.learn.weights.ledger import Ledger, Update
from remote_inference.learn.weights.tensors import DTYPES, view_one

TRAINER = b"trainer1"
SHAPES = (
    (),
    (0,),
    (7,),
    (3, 0, 2),
    (5, 4),
    (2, 3, 4),
    (2, 3, 2, 2),
    (2, 2, 1, 3, 2),
    (1500,),
    (40, 30),
    (1, 900),
)

Model = dict[str, torch.Tensor]
Kinds = tuple[tuple[str, tuple[int, ...]], ...]  # type and shape of each tensor

kinds = st.lists(
    st.tuples(st.sampled_from(sorted(DTYPES)), st.sampled_from(SHAPES)), min_size=0, max_size=8
).map(tuple)
# Share of the values that an update changes, and the seed of which and how.
updates = st.lists(
    st.tuples(st.sampled_from((0.0, 0.001, 0.02, 0.3, 1.0)), st.integers(0, 2**32)), min_size=1, max_size=5
)


def random_bits(random: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    """Return any bits but a bool's that is neither: infinite values, NaN of any payload, and -0.0."""
    if dtype == "bool":
        return random.integers(0, 2, count, np.uint8)
    bits = DTYPES[dtype].bits
    return np.frombuffer(random.bytes(count * bits.itemsize), bits).copy()


def make_model(kinds: Kinds, seed: int = 0, memory: str = "host") -> Model:
    random = np.random.default_rng(seed)
    return {
        f"layer_{number}.weight": torch.from_numpy(
            random_bits(random, dtype, int(np.prod(shape))).view(np.uint8)
        )
        .view(getattr(torch, dtype))
        .reshape(shape)
        .to("cuda" if memory == "cuda" else "cpu")
        for number, (dtype, shape) in enumerate(kinds)
    }


def copy_of(model: Mapping[str, torch.Tensor]) -> Model:
    return {name: tensor.clone() for name, tensor in model.items()}


def change(model: Model, share: float, seed: int) -> None:
    """Give a share of all values other bits, in place."""
    random = np.random.default_rng(seed)
    for tensor in model.values():
        flat = tensor.reshape(-1)
        where = np.flatnonzero(random.random(flat.numel()) < share)
        dtype = str(tensor.dtype).removeprefix("torch.")
        bits = torch.from_numpy(random_bits(random, dtype, where.size).view(np.uint8)).view(tensor.dtype)
        flat[torch.from_numpy(where).to(flat.device)] = bits.to(flat.device)


def bits_of(model: Mapping[str, Any]) -> dict[str, bytes]:
    return {
        name: tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        for name, tensor in model.items()
    }


def view(model: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the bits of tensors by name; in their own memory, unless they are a GPU's."""
    return {
        name: view_one(name, tensor if isinstance(tensor, np.ndarray) else tensor.cpu())
        for name, tensor in model.items()
    }


ALL_VALUES = ReceiverLimits(allow_nonfinite=True)

MEMORIES = ["host", "device code", *(["cuda"] if torch.cuda.is_available() else [])]
"""Where tensors lie; "device code": in the machine's own memory, handled as those of a GPU."""


@contextmanager
def handled_as_in(memory: str) -> Iterator[str]:
    """Let tensors be handled as in a kind of memory; yield the snapshot_device that fits."""
    if memory == "host":
        yield "cpu"
        return
    with ExitStack() as stack:
        for module in (served, ledger, device):
            stack.enter_context(patch.object(module, "memory_of", lambda tensor: "cuda"))
        yield "cuda"


class Pair:
    """A trainer's ledger and a server's receiver, with nothing between them but frames."""

    def __init__(
        self, model: Model, served: Model | None = None, config: SenderConfig | None = None, **receiver: Any
    ) -> None:
        self.model, self.served = model, copy_of(model) if served is None else served
        receiver.setdefault("limits", ALL_VALUES)
        self.receiver = WeightReceiver(self.served, version=1, **receiver)
        self.ledger = Ledger(self.receiver.table, model, 1, config or SenderConfig(bucket_size=1024))
        self.hello()

    def hello(self, sender: bytes = TRAINER) -> None:
        self.receiver.handle(pack_frame(Kind.HELLO, sender))
        self.receiver.take_answers()

    def next_frames(self, wants_all: bool = False) -> list[bytes]:
        """Return the frames of what the server lacks."""
        update = self.ledger.find_update(self.receiver.version, self.receiver.digest, wants_all)
        return frames_of(update) if update else []

    def deliver(self, frames: list[bytes]) -> Applied | Refused | None:
        """Return the last answer of the receiver, which applies what it has prepared."""
        for frame in frames:
            self.receiver.handle(frame)
        self.receiver.apply()
        replies = [read_frame(frame) for _, frame in self.receiver.take_answers()]
        read = {Kind.APPLIED: read_applied, Kind.REFUSED: read_refused}
        answers = [read[reply.kind](reply) for reply in replies]
        return answers[0] if answers else None


def frames_of(update: Update, sender: bytes = TRAINER) -> list[bytes]:
    parts = enumerate(update.parts())
    version = update.header.version
    return [pack_message(sender, update.header), *(pack_part(sender, version, *part) for part in parts)]


class Served:
    """A server whose device thread applies updates whenever there are any. Close it in the end."""

    def __init__(
        self, served: Model, transport: str = "in_process", *, version: int = 0, **limits: Any
    ) -> None:
        self.served = served
        self.syncer = WeightSyncer(limits=ReceiverLimits(**{"allow_nonfinite": True, **limits}))
        self.syncer.init_receiver(served, version=version)
        self.applies = threading.Event()
        self.applies.set()
        self._transport, self._ends = transport, threading.Event()
        self._thread = threading.Thread(target=self._apply, daemon=True)
        self._thread.start()

    @property
    def receiver(self) -> WeightReceiver:
        return self.syncer.receiver

    def connect(self) -> Any:
        """Return a trainer's new link to this server."""
        here, there = TRANSPORTS[self._transport]()
        self.syncer.pump.add(there)
        return here

    def close(self) -> None:
        self._ends.set()
        self._thread.join(10.0)
        self.syncer.close()

    def _apply(self) -> None:
        while not self._ends.wait(0.001):
            if self.applies.is_set():
                self.syncer.apply()
