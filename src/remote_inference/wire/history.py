# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The earlier control ticks in an Observation, for policies that see more than the present one.

An image that a camera did not renew within a tick travels once: the tick before has an image without data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sensor_msgs.msg import CompressedImage, Image

from remote_inference.core.contract.image_encodings import RAW
from remote_inference.core.exchange import ImageFeature
from remote_inference.core.policy import Float32Array
from remote_inference.msg import Observation
from remote_inference.wire.arrays import WireError, float32_field, from_float32_field

ReadyImage: TypeAlias = "CompressedImage | Image"


@dataclass(frozen=True)
class SensedStep:
    """What the sensors showed at one control tick: state `[state_dim]`, images in the contract's order."""

    state: Float32Array
    images: Sequence[ReadyImage]


@dataclass(frozen=True)
class ReceivedStep:
    """A step as it came. images: by feature, where they are not those of the tick after."""

    state: Float32Array
    images: dict[str, ReadyImage] = field(default_factory=dict)


def write_history(message: Observation, past: Sequence[SensedStep], present: SensedStep) -> None:
    """Set the fields of earlier ticks, oldest first. Images that are the same object travel once."""
    if not past:
        return
    images: list[ReadyImage] = []
    for step, after in zip(past, [*past[1:], present], strict=True):
        images += [
            type(image)() if image is later else image
            for image, later in zip(step.images, after.images, strict=True)
        ]
    message.history_steps = len(past)
    message.history_state = float32_field([step.state for step in past])
    message.history_images = [image for image in images if isinstance(image, CompressedImage)]
    message.history_raw_images = [image for image in images if isinstance(image, Image)]


def read_history(
    message: Observation, features: Sequence[ImageFeature], state_dim: int, observation_steps: int
) -> list[ReceivedStep]:
    """Return the earlier ticks, oldest first, with images of the offered features.

    Raises WireError when there are more or fewer than `observation_steps` - 1, or a field's length differs.
    """
    steps = message.history_steps
    if steps != observation_steps - 1:
        expected = f"expected {observation_steps - 1} for a policy of {observation_steps} observation steps"
        raise WireError(f"history_steps: found {steps}, {expected}")
    states = from_float32_field(message.history_state, (steps, state_dim), "history_state")
    past = [ReceivedStep(state) for state in states]
    for field_name, is_raw in (("history_images", False), ("history_raw_images", True)):
        sent = [feature for feature in features if (feature.encoding == RAW) is is_raw]
        images = getattr(message, field_name)
        if len(images) != steps * len(sent):
            names = ", ".join(feature.name for feature in sent) or "no camera"
            raise WireError(f"{field_name}: found {len(images)}, expected {steps} of each of {names}")
        for index, image in enumerate(images):
            step, camera = divmod(index, len(sent))
            if len(image.data):
                past[step].images[sent[camera].name] = image
    return past
