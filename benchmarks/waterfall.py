# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows where the time goes between a sensor's message and the command that follows from it.

Run `make bench-waterfall [ARGS="--cycles 300 --case JPEG"]`. The processes are those of request_cycle.py:
real nodes and a policy that takes no time. The stages come from stamps of the messages, by one machine's
clocks; what single steps of a stage cost is measured afterwards, in this process, on the same messages.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rclpy
from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message, serialize_message
from request_cycle import CASES, PAUSES_S, WARM_UP
from request_cycle_rig import CHUNK_SIZE, JOINTS, ROBOT, Case, Sensors, camera_image, deployment, make_request
from rich.console import Console

from remote_inference.base.exchange import Chunk
from remote_inference.base.wire.cdr_view import view_message
from remote_inference.base.wire.chunk import chunk_from_bytes, chunk_to_message
from remote_inference.base.wire.images.encodings.jpeg import decode_jpeg, encode_jpeg
from remote_inference.base.wire.images.images import image_from_message
from remote_inference.base.wire.qos import EXECUTED_QOS, EXECUTED_TOPIC
from remote_inference.msg import ExecutedAction, Observation
from remote_inference.tools.deployment import bringup
from remote_inference.tools.tables import Table, print_table

STAGES = (
    "sensors' way, encoding, worker",
    "request's way to the server",
    "wait for the device thread",
    "decoding, processing, policy",
    "chunk's way to the robot",
    "merging, next control tick",
)
TIMES = 200  # of each single step


@dataclass(frozen=True)
class Cycle:
    """One sensor's way to a command: duration of each of STAGES [ms]."""

    stages_ms: tuple[float, ...]


class Tracer(Sensors):
    """The sensors, which keep the chunk of each cycle and when the robot executed it first."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._executed_ns: dict[int, int] = {}
        self.node.create_subscription(
            ExecutedAction, f"{ROBOT}/{EXECUTED_TOPIC}", self._take_executed, EXECUTED_QOS
        )

    def _take_executed(self, tick: ExecutedAction) -> None:
        self._executed_ns.setdefault(tick.seq_id, time.monotonic_ns())

    def trace(self) -> Cycle | None:
        """Return the stages of one cycle, None when a message was lost."""
        begin_ns = time.monotonic_ns()
        if self.measure() is None or self._answer is None:
            return None
        arrived_ns, chunk = self._answer
        deadline_s = time.monotonic() + 1.0
        while chunk.seq_id not in self._executed_ns:
            if time.monotonic() > deadline_s:
                return None
            self._executor.spin_once(timeout_sec=0.1)
        stamp = chunk.header.stamp
        sent_ns = stamp.sec * 1_000_000_000 + stamp.nanosec - (time.time_ns() - time.monotonic_ns())
        asked_ns, begun_ns = chunk.client_mono_ns, sent_ns - round(1e6 * chunk.inference_ms)
        came_ns = begun_ns - round(1e6 * chunk.queue_wait_ms)
        times_ns = (
            begin_ns,
            asked_ns,
            came_ns,
            begun_ns,
            sent_ns,
            arrived_ns,
            self._executed_ns.pop(chunk.seq_id),
        )
        return Cycle(tuple(np.diff(times_ns) / 1e6))


def single_steps(case: Case) -> dict[str, Callable[[], object]]:
    """Return what single steps of the stages do, by name, on messages of the case."""
    pixels = image_from_message(camera_image(case.height, case.width))
    rows = np.zeros((CHUNK_SIZE, len(JOINTS)), np.float32)
    chunk = chunk_to_message(
        Chunk("0" * 12, 1, 1, 0, 1, model=rows, robot=rows, policy_version="0" * 16), Time()
    )
    observation = make_request(case)
    written, answered = serialize_message(observation), serialize_message(chunk)
    steps: dict[str, Callable[[], object]] = {
        "write a request": lambda: serialize_message(observation),
        "view a request": lambda: view_message(written, Observation, "observation"),
        "deserialize a request, as rclpy does": lambda: deserialize_message(written, Observation),
        "write a chunk": lambda: serialize_message(chunk),
        "read a chunk": lambda: chunk_from_bytes(answered),
    }
    if case.quality:
        jpeg = encode_jpeg(pixels, case.quality)
        steps["encode one image"] = lambda: encode_jpeg(pixels, case.quality)
        steps["decode one image"] = lambda: decode_jpeg(jpeg)
    return steps


def time_step(step: Callable[[], object]) -> float:
    """Return the median duration of a step [ms]."""
    durations_ns = []
    for _ in range(TIMES):
        begin_ns = time.perf_counter_ns()
        step()
        durations_ns.append(time.perf_counter_ns() - begin_ns)
    return float(np.median(durations_ns)) / 1e6


def measure(case: Case, cycles: int, pause_s: float) -> list[Cycle]:
    with (
        tempfile.TemporaryDirectory(prefix="waterfall_") as name,
        deployment(Path(name), case, Tracer) as (tracer, _),
    ):
        found = []
        for number in range(WARM_UP + cycles):
            time.sleep(pause_s)
            cycle = tracer.trace()
            if cycle is not None and number >= WARM_UP:
                found.append(cycle)
    return found


def print_results(case: Case, by_pace: dict[str, list[Cycle]]) -> None:
    """Print a row per stage, and below them what single steps cost."""
    numbers = tuple(f"{pace}\n{name} [ms]" for pace in by_pace for name in ("p50", "p95"))
    stages = [np.array([cycle.stages_ms for cycle in cycles]) for cycles in by_pace.values()]
    rows = []
    for index, stage in enumerate((*STAGES, "sensors to chunk")):
        cells: list[str] = []
        for durations in stages:
            taken = durations[:, :5].sum(axis=1) if index == len(STAGES) else durations[:, index]
            cells += [f"{value:.2f}" for value in np.quantile(taken, (0.5, 0.95))]
        rows.append((stage, *cells))
    print_table(Table(f"From a sensor to the command: {case.name}", ("stage", *numbers), rows, numbers))
    steps = [(name, f"{time_step(step):.3f}") for name, step in single_steps(case).items()]
    print_table(Table(f"Single steps: {case.name}", ("step", "p50 [ms]"), steps, ("p50 [ms]",)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=200, help="to measure per observation and pace")
    parser.add_argument("--case", default="", help="only observations whose name contains this")
    arguments = parser.parse_args()
    if missing := bringup.environment():  # malloc reads it when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **missing})
    console = Console()
    console.print(
        f"{os.cpu_count()} processors, load average before the run: {os.getloadavg()[0]:.1f}", highlight=False
    )
    rclpy.init()
    for case in (case for case in CASES if arguments.case in case.name):
        found = {}
        for pace, pause_s in PAUSES_S.items():
            with console.status(f"measuring: {case.name}, {pace}"):
                found[pace] = measure(case, arguments.cycles, pause_s)
        print_results(case, found)
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
