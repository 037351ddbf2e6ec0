# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares openpi-client and this package on the same observation in one run, as ratios.

Run `make bench-peers`, or `python benchmarks/peers.py [--cycles 100]` where it has made `.venv/peers`. Each
side has its own server process with a policy that takes no time, and a bare ping-pong of rclpy shows what its
executor and the middleware take alone; their cycles take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import rclpy
from capacity_robots import call, spin_until
from request_cycle import PAUSES_S, WARM_UP, repeat
from request_cycle_rig import CHUNK_SIZE, FPS, JOINTS, SERVER, Case, Probe, Sensors, camera_image, deployment
from rich.console import Console
from sensor_msgs.msg import CompressedImage, Image

from remote_inference.base.exchange import SCHEMA_VERSION_MAX, Request
from remote_inference.base.wire.arrays import bytes_field
from remote_inference.base.wire.chunk import chunk_from_message
from remote_inference.base.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.base.wire.images.images import image_from_message, image_to_message
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC
from remote_inference.msg import ActionChunk, Observation
from remote_inference.srv import OpenSession
from remote_inference.tools.deployment import bringup
from remote_inference.tools.tables import Table, print_table

PEER = Path(__file__).with_name("openpi_peer.py")
PEER_PYTHON = Path(__file__).parents[1] / ".venv" / "peers" / "bin" / "python"
ROBOT = "/peers_robot"
TASK = "hold still"
SIDE = 224


@dataclass(frozen=True)
class Contest:
    """The observation of both sides. resize: openpi-client resizes its image to 224x224 first."""

    name: str
    case: Case  # ours
    resize: bool = False


CONTESTS = (
    Contest("640x480, raw", Case(2)),
    Contest("224x224, raw", Case(2, 0, SIDE, SIDE)),
    Contest("640x480: openpi resizes, ours JPEG", Case(2, 90), resize=True),
)
Repeat: TypeAlias = "Callable[[int, float], list[float]]"
OPENPI, BARE = REFERENCES = ("openpi", "bare rclpy")
OURS = ("our client", "our nodes")
SIDES = (*REFERENCES, *OURS)
BLOCKS = 7
STOP_TIMEOUT_S = 20.0
METHOD = f"""\
Two cameras, a state of {len(JOINTS)} joints, a task; the answer has {CHUNK_SIZE} x {len(JOINTS)} float32.
[italic]openpi[/italic]: openpi-client's infer() and a websocket server on the loopback device: packing, \
sending, unpacking, the answer. Where it resizes, the time includes that.
[italic]Bare rclpy[/italic]: two plain nodes on the executor that ours have, an Observation of the same \
bytes as ours and an ActionChunk, prepared once: nothing is encoded, decoded or admitted.
[italic]Our client[/italic]: one node that holds the images as arrays, too, and policy_server, over Fast \
DDS's shared memory: the message (encoded where JPEG), sending, reading, decoding, the answer in both action \
spaces.
[italic]Our nodes[/italic]: from another process that publishes raw images and then the joint state, through \
remote_inference and policy_server, to the chunk: the sensors' way to the robot comes on top.
All of it is on this machine.
The sides take turns in {BLOCKS} blocks. [italic]To openpi[/italic]: the median of the blocks' ratios, and \
the least and the most of them. [italic]To bare[/italic]: the median of those to the bare ping-pong.
[italic]Back to back[/italic]: the next cycle follows at once. [italic]Paced[/italic]: \
{PAUSES_S["paced"] * 1e3:g} ms later."""


@dataclass
class Measurement:
    """One contest at one pace: durations of each side in each block [ms]."""

    contest: str
    pace: str
    blocks_ms: dict[str, list[list[float]]] = field(default_factory=lambda: {side: [] for side in SIDES})

    def quantiles_ms(self, side: str) -> tuple[float, float]:
        """Return p50 and p95 of all blocks together."""
        p50, p95 = np.quantile(np.concatenate(self.blocks_ms[side]), (0.5, 0.95))
        return float(p50), float(p95)

    def ratios(self, side: str, reference: str) -> list[float]:
        """Return a side's median over that of one of REFERENCES in each block, rising."""
        pairs = zip(self.blocks_ms[side], self.blocks_ms[reference], strict=True)
        return sorted(float(np.median(ours) / np.median(theirs)) for ours, theirs in pairs)


class Client(Probe):
    """A node that asks policy_server like openpi-client asks openpi's server: arrays in, arrays out."""

    def __init__(self, case: Case) -> None:
        super().__init__("peers_client", f"{ROBOT}/{CHUNK_TOPIC}")
        self._case = case
        self._pixels = image_from_message(camera_image(case.height, case.width))
        self._publisher = self.node.create_publisher(
            Observation, f"{ROBOT}/{OBSERVATION_TOPIC}", EXCHANGE_QOS
        )
        client = self.node.create_client(OpenSession, f"{SERVER}/open_session")
        spin_until(self._executor, client.service_is_ready, "the server")
        reply = call(self._executor, client, self._offer())
        if not reply.accepted:
            raise SystemExit(f"refused: {reply.message}")
        self._session_id = reply.session_id
        self._seq_id = 0
        spin_until(self._executor, lambda: self._publisher.get_subscription_count() > 0, "matched endpoints")

    def _offer(self) -> OpenSession.Request:
        cameras = self._case.cameras
        return OpenSession.Request(
            client=self.node.get_fully_qualified_name(),
            robot_namespace=ROBOT,
            robot_type="benchmark",
            session_epoch=1,
            schema_version=SCHEMA_VERSION_MAX,
            action_names=list(JOINTS),
            state_names=list(JOINTS),
            image_features=[f"images.camera_{index}" for index in range(cameras)],
            image_encodings=["jpeg" if self._case.quality else "raw"] * cameras,
            image_heights=[self._case.height] * cameras,
            image_widths=[self._case.width] * cameras,
            fps=FPS,
            task=TASK,
        )

    def start(self) -> int:
        start_ns = time.monotonic_ns()
        self._seq_id += 1
        request = Request(self._session_id, 1, self._seq_id, 1, False, start_ns, TASK, 0)
        images = [self._write(self._pixels) for _ in range(self._case.cameras)]
        stamp = self.node.get_clock().now().to_msg()
        state = np.zeros(len(JOINTS), np.float32)
        self._publisher.publish(observation_to_message(request, state, images, stamp))
        return start_ns

    def _write(self, pixels: np.ndarray) -> CompressedImage | Image:
        if self._case.quality:
            return CompressedImage(format="jpeg", data=bytes_field(encode_jpeg(pixels, self._case.quality)))
        return image_to_message(pixels)

    def is_answered_by(self, chunk: ActionChunk) -> bool:
        return chunk.seq_id == self._seq_id

    def _take(self, chunk: ActionChunk) -> None:
        chunk_from_message(chunk)
        super()._take(chunk)


@contextmanager
def openpi(folder: Path, contest: Contest) -> Iterator[Repeat]:
    """Run openpi-client and its server; yield a function that repeats inferences with a pause [s]."""
    image = folder / "image.npy"
    np.save(image, image_from_message(camera_image(contest.case.height, contest.case.width)))
    server = subprocess.Popen([PEER_PYTHON, PEER, "server"], stdout=subprocess.PIPE, text=True)
    assert server.stdout
    port = server.stdout.readline().strip()
    command = [PEER_PYTHON, PEER, "client", port, image, *(["--resize"] if contest.resize else [])]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def infer(times: int, pause_s: float) -> list[float]:
        assert client.stdin
        assert client.stdout
        print(times, pause_s, file=client.stdin, flush=True)
        durations_ms: list[float] = json.loads(client.stdout.readline())
        return durations_ms

    try:
        yield infer
    finally:
        for process in (client, server):
            process.terminate()  # a script's background job passes SIGINT on as ignored
        for process in (client, server):
            process.wait(STOP_TIMEOUT_S)


def measure(contest: Contest, cycles: int) -> list[Measurement]:
    """Start all processes and measure each side at each pace."""
    with (
        tempfile.TemporaryDirectory(prefix="peers_") as name,
        openpi(Path(name), contest) as infer,
        deployment(Path(name), contest.case, Sensors) as (sensors, pinger),
    ):
        client = Client(contest.case)
        sides: dict[str, Repeat] = {
            OPENPI: infer,
            BARE: partial(repeat, pinger),
            "our client": partial(repeat, client),
            "our nodes": partial(repeat, sensors),
        }
        results = []
        try:
            for pace, pause_s in PAUSES_S.items():
                result = Measurement(contest.name, pace)
                for ask in sides.values():
                    ask(WARM_UP, pause_s)
                for _ in range(BLOCKS):
                    for side, ask in sides.items():
                        result.blocks_ms[side].append(ask(cycles // BLOCKS, pause_s))
                results.append(result)
        finally:
            client.close()
        return results


def print_results(pace: str, results: list[Measurement]) -> None:
    """Print a row per observation and side: side by side they are wider than a terminal."""
    numbers = ("p50", "p95", "to openpi\np50", "least", "most", "to bare\np50")
    rows = []
    for result in results:
        for side in SIDES:
            values = result.quantiles_ms(side)
            if side in OURS:
                to_openpi, to_bare = (result.ratios(side, reference) for reference in REFERENCES)
                middle = len(to_openpi) // 2
                values = (*values, to_openpi[middle], to_openpi[0], to_openpi[-1], to_bare[middle])
            texts = [f"{value:.2f}" for value in values]
            rows.append((result.contest, side, *texts, *[""] * (len(numbers) - len(texts))))
    title = f"From an observation to its chunk, {pace} [ms]"
    print_table(Table(title, ("two images", "side", *numbers), rows, numbers))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=140, help="to measure per side, observation and pace")
    arguments = parser.parse_args()
    if not PEER_PYTHON.exists():
        raise SystemExit(f"{PEER_PYTHON}: missing; make bench-peers installs openpi-client")
    if missing := bringup.environment():  # malloc reads it when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **missing})
    console = Console()
    load = f"{os.cpu_count()} processors, load average before the run: {os.getloadavg()[0]:.1f}"
    rclpy.init()
    results: list[Measurement] = []
    for contest in CONTESTS:
        with console.status(f"measuring: {contest.name}"):
            results += measure(contest, arguments.cycles)
    rclpy.try_shutdown()
    console.print(METHOD, load, sep="\n", highlight=False)
    for pace in PAUSES_S:
        print_results(pace, [result for result in results if result.pace == pace])


if __name__ == "__main__":
    main()
