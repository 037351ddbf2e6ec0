# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Observation messages: the robot writes a request with its sensor data, and the server reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from remote_inference.core.contract.image_encodings import RAW
from remote_inference.core.exchange import SCHEMA_VERSION_MAX, ImageFeature, Request, SessionOffer, no_rows
from remote_inference.core.limits import DEFAULT_LIMITS, MAX_TASK_LENGTH, RequestLimits, find_length_problem
from remote_inference.core.policy import Float32Array, PastStep, PolicyObservation
from remote_inference.msg import Observation
from remote_inference.wire.arrays import WireError, float32_field, from_float32_field
from remote_inference.wire.history import ReadyImage, SensedStep, read_history, write_history
from remote_inference.wire.images.image_decoding import EncodedImage, announced_pixels, decode_images
from remote_inference.wire.schema import require_schema_version

_Images = dict[str, NDArray[Any]]


def observation_to_message(
    request: Request,
    state: Float32Array,
    images: Sequence[ReadyImage],
    stamp: Time,
    past: Sequence[SensedStep] = (),
) -> Observation:
    """Return the message of a request with its state `[state_dim]` and images, in the contract's order.

    past: the control ticks before, oldest first, for a policy that sees them. Raises WireError when the two
    prefixes differ in shape.
    """
    model = no_rows() if request.prefix_model is None else request.prefix_model
    robot = no_rows() if request.prefix_robot is None else request.prefix_robot
    if model.shape != robot.shape:
        raise WireError(
            f"prefixes: found prefix_model {list(model.shape)} and prefix_robot {list(robot.shape)}, "
            "expected equal shapes"
        )
    message = Observation(
        header=Header(stamp=stamp),
        schema_version=SCHEMA_VERSION_MAX,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        seq_id=request.seq_id,
        episode_id=request.episode_id,
        episode_start=request.episode_start,
        client_mono_ns=request.client_mono_ns,
        task=request.task,
        inference_delay_steps=request.inference_delay_steps,
        state=float32_field(state),
        images=[image for image in images if isinstance(image, CompressedImage)],
        raw_images=[image for image in images if isinstance(image, Image)],
        prefix_length=len(model),
        prefix_model=float32_field(model),
        prefix_robot=float32_field(robot),
    )
    write_history(message, past, SensedStep(state, images))
    return message


def observation_from_message(
    message: Observation,
    offer: SessionOffer,
    needed: Collection[str] | None = None,
    observation_steps: int = 1,
    limits: RequestLimits = DEFAULT_LIMITS,
) -> PolicyObservation:
    """Return the decoded observation of the robot that made the offer.

    needed: the cameras to decode, None for all that the robot offers. observation_steps: the policy's.
    limits: those of one request; nothing is decoded of one beyond them.

    States and prefixes are read-only views into the message. Raises WireError when the schema version, the
    state, the prefixes or the number of steps or images differ from the offer, the task is too long, or the
    request is beyond the limits.
    Raises ImageError, a WireError that names the feature, when an image has another format or cannot be
    decoded.
    """
    require_schema_version(message.schema_version, "observation")
    _require_bytes(message, limits.size_bytes)
    if problem := find_length_problem("task", message.task, MAX_TASK_LENGTH):
        raise WireError(problem)
    state = from_float32_field(message.state, (len(offer.state_names),), "state")
    _require_finite(state, offer.state_names, "state")
    prefix_shape = (message.prefix_length, len(offer.action_names))
    prefix_model = from_float32_field(message.prefix_model, prefix_shape, "prefix_model")
    prefix_robot = from_float32_field(message.prefix_robot, prefix_shape, "prefix_robot")
    for prefix, what in ((prefix_model, "prefix_model"), (prefix_robot, "prefix_robot")):
        _require_finite(prefix, offer.action_names, what)
    history = read_history(message, offer.images, len(offer.state_names), observation_steps)
    for index, step in enumerate(history):
        _require_finite(step.state, offer.state_names, f"history_state[{index}]")
    arrived = [*(step.images for step in history), _pair_images(message, offer.images)]
    _require_pixels(arrived, offer.images, limits.pixels)
    features = [feature for feature in offer.images if needed is None or feature.name in needed]
    *past_images, images = _decode(arrived, features)
    return PolicyObservation(
        state=state,
        images=images,
        task=message.task,
        inference_delay_steps=message.inference_delay_steps,
        prefix_model=prefix_model if message.prefix_length else None,
        prefix_robot=prefix_robot if message.prefix_length else None,
        past=tuple(PastStep(step.state, seen) for step, seen in zip(history, past_images, strict=True)),
    )


def request_from_message(message: Observation) -> Request:
    """Return a request's identity. The prefixes, which may be malformed, are not read and stay None."""
    return Request(
        session_id=message.session_id,
        session_epoch=message.session_epoch,
        seq_id=message.seq_id,
        episode_id=message.episode_id,
        episode_start=message.episode_start,
        client_mono_ns=message.client_mono_ns,
        task=message.task,
        inference_delay_steps=message.inference_delay_steps,
    )


def _decode(arrived: Sequence[Mapping[str, ReadyImage]], features: Sequence[ImageFeature]) -> list[_Images]:
    """Return the decoded images of each step by feature, in the order of `arrived`: oldest step first.

    A step without an image of a feature has that of the step after.
    """
    newest_first = list(enumerate(reversed(arrived)))
    decoded = iter(
        decode_images(
            [
                EncodedImage(_name(feature, before), feature.encoding, images[feature.name])
                for before, images in newest_first
                for feature in features
                if feature.name in images
            ]
        )
    )
    steps: list[_Images] = []
    for before, images in newest_first:
        steps.append(
            {
                feature.name: next(decoded) if feature.name in images else steps[before - 1][feature.name]
                for feature in features
            }
        )
    return steps[::-1]


def _name(feature: ImageFeature, before: int) -> str:
    return f"{feature.name} at control tick -{before}" if before else feature.name


def _pair_images(message: Observation, features: Sequence[ImageFeature]) -> dict[str, ReadyImage]:
    """Return the images of the present tick by feature."""
    encoded = [feature for feature in features if feature.encoding != RAW]
    raw = [feature for feature in features if feature.encoding == RAW]
    _require_count(message.images, encoded, "images")
    _require_count(message.raw_images, raw, "raw_images")
    arrived = {feature.name: image for feature, image in zip(encoded, message.images, strict=True)}
    return arrived | {feature.name: image for feature, image in zip(raw, message.raw_images, strict=True)}


def _require_bytes(message: Observation, most: int) -> None:
    images = (message.images, message.raw_images, message.history_images, message.history_raw_images)
    numbers = (message.state, message.prefix_model, message.prefix_robot, message.history_state)
    found = len(message.extras)
    found += sum(len(image.data) for field in images for image in field) + 4 * sum(map(len, numbers))
    if found > most:
        raise WireError(f"request: found {found} bytes, expected {most} at most (max_request_bytes)")


def _require_pixels(
    steps: Sequence[Mapping[str, ReadyImage]], features: Sequence[ImageFeature], most: int
) -> None:
    """Check the sizes in the headers of all images, also of those that are not to be decoded."""
    encodings = {feature.name: feature.encoding for feature in features}
    found = sum(
        announced_pixels(encodings[name], image) for images in steps for name, image in images.items()
    )
    if found > most:
        raise WireError(f"images: found {found} pixels in all, expected {most} at most (max_request_pixels)")


def _require_finite(values: Float32Array, names: Sequence[str], what: str) -> None:
    """Check float32 `[..., len(names)]`."""
    finite = np.isfinite(values)
    if not finite.all():
        place = tuple(np.argwhere(~finite)[0])
        row = f"{what}[{place[0]}]" if values.ndim > 1 else what
        raise WireError(f"{row}: found {names[place[-1]]} = {values[place]}, expected finite values")


def _require_count(found: Sequence[object], expected: Sequence[ImageFeature], what: str) -> None:
    if len(found) != len(expected):
        names = ", ".join(feature.name for feature in expected) or "none"
        raise WireError(f"{what}: found {len(found)}, expected {len(expected)} ({names})")
