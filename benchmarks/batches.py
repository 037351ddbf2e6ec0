# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures what a batch costs by its size, with policies of LeRobot's as large as people train them.

make bench-batches ARGS="--device cuda --policies act pi0"

The weights are random, which costs as much as trained ones. `call` is the median of the policy's own time for
a batch whose requests differ as those of robots do, `prepare` what decoding and preprocessing take for one
request before it. `robots` is what the capacity formula says of both together, one after the other. It needs
LeRobot; pi0 takes 8 GB of disk, and as much of the device's memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "test"))

SIZES = (1, 2, 4, 8, 16, 32)
REPEATS = 10
WARM_UPS = 2
TASK = "pick up the red cube"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="as torch names it")
    parser.add_argument("--policies", nargs="+", default=["act"], choices=("act", "pi0"))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of batches")
    parser.add_argument("--compile", action="store_true", help="let torch compile the policies")
    asked = parser.parse_args()
    os.environ["TEST_DEVICE"] = asked.device  # read when the builders are imported
    os.environ["HF_HUB_OFFLINE"] = "1"
    print("| policy | batch | prepare of one [ms] | call [ms] | call for one [ms] | robots |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind in asked.policies:
        with tempfile.TemporaryDirectory() as folder:
            measure(kind, Path(folder), asked)


def measure(kind: str, folder: Path, asked: argparse.Namespace) -> None:
    """Print a line for each size of a batch."""
    from remote_inference.server.manifest.manifest import Manifest  # noqa: PLC0415
    from remote_inference.server.requests.request_decoder import RequestDecoder, sample_batch  # noqa: PLC0415
    from remote_inference.server.warmup import find_speed  # noqa: PLC0415
    from support.lerobot.tiny_policies import FULL_SIZE  # noqa: PLC0415  imports LeRobot for a device

    options = {"options": {"compile": True}} if asked.compile else {}
    built = FULL_SIZE[kind](folder)
    policy = built.load(**options)
    decoder = RequestDecoder(Manifest(model=built.source()), policy.spec)
    requests, offer = sample_batch(policy.spec, TASK)

    def prepare(data: bytes) -> Any:
        _, message = decoder.request(data)
        return policy.make_processors().pre(decoder.observation(message, offer))

    inputs = [prepare(data) for data in requests]
    prepare_s = median(lambda: prepare(requests[0]))
    for size in asked.sizes:
        if size > policy.spec.max_batch:
            break
        batch = list(islice(cycle(inputs), size))
        call_s = median(lambda batch=batch: policy.predict(batch))
        request_s = prepare_s + call_s / size
        print(
            f"| {kind} | {size} | {1e3 * prepare_s:.1f} | {1e3 * call_s:.1f} | {1e3 * call_s / size:.1f} "
            f"| {find_speed(policy.spec, request_s).robots} |",
            flush=True,
        )
    policy.close()


def median(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median time of some work [s], after a warm-up."""
    times_s = []
    for count in range(WARM_UPS + repeats):
        begin_s = time.perf_counter()
        work()
        if count >= WARM_UPS:
            times_s.append(time.perf_counter() - begin_s)
    return statistics.median(times_s)


if __name__ == "__main__":
    main()
