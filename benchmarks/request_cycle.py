# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a request cycle costs beside a bare rclpy ping-pong of the same bytes.

Run `python benchmarks/request_cycle.py [--requests 100]`. A server whose policy takes no time and a robot's
node run as real processes, this one plays the robot's sensors, and a fourth echoes the pings.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# A running robot on this network must not meet the benchmark's topics.
os.environ.setdefault("ROS_DOMAIN_ID", "99")
os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
os.environ.setdefault("AMENT_PREFIX_PATH", sys.prefix)  # for the wheels; a sourced workspace has set it

import numpy as np
import rclpy
import yaml
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from remote_inference.msg import ActionChunk, ClientState, Observation
from rich.console import Console
from rich.table import Table
from sensor_msgs.msg import Image, JointState

from remote_inference import bringup
from remote_inference.core.contract import Contract, load_contract
from remote_inference.core.exchange import Chunk, Request, SessionOffer
from remote_inference.core.robot.latency import WINDOW
from remote_inference.wire import (
    CameraReader,
    chunk_to_message,
    float64_field,
    image_to_message,
    observation_from_message,
    observation_to_message,
)
from remote_inference.wire.qos import (
    CHUNK_TOPIC,
    EXCHANGE_QOS,
    LATCHED_QOS,
    STATE_TOPIC,
)

HEIGHT, WIDTH, QUALITY = 480, 640, 90
GAPS_S = {  # pause before each message that starts a cycle or a ping-pong
    "busy": 0.004,  # processors are awake and caches warm
    "idle": 0.02,  # as on a robot that asks a few times a second
}
WARM_UP = 20  # cycles and pings before the measured ones
ROBOT, PING, PONG = "/request_cycle_robot", "/request_cycle/ping", "/request_cycle/pong"
JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
CHUNK_SIZE, FPS = 50, 30.0
CYCLE_S = 0.01  # within which the robot has its chunk
TIMEOUT_S = 60.0  # without progress
PONG_TIMEOUT_S = 1.0
OPENPI_MS = 3.4  # openpi-client on two cores: two cameras of this size encoded, sent, decoded and answered

METHOD = f"""\
[bold]Method.[/bold] Policy server and robot node are processes of their own in the environment of \
bringup.environment(); the policy holds still and takes no time. A third process plays the sensors: it \
publishes {WIDTH}x{HEIGHT} images, pauses while the robot takes them in, and publishes the joint state that \
completes the observation and starts the request. It pauses again while the cycle runs, then sends a ping, \
and so on: cycles and pings alternate, each after a pause of {GAPS_S["busy"] * 1e3:g} ms ("busy") or \
{GAPS_S["idle"] * 1e3:g} ms ("idle"), and nobody publishes or receives images while one is timed.
[italic]Round trip[/italic] is the robot's own measure, from stamping the request to the arrival of the chunk:
read the images, encode them, publish, deserialise, decode, policy, publish.
[italic]Less inference_ms[/italic]: without what the server reports as its own, decoding and the policy.
[italic]Bare[/italic]: two plain nodes, the same Observation prepared once, an ActionChunk prepared once."""


@dataclass(frozen=True)
class Case:
    """What the robot sends."""

    cameras: int
    quality: int = 0

    @property
    def name(self) -> str:
        if not self.cameras:
            return "state only"
        kind = f"JPEG q{self.quality}" if self.quality else "raw"
        return f"{self.cameras} camera{'s' if self.cameras > 1 else ''}, {kind}"


CASES = (
    Case(0),
    *(Case(cameras) for cameras in (1, 2, 3)),
    *(Case(cameras, QUALITY) for cameras in (1, 2, 3)),
)


@dataclass
class Measurement:
    """One case at one pace [ms]; the cycle's quantiles are a round's each."""

    case: Case
    pace: str
    observation_bytes: int
    cycle_p50: list[float] = field(default_factory=list)
    cycle_p95: list[float] = field(default_factory=list)
    inference: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    encode: float = 0.0
    decode: float = 0.0


# -- the deployment ----------------------------------------------------------------------------------------


def write_deployment(folder: Path, case: Case) -> tuple[Path, Path]:
    """Write contract, manifest and policy; return the first two."""
    cameras = [f"camera_{index}" for index in range(case.cameras)]
    policy = {
        "name": "hold",
        "revision": "1",
        "state_names": JOINTS,
        "action_names": JOINTS,
        "image_features": {f"images.{camera}": [HEIGHT, WIDTH, 3] for camera in cameras},
        "chunk_size": CHUNK_SIZE,
        "trained_fps": FPS,
    }
    contract = {
        "robot_type": "benchmark",
        "fps": FPS,
        "task": "hold still",
        "state": [
            {
                "topic": "joint_states",
                "type": "sensor_msgs/msg/JointState",
                "field": "position",
                "names": list(JOINTS),
            }
        ],
        "images": {
            camera: {"topic": camera, "type": "sensor_msgs/msg/Image", "jpeg_quality": case.quality}
            for camera in cameras
        },
        "actions": {
            "kind": "position",
            "names": list(JOINTS),
            "limits": {joint: {"min": -3.0, "max": 3.0, "max_velocity": 3.0} for joint in JOINTS},
        },
        "commands": [{"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": list(JOINTS)}],
    }
    manifest = {"model": {"backend": "hold", "path": "policy"}}
    (folder / "policy").mkdir()
    (folder / "policy" / "policy.json").write_text(json.dumps(policy))
    (folder / "contract.yaml").write_text(yaml.safe_dump(contract))
    (folder / "manifest.yaml").write_text(yaml.safe_dump(manifest))
    return folder / "contract.yaml", folder / "manifest.yaml"


@contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    """Run a process of the deployment; SIGINT ends it, so that Fast DDS removes its shared memory."""
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment())
    try:
        yield
    except SystemExit:
        print(f"{' '.join(command[1:3])}:\n{log.read_text()[-2000:]}", file=sys.stderr)
        raise
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment() -> dict[str, str]:
    return {**os.environ, **bringup.environment()}


# -- what is sent ------------------------------------------------------------------------------------------


def camera_images(count: int) -> list[np.ndarray]:
    """Make uint8 RGB images of soft shading, hard-edged boxes and sensor noise."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    shading = [120 + 80 * np.sin(x / 90), 110 + 70 * np.cos(y / 70), 90 + 60 * np.sin((x + y) / 130)]
    image = np.stack(shading, axis=-1)
    for _ in range(40):
        top, left = random.integers(0, HEIGHT - 40), random.integers(0, WIDTH - 60)
        height, width = random.integers(8, 120, 2)
        image[top : top + height, left : left + width] = random.integers(0, 255, 3)
    return [(image + random.normal(0, 3, image.shape)).clip(0, 255).astype(np.uint8) for _ in range(count)]


IMAGES: list[Image] = [image_to_message(image) for image in camera_images(4)]


def joint_state() -> JointState:
    return JointState(name=list(JOINTS), position=float64_field(np.zeros(len(JOINTS))))


def camera_readers(contract: Contract) -> list[CameraReader]:
    return [
        CameraReader(source, feature)
        for source, feature in zip(contract.images.values(), contract.image_features, strict=True)
    ]


def ping_message(node: Node, contract: Contract) -> Observation:
    """Make the observation that the robot sends while it executes a chunk."""
    images = [reader.read(IMAGES[0]) for reader in camera_readers(contract)]
    prefix = np.zeros((CHUNK_SIZE, len(JOINTS)), np.float32)
    request = Request("0" * 12, 1, 1, 0, False, 1, contract.task, 1, prefix, prefix)
    state = np.zeros(len(JOINTS), np.float32)
    return observation_to_message(request, state, images, node.get_clock().now().to_msg())


def pong_message(node: Node) -> ActionChunk:
    rows = np.zeros((CHUNK_SIZE, len(JOINTS)), np.float32)
    chunk = Chunk("0" * 12, 1, 1, 0, 1, model=rows, robot=rows, policy_version="0" * 16)
    return chunk_to_message(chunk, node.get_clock().now().to_msg())


# -- the bare ping-pong ------------------------------------------------------------------------------------


def plain_node(name: str) -> Node:
    return rclpy.create_node(name, start_parameter_services=False)


def echo() -> None:
    """Answer each ping, until SIGINT."""
    rclpy.init()
    node = plain_node("request_cycle_echo")
    pong = pong_message(node)
    publisher = node.create_publisher(ActionChunk, PONG, EXCHANGE_QOS)
    node.create_subscription(Observation, PING, lambda _: publisher.publish(pong), EXCHANGE_QOS)
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
        node.destroy_node()
        rclpy.try_shutdown()


class Pinger:
    """Publishes pings and takes the time until the pong's callback [ms]."""

    def __init__(self) -> None:
        self.node = plain_node("request_cycle_ping")
        self._arrival_ns = 0
        self._publisher = self.node.create_publisher(Observation, PING, EXCHANGE_QOS)
        self.node.create_subscription(ActionChunk, PONG, self._take, EXCHANGE_QOS)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)

    def _take(self, _: ActionChunk) -> None:
        self._arrival_ns = time.monotonic_ns()

    def wait_for_echo(self) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not (self._publisher.get_subscription_count() and self.node.count_publishers(PONG)):
            if time.monotonic() > deadline_s:
                raise SystemExit("the echo process did not appear")
            time.sleep(0.05)

    def ping(self, message: Observation) -> float | None:
        """Return the time until the pong [ms], None when it was lost."""
        self._arrival_ns = 0
        start_ns = time.monotonic_ns()
        self._publisher.publish(message)
        while not self._arrival_ns and time.monotonic_ns() - start_ns < PONG_TIMEOUT_S * 1e9:
            self._executor.spin_once(timeout_sec=0.1)
        return (self._arrival_ns - start_ns) / 1e6 if self._arrival_ns else None


# -- the request cycle -------------------------------------------------------------------------------------


class Sensors:
    """Plays one robot's sensors and reads its state and its chunks, while the cycle sleeps."""

    def __init__(self, case: Case) -> None:
        self.state: ClientState | None = None
        self.chunks: list[bytes] = []
        self._case = case
        self._frame = 0
        self.node = plain_node("request_cycle_sensors")
        qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
        topics = [f"{ROBOT}/camera_{index}" for index in range(case.cameras)]
        self._cameras = [self.node.create_publisher(Image, topic, qos) for topic in topics]
        self._joints = self.node.create_publisher(JointState, f"{ROBOT}/joint_states", qos)
        chunk_qos = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
        chunk_topic = f"{ROBOT}/{CHUNK_TOPIC}"
        self.node.create_subscription(ActionChunk, chunk_topic, self.chunks.append, chunk_qos, raw=True)
        self.node.create_subscription(ClientState, f"{ROBOT}/{STATE_TOPIC}", self._take_state, LATCHED_QOS)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)

    def _take_state(self, state: ClientState) -> None:
        self.state = state

    def run(self, cycles: int, gap_s: float, between: Callable[[], object]) -> ClientState:
        """Feed the robot until it has merged so many more chunks, `between` in turn; return its state."""
        self._wait_for(lambda state: state.state == ClientState.STREAMING, gap_s, between)
        assert self.state is not None
        target = self.state.chunks_merged + cycles
        return self._wait_for(lambda state: state.chunks_merged >= target, gap_s, between)

    def _wait_for(
        self, done: Callable[[ClientState], bool], gap_s: float, between: Callable[[], object]
    ) -> ClientState:
        deadline_s = time.monotonic() + TIMEOUT_S
        while self.state is None or not done(self.state):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"{self._case.name}: no progress, the robot's last state is {self.state}")
            self._play(gap_s)
            time.sleep(gap_s)
            between()
        return self.state

    def _play(self, gap_s: float) -> None:
        """Deliver one observation, sleep while the robot uses it, then take what came meanwhile."""
        image = IMAGES[self._frame % len(IMAGES)]
        self._frame += 1
        for camera in self._cameras:
            camera.publish(image)
        time.sleep(gap_s)
        # A robot that asked already had a joint state to spare; without this one the next waits for its own.
        if not self._take_chunks():
            self._joints.publish(joint_state())
        time.sleep(max(gap_s, CYCLE_S))
        self._take_chunks()

    def _take_chunks(self) -> int:
        """Take what has come; return how many chunks."""
        before = len(self.chunks)
        for _ in range(4):
            self._executor.spin_once(timeout_sec=0.0)
        return len(self.chunks) - before

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()


def measure(case: Case, pinger: Pinger, rounds: int) -> list[Measurement]:
    """Start server and robot, and take cycles and pings in turns, at each pace."""
    with tempfile.TemporaryDirectory(prefix="request_cycle_") as name:
        folder = Path(name)
        contract_path, manifest = write_deployment(folder, case)
        contract = load_contract(contract_path)
        ping = ping_message(pinger.node, contract)
        parameters = {"autostart": True, "merge_mode": "replace", "buffer_time_s": 60.0}
        server = bringup.server(manifest, name="request_cycle_server")
        servers = ["/request_cycle_server"]
        robot = bringup.robot(contract_path, namespace=ROBOT, servers=servers, parameters=parameters)
        sensors = Sensors(case)
        with running(server.command(), folder / "server.log"), running(robot.command(), folder / "robot.log"):
            size = len(serialize_message(ping))
            results = [
                measure_pace(Measurement(case, pace, size), sensors, pinger, ping, rounds) for pace in GAPS_S
            ]
        sensors.close()
    if case.quality:
        for result in results:
            measure_codecs(result, contract, ping)
    return results


def measure_pace(
    result: Measurement, sensors: Sensors, pinger: Pinger, ping: Observation, rounds: int
) -> Measurement:
    gap_s = GAPS_S[result.pace]
    pongs: list[float | None] = []
    sensors.run(WARM_UP, gap_s, lambda: pinger.ping(ping))
    for _ in range(rounds):
        sensors.chunks.clear()
        state = sensors.run(WINDOW, gap_s, lambda: pongs.append(pinger.ping(ping)))
        result.cycle_p50.append(state.latency_p50_ms)
        result.cycle_p95.append(state.latency_p95_ms)
        chunks = [deserialize_message(data, ActionChunk) for data in sensors.chunks]
        result.inference.append(statistics.median(chunk.inference_ms for chunk in chunks))
    result.bare = [pong for pong in pongs if pong is not None]
    return result


def measure_codecs(result: Measurement, contract: Contract, ping: Observation) -> None:
    """Take the cost of the package's own encoding and decoding, at the cycle's pace, in this process."""
    readers = camera_readers(contract)
    offer = SessionOffer(
        client="",
        robot_namespace=ROBOT,
        robot_type="",
        session_epoch=1,
        schema_version=1,
        action_names=JOINTS,
        state_names=JOINTS,
        images=contract.image_features,
        fps=FPS,
        task="",
        wants_rtc=False,
    )
    gap_s = GAPS_S[result.pace]
    result.encode = median_ms(lambda: [reader.read(IMAGES[0]) for reader in readers], gap_s)
    result.decode = median_ms(lambda: observation_from_message(ping, offer), gap_s)


def median_ms(call: Callable[[], object], gap_s: float, repetitions: int = 30) -> float:
    durations = []
    for _ in range(repetitions):
        time.sleep(gap_s)
        start_ns = time.perf_counter_ns()
        call()
        durations.append((time.perf_counter_ns() - start_ns) / 1e6)
    return statistics.median(durations)


# -- the tables --------------------------------------------------------------------------------------------


def print_cycles(console: Console, pace: str, results: list[Measurement]) -> None:
    table = Table(title=f"Request cycle beside a bare ping-pong of the same bytes, {pace} [ms]")
    table.add_column("observation")
    columns = ("KB", "round trip p50", "p95", "less inference_ms", "bare p50", "p95", "ratio p50", "p95")
    for column in columns:
        table.add_column(column, justify="right")
    for result in results:
        p50, p95 = statistics.median(result.cycle_p50), statistics.median(result.cycle_p95)
        bare_p50, bare_p95 = np.quantile(result.bare, (0.5, 0.95))
        table.add_row(
            result.case.name,
            f"{result.observation_bytes / 1e3:.0f}",
            f"{p50:.2f}",
            f"{p95:.2f}",
            f"{p50 - statistics.median(result.inference):.2f}",
            f"{bare_p50:.2f}",
            f"{bare_p95:.2f}",
            f"{p50 / bare_p50:.2f}",
            f"{p95 / bare_p95:.2f}",
        )
    console.print(table)


def print_shares(console: Console, results: list[Measurement]) -> None:
    table = Table(title="Where a JPEG cycle's time goes, p50 [ms]")
    table.add_column("observation")
    for column in ("encode", "decode", "bare ping-pong", "sum", "round trip", "ratio"):
        table.add_column(column, justify="right")
    for result in results:
        total, bare = statistics.median(result.cycle_p50), statistics.median(result.bare)
        parts = result.encode + result.decode + bare
        values = (result.encode, result.decode, bare, parts, total, total / parts)
        table.add_row(f"{result.case.name}, {result.pace}", *(f"{value:.2f}" for value in values))
    console.print(table)
    console.print(
        "Encode and decode: the package's own functions, one image after the other in one process at "
        "the same pace. What the cycle does at the same time takes it below the sum.",
        style="dim",
    )


def print_openpi(console: Console, results: list[Measurement]) -> None:
    for result in results:
        if result.case == Case(2, QUALITY):
            p50 = statistics.median(result.cycle_p50)
            console.print(
                f"{result.case.name}, {result.pace}: [bold]{p50:.2f} ms[/bold], {p50 / OPENPI_MS:.2f} of the "
                f"{OPENPI_MS} ms that openpi-client needs for the same work on two cores, encode and decode "
                "included."
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--requests",
        type=int,
        default=WINDOW,
        help=f"cycles to measure per observation, rounded up to the robot's window of {WINDOW}",
    )
    parser.add_argument("--case", default="", help="measure only observations whose name contains this")
    parser.add_argument("--echo", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.echo:
        echo()
        return
    if any(os.environ.get(name) != value for name, value in bringup.environment().items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], environment())  # malloc reads it at start
    console = Console()
    rclpy.init()
    results: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="request_cycle_") as folder:
        command = [sys.executable, __file__, "--echo"]
        pinger = Pinger()
        with running(command, Path(folder, "echo.log")):
            pinger.wait_for_echo()
            for case in CASES:
                if arguments.case in case.name:
                    with console.status(f"measuring: {case.name}"):
                        results.extend(measure(case, pinger, math.ceil(arguments.requests / WINDOW)))
    rclpy.try_shutdown()
    console.print(METHOD, "\n", highlight=False)
    for pace in GAPS_S:
        print_cycles(console, pace, [result for result in results if result.pace == pace])
    if encoded := [result for result in results if result.case.quality]:
        print_shares(console, encoded)
        print_openpi(console, encoded)


if __name__ == "__main__":
    main()
