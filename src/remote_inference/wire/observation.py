# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Observation messages: the robot writes a request with its sensor data, and the server reads them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from remote_inference.core.exchange import SCHEMA_VERSION_MAX, ImageFeature, Request, SessionOffer, no_rows
from remote_inference.core.limits import MAX_TASK_LENGTH, find_length_problem
from remote_inference.core.policy import Float32Array, PolicyObservation
from remote_inference.msg import Observation
from remote_inference.wire.arrays import ByteBuffer, WireError, float32_field, from_float32_field
from remote_inference.wire.images import ImageError, decode_jpeg, decode_png, image_from_message
from remote_inference.wire.schema import require_schema_version

_DECODERS: dict[str, Callable[[ByteBuffer], NDArray[Any]]] = {"jpeg": decode_jpeg, "png": decode_png}
_DECODING_THREADS = 4


def observation_to_message(
    request: Request, state: Float32Array, images: Sequence[CompressedImage | Image], stamp: Time
) -> Observation:
    """Return the message of a request with its state `[state_dim]` and images, in the contract's order.

    Raises WireError when the two prefixes differ in shape.
    """
    model = no_rows() if request.prefix_model is None else request.prefix_model
    robot = no_rows() if request.prefix_robot is None else request.prefix_robot
    if model.shape != robot.shape:
        raise WireError(
            f"prefixes: found prefix_model {list(model.shape)} and prefix_robot {list(robot.shape)}, "
            "expected equal shapes"
        )
    return Observation(
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


def observation_from_message(
    message: Observation, offer: SessionOffer, needed: Collection[str] | None = None
) -> PolicyObservation:
    """Return the decoded observation of the robot that made the offer.

    needed: the cameras to decode, None for all that the robot offers.

    State and prefixes are read-only views into the message. Raises WireError when the schema version, the
    state, the prefixes or the number of images differ from the offer, or the task is too long. Raises
    ImageError, a WireError that names the feature, when an image has another format or cannot be decoded.
    """
    require_schema_version(message.schema_version, "observation")
    if problem := find_length_problem("task", message.task, MAX_TASK_LENGTH):
        raise WireError(problem)
    state = from_float32_field(message.state, (len(offer.state_names),), "state")
    _require_finite(state, offer.state_names, "state")
    prefix_shape = (message.prefix_length, len(offer.action_names))
    prefix_model = from_float32_field(message.prefix_model, prefix_shape, "prefix_model")
    prefix_robot = from_float32_field(message.prefix_robot, prefix_shape, "prefix_robot")
    for prefix, what in ((prefix_model, "prefix_model"), (prefix_robot, "prefix_robot")):
        _require_finite(prefix, offer.action_names, what)
    return PolicyObservation(
        state=state,
        images=_decode_images(message, offer.images, needed),
        task=message.task,
        inference_delay_steps=message.inference_delay_steps,
        prefix_model=prefix_model if message.prefix_length else None,
        prefix_robot=prefix_robot if message.prefix_length else None,
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


def _decode_images(
    message: Observation, offered: Sequence[ImageFeature], needed: Collection[str] | None
) -> dict[str, NDArray[Any]]:
    features = [feature for feature in offered if needed is None or feature.name in needed]
    arrived = _pair_images(message, offered)
    encoded = [feature for feature in features if feature.encoding != "raw"]
    # This thread decodes the first image, a pool the others: the libraries release the GIL.
    begun = {
        feature.name: _decoding_pool().submit(_decode, arrived[feature.name], feature)
        for feature in encoded[1:]
    }
    try:
        return {
            feature.name: begun[feature.name].result()
            if feature.name in begun
            else _decode(arrived[feature.name], feature)
            for feature in features
        }
    finally:  # when one image fails, the rest must not delay the next request
        wait([future for future in begun.values() if not future.cancel()])


def _pair_images(
    message: Observation, features: Sequence[ImageFeature]
) -> dict[str, CompressedImage | Image]:
    """Return the images by feature."""
    encoded = [feature for feature in features if feature.encoding != "raw"]
    raw = [feature for feature in features if feature.encoding == "raw"]
    _require_count(message.images, encoded, "images")
    _require_count(message.raw_images, raw, "raw_images")
    arrived = {feature.name: image for feature, image in zip(encoded, message.images, strict=True)}
    return arrived | {feature.name: image for feature, image in zip(raw, message.raw_images, strict=True)}


@cache
def _decoding_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_DECODING_THREADS, thread_name_prefix="decode")


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


def _decode(image: CompressedImage | Image, feature: ImageFeature) -> NDArray[Any]:
    try:
        if feature.encoding == "raw":
            return image_from_message(image)
        if image.format != feature.encoding:
            raise ImageError(f"format: found {image.format!r}, expected {feature.encoding!r}")
        return _DECODERS[feature.encoding](image.data)
    except ImageError as error:
        raise ImageError(f"{feature.name}: {error}") from error
