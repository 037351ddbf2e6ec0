# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Images survive their encoding, and data that is no image is refused with the reason."""

from __future__ import annotations

import io
import runpy
import struct
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image as PillowImage

from remote_inference.base.wire.images.encodings import jpeg, jpeg as jpeg_encoding
from remote_inference.base.wire.images.encodings.jpeg import JPEG_LIBRARIES, decode_jpeg, encode_jpeg
from remote_inference.base.wire.images.encodings.png import decode_png, encode_png
from remote_inference.base.wire.images.images import ImageError

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "orange": (255, 128, 0)}


@pytest.fixture(params=JPEG_LIBRARIES, ids=lambda library: library.name, autouse=True)
def jpeg_library(request, monkeypatch):
    monkeypatch.setattr(jpeg_encoding, "_JPEG", request.param)
    return request.param


def smooth(height: int = 48, width: int = 64) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return np.stack([4 * y, 3 * x, 255 - 2 * (x + y)], axis=-1).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("colour", COLOURS.values(), ids=COLOURS)
def test_a_colour_stays_the_same_colour_through_jpeg(colour):
    decoded = decode_jpeg(encode_jpeg(np.full((32, 48, 3), colour, np.uint8), 90))
    assert np.abs(decoded.astype(int) - colour).max() <= 4


def test_jpeg_files_hold_red_where_other_readers_look_for_it():
    encoded = encode_jpeg(np.full((16, 16, 3), COLOURS["red"], np.uint8), 90)
    red, green, blue = PillowImage.open(io.BytesIO(encoded)).convert("RGB").getpixel((8, 8))
    assert red > 250
    assert max(green, blue) < 5


def test_jpeg_keeps_shape_and_stays_close():
    image = smooth()
    decoded = decode_jpeg(encode_jpeg(image, 95))
    assert decoded.shape == image.shape
    assert decoded.dtype == np.uint8
    assert np.abs(decoded.astype(int) - image).mean() < 3


def test_jpeg_encodes_views_that_are_not_contiguous():
    assert decode_jpeg(encode_jpeg(smooth()[::-1, ::2], 90)).shape == (48, 32, 3)


def test_a_lower_quality_takes_fewer_bytes():
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    assert len(encode_jpeg(noise, 30)) < len(encode_jpeg(noise, 90))


def test_a_greyscale_jpeg_decodes_to_rgb():
    out = io.BytesIO()
    PillowImage.fromarray(np.full((16, 24), 200, np.uint8)).save(out, "JPEG")
    assert np.array_equal(decode_jpeg(out.getvalue()), np.full((16, 24, 3), 200, np.uint8))


@pytest.mark.parametrize("keep", [0, 2, 20, 200, -2], ids=lambda keep: f"[:{keep}]")
def test_a_truncated_jpeg_is_refused(keep):
    encoded = encode_jpeg(smooth(), 90)
    with pytest.raises(ImageError, match=r"JPEG: \d+ bytes cannot be decoded"):
        decode_jpeg(encoded[:keep])


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_image_are_refused(data):
    with pytest.raises(ImageError, match=f"JPEG: {len(data)} bytes"):
        decode_jpeg(data)
    with pytest.raises(ImageError, match=f"PNG: {len(data)} bytes"):
        decode_png(data)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_corrupt_jpeg_is_an_image_or_an_image_error(data):
    encoded = bytearray(encode_jpeg(smooth(), 90))
    for _ in range(data.draw(st.integers(1, 8))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_jpeg(encoded)
    except ImageError:
        return
    assert decoded.dtype == np.uint8
    assert decoded.shape[2] == 3


# One side is too long, or both sides are allowed and their product is not.
ABSURD = [(60000, 100), (8191, 8191), (3073, 4096)]


@pytest.mark.parametrize(("height", "width"), ABSURD)
def test_an_absurd_jpeg_is_refused_before_it_is_decoded(jpeg_library, monkeypatch, height, width):
    encoded = bytearray(encode_jpeg(smooth(), 90))
    frame = encoded.index(b"\xff\xc0")  # start of frame: length, precision, height, width
    struct.pack_into(">HH", encoded, frame + 5, height, width)
    monkeypatch.setattr(type(jpeg_library), "decode", lambda *_: pytest.fail("decoded"))
    with pytest.raises(
        ImageError,
        match=f"found {height} x {width} pixels, expected 1 to 8192 a side and at most 12582912 in all",
    ):
        decode_jpeg(encoded)


def test_a_camera_of_12_megapixels_passes():
    assert decode_jpeg(encode_jpeg(np.zeros((3072, 4096, 3), np.uint8), 90)).shape == (3072, 4096, 3)


@pytest.mark.parametrize(
    ("image", "found"),
    [
        (np.zeros((4, 5), np.uint8), r"uint8 \[4, 5\]"),
        (np.zeros((4, 5, 4), np.uint8), r"uint8 \[4, 5, 4\]"),
        (np.zeros((4, 5, 3), np.float32), r"float32 \[4, 5, 3\]"),
    ],
)
def test_jpeg_takes_only_uint8_rgb(image, found):
    with pytest.raises(ImageError, match=rf"found {found}, expected uint8 \[height, width, 3\]"):
        encode_jpeg(image, 90)


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (1, 8193, 3)])
def test_jpeg_takes_no_empty_and_no_absurd_image(shape):
    with pytest.raises(ImageError, match=f"found {shape[0]} x {shape[1]} pixels, expected 1 to 8192 a side"):
        encode_jpeg(np.zeros(shape, np.uint8), 90)


@pytest.mark.parametrize("quality", [0, 101])
def test_jpeg_quality_is_1_to_100(quality):
    with pytest.raises(ImageError, match=f"found {quality}, expected 1 to 100"):
        encode_jpeg(smooth(), quality)


def test_pillow_is_used_where_simplejpeg_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    libraries = runpy.run_path(jpeg.__file__)["JPEG_LIBRARIES"]
    assert [library.name for library in libraries] == ["Pillow"]


@settings(max_examples=30, deadline=None)
@given(arrays.arrays(np.uint16, arrays.array_shapes(min_dims=2, max_dims=2, max_side=20)))
def test_depth_survives_png_exactly(depth):
    decoded = decode_png(encode_png(depth))
    assert decoded.dtype == np.uint16
    assert np.array_equal(decoded, depth)


def test_a_truncated_or_corrupt_png_is_refused():
    encoded = encode_png(np.random.default_rng(0).integers(0, 65536, (64, 64), np.uint16))
    for data in (encoded[:20], encoded[: len(encoded) // 2], encoded[:60] + bytes(40) + encoded[100:]):
        with pytest.raises(ImageError, match=r"PNG: .* cannot be decoded"):
            decode_png(data)


def test_only_16_bit_greyscale_png_is_depth():
    out = io.BytesIO()
    PillowImage.fromarray(smooth()).save(out, "PNG")
    with pytest.raises(ImageError, match="found 8 bits of colour type 2, expected 16 bits of greyscale"):
        decode_png(out.getvalue())


@pytest.mark.parametrize(("height", "width"), ABSURD)
def test_an_absurd_png_is_refused_before_it_is_decoded(height, width):
    header = struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)
    chunk = b"IHDR" + header
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    with pytest.raises(ImageError, match=f"found {height} x {width} pixels"):
        decode_png(data)


@pytest.mark.parametrize("image", [np.zeros((4, 5), np.uint8), np.zeros((4, 5, 1), np.uint16)])
def test_png_takes_only_uint16_depth(image):
    with pytest.raises(ImageError, match=r"expected uint16 \[height, width\]"):
        encode_png(image)
