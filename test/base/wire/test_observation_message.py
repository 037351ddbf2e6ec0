# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Observations survive the wire, and a malformed one is refused with the name of the field."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from dataclasses import replace

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CompressedImage, Image

from remote_inference.base.exchange import ImageFeature, Request, SessionOffer
from remote_inference.base.wire import observation as wire_observation
from remote_inference.base.wire.arrays import WireError, bytes_field
from remote_inference.base.wire.images.encodings.jpeg import Jpeg, encode_jpeg
from remote_inference.base.wire.images.encodings.png import Png, encode_png
from remote_inference.base.wire.images.images import ImageError, image_to_message
from remote_inference.base.wire.observation import (
    observation_from_message,
    observation_to_message,
    read_head,
    request_from_message,
)
from remote_inference.msg import Observation

REQUEST = Request("session-1", 2, 17, 3, True, 123456789, "pick up the red cube", 4)
FRONT = "images.front"
OFFER = SessionOffer(
    client="/arm/remote_inference",
    client_instance_id="process_1",
    robot_namespace="/arm",
    robot_type="arm",
    session_epoch=2,
    schema_version=1,
    action_names=("shoulder", "elbow", "gripper"),
    state_names=("shoulder", "elbow"),
    images=(
        ImageFeature("images.left", "raw"),
        ImageFeature("images.front", "jpeg"),
        ImageFeature("images.depth", "png"),
        ImageFeature("images.right", "raw"),
    ),
    fps=30.0,
    task="",
    wants_rtc=True,
)


@pytest.mark.parametrize("said", [np.nan, np.inf, -1.0])
def test_a_time_between_sources_that_is_none_counts_as_not_said(said: float):
    message = observation()
    message.capture_skew_s = said
    assert request_from_message(message).capture_skew_s == 0.0


@pytest.mark.parametrize("said", [np.nan, np.inf, -np.inf])
def test_a_queue_that_lasts_no_time_counts_as_not_said(said: float):
    message = observation()
    message.queue_s = said
    assert request_from_message(message).queue_s == -1.0
    assert read_head(bytes(serialize_message(message)))[1] == -1.0


def test_the_head_of_a_request_is_read_without_the_rest():
    message = observation()
    message.session_id, message.queue_s = "s1", 0.5
    data = bytes(serialize_message(message))
    assert read_head(data) == ("s1", 0.5)
    assert read_head(data[: data.index(b"s1") + 64]) == ("s1", 0.5)
    with pytest.raises(WireError, match="observation: session_id: found 0 bytes"):
        read_head(data[:24])


STATE = np.array([0.25, -1.5], np.float32)
RED = np.full((16, 24, 3), (255, 0, 0), np.uint8)
DEPTH = np.arange(48, dtype=np.uint16).reshape(6, 8) * 1000


def images() -> list[CompressedImage | Image]:
    return [
        image_to_message(np.full((4, 4, 3), 1, np.uint8)),
        CompressedImage(format="jpeg", data=bytes_field(encode_jpeg(RED, 90))),
        CompressedImage(format="png", data=bytes_field(encode_png(DEPTH))),
        image_to_message(np.full((4, 4, 3), 2, np.uint8)),
    ]


def observation(request: Request = REQUEST) -> Observation:
    return observation_to_message(request, STATE, images(), Time(sec=5, nanosec=6))


def over_the_wire(message: Observation) -> Observation:
    return deserialize_message(serialize_message(message), Observation)


def test_images_arrive_in_the_contracts_order_whatever_their_encoding():
    arrived = observation_from_message(over_the_wire(observation()), OFFER).images
    assert list(arrived) == [feature.name for feature in OFFER.images]
    assert arrived["images.left"].max() == 1
    assert arrived["images.right"].max() == 2
    assert np.array_equal(arrived["images.depth"], DEPTH)
    assert np.abs(arrived["images.front"].astype(int) - RED).max() <= 4


def test_a_camera_that_the_policy_does_not_use_is_not_even_decoded():
    """Its images may be large, and anything at all: nobody looks at them."""
    message = over_the_wire(observation())
    message.images[0].data = bytes_field(b"no jpeg")
    needed = dict.fromkeys(("images.left", "images.depth"), (4, 6, 3))
    arrived = observation_from_message(message, OFFER, needed=needed).images
    assert list(arrived) == ["images.left", "images.depth"]
    assert np.array_equal(arrived["images.depth"], DEPTH)


def test_a_task_that_is_too_long_is_refused_and_not_echoed():
    message = over_the_wire(observation(replace(REQUEST, task="T" * 3_000_000)))
    with pytest.raises(WireError, match=r"^task: found 3000000 characters, expected 4096 at most$"):
        observation_from_message(message, OFFER)


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
requests = st.builds(
    Request,
    session_id=names,
    session_epoch=st.integers(0, 2**32 - 1),
    seq_id=st.integers(0, 2**64 - 1),
    episode_id=st.integers(0, 2**32 - 1),
    episode_start=st.booleans(),
    client_mono_ns=st.integers(-(2**63), 2**63 - 1),
    task=names,
    inference_delay_steps=st.integers(0, 2**32 - 1),
)
finite = arrays.arrays(np.float32, 2, elements=st.floats(-1e6, 1e6, width=32))
rows = arrays.arrays(
    np.float32, st.tuples(st.integers(1, 5), st.just(3)), elements=st.floats(-1e6, 1e6, width=32)
)


@settings(max_examples=50, deadline=None)
@given(requests, finite, rows)
def test_a_request_survives(request_, state, prefix):
    request_ = replace(request_, prefix_model=prefix, prefix_robot=prefix + 1)
    offer = replace(OFFER, images=())
    message = over_the_wire(observation_to_message(request_, state, [], Time()))
    assert request_from_message(message) == replace(request_, prefix_model=None, prefix_robot=None)
    arrived = observation_from_message(message, offer)
    assert (arrived.task, arrived.inference_delay_steps) == (request_.task, request_.inference_delay_steps)
    assert arrived.state.tobytes() == state.tobytes()
    assert arrived.prefix_model.tobytes() == prefix.tobytes()
    assert arrived.prefix_robot.tobytes() == (prefix + 1).tobytes()
    assert arrived.prefix_model.shape == prefix.shape


def test_a_drained_queue_has_no_prefix():
    message = over_the_wire(observation())
    assert message.prefix_length == 0
    arrived = observation_from_message(message, OFFER)
    assert arrived.prefix_model is None
    assert arrived.prefix_robot is None


def test_state_and_prefixes_are_views_of_the_message():
    prefix = np.zeros((2, 3), np.float32)
    message = observation(replace(REQUEST, prefix_model=prefix, prefix_robot=prefix))
    arrived = observation_from_message(message, OFFER)
    assert np.shares_memory(arrived.state, np.frombuffer(message.state, np.float32))
    assert np.shares_memory(arrived.prefix_robot, np.frombuffer(message.prefix_robot, np.float32))


def test_stamp_and_schema_version_are_set():
    message = observation()
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (5, 6)
    assert message.schema_version == 1


@pytest.mark.parametrize("robot", [None, np.zeros((1, 3), np.float32)])
def test_prefixes_of_different_shapes_are_not_sent(robot):
    with pytest.raises(WireError, match=r"found prefix_model \[2, 3\] and prefix_robot \["):
        observation(replace(REQUEST, prefix_model=np.zeros((2, 3), np.float32), prefix_robot=robot))


def refuse(message: Observation, pattern: str, error: type[Exception] = WireError) -> None:
    with pytest.raises(error, match=pattern):
        observation_from_message(message, OFFER)


@pytest.mark.parametrize("version", [0, 2])
def test_another_schema_version_is_refused(version):
    message = observation()
    message.schema_version = version
    refuse(message, f"observation: found schema_version {version}, expected 1 to 1")


def test_a_state_of_another_length_is_refused():
    message = observation()
    message.state.append(0.0)
    refuse(message, "state: found 3 values, expected 2")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_state_that_is_not_finite_is_refused_naming_the_joint(value):
    message = observation()
    message.state[1] = value
    refuse(message, "state: found elbow = -?(nan|inf), expected finite values")


@pytest.mark.parametrize("space", ["prefix_model", "prefix_robot"])
def test_a_prefix_that_is_not_finite_is_refused_naming_row_and_action(space):
    prefixes = {name: np.zeros((2, 3), np.float32) for name in ("prefix_model", "prefix_robot")}
    prefixes[space][1, 2] = np.nan
    refuse(observation(replace(REQUEST, **prefixes)), rf"{space}\[1\]: found .* = nan, expected finite")


def test_a_prefix_of_another_length_is_refused():
    message = observation(
        replace(REQUEST, prefix_model=np.zeros((2, 3), np.float32), prefix_robot=np.zeros((2, 3), np.float32))
    )
    message.prefix_robot.pop()
    refuse(message, "prefix_robot: found 5 values, expected 2 x 3 = 6")
    message.prefix_length = 2**32 - 1
    refuse(message, "prefix_model: found 6 values, expected 4294967295 x 3")


def test_a_prefix_without_a_length_is_refused():
    message = observation()
    message.prefix_model.append(1.0)
    refuse(message, "prefix_model: found 1 values, expected 0 x 3 = 0")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("images", r"images: found 1, expected 2 \(images.front, images.depth\)"),
        ("raw_images", r"raw_images: found 1, expected 2 \(images.left, images.right\)"),
    ],
)
def test_a_missing_image_is_refused_naming_the_features(field, expected):
    message = observation()
    setattr(message, field, getattr(message, field)[:1])
    refuse(message, expected)


def test_a_truncated_image_is_refused_naming_the_feature():
    message = observation()
    message.images[0].data = message.images[0].data[:-20]
    refuse(message, r"images.front: JPEG: \d+ bytes cannot be decoded", ImageError)


def test_a_raw_image_that_is_too_short_is_refused_naming_the_feature():
    message = observation()
    message.raw_images[1].data = message.raw_images[1].data[:-1]
    refuse(message, "images.right: data: found 47 bytes, expected height 4 x step 12 = 48", ImageError)


def test_the_error_names_the_contract_s_first_image_that_fails():
    """Images are decoded in parallel, and any of them may fail first."""
    message = observation()
    for image in message.images:
        image.data = image.data[:-20]
    refuse(message, "images.front: ", ImageError)
    message.raw_images[0].data = message.raw_images[0].data[:-1]
    refuse(message, "images.left: ", ImageError)


def test_encoded_images_are_decoded_in_parallel(monkeypatch):
    both = threading.Barrier(2, timeout=10.0)

    def decode(data):
        if bytes(data) == b"mine":  # not an image that another test left in the pool
            both.wait()  # breaks unless the other image is being decoded at the same time
        return np.zeros((1, 1), np.uint8)

    monkeypatch.delattr(Jpeg, "decode_at_least")
    for encoding in (Jpeg, Png):
        monkeypatch.setattr(encoding, "decode", staticmethod(decode))
    message = observation()
    for image in message.images:
        image.data = bytes_field(b"mine")
    assert len(observation_from_message(message, OFFER).images) == 4


def test_a_request_that_fails_leaves_no_image_in_the_decoding_pool(monkeypatch):
    """All requests share the pool's threads: leftover images would delay the next request."""
    threads = wire_observation._DECODING_THREADS
    at_work, go_on, begun, done = threading.Semaphore(0), threading.Event(), [], []

    def decode(data):
        if bytes(data) == b"bad":
            for _ in range(threads):
                assert at_work.acquire(timeout=10.0)
            raise ImageError("JPEG: 3 bytes cannot be decoded")
        begun.append(data)
        at_work.release()
        assert go_on.wait(10.0)
        done.append(data)
        return np.zeros((1, 1), np.uint8)

    def let_go_and_wait(futures):
        go_on.set()
        return wait(futures)

    monkeypatch.delattr(Jpeg, "decode_at_least")
    monkeypatch.setattr(Jpeg, "decode", staticmethod(decode))
    monkeypatch.setattr(wire_observation, "wait", let_go_and_wait)
    features = tuple(ImageFeature(f"images.{number}", "jpeg") for number in range(4 * threads))
    contents = [b"bad", *[b"good"] * (len(features) - 1)]
    message = observation()
    message.images = [CompressedImage(format="jpeg", data=bytes_field(content)) for content in contents]
    message.raw_images = []
    with pytest.raises(ImageError, match=r"images\.0: "):
        observation_from_message(message, replace(OFFER, images=features))
    assert len(begun) == len(done) == threads
    wire_observation._decoding_pool().submit(bool).result(10.0)
    assert len(begun) == threads


def test_an_image_of_another_format_is_refused_naming_the_feature():
    message = observation()
    message.images[0].format = "webp"
    refuse(message, "images.front: format: found 'webp', expected 'jpeg'", ImageError)


def test_a_malformed_message_still_yields_its_request_s_identity():
    message = observation()
    message.schema_version, message.prefix_length = 99, 5
    assert request_from_message(message) == REQUEST


@pytest.mark.parametrize("shape", [(60, 80, 3), (200, 100, 3), (400, 600, 3)])
def test_of_a_jpeg_much_larger_than_the_policy_sees_it_no_more_is_decoded_than_it_needs(
    shape: tuple[int, int, int],
):
    rows = np.linspace(0, 250, 960, dtype=np.uint8)[:, np.newaxis, np.newaxis]
    large = np.ascontiguousarray(np.broadcast_to(rows, (960, 1280, 3)))
    message = over_the_wire(observation())
    message.images[0].data = bytes_field(encode_jpeg(large, 95))
    arrived = observation_from_message(message, OFFER, needed={FRONT: shape}).images[FRONT]
    height, width, _ = arrived.shape
    assert height >= min(960, 2 * shape[0])
    assert width >= min(1280, 2 * shape[1])
    assert (height < 960) == (4 * shape[0] <= 960 and 4 * shape[1] <= 1280)
    expected = np.linspace(0, 250, height)
    assert np.abs(arrived[:, width // 2, 0] - expected).max() < 6.0


def test_an_image_far_larger_than_the_policy_sees_it_is_refused_before_it_is_decoded():
    message = over_the_wire(observation())
    message.images[0].data = bytes_field(encode_jpeg(np.zeros((2400, 3200, 3), np.uint8), 10))
    expected = "images.front: found 7680000 pixels, expected 7077888 at most for a policy that sees 72x96"
    with pytest.raises(WireError, match=f"^{expected}$"):
        observation_from_message(message, OFFER, needed={FRONT: (72, 96, 3)})
    assert FRONT in observation_from_message(message, OFFER, needed={FRONT: (224, 224, 3)}).images
