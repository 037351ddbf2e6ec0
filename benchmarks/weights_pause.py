# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What robots feel of live weights: the time between their chunks, with updates and without, in turns.

make bench-weights-pause ARGS="--robots 8 --blocks 5 --over ros"

A real policy server with the belt arm's policy, and robots that ask as in `capacity.py`. A trainer in a
process of its own sends all of the policy's head anew, some times a second, by shared memory or ROS. The
goal: with updates, the 99th percentile of the time between two chunks is at most 1.1 times that without, and
one inference.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import rclpy
import yaml
from capacity_rig import CASE, run_window, serving
from capacity_robots import SERVER, Demand, Fleet
from request_cycle_rig import write_deployment

from remote_inference.monitoring.tables import Table, print_table
from remote_inference.nodes.clients import weights_link
from remote_inference.paths import share_path
from remote_inference.policies.networks.torch_chunk import TorchChunkPolicy
from remote_inference.weights import Link, SenderConfig, WeightSender
from remote_inference.weights.transports import shared_memory

POLICY = share_path("config", "models", "belt_arm")
RATE_HZ = 5.0  # of each robot
ANSWER_S = 30.0
ALLOWED = 1.1


def link(over: str, socket: Path) -> Link:
    """Return a new link of a trainer to the server."""
    if over == "ros":
        return weights_link.connect(SERVER, ANSWER_S)
    return shared_memory.connect(socket, ANSWER_S)


def train(over: str, socket: Path, period_s: float, pipe: Connection) -> None:
    """Between True and False from the pipe send another head every period; then say how many were served."""
    os.nice(5)
    network = TorchChunkPolicy(POLICY).network
    sender = WeightSender(network.state_dict, SenderConfig(answer_s=ANSWER_S))
    sender.init_sender({"server": lambda: link(over, socket)})
    sender.wait(ANSWER_S)
    pipe.send(True)
    while pipe.recv():
        count = 0
        while not pipe.poll(period_s):
            for name, tensor in network.state_dict().items():
                if name.startswith("head."):
                    tensor.mul_(1.0 + 1e-6 * (-1.0) ** count)
            sender.sync(sender.version + 1)
            count += sender.wait(ANSWER_S)["server"].is_current
        pipe.recv()
        pipe.send(count)
    sender.close()


class Trainer:
    """The process of `train`."""

    def __init__(self, over: str, socket: Path, period_s: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=train, args=(over, socket, period_s, other), daemon=True)
        self._process.start()
        if not self._pipe.poll(ANSWER_S):
            raise SystemExit("the trainer was not heard")
        self._pipe.recv()

    def begin(self) -> None:
        self._pipe.send(True)

    def end(self) -> int:
        """Return how many updates were served since `begin`."""
        self._pipe.send(False)
        return int(self._pipe.recv())

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join(ANSWER_S)


def measure(fleet: Fleet, server_pid: int, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the times between two chunks of a robot, of all robots, and the inference times [ms]."""
    records, _, _ = run_window(fleet, server_pid, seconds)
    if lost := sum(record.lost + record.errors for record in records):
        print(f"{lost} requests were lost or failed")
    intervals_ms = np.concatenate([1e3 * np.diff(record.arrival_s) for record in records])
    return intervals_ms, np.concatenate([record.inference_ms for record in records])


def benchmark(arguments: argparse.Namespace, folder: Path) -> None:
    write_deployment(folder, CASE)
    content = {
        "model": {"backend": "chunk_network", "path": str(POLICY)},
        "max_sessions": arguments.robots,
        "weights": {"accept": True, "socket": "weights.socket", "ros": arguments.over == "ros"},
    }
    manifest = folder / "weights.yaml"
    manifest.write_text(yaml.safe_dump(content))
    demand = Demand(1.0 / RATE_HZ, tuple(TorchChunkPolicy(POLICY).spec.image_shapes))
    found: dict[bool, list[np.ndarray]] = {False: [], True: []}
    inference_ms: list[np.ndarray] = []
    updates = 0
    with serving(folder, manifest) as (pid, _):
        trainer = Trainer(arguments.over, folder / "weights.socket", arguments.period)
        for _ in range(arguments.blocks):
            for learns in (False, True):
                with Fleet(arguments.robots, demand) as fleet:
                    if learns:
                        trainer.begin()
                    intervals_ms, inferences_ms = measure(fleet, pid, arguments.seconds)
                    updates += trainer.end() if learns else 0
                found[learns].append(intervals_ms)
                inference_ms.append(inferences_ms)
        trainer.close()
    report(found, float(np.median(np.concatenate(inference_ms))), updates, arguments)


def report(
    found: dict[bool, list[np.ndarray]], inference_ms: float, updates: int, arguments: argparse.Namespace
) -> None:
    p99 = {learns: [float(np.quantile(block, 0.99)) for block in blocks] for learns, blocks in found.items()}
    rows = [_row(name, found[learns], p99[learns]) for name, learns in (("without", False), ("with", True))]
    columns = ("updates", "chunks", "p50", "p99", "p99 of blocks")
    seconds = arguments.blocks * arguments.seconds
    title = f"{arguments.robots} robots, time between chunks [ms]; {updates} updates in {seconds:g} s"
    print_table(Table(title, columns, rows, columns[1:]))
    without, learning = (float(np.median(p99[learns])) for learns in (False, True))
    allowed = ALLOWED * without + inference_ms
    kept = "kept" if learning <= allowed else "missed"
    print(
        f"median p99 with updates {learning:.1f} ms, allowed {ALLOWED:g} x {without:.1f} + one inference of "
        f"{inference_ms:.1f} = {allowed:.1f} ms: {kept}"
    )


def _row(name: str, blocks: Sequence[np.ndarray], p99: Sequence[float]) -> tuple[str, ...]:
    whole = np.concatenate(blocks)
    quantiles = [f"{value:.1f}" for value in np.quantile(whole, (0.5, 0.99))]
    return (name, str(len(whole)), *quantiles, ", ".join(f"{value:.1f}" for value in p99))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--robots", type=int, default=8)
    parser.add_argument("--blocks", type=int, default=5, help="pairs of blocks, without and with updates")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each block")
    parser.add_argument("--period", type=float, default=0.5, help="between two updates [s]")
    parser.add_argument(
        "--over", choices=("shared_memory", "ros"), default="shared_memory", help="the trainer's way"
    )
    arguments = parser.parse_args()
    rclpy.init()
    begin_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            benchmark(arguments, Path(folder))
    finally:
        rclpy.shutdown()
    print(f"took {time.monotonic() - begin_s:.0f} s, load average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
