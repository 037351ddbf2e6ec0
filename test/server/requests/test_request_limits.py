# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A request beyond the manifest's limits is refused by its sizes, before anything is decoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message

from remote_inference.base.exchange import SessionOffer
from remote_inference.base.policy import PolicyError, PolicyObservation
from remote_inference.base.wire import observation as wire_observation
from remote_inference.base.wire.arrays import WireError, bytes_field
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.msg import Observation
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_batch, sample_requests
from support.builders import make_spec

SPEC = make_spec(image_shapes={"rgb": (48, 64, 3), "depth": (32, 24, 1)})
PIXELS = 48 * 64 + 32 * 24


def make_manifest(**changes: Any) -> Manifest:
    return Manifest(model=ModelSource(backend="hold", path="x"), **changes)


def sample() -> tuple[Observation, SessionOffer]:
    (data, *_), offer = sample_batch(SPEC, "wave")
    return deserialize_message(data, Observation), offer


def read(
    message: Observation, offer: SessionOffer, image_shapes: Any = None, **limits: int
) -> PolicyObservation:
    spec = make_spec(image_shapes=SPEC.image_shapes if image_shapes is None else image_shapes)
    decoder = RequestDecoder(make_manifest(**limits), spec)
    _, arrived = decoder.request(serialize_message(message))
    return decoder.observation(arrived, offer)


@pytest.fixture
def no_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test when an image is decoded."""
    monkeypatch.setattr(wire_observation, "_decode_image", lambda image: pytest.fail(f"decoded {image.what}"))


@pytest.mark.usefixtures("no_decoding")
def test_a_request_with_too_many_pixels_is_refused_undecoded():
    expected = f"images: found {PIXELS} pixels in all, expected {PIXELS - 1} at most \\(max_request_pixels\\)"
    with pytest.raises(WireError, match=expected):
        read(*sample(), max_request_pixels=PIXELS - 1)


@pytest.mark.usefixtures("no_decoding")
def test_cameras_that_the_policy_does_not_use_count():
    with pytest.raises(WireError, match="max_request_pixels"):
        read(*sample(), image_shapes={}, max_request_pixels=PIXELS - 1)


@pytest.mark.usefixtures("no_decoding")
def test_raw_images_count_by_their_header():
    message, offer = sample()
    message.images.pop(0)
    message.raw_images = [image_to_message(np.zeros((480, 640, 3), np.uint8))]
    features = [image if image.name == "depth" else type(image)(image.name, "raw") for image in offer.images]
    with pytest.raises(WireError, match=f"found {480 * 640 + 32 * 24} pixels in all"):
        read(message, type(offer)(**{**vars(offer), "images": tuple(features)}), max_request_pixels=480 * 640)


@pytest.mark.usefixtures("no_decoding")
@pytest.mark.parametrize("field", ["images", "state", "prefix_model", "history_state", "extras"])
def test_a_request_of_too_many_bytes_is_refused_undecoded(field: str):
    message, offer = sample()
    if field == "images":
        message.images[0].data = bytes_field(bytes(10_000))
    elif field == "extras":
        message.extras = bytes(10_000)
    else:
        setattr(message, field, [0.0] * 2_500)
    with pytest.raises(
        WireError, match=r"request: found \d+ bytes, expected 9000 at most \(max_request_bytes"
    ):
        read(message, offer, max_request_bytes=9_000)


def test_a_request_at_the_limit_is_read():
    observation = read(*sample(), max_request_pixels=PIXELS)
    assert set(observation.images) == {"rgb", "depth"}


def test_a_policy_with_more_cameras_than_a_robot_may_offer_is_refused():
    with pytest.raises(PolicyError, match="max_cameras: found 1, but policy waver has 2 cameras"):
        list(sample_requests(SPEC, make_manifest(max_cameras=1)))
