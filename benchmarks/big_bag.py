# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures memory and speed of every verb that reads a bag, on a large one of a simulated robot.

Run `make bench-bags [ARGS="--gigabytes 0.2 --hours 1"]`. The robot is the real engine in simulated time; bags
and verbs are the package's own. One bag has a camera of 640x480 JPEG images at the control rate and is large,
the other has a small image now and then and is long. Each verb runs in a process of its own. Its speed is how
many seconds of the recording it handles in a second.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "test"))

import numpy as np
from PIL import Image
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage

from remote_inference.bags.storage.bag_records import BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.bags.storage.mcap_records import bag_size, file_number
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from support.builders import make_config
from support.recording.asked_run import write_policy
from support.recording.decision_bag import NS, Message, SimulatedRecorder
from support.recording.simulated_run import CAMERA, TOPICS, document, state_message_of
from support.robot.simulation import World

IMAGES, PAN_PX = 80, 320  # of one pan of the camera
LARGE, SMALL = (640, 480), (64, 48)  # px
SELDOM_S = 10.0  # between two images of the long bag
PIECE_S = 10.0  # of simulated time between two looks at the bag's size
MAX_MEGABYTES = 500
MIN_SPEED = 5.0


@dataclass(frozen=True)
class Cost:
    """What one verb took."""

    seconds: float
    megabytes: float  # most memory at a time
    code: int  # exit code


def make_images(size: tuple[int, int]) -> Iterator[CompressedImage]:
    """Yield JPEG images of a camera that pans to and fro without end; 640x480 are some 60 KB each."""
    random = np.random.default_rng(0)
    coarse = Image.fromarray(random.integers(0, 255, (48, 96, 3), np.uint8))
    scene = np.asarray(coarse.resize((960, 480), Image.Resampling.BICUBIC), np.int16)
    made = []
    for left in range(0, PAN_PX, PAN_PX // IMAGES):
        view = scene[:, left : left + 640]
        noisy = np.clip(view + random.normal(0, 2, view.shape), 0, 255).astype(np.uint8)
        data = io.BytesIO()
        Image.fromarray(noisy).resize(size).save(data, "JPEG", quality=90)
        image = CompressedImage(format="jpeg", data=data.getvalue())
        image.header.frame_id = "front"
        made.append(image)
    return itertools.cycle([*made, *reversed(made)])


def camera_messages(until_ns: int, period_ns: int, images: Iterator[CompressedImage]) -> Iterator[Message]:
    """Yield the images of the piece of time that the world has just played."""
    for now_ns in range(until_ns - round(PIECE_S * 1e9), until_ns, period_ns):
        yield now_ns, f"{NS}/{CAMERA}", next(images)


def generate(path: Path, *, size: float = math.inf, seconds: float = math.inf) -> float:
    """Write a bag; return how long its recording is [s].

    size: bytes at which it ends, with a large image in each tick. seconds: after which it ends, with few and
    small images.
    """
    has_few = seconds < math.inf
    images = make_images(SMALL if has_few else LARGE)
    contract = parse_document(document(), Contract, "big_bag.contract.yaml")
    world = World(make_config(), contract=contract)
    recorder = SimulatedRecorder(world, lambda: (next(images),), joints=True)
    topics = [BagTopic(name, kind) for name, kind in TOPICS.items()]
    camera_period_ns = round(SELDOM_S * 1e9) if has_few else world.period_ns
    with BagWriter(path, topics, contract=json.dumps(document())) as bag:
        while bag_size(path) < size and world.now_ns - world.start_ns < seconds * 1e9:
            world.run(PIECE_S)
            messages = [
                *recorder.take(),
                state_message_of(world),
                *camera_messages(world.now_ns, camera_period_ns, images),
            ]
            for now_ns, topic, message in sorted(messages, key=lambda message: message[0]):
                bag.write(topic, now_ns, serialize_message(message))
    return (world.now_ns - world.start_ns) / 1e9


def measure(arguments: Sequence[str]) -> Cost:
    """Run a verb in a process that also tells its memory."""
    script = (
        "import resource, sys\n"
        "from remote_inference.tools.cli import main\n"
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


def cut_off(bag: Path, path: Path) -> Path:
    """Leave a copy of a bag as a recorder that was killed would have; its last file ends within a chunk."""
    path.mkdir()
    files = sorted(bag.glob("*.mcap"), key=file_number)
    for file in files:
        shutil.copyfile(file, path / file.name)
    os.truncate(path / files[-1].name, files[-1].stat().st_size * 99 // 100)
    return path


def verbs(folder: Path, bag: Path, duration_s: float) -> dict[str, list[str]]:
    """Return what is measured, by the name in the table."""
    out, policy = folder / f"{bag.name}_out", write_policy(folder)
    out.mkdir()
    asked = {
        "verify": ["verify"],
        "explain": ["explain", "--out", str(out / "report.png")],
        "explain --at": ["explain", "--at", str(duration_s / 2)],
        "explain --html": ["explain", "--html", str(out / "run.html")],
        "replay --decisions": ["replay", "--decisions"],
        "replay --policy": ["replay", "--policy", str(policy)],
        "export --lerobot-v3": ["export", "--lerobot-v3", str(out / "lerobot")],
        "export --parquet": ["export", "--parquet", str(out / "parquet")],
        "export --csv": ["export", "--csv", str(out / "csv")],
    }
    cut = cut_off(bag, folder / f"{bag.name}_cut")
    return {
        **{name: [*words, str(bag)] for name, words in asked.items()},
        "verify --repair": ["verify", str(cut), "--repair", str(out / "repaired")],
    }


def measure_all(folder: Path, bag: Path, duration_s: float) -> bool:
    """Print a table of what each verb takes; return whether all reach the goals."""
    print(f"\n{bag_size(bag) / 1e9:.2f} GB, {duration_s:.0f} s of robot time\n")
    print("| verb | time [s] | x real time | most memory [MB] | exit code |\n|---|---:|---:|---:|---:|")
    reached = True
    for verb, words in verbs(folder, bag, duration_s).items():
        cost = measure(words)
        speed = duration_s / cost.seconds
        reached &= cost.megabytes <= MAX_MEGABYTES and speed >= MIN_SPEED and cost.code == 0
        print(
            f"| `{verb}` | {cost.seconds:.1f} | {speed:.0f} | {cost.megabytes:.0f} | {cost.code} |",
            flush=True,
        )
    return reached


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the large bag (default 2)")
    parser.add_argument("--hours", type=float, default=10.0, help="length of the long bag (default 10)")
    asked = parser.parse_args()
    reached = True
    lengths = {"large": {"size": asked.gigabytes * 1e9}, "long": {"seconds": asked.hours * 3600}}
    for name, length in lengths.items():
        with tempfile.TemporaryDirectory() as folder:
            bag = Path(folder) / name
            # It remembers all it played, which what starts from this process would count as its own.
            with get_context("spawn").Pool(1) as pool:
                duration_s = pool.apply(generate, (bag,), length)
            reached &= measure_all(Path(folder), bag, duration_s)
    return int(not reached)


if __name__ == "__main__":
    sys.exit(main())
