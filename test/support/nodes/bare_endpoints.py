# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What rclpy and its middleware themselves keep of endpoints that were destroyed.

Run as a program: `bare_endpoints.py NAMESPACE WARM_UP PAIRS` creates and destroys pairs of a session's two
endpoints, one after the other, in a spinning node, and prints by how many bytes that grew the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import rclpy
from rclpy.executors import SingleThreadedExecutor

from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC
from remote_inference.msg import ActionChunk, Observation

TIMEOUT_S = 120.0


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def growth_of_bare_endpoints(namespace: str, warm_up: int, pairs: int) -> int:
    """Return how much `pairs` pairs of endpoints grow a process that does nothing else [bytes]."""
    command = [sys.executable, __file__, namespace, str(warm_up), str(pairs)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    return int(ended.stdout)


def main() -> None:
    namespace, warm_up, pairs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rclpy.init()
    node = rclpy.create_node("bare_endpoints")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    before = 0
    for number in range(warm_up + pairs):
        if number == warm_up:
            before = resident_bytes(os.getpid())
        publisher = node.create_publisher(ActionChunk, f"{namespace}/{CHUNK_TOPIC}", EXCHANGE_QOS)
        subscription = node.create_subscription(
            Observation, f"{namespace}/{OBSERVATION_TOPIC}", lambda _: None, EXCHANGE_QOS, raw=True
        )
        executor.spin_once(timeout_sec=0.0)
        node.destroy_subscription(subscription)
        node.destroy_publisher(publisher)
        executor.spin_once(timeout_sec=0.0)
    print(resident_bytes(os.getpid()) - before)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
