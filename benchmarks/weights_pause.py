# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What robots feel of live weights: the time between their chunks, with updates and without, in turns.

make bench-weights-pause ARGS="--robots 8 --blocks 5 --over ros"
make bench-weights-pause ARGS="--control"

A real policy server with the belt arm's policy, and robots that ask as in `capacity.py`. A trainer in a
process of its own sends all of the policy's head anew, some times a second, by shared memory or ROS. The
goal: with updates, the 99th percentile of the time between two chunks is at most 1.1 times that without, and
one inference.

With `--control` the robots are nodes of the package that drive simulated arms with their default parameters,
and the goal is that no control tick is without an action of the policy. The exit code says whether the goal
was kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
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
from weights_robots import Window, streaming

from remote_inference.base.paths import share_path
from remote_inference.learn.nodes import weights_link
from remote_inference.learn.weights import Link, SenderConfig, WeightSender, shared_memory
from remote_inference.server.policies.networks.torch_chunk import TorchChunkPolicy
from remote_inference.tools.tables import Table, print_table

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


def benchmark(arguments: argparse.Namespace, folder: Path) -> bool:
    """Run all blocks and print their figures; return whether the goal was kept."""
    write_deployment(folder, CASE)
    content = {
        "model": {"backend": "chunk_network", "path": str(POLICY)},
        "max_sessions": arguments.robots,
        "weights": {"accept": True, "socket": "weights.socket", "ros": arguments.over == "ros"},
    }
    manifest = folder / "weights.yaml"
    manifest.write_text(yaml.safe_dump(content))
    with serving(folder, manifest) as (pid, _):
        trainer = Trainer(arguments.over, folder / "weights.socket", arguments.period)
        try:
            if arguments.control:
                return watch_ticks(arguments, trainer, folder / "robots")
            return watch_chunks(arguments, trainer, pid)
        finally:
            trainer.close()


def watch_chunks(arguments: argparse.Namespace, trainer: Trainer, server_pid: int) -> bool:
    """Let plain nodes ask at a steady rate; return whether the times between their chunks are as they may."""
    demand = Demand(1.0 / RATE_HZ, tuple(TorchChunkPolicy(POLICY).spec.image_shapes))
    found: dict[bool, list[np.ndarray]] = {False: [], True: []}
    inference_ms: list[np.ndarray] = []
    updates = 0
    for _ in range(arguments.blocks):
        for learns in (False, True):
            with Fleet(arguments.robots, demand) as fleet:
                if learns:
                    trainer.begin()
                intervals_ms, inferences_ms = measure(fleet, server_pid, arguments.seconds)
                updates += trainer.end() if learns else 0
            found[learns].append(intervals_ms)
            inference_ms.append(inferences_ms)
    return report(found, float(np.median(np.concatenate(inference_ms))), updates, arguments)


def watch_ticks(arguments: argparse.Namespace, trainer: Trainer, folder: Path) -> bool:
    """Let the package's robots drive arms; return whether the policy commanded every control tick."""
    windows: dict[bool, list[Window]] = {False: [], True: []}
    updates = 0
    with streaming(arguments.robots, folder) as arms:
        for _ in range(arguments.blocks):
            for learns in (False, True):
                if learns:
                    trainer.begin()
                windows[learns].append(arms.watch(arguments.seconds))
                updates += trainer.end() if learns else 0
    return report_ticks(windows, updates, arguments)


def report(
    found: dict[bool, list[np.ndarray]], inference_ms: float, updates: int, arguments: argparse.Namespace
) -> bool:
    p99 = {learns: [float(np.quantile(block, 0.99)) for block in blocks] for learns, blocks in found.items()}
    rows = [_row(name, found[learns], p99[learns]) for name, learns in (("without", False), ("with", True))]
    columns = ("updates", "chunks", "p50", "p99", "p99 of blocks")
    seconds = arguments.blocks * arguments.seconds
    title = f"{arguments.robots} robots, time between chunks [ms]; {updates} updates in {seconds:g} s"
    print_table(Table(title, columns, rows, columns[1:]))
    without, learning = (float(np.median(p99[learns])) for learns in (False, True))
    allowed = ALLOWED * without + inference_ms
    kept = learning <= allowed
    print(
        f"median p99 with updates {learning:.1f} ms, allowed {ALLOWED:g} x {without:.1f} + one inference of "
        f"{inference_ms:.1f} = {allowed:.1f} ms: {'kept' if kept else 'missed'}"
    )
    return kept


def _row(name: str, blocks: Sequence[np.ndarray], p99: Sequence[float]) -> tuple[str, ...]:
    whole = np.concatenate(blocks)
    quantiles = [f"{value:.1f}" for value in np.quantile(whole, (0.5, 0.99))]
    return (name, str(len(whole)), *quantiles, ", ".join(f"{value:.1f}" for value in p99))


def report_ticks(windows: dict[bool, list[Window]], updates: int, arguments: argparse.Namespace) -> bool:
    columns = ("ticks", "held", "lost", "versions", "chunks", "p50", "p99")
    rows = [_ticks_row(name, windows[learns]) for name, learns in (("without", False), ("with", True))]
    seconds = arguments.blocks * arguments.seconds
    title = f"{arguments.robots} robots' control ticks, and time between chunks [ms]; {updates} updates"
    print_table(Table(f"{title} in {seconds:g} s", ("updates", *columns), rows, columns))
    held = sum(window.held for window in windows[True])
    print(f"{held} control ticks without an action of the policy while updates came, allowed 0")
    return held == 0


def _ticks_row(name: str, windows: Sequence[Window]) -> tuple[str, ...]:
    counts = [sum(getattr(each, name) for each in windows) for name in ("ticks", "held", "lost")]
    versions = len(set().union(*(each.versions for each in windows)))
    intervals_ms = np.concatenate([each.intervals_ms for each in windows])
    quantiles = [f"{value:.1f}" for value in np.quantile(intervals_ms, (0.5, 0.99))]
    return (name, *map(str, (*counts, versions, len(intervals_ms))), *quantiles)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--robots", type=int, default=8)
    parser.add_argument("--blocks", type=int, default=5, help="pairs of blocks, without and with updates")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each block")
    parser.add_argument("--period", type=float, default=0.5, help="between two updates [s]")
    parser.add_argument(
        "--over", choices=("shared_memory", "ros"), default="shared_memory", help="the trainer's way"
    )
    parser.add_argument("--control", action="store_true", help="robots' nodes with control loops")
    arguments = parser.parse_args()
    rclpy.init()
    begin_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            kept = benchmark(arguments, Path(folder))
    finally:
        rclpy.shutdown()
    print(f"took {time.monotonic() - begin_s:.0f} s, load average {os.getloadavg()[0]:.1f} at the end")
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
