# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures memory and speed of every verb that reads a bag, on a large one of a simulated robot.

Run `make bench-bags [ARGS="--gigabytes 0.2"]`. The robot is the real engine in simulated time, with one
camera of 640x480 JPEG images at its control rate; bag and verbs are the package's own. Each verb runs in a
process of its own. Its speed is how many seconds of the recording it handles in a second.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "test"))

import numpy as np
from PIL import Image
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage

from remote_inference.core.contract.contract import Contract
from remote_inference.core.documents.document import parse_document
from remote_inference.msg import ClientState
from remote_inference.recording.bags.bag_records import BagTopic
from remote_inference.recording.bags.bag_writer import BagWriter
from support.builders import contract_document, make_config
from support.recording.decision_bag import NS, OWN, Message, SimulatedRecorder
from support.robot.simulation import World

CAMERA = "front/image_raw/compressed"
IMAGES, PAN_PX = 80, 320  # of one pan of the camera
PIECE_S = 10.0  # of simulated time between two looks at the bag's size
MAX_MEGABYTES = 500
MIN_SPEED = 5.0
TOPICS = {
    f"{OWN}/decisions": "remote_inference/msg/Decisions",
    f"{OWN}/executed": "remote_inference/msg/ExecutedAction",
    f"{OWN}/observation": "remote_inference/msg/Observation",
    f"{OWN}/chunk": "remote_inference/msg/ActionChunk",
    f"{OWN}/state": "remote_inference/msg/ClientState",
    f"{NS}/joint_states": "sensor_msgs/msg/JointState",
    f"{NS}/{CAMERA}": "sensor_msgs/msg/CompressedImage",
    f"{NS}/commands": "std_msgs/msg/Float64MultiArray",
}


@dataclass(frozen=True)
class Cost:
    """What one verb took."""

    seconds: float
    megabytes: float  # most memory at a time
    code: int  # exit code


def document() -> dict[str, object]:
    camera = {"topic": CAMERA, "type": "sensor_msgs/msg/CompressedImage"}
    return {**contract_document(), "images": {"front": camera}}


def make_images() -> Iterator[CompressedImage]:
    """Yield JPEG images of a camera that pans to and fro, 640x480 and some 60 KB each, without end."""
    random = np.random.default_rng(0)
    coarse = Image.fromarray(random.integers(0, 255, (48, 96, 3), np.uint8))
    scene = np.asarray(coarse.resize((960, 480), Image.Resampling.BICUBIC), np.int16)
    made = []
    for left in range(0, PAN_PX, PAN_PX // IMAGES):
        view = scene[:, left : left + 640]
        noisy = np.clip(view + random.normal(0, 2, view.shape), 0, 255).astype(np.uint8)
        data = io.BytesIO()
        Image.fromarray(noisy).save(data, "JPEG", quality=90)
        image = CompressedImage(format="jpeg", data=data.getvalue())
        image.header.frame_id = "front"
        made.append(image)
    return itertools.cycle([*made, *reversed(made)])


def camera_messages(world: World, until_ns: int, images: Iterator[CompressedImage]) -> Iterator[Message]:
    """Yield the images of the piece of time that the world has just played."""
    for now_ns in range(until_ns - round(PIECE_S * 1e9), until_ns, world.period_ns):
        yield now_ns, f"{NS}/{CAMERA}", next(images)


def state_message_of(world: World) -> Message:
    """Return what the robot's node tells of its state now."""
    engine = world.engine
    state = ClientState(
        state=int(engine.machine.state),
        state_name=engine.machine.state.name,
        cause=engine.machine.cause,
        paused=engine.paused,
        chunks_merged=engine.counters.chunks_merged,
    )
    return world.now_ns, f"{OWN}/state", state


def generate(path: Path, size: int) -> float:
    """Write a bag of `size` bytes; return how long its recording is [s]."""
    images = make_images()
    contract = parse_document(document(), Contract, "big_bag.contract.yaml")
    world = World(make_config(), contract=contract)
    recorder = SimulatedRecorder(world, lambda: (next(images),), joints=True)
    topics = [BagTopic(name, kind) for name, kind in TOPICS.items()]
    with BagWriter(path, topics, contract=json.dumps(document())) as bag:
        while sum(file.stat().st_size for file in path.glob("*.mcap")) < size:
            world.run(PIECE_S)
            messages = [
                *recorder.take(),
                state_message_of(world),
                *camera_messages(world, world.now_ns, images),
            ]
            for now_ns, topic, message in sorted(messages, key=lambda message: message[0]):
                bag.write(topic, now_ns, serialize_message(message))
    return (world.now_ns - world.start_ns) / 1e9


def measure(arguments: Sequence[str]) -> Cost:
    """Run a verb in a process that also tells its memory."""
    script = (
        "import resource, sys\n"
        "from remote_inference.cli.program import main\n"
        "code = main(sys.argv[1:])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    begin_s = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - begin_s
    lines = ended.stderr.splitlines()
    if ended.returncode not in {0, 1} or not lines or not lines[-1].isdigit():
        raise SystemExit(f"remote-inference {' '.join(arguments)}: {ended.stderr.strip()}")
    return Cost(seconds, int(lines[-1]) / 1024, ended.returncode)


def verbs(folder: Path, duration_s: float) -> dict[str, list[str]]:
    """Return what is measured, by the name in the table."""
    middle = str(duration_s / 2)
    return {
        "verify": ["verify"],
        "explain": ["explain", "--out", str(folder / "report.png")],
        "explain --at": ["explain", "--at", middle],
        "explain --html": ["explain", "--html", str(folder / "run.html")],
        "replay --decisions": ["replay", "--decisions"],
        "export --lerobot-v3": ["export", "--lerobot-v3", str(folder / "lerobot")],
        "export --parquet": ["export", "--parquet", str(folder / "parquet")],
        "export --csv": ["export", "--csv", str(folder / "csv")],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the bag (default 2)")
    size = round(parser.parse_args().gigabytes * 1e9)
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bag = folder / "bag"
        duration_s = generate(bag, size)
        written = sum(file.stat().st_size for file in bag.glob("*.mcap"))
        print(f"{written / 1e9:.2f} GB, {duration_s:.0f} s of robot time\n")
        print("| verb | time [s] | x real time | most memory [MB] | exit code |\n|---|---:|---:|---:|---:|")
        for verb, (first, *rest) in verbs(folder, duration_s).items():
            cost = measure([first, *rest, str(bag)])
            speed = duration_s / cost.seconds
            failed |= cost.megabytes > MAX_MEGABYTES or speed < MIN_SPEED or cost.code != 0
            print(
                f"| `{verb}` | {cost.seconds:.1f} | {speed:.0f} | {cost.megabytes:.0f} | {cost.code} |",
                flush=True,
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
