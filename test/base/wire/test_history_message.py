# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The earlier control ticks of an observation survive the wire; what did not change travels once."""

from __future__ import annotations

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CompressedImage, Image

from remote_inference.base.exchange import ImageFeature, Request, SessionOffer
from remote_inference.base.policy import PolicyObservation
from remote_inference.base.wire.arrays import WireError, bytes_field
from remote_inference.base.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.base.wire.images.images import ImageError, image_to_message
from remote_inference.base.wire.observation import (
    SensedStep,
    observation_from_message,
    observation_to_message,
)
from remote_inference.msg import Observation

REQUEST = Request("session-1", 2, 17, 3, True, 123456789, "pick up the red cube", 4)
FRONT, WRIST, TOP = "images.front", "images.wrist", "images.top"
OFFER = SessionOffer(
    action_names=("shoulder", "elbow"),
    state_names=("shoulder", "elbow"),
    images=(ImageFeature(FRONT, "jpeg"), ImageFeature(WRIST, "raw"), ImageFeature(TOP, "jpeg")),
    fps=30.0,
    task="",
    wants_rtc=True,
)


def jpeg(grey: int) -> CompressedImage:
    data = encode_jpeg(np.full((16, 16, 3), grey, np.uint8), 90)
    return CompressedImage(format="jpeg", data=bytes_field(data))


def raw(grey: int) -> Image:
    return image_to_message(np.full((4, 4, 3), grey, np.uint8))


def step(grey: int) -> SensedStep:
    return SensedStep(np.array([grey, -grey], np.float32), [jpeg(grey), raw(grey), jpeg(grey + 1)])


def observe(*steps: SensedStep) -> Observation:
    *past, present = steps
    message = observation_to_message(REQUEST, present.state, present.images, Time(), past)
    return deserialize_message(serialize_message(message), Observation)


def read(
    message: Observation, steps: int, needed: dict[str, tuple[int, int, int]] | None = None
) -> PolicyObservation:
    return observation_from_message(message, OFFER, needed, steps)


def greys(observation: PolicyObservation, feature: str) -> object:
    return pytest.approx([int(image.mean()) for image in observation.image_steps(feature)], abs=2)


def test_every_step_arrives_in_the_order_of_time():
    observation = read(observe(step(10), step(40), step(70)), 3)
    assert observation.states.tolist() == [[10, -10], [40, -40], [70, -70]]
    assert greys(observation, FRONT) == [10, 40, 70]
    assert greys(observation, WRIST) == [10, 40, 70]
    assert greys(observation, TOP) == [11, 41, 71]


def test_an_image_that_no_tick_renewed_travels_and_is_decoded_once():
    first, present = step(10), step(70)
    front = SensedStep(first.state, [first.images[0], *present.images[1:]])
    message = observe(first, front, present)
    assert [len(image.data) > 0 for image in message.history_images] == [False, True, True, False]
    assert [len(image.data) > 0 for image in message.history_raw_images] == [True, False]
    observation = read(message, 3)
    assert greys(observation, FRONT) == [10, 10, 70]
    assert greys(observation, WRIST) == [10, 70, 70]
    assert greys(observation, TOP) == [11, 71, 71]
    for feature, (one, other) in {FRONT: (0, 1), WRIST: (1, 2), TOP: (1, 2)}.items():
        images = observation.image_steps(feature)
        assert images[one] is images[other]


def test_a_repeated_step_costs_no_image():
    alone, repeated = (len(serialize_message(observe(*[step(10)] * count))) for count in (1, 16))
    assert repeated - alone < 15 * (2 * 4 + 3 * 64)  # states, and images without data


def test_cameras_that_the_policy_does_not_use_are_not_decoded():
    message = observe(step(10), step(40))
    message.history_images[1].data = bytes_field(b"no jpeg")
    observation = read(message, 2, dict.fromkeys((FRONT, WRIST), (4, 4, 3)))
    assert [list(step.images) for step in observation.past] == [[FRONT, WRIST]]


def test_a_robot_without_cameras_has_a_history_of_states():
    states = [SensedStep(np.array([value, 0], np.float32), []) for value in (1, 2, 3)]
    message = observation_to_message(REQUEST, states[2].state, [], Time(), states[:2])
    offer = SessionOffer(("a",), ("b", "c"), (), 30.0, "", True)
    assert observation_from_message(message, offer, None, 3).states.tolist() == [[1, 0], [2, 0], [3, 0]]


def test_the_present_alone_costs_nothing_but_the_empty_fields():
    message = observe(step(10))
    assert (message.history_steps, len(message.history_state)) == (0, 0)
    assert len(message.history_images) == len(message.history_raw_images) == 0
    assert read(message, 1).past == ()
    message.extras = bytes_field(b"last")  # the field before the history's
    # A count, three empty fields, and how far apart the sources were.
    assert bytes(serialize_message(message)).endswith(b"last" + 5 * bytes(4))


@pytest.mark.parametrize(("sent", "wanted"), [(1, 3), (2, 3), (4, 3), (2, 1)])
def test_another_number_of_steps_than_the_policy_sees_is_refused(sent: int, wanted: int):
    pattern = rf"^history_steps: found {sent - 1}, expected {wanted - 1} for a policy of {wanted} obs"
    with pytest.raises(WireError, match=pattern):
        read(observe(*map(step, range(sent))), wanted)


def spoil(**fields: object) -> Observation:
    message = observe(step(10), step(40), step(70))
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def refuse(message: Observation, pattern: str, error: type[Exception] = WireError) -> None:
    with pytest.raises(error, match=pattern):
        read(message, 3)


def test_a_history_of_another_length_is_refused_naming_the_field():
    refuse(spoil(history_steps=2**32 - 1), "history_steps: found 4294967295, expected 2")
    refuse(spoil(history_state=[0.0] * 3), "history_state: found 3 values, expected 2 x 2 = 4")
    refuse(
        spoil(history_images=[jpeg(1)] * 5),
        "history_images: found 5, expected 2 of each of images.front, images.top",
    )
    refuse(spoil(history_raw_images=[]), "history_raw_images: found 0, expected 2 of each of images.wrist")


def test_a_state_that_is_not_finite_is_refused_naming_step_and_joint():
    refuse(spoil(history_state=[0, 0, 0, np.nan]), r"history_state\[1\]: found elbow = nan, expected finite")


def test_an_image_that_cannot_be_decoded_is_refused_naming_its_step():
    message = spoil()
    message.history_images[0].data = message.history_images[0].data[:-20]
    refuse(message, "images.front at control tick -2: JPEG: ", ImageError)
    message.history_images[2].format = "png"
    refuse(message, "images.front at control tick -1: format: found 'png', expected 'jpeg'", ImageError)


def claim(image: CompressedImage, height: int, width: int) -> CompressedImage:
    """Return the JPEG with another size in its header."""
    data = bytes(image.data)
    frame = data.index(b"\xff\xc0") + 5
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return CompressedImage(format="jpeg", data=bytes_field(data[:frame] + size + data[frame + 4 :]))


def test_small_files_that_announce_more_memory_than_a_server_gives_one_request_are_refused():
    message = observe(
        *(
            SensedStep(np.zeros(2, np.float32), [claim(jpeg(grey), 3072, 4096), raw(grey), jpeg(9)])
            for grey in range(3)
        )
    )
    pixels = 3 * (3072 * 4096 + 4 * 4 + 16 * 16)
    refuse(message, f"images: found {pixels} pixels in all, expected 33554432 at most")
