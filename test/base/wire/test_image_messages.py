# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""sensor_msgs/Image in every encoding we promise, with padding and either byte order."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sensor_msgs.msg import Image

from remote_inference.base.wire.images import images
from remote_inference.base.wire.images.images import ImageError, image_from_message, image_to_message

RED = {"rgb8": (255, 0, 0), "bgr8": (0, 0, 255), "rgba8": (255, 0, 0, 9), "bgra8": (0, 0, 255, 9)}


def image(pixels: np.ndarray, encoding: str, padding: int = 0, bigendian: bool = False) -> Image:
    """Write pixels `[height, width, ...]` row by row with padding bytes of 0xAA."""
    height, width = pixels.shape[:2]
    rows = [row.tobytes() + b"\xaa" * padding for row in pixels]
    return Image(
        height=height,
        width=width,
        encoding=encoding,
        step=len(rows[0]),
        is_bigendian=bigendian,
        data=array("B", b"".join(rows)),
    )


@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize("encoding", RED)
def test_red_is_red_in_every_colour_encoding(encoding, padding):
    pixels = np.full((4, 6, len(RED[encoding])), RED[encoding], np.uint8)
    rgb = image_from_message(image(pixels, encoding, padding))
    assert rgb.dtype == np.uint8
    assert np.array_equal(rgb, np.full((4, 6, 3), (255, 0, 0)))
    assert rgb.flags.c_contiguous


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(["rgb8", "bgr8", "rgba8", "bgra8"]),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 7),
)
def test_every_pixel_keeps_its_place_and_channels(encoding, height, width, padding):
    pixels = np.random.default_rng(7).integers(0, 256, (height, width, len(RED[encoding])), np.uint8)
    order = [0, 1, 2] if encoding.startswith("rgb") else [2, 1, 0]
    assert np.array_equal(image_from_message(image(pixels, encoding, padding)), pixels[..., order])


def test_mono8_becomes_grey():
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert np.array_equal(image_from_message(image(grey, "mono8", 3)), np.stack([grey] * 3, axis=-1))


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("bigendian", [False, True])
def test_16uc1_keeps_its_millimetres_in_either_byte_order(bigendian, padding):
    depth = np.array([[0, 1, 256], [1000, 40000, 65535]], np.uint16)
    stored = depth.astype(">u2" if bigendian else "<u2")
    result = image_from_message(image(stored, "16UC1", padding, bigendian))
    assert result.dtype == np.dtype(np.uint16)
    assert result.dtype.isnative
    assert np.array_equal(result, depth)


@pytest.mark.parametrize("bigendian", [False, True])
def test_32fc1_becomes_millimetres_and_unmeasured_pixels_become_0(bigendian):
    metres = np.array(
        [[0.0, 0.001, 1.2345, 65.535], [np.nan, np.inf, -np.inf, 1e38], [-1.0, 70.0, 0.4996, 3]]
    )
    result = image_from_message(
        image(metres.astype(">f4" if bigendian else "<f4"), "32FC1", bigendian=bigendian)
    )
    assert result.dtype == np.uint16
    assert result.tolist() == [[0, 1, 1234, 65535], [0, 0, 0, 65535], [0, 65535, 500, 3000]]


@pytest.mark.parametrize("encoding", ["bayer_rggb8", "yuv422_yuy2", "rgb16", "8UC3", ""])
def test_other_encodings_are_refused_by_name(encoding, monkeypatch):
    monkeypatch.setattr(images, "_BRIDGE", None)
    with pytest.raises(ImageError, match=f"found '{encoding}', expected one of rgb8, bgr8"):
        image_from_message(image(np.zeros((2, 2, 3), np.uint8), encoding))


def test_a_wrong_data_length_is_refused_with_numbers():
    message = image(np.zeros((4, 5, 3), np.uint8), "rgb8")
    message.data = message.data[:-1]
    with pytest.raises(ImageError, match="data: found 59 bytes, expected height 4 x step 15 = 60"):
        image_from_message(message)


def test_a_step_shorter_than_a_row_is_refused_with_numbers(monkeypatch):
    message = image(np.zeros((4, 5, 3), np.uint8), "rgb8")
    message.width = 6
    with pytest.raises(ImageError, match="step: found 15 bytes, expected at least 18 for 6 pixels of rgb8"):
        image_from_message(message)


def test_an_empty_image_is_refused():
    with pytest.raises(ImageError, match="found 0 x 0 pixels"):
        image_from_message(Image(encoding="rgb8"))


def test_an_absurd_image_is_refused():
    with pytest.raises(ImageError, match=r"found 8191 x 8191 pixels, expected .* at most 12582912 in all"):
        image_from_message(Image(encoding="rgb8", height=8191, width=8191))


def test_rgb8_is_a_view_of_the_message():
    message = image(np.zeros((4, 5, 3), np.uint8), "rgb8")
    rgb = image_from_message(message)
    assert np.shares_memory(rgb, np.frombuffer(message.data, np.uint8))
    assert not rgb.flags.writeable


@pytest.mark.parametrize(
    ("pixels", "encoding"),
    [
        (np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8), "rgb8"),
        (np.random.default_rng(0).integers(0, 65536, (5, 7), np.uint16), "16UC1"),
    ],
)
def test_images_survive_a_message(pixels, encoding):
    message = image_to_message(pixels)
    assert (message.height, message.width, message.encoding) == (5, 7, encoding)
    assert message.step == pixels.nbytes // 5
    assert isinstance(message.data, array)
    assert np.array_equal(image_from_message(message), pixels)


def test_a_view_that_is_not_contiguous_survives_a_message():
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)[::2, ::-1]
    assert np.array_equal(image_from_message(image_to_message(pixels)), pixels)


@pytest.mark.parametrize("pixels", [np.zeros((4, 5, 4), np.uint8), np.zeros((4, 5), np.float32)])
def test_only_rgb_and_depth_become_messages(pixels):
    with pytest.raises(ImageError, match=rf"found {pixels.dtype} .*, expected uint"):
        image_to_message(pixels)


class TestCvBridge:
    """Where cv_bridge is installed it converts colour, with the same bytes as the package's table."""

    @pytest.mark.parametrize("encoding", [*RED, "mono8"])
    def test_it_gives_the_same_bytes(self, encoding, monkeypatch):
        pytest.importorskip("cv_bridge", reason="needs cv_bridge, which comes with a full ROS 2 installation")
        shape = (5, 7, len(RED[encoding])) if encoding in RED else (5, 7)
        message = image(np.random.default_rng(1).integers(0, 256, shape, np.uint8), encoding)
        bridged = image_from_message(message)
        monkeypatch.setattr(images, "_BRIDGE", None)
        assert np.array_equal(bridged, image_from_message(message))

    def test_it_converts_what_the_table_does_not_know(self, monkeypatch):
        grey = np.full((2, 2, 3), 128, np.uint8)
        monkeypatch.setattr(images, "_BRIDGE", FakeBridge(grey))
        assert np.array_equal(image_from_message(image(np.zeros((2, 2, 2), np.uint8), "yuv422_yuy2")), grey)

    def test_its_errors_name_the_encoding(self, monkeypatch):
        monkeypatch.setattr(images, "_BRIDGE", FakeBridge(TypeError("not a colour format")))
        with pytest.raises(ImageError, match=r"encoding '8UC3': cv_bridge cannot .* not a colour format"):
            image_from_message(image(np.zeros((2, 2, 3), np.uint8), "8UC3"))

    def test_padded_rows_do_not_go_through_it(self, monkeypatch):
        monkeypatch.setattr(images, "_BRIDGE", FakeBridge(AssertionError("shifted rows")))
        pixels = np.full((4, 6, 3), RED["bgr8"], np.uint8)
        assert image_from_message(image(pixels, "bgr8", padding=1))[3, 5].tolist() == [255, 0, 0]


class FakeBridge:
    """Returns or raises a given answer."""

    def __init__(self, answer):
        self.answer = answer

    def imgmsg_to_cv2(self, message, encoding):
        assert encoding == "rgb8"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
