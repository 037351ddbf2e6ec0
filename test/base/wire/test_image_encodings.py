# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What every image encoding promises, and how a contract names one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.image_source import (
    BY_COLOUR,
    COMPRESSED_IMAGE,
    IMAGE,
    ImageSource,
    find_encoding,
)
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import ImageError

PICTURES = {
    "rgb": np.indices((16, 24)).sum(0)[..., None].astype(np.uint8) * np.array([1, 2, 3], np.uint8),
    "depth": np.indices((16, 24)).prod(0).astype(np.uint16) * 37,
}
ANSWERS = {"rgb": "jpeg", "depth": "png"}


def read_source(**changes: Any) -> ImageSource:
    content = {"topic": "front", "type": IMAGE, **changes}
    return parse_document(content, ImageSource, "camera")


@pytest.mark.parametrize("name", IMAGE_ENCODINGS.names)
def test_an_image_comes_back_with_its_size_and_depth_without_loss(name: str):
    encoding = IMAGE_ENCODINGS.get(name)
    for colour in encoding.colours:
        picture = PICTURES[colour]
        data = encoding.encode(picture, encoding.options())
        assert encoding.size(data) == picture.shape[:2]
        decoded = encoding.decode(data)
        assert (decoded.shape, decoded.dtype) == (picture.shape, picture.dtype)
        assert colour == "rgb" or np.array_equal(decoded, picture)


@pytest.mark.parametrize("name", IMAGE_ENCODINGS.names)
def test_what_is_no_image_is_refused(name: str):
    encoding = IMAGE_ENCODINGS.get(name)
    for read in (encoding.decode, encoding.size):
        with pytest.raises(ImageError):
            read(b"no image")


@pytest.mark.parametrize("colour", ["rgb", "depth"])
def test_without_a_name_the_colour_decides(colour: str):
    assert read_source(colour=colour).travels_as == ANSWERS[colour] == BY_COLOUR[colour]


def test_a_named_encoding_reads_its_own_options():
    source = read_source(encoding="jpeg", options={"quality": 40})
    assert (source.travels_as, source.is_encoded_here, source.read_options().quality) == ("jpeg", True, 40)
    assert read_source(jpeg_quality=70).read_options().quality == 70
    assert not read_source(jpeg_quality=0).is_encoded_here
    assert not read_source(type=COMPRESSED_IMAGE, encoding="jpeg").is_encoded_here


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"encoding": "gif"}, "encoding: found 'gif', expected 'jpeg' or 'png'"),
        ({"encoding": "png"}, "found 'png' for rgb, expected one that carries it: png carries depth"),
        ({"encoding": "jpeg", "options": {"quality": 101}}, "quality: found 101, expected at most 100"),
        ({"encoding": "jpeg", "options": {"qualty": 9}}, "qualty: unknown key, did you mean 'quality'?"),
        ({"encoding": "jpeg", "jpeg_quality": 90}, "encoding: found 'jpeg' and jpeg_quality, expected one"),
        ({"options": {"quality": 9}}, "options: found {'quality': 9}, expected them with `encoding`"),
    ],
)
def test_an_encoding_that_cannot_be_used_is_refused(changes: dict[str, Any], problem: str):
    with pytest.raises(DocumentError) as refusal:
        read_source(**changes)
    assert problem in str(refusal.value)


@pytest.mark.parametrize(
    ("image_format", "encoding"),
    [
        ("jpeg", "jpeg"),
        ("JPG", "jpeg"),
        ("rgb8; jpeg compressed bgr8", "jpeg"),
        ("16UC1; png compressed ", "png"),
        ("16UC1; compressedDepth png", None),
        ("h264", None),
        ("", None),
    ],
)
def test_the_format_of_a_message_tells_its_encoding(image_format: str, encoding: str | None):
    assert find_encoding(image_format) == encoding
