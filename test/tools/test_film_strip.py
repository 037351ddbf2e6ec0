# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo's frames.png shows what its cameras saw in one episode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage

from remote_inference.bags.storage.bag_records import BagError, BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.tools.demo.results import draw_film_strip
from support.recording.synthetic_run import jpeg

CAMERAS = {"/arm/wrist": (0, 80, 130), "/arm/front": (120, 60, 0)}


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """A bag with an image of each camera every 100 ms for 4 s; in the last 2 s both are white."""
    topics = [BagTopic(name, "sensor_msgs/msg/CompressedImage") for name in CAMERAS]
    with BagWriter(tmp_path / "bag", topics) as writer:
        for number in range(40):
            for name, colour in CAMERAS.items():
                shown = jpeg(name, colour if number < 20 else (255, 255, 255))
                message = serialize_message(CompressedImage(format="jpeg", data=shown))
                writer.write(name, 10**18 + number * 10**8, message)
    return tmp_path / "bag"


def share_of(colour: tuple[int, int, int], image: np.ndarray) -> float:
    return float((np.abs(image.astype(int) - colour).max(axis=2) <= 40).mean())


def test_there_is_a_row_for_each_camera_of_the_part_that_is_shown(bag: Path, tmp_path: Path) -> None:
    draw_film_strip(bag, tuple(CAMERAS), (0.0, 2.0), tmp_path / "frames.png")
    image = np.asarray(Image.open(tmp_path / "frames.png").convert("RGB"))
    assert image.shape[1] == 8 * 248 + 8
    half = len(image) // 2
    wrist, front = CAMERAS.values()
    for own, other, colour in ((image[:half], image[half:], wrist), (image[half:], image[:half], front)):
        assert share_of(colour, own) > 0.5
        assert share_of(colour, other) < 0.01


def test_a_camera_without_an_image_in_that_part_is_named(bag: Path, tmp_path: Path) -> None:
    with pytest.raises(BagError, match=r"/arm/wrist has no image from 70\.00 to 80\.00 s"):
        draw_film_strip(bag, tuple(CAMERAS), (70.0, 80.0), tmp_path / "frames.png")
