# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures the request cycle over real Zenoh routers and a bad link, and the loss by the routers' waits.

Run `python benchmarks/zenoh_link.py [--requests 20]`. It needs eclipse-zenoh; the messages are our own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "test"))

from support.transport.request_path import RequestPath, observation, request_path

SLOW = {"delay_s": 0.025, "bandwidth_bps": 10e6}
LINKS: dict[str, dict[str, float]] = {
    "loopback": {},
    "50 ms": {"delay_s": 0.025},
    "50 ms, 10 Mbit/s": SLOW,
    "50 ms, 10 Mbit/s, jitter 20 ms": {**SLOW, "jitter_s": 0.02},
}
SIZES = (20_000, 60_000, 200_000)
DROP = "transport/link/tx/queue/congestion_control/drop"
WAITS_US = ((1000, 50_000), (1000, 1_000_000), (20_000, 1_000_000), (100_000, 1_000_000))
LOADS = ((200_000, 4.0), (1_000_000, 1.0))  # bytes, Hz
TIMEOUT_S = 5.0


def request_cycle(requests: int) -> None:
    print("| link | observation | p50 | p95 | max | lost |\n|---|---|---|---|---|---|")
    for name, link in LINKS.items():
        for size in SIZES:
            with request_path(**link) as path:
                serialized = [observation(size, seq_id + 1) for seq_id in range(requests)]
                times = [path.request(each, at + 1, TIMEOUT_S) for at, each in enumerate(serialized)]
            took_ms = sorted(1e3 * took for took in times if took is not None)
            lost = len(times) - len(took_ms)
            p50, p95, most = statistics.median(took_ms), took_ms[int(0.95 * len(took_ms))], took_ms[-1]
            print(
                f"| {name} | {size // 1000} KB | {p50:.1f} ms | {p95:.1f} ms | {most:.1f} ms | {lost} |",
                flush=True,
            )


def count_lost(path: RequestPath, requests: int) -> int:
    return sum(at + 1 not in path.chunks for at in range(requests))


def loss(requests: int) -> None:
    print("\n| wait_before_drop | max, fragments | load | lost | longest put |\n|---|---|---|---|---|")
    for wait_us, fragments_us in WAITS_US:
        settings: dict[str, Any] = {
            f"{DROP}/wait_before_drop": str(wait_us),
            f"{DROP}/max_wait_before_drop_fragments": str(fragments_us),
        }
        for size, rate_hz in LOADS:
            with request_path(**SLOW, router_settings=settings) as path:
                longest_s = 0.0
                begin_s = time.monotonic()
                for at in range(requests):
                    serialized = observation(size, at + 1)
                    time.sleep(max(begin_s + at / rate_hz - time.monotonic(), 0.0))
                    put_s = time.monotonic()
                    path.publish(serialized)
                    longest_s = max(longest_s, time.monotonic() - put_s)
                end_s = time.monotonic() + TIMEOUT_S  # for messages on their way
                while (lost := count_lost(path, requests)) and time.monotonic() < end_s:
                    time.sleep(0.01)
            print(
                f"| {wait_us / 1e3:g} ms | {fragments_us / 1e3:g} ms | {size // 1000} KB at {rate_hz:g} Hz "
                f"| {lost} of {requests} | {1e3 * longest_s:.1f} ms |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20, help="of each row")
    arguments = parser.parse_args()
    request_cycle(arguments.requests)
    loss(arguments.requests)


if __name__ == "__main__":
    main()
