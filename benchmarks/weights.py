# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What live weights cost by the model's size and the share of it that changed: bytes and seconds.

make bench-weights ARGS="--millions 1000 --shares 0.01"
make bench-weights ARGS="--device cuda --snapshot-device cuda"

A trainer and a server in one process; the weights are bfloat16, and what changed lies at random positions.
`build` is the trainer's `sync` and `apply` what the thread that owns the weights does, both in seconds of its
processor: what they take on an idle machine, as neither waits. With weights on a GPU, for which they wait,
both are seconds of the wall clock. `transfer` is the time between them, until the update is prepared beside
the served weights.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from weight_links import TRANSPORTS

from remote_inference.learn.weights import (
    ReceiverPump,
    ReceiverState,
    SenderConfig,
    WeightReceiver,
    WeightSender,
)

COLUMNS = 1024
ROWS_OF_A_TENSOR = 8192
VALUE_BYTES = 2
DEADLINE_S = 300.0

Model = dict[str, Any]  # of numpy arrays, or of torch's tensors on a GPU


@dataclass(frozen=True)
class Result:
    """What one sync cost."""

    size: int
    full_size: int
    strategy: str
    build_s: float
    transfer_s: float
    apply_s: float


def make_model(millions: float, random: np.random.Generator, device: str) -> Model:
    """Return matrices of bfloat16, whose bits are as good as any others: int16 has the same."""
    rows = int(millions * 1e6 / COLUMNS)
    sizes = [ROWS_OF_A_TENSOR] * (rows // ROWS_OF_A_TENSOR) + [rows % ROWS_OF_A_TENSOR]
    model = {
        f"layer_{number}": random.integers(0, 1 << 14, (size, COLUMNS), np.int16)
        for number, size in enumerate(sizes)
        if size
    }
    if device == "cpu":
        return model
    import torch  # noqa: PLC0415  takes seconds, and is not needed for the processor's own memory

    return {name: torch.from_numpy(tensor).to(device) for name, tensor in model.items()}


def copy_of(model: Model) -> Model:
    return {
        name: tensor.copy() if isinstance(tensor, np.ndarray) else tensor.clone()
        for name, tensor in model.items()
    }


def change(model: Model, share: float, random: np.random.Generator) -> int:
    """Change a share of all values, each at a random position; return how many."""
    changed = 0
    for tensor in model.values():
        flat = tensor.reshape(-1)
        size = len(flat)
        count = round(share * size)
        where = random.choice(size, count, replace=False, shuffle=False) if share < 1 else slice(None)
        flat[where] ^= 1
        changed += count
    return changed


def formula(share: float) -> float:
    """Return the bytes of a changed value: its own, its column's, and its part of a row's step and count."""
    longest = (
        1 if share == 1 else int(np.log(1e-6) / np.log1p(-share))
    )  # a step that one in a million exceeds
    column = 1 if min(longest, COLUMNS) < 256 else 2
    rows = 1 - (1 - share) ** COLUMNS  # that have a changed value
    return VALUE_BYTES + column + rows * 2 / (share * COLUMNS)


def measure(
    receiver: WeightReceiver, trainer: WeightSender, version: int, clock: Callable[[], float]
) -> Result:
    begin_s = clock()
    built = trainer.sync(version)
    build_s = clock() - begin_s
    built_s = time.monotonic()
    while receiver.state is not ReceiverState.STAGED:
        if time.monotonic() - built_s > DEADLINE_S:
            raise SystemExit(f"version {version} did not come: {trainer.statuses}")
        time.sleep(0.0005)
    transfer_s = time.monotonic() - built_s
    begin_s = clock()
    receiver.apply()
    apply_s = clock() - begin_s
    status = trainer.wait(DEADLINE_S)["server"]
    if not status.is_current:
        raise SystemExit(status.text)
    return Result(built.size, built.full_size, built.strategy, build_s, transfer_s, apply_s)


def run(millions: float, asked: argparse.Namespace) -> None:
    random = np.random.default_rng(0)
    model = make_model(millions, random, asked.device)
    clock = time.thread_time if asked.device == "cpu" else time.monotonic
    receiver = WeightReceiver(copy_of(model))
    pump = ReceiverPump(receiver)

    def connect():
        here, there = TRANSPORTS[asked.transport]()
        pump.add(there)
        return here

    config = SenderConfig(
        compression=asked.compression, snapshot_device=asked.snapshot_device, answer_s=DEADLINE_S
    )
    trainer = WeightSender(lambda: model, config)
    trainer.init_sender({"server": connect})
    begin_s = time.monotonic()
    while receiver.apply() != 1:
        if time.monotonic() - begin_s > DEADLINE_S:
            raise SystemExit(f"the first version did not come: {trainer.statuses}")
        time.sleep(0.001)
    trainer.wait(DEADLINE_S)
    version = 1
    for share in asked.shares:
        results = []
        for _ in range(asked.repeats):
            version += 1
            changed = change(model, share, random)
            results.append(measure(receiver, trainer, version, clock))
        show(millions, share, changed, results)
    trainer.close()
    pump.close()


def show(millions: float, share: float, changed: int, results: list[Result]) -> None:
    first = results[0]
    patch_size = formula(share) * changed
    expected = patch_size if patch_size <= first.full_size / 3 else first.full_size
    times = (
        statistics.median(getattr(result, name) for result in results)
        for name in ("build_s", "transfer_s", "apply_s")
    )
    print(
        f"| {millions:g} M | {100 * share:g} % | {first.strategy} | {first.size / 1e6:.3f} "
        f"| {expected / 1e6:.3f} | {first.size / changed:.2f} | {first.full_size / first.size:.1f} | "
        + " | ".join(f"{each:.3f}" for each in times)
        + " |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 10, 100], help="parameters [1e6]")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0001, 0.001, 0.01, 0.1, 1.0])
    parser.add_argument("--transport", choices=TRANSPORTS, default="in_process")
    parser.add_argument("--compression", default="none")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of both ends' weights")
    parser.add_argument("--snapshot-device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=3, help="syncs of each kind; the median counts")
    arguments = parser.parse_args()
    columns = "parameters changed strategy MB formula bytes/change less build_s transfer_s apply_s"
    print("| " + " | ".join(columns.split()) + " |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for millions in arguments.millions:
        run(millions, arguments)


if __name__ == "__main__":
    main()
