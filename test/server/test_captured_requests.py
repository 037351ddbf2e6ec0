# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A capture holds the batch size of its request: batching changes the last digits of a chunk."""

from __future__ import annotations

from support.server.bench import AllAtOnce, Bench


def test_a_capture_holds_the_size_of_its_batch():
    batch_sizes: list[int] = []
    bench = Bench(
        scheduler=AllAtOnce(), robots=3, capture=lambda _offer, _data, _chunk, size: batch_sizes.append(size)
    )
    for robot in range(3):
        bench.put(robot)
    bench.serve()
    bench.put(0)
    bench.serve()
    assert batch_sizes == [3, 3, 3, 1]
