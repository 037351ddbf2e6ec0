# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Observation messages: the robot writes a request with its sensor data, and the server reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from remote_inference.base.contract.image_source import RAW
from remote_inference.base.exchange import (
    SCHEMA_VERSION_MAX,
    ImageFeature,
    Request,
    SessionOffer,
    find_schema_problem,
    no_rows,
)
from remote_inference.base.limits import (
    DEFAULT_LIMITS,
    MAX_TASK_LENGTH,
    RequestLimits,
    find_length_problem,
    find_size_problem,
)
from remote_inference.base.policy import Float32Array, PastStep, PolicyObservation
from remote_inference.base.wire.arrays import WireError, float32_field, from_float32_field
from remote_inference.base.wire.cdr_view import view_message
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import ImageError, image_from_message
from remote_inference.msg import Observation

# -- The earlier control ticks in an Observation, for policies that see more than the present one -------

ReadyImage: TypeAlias = "CompressedImage | Image"


@dataclass(frozen=True)
class SensedStep:
    """What the sensors showed at one control tick: state `[state_dim]`, images in the contract's order."""

    state: Float32Array
    images: Sequence[ReadyImage]


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
) -> tuple[Float32Array, list[dict[str, ReadyImage]]]:
    """Return the states `[steps, state_dim]` and images of the earlier ticks, oldest first.

    images: by offered feature, where they are not those of the tick after. Raises WireError when there are
    more or fewer than `observation_steps` - 1, or a field's length differs.
    """
    steps = message.history_steps
    if steps != observation_steps - 1:
        expected = f"expected {observation_steps - 1} for a policy of {observation_steps} observation steps"
        raise WireError(f"history_steps: found {steps}, {expected}")
    states = from_float32_field(message.history_state, (steps, state_dim), "history_state")
    past = _pair_images(message, features, "history_", steps)
    return states, [{name: image for name, image in shown.items() if len(image.data)} for shown in past]


def _pair_images(
    message: Observation, features: Sequence[ImageFeature], prefix: str = "", steps: int = 1
) -> list[dict[str, ReadyImage]]:
    """Return the images of each tick by feature. prefix: of the fields' names."""
    ticks: list[dict[str, ReadyImage]] = [{} for _ in range(steps)]
    for field_name, is_raw in ((f"{prefix}images", False), (f"{prefix}raw_images", True)):
        names = [feature.name for feature in features if (feature.encoding == RAW) is is_raw]
        images = getattr(message, field_name)
        if len(images) != steps * len(names):
            listed = ", ".join(names) or "none"
            expected = f"{steps} of each of {listed}" if prefix else f"{len(names)} ({listed})"
            raise WireError(f"{field_name}: found {len(images)}, expected {expected}")
        for index, image in enumerate(images):
            tick, camera = divmod(index, len(names))
            ticks[tick][names[camera]] = image
    return ticks


# -- The images of one request, which are decoded side by side ------------------------------------------

_DECODING_THREADS = 4


@dataclass(frozen=True)
class EncodedImage:
    """An image as it came. what: names it in errors. encoding: the one that its camera was offered with.

    least: height and width that are needed of it, (0, 0): all.
    """

    what: str
    encoding: str
    message: ReadyImage
    least: tuple[int, int] = (0, 0)


def decode_images(images: Sequence[EncodedImage]) -> list[NDArray[Any]]:
    """Return decoded images, in order.

    Raises ImageError naming the first one that cannot be decoded.
    """
    encoded = [index for index, image in enumerate(images) if image.encoding != RAW]
    # This thread decodes the first image, a pool the others: the libraries release the GIL.
    begun = {index: _decoding_pool().submit(_decode_image, images[index]) for index in encoded[1:]}
    try:
        return [
            begun[index].result() if index in begun else _decode_image(image)
            for index, image in enumerate(images)
        ]
    finally:  # when one image fails, the rest must not delay the next request
        wait([future for future in begun.values() if not future.cancel()])


def announced_pixels(encoding: str, message: ReadyImage) -> int:
    """Return the pixels that an image's header tells; 0 for one that cannot be decoded."""
    if encoding == RAW:
        return int(message.height * message.width)
    try:
        height, width = IMAGE_ENCODINGS.get(encoding).size(message.data)
    except ImageError:
        return 0
    return height * width


@cache
def _decoding_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_DECODING_THREADS, thread_name_prefix="decode")


def _decode_image(image: EncodedImage) -> NDArray[Any]:
    try:
        if image.encoding == RAW:
            return image_from_message(image.message)
        if image.message.format != image.encoding:
            raise ImageError(f"format: found {image.message.format!r}, expected {image.encoding!r}")
        encoding = IMAGE_ENCODINGS.get(image.encoding)
        if reduce := getattr(encoding, "decode_at_least", None):
            reduced: NDArray[Any] = reduce(image.message.data, image.least)
            return reduced
        return encoding.decode(image.message.data)
    except ImageError as error:
        raise ImageError(f"{image.what}: {error}") from error


_Images = dict[str, NDArray[Any]]
# What requests and messages have alike; prefixes are converted.
_KNOWN = Observation.get_fields_and_field_types().keys() - {"prefix_model", "prefix_robot"}
_SHARED = [field.name for field in fields(Request) if field.name in _KNOWN]


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
        found = f"prefixes: found prefix_model {list(model.shape)} and prefix_robot {list(robot.shape)}"
        raise WireError(f"{found}, expected equal shapes")
    message = Observation(
        header=Header(stamp=stamp),
        schema_version=SCHEMA_VERSION_MAX,
        state=float32_field(state),
        images=[image for image in images if isinstance(image, CompressedImage)],
        raw_images=[image for image in images if isinstance(image, Image)],
        prefix_length=len(model),
        prefix_model=float32_field(model),
        prefix_robot=float32_field(robot),
        **{name: getattr(request, name) for name in _SHARED},
    )
    write_history(message, past, SensedStep(state, images))
    return message


def observation_from_message(
    message: Observation,
    offer: SessionOffer,
    needed: Mapping[str, tuple[int, int, int]] | None = None,
    observation_steps: int = 1,
    limits: RequestLimits = DEFAULT_LIMITS,
) -> PolicyObservation:
    """Return the decoded observation of the robot that made the offer.

    needed: the cameras to decode, and the shape in which the policy sees each, None for all that the robot
    offers, as they are. observation_steps: the policy's. limits: those of one request; nothing is decoded of
    one beyond them.

    States and prefixes are read-only views into the message. Raises WireError when the schema version, the
    state, the prefixes or the number of steps or images differ from the offer, the task is too long, or the
    request is beyond the limits.
    Raises ImageError, a WireError that names the feature, when an image has another format or cannot be
    decoded.
    """
    if problem := find_schema_problem(message.schema_version):
        raise WireError(f"observation: {problem}")
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
    states, arrived = read_history(message, offer.images, len(offer.state_names), observation_steps)
    _require_finite(states, offer.state_names, "history_state")
    arrived += _pair_images(message, offer.images)
    _require_pixels(arrived, offer.images, limits.pixels)
    _require_fitting(arrived, offer.images, needed or {})
    features = [feature for feature in offer.images if needed is None or feature.name in needed]
    *past_images, images = _decode(arrived, features, needed or {})
    return PolicyObservation(
        state=state,
        images=images,
        task=message.task,
        inference_delay_steps=message.inference_delay_steps,
        prefix_model=prefix_model if message.prefix_length else None,
        prefix_robot=prefix_robot if message.prefix_length else None,
        past=tuple(PastStep(seen, shown) for seen, shown in zip(states, past_images, strict=True)),
    )


def request_from_message(message: Observation) -> Request:
    """Return a request's identity. The prefixes, which may be malformed, are not read and stay None."""
    request = Request(**{name: getattr(message, name) for name in _SHARED})
    if not math.isfinite(request.queue_s):
        request = replace(request, queue_s=-1.0)
    is_time = 0.0 <= request.capture_skew_s < math.inf  # what else a client says would end the metric's sum
    return request if is_time else replace(request, capture_skew_s=0.0)


def read_head(data: bytes) -> tuple[str, float]:
    """Return whose session a serialized observation names, and its `queue_s`, before anything else is read.

    Raises WireError for bytes that are no observation.
    """
    head = view_message(data, Observation, "observation", until="queue_s")
    return head.session_id, head.queue_s if math.isfinite(head.queue_s) else -1.0


def _decode(
    arrived: Sequence[Mapping[str, ReadyImage]],
    features: Sequence[ImageFeature],
    shapes: Mapping[str, tuple[int, int, int]],
) -> list[_Images]:
    """Return the decoded images of each step by feature, in the order of `arrived`: oldest step first.

    A step without an image of a feature has that of the step after. shapes: in which the policy sees them: of
    one that is much larger no more is decoded than twice the height and width, from which it is reduced.
    """
    least = {name: (2 * height, 2 * width) for name, (height, width, _) in shapes.items()}
    wanted = {
        (before, feature.name): EncodedImage(
            f"{feature.name} at control tick -{before}" if before else feature.name,
            feature.encoding,
            images[feature.name],
            least.get(feature.name, (0, 0)),
        )
        for before, images in enumerate(reversed(arrived))
        for feature in features
        if feature.name in images
    }
    decoded = dict(zip(wanted, decode_images([*wanted.values()]), strict=True))
    steps: list[_Images] = [{}]
    for before in range(len(arrived)):
        own = {name: image for (at, name), image in decoded.items() if at == before}
        steps.append(steps[-1] | own)
    return steps[:0:-1]


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


def _require_fitting(
    steps: Sequence[Mapping[str, ReadyImage]],
    features: Sequence[ImageFeature],
    shapes: Mapping[str, tuple[int, int, int]],
) -> None:
    """Check that no image has more pixels than are worth decoding for what the policy sees of it."""
    for feature in features:
        for images in steps:
            if feature.name in images and feature.name in shapes:
                found = announced_pixels(feature.encoding, images[feature.name])
                if problem := find_size_problem(found, *shapes[feature.name][:2]):
                    raise WireError(f"{feature.name}: {problem}")


def _require_finite(values: Float32Array, names: Sequence[str], what: str) -> None:
    """Check float32 `[..., len(names)]`."""
    finite = np.isfinite(values)
    if not finite.all():
        place = tuple(np.argwhere(~finite)[0])
        row = f"{what}[{place[0]}]" if values.ndim > 1 else what
        raise WireError(f"{row}: found {names[place[-1]]} = {values[place]}, expected finite values")
