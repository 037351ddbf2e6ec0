# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Forks writers of bags and kills each at a random moment; prints a JSON line per writer.

    python kill_writers.py FOLDER KILLS SEED

A writer tells its parent how many messages every finished chunk had left behind it: {"bag", "linked"}.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import struct
import sys
import time
from pathlib import Path

from rclpy.serialization import serialize_message
from std_msgs.msg import UInt64

from remote_inference.bags.storage import split_file
from remote_inference.bags.storage.bag_records import BagTopic
from remote_inference.bags.storage.bag_writer import BagLimits, BagWriter

TOPIC = "/count"
LATEST_S = 0.15
BEGIN_TIMEOUT_S = 60.0
TOTAL = struct.Struct("<Q")


def write_until_killed(path: Path, out: int) -> None:
    """Count upwards into a bag, in chunks of 20 messages and files of a few chunks."""
    split_file.CHUNK_BYTES = 20 * 59
    with BagWriter(path, [BagTopic(TOPIC, "std_msgs/msg/UInt64")], limits=BagLimits(20_000)) as bag:
        digest, number = bag.digest, 0
        while True:
            bag.write(TOPIC, 10**18 + number, serialize_message(UInt64(data=number)), sequence=number + 1)
            if bag.digest != digest:  # a chunk ended before this message
                digest = bag.digest
                os.write(out, TOTAL.pack(number))
            number += 1


def kill_one(path: Path, after_s: float, *, once_it_writes: bool) -> int:
    """Return how many messages the writer had in finished chunks at least when it was killed.

    once_it_writes: the time counts from the first chunk on, else from the fork.
    """
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    child = os.fork()
    if not child:
        os.close(told)
        os.set_blocking(tell, True)
        write_until_killed(path, tell)
    os.close(tell)
    if once_it_writes:
        select.select([told], [], [], BEGIN_TIMEOUT_S)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    totals = b""
    while data := os.read(told, 65536):
        totals += data
    os.waitpid(child, 0)
    os.close(told)
    whole = len(totals) // TOTAL.size * TOTAL.size
    return TOTAL.unpack(totals[whole - TOTAL.size : whole])[0] if whole else 0


def main() -> None:
    folder, kills, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    for index in range(kills):
        path = folder / f"bag_{index}"
        linked = kill_one(path, chance.uniform(0.0, LATEST_S), once_it_writes=index % 10 > 0)
        print(json.dumps({"bag": str(path), "linked": linked}), flush=True)


if __name__ == "__main__":
    main()
