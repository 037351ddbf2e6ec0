# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures how many chunks a server loses that answers many robots at once over one link.

Run `python benchmarks/zenoh_burst.py [--rounds 100]`. It needs eclipse-zenoh. Express on and off stand side
by side in each row, for chunks of two sizes and two waits.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "test"))

from support.transport.chunk_burst import CHUNK_BYTES, burst, publications
from support.transport.engine import WAIT

ROBOTS = 15
PERIOD_S = 0.01  # between two answers to all robots
WAITS_US = (1_000, 20_000)  # rmw_zenoh's, and ours of a server
SIZES = (CHUNK_BYTES, 13_000)  # 50 rows of 7 actions, of 32 actions, in both spaces


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="answers to every robot in each row")
    rounds = parser.parse_args().rounds
    print("| chunk | wait | lost with express | lost without | longest put without |\n|---|---|---|---|---|")
    for size in SIZES:
        for wait_us in WAITS_US:
            on, off = (
                burst(
                    ROBOTS,
                    rounds,
                    PERIOD_S,
                    {"qos/publication": publications(express=express), WAIT: str(wait_us)},
                    size,
                )
                for express in (True, False)
            )
            lost = [f"{found.lost} of {found.sent}" for found in (on, off)]
            row = (f"{size / 1e3:g} KB", f"{wait_us / 1e3:g} ms", *lost, f"{1e3 * off.longest_put_s:.1f} ms")
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
