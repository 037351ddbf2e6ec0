# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Decodes serialized observations for the server, and makes samples for the warm-up."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage

from remote_inference.base.contract.image_source import BY_COLOUR
from remote_inference.base.exchange import ImageFeature, Request, SessionOffer
from remote_inference.base.fingerprint import make_seed
from remote_inference.base.policy import PolicyError, PolicyObservation, PolicySpec, find_task_problem
from remote_inference.base.wire.arrays import WireError, bytes_field
from remote_inference.base.wire.cdr_view import view_message
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.observation import (
    SensedStep,
    observation_from_message,
    observation_to_message,
    request_from_message,
)
from remote_inference.msg import Observation
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.requests.job import BLANK_REQUEST


class RequestDecoder:
    """Decodes requests for the worker. The manifest's default task and template make the instruction.

    An observation gets a seed of its content if the policy samples: equal requests give equal seeds.
    """

    def __init__(self, manifest: Manifest, spec: PolicySpec) -> None:
        """spec: of the policy; images of cameras that it does not use are not decoded."""
        self._spec = spec
        self._manifest = manifest

    def request(self, data: bytes) -> tuple[Request, Any]:
        """Return the request's identity and a view of its message. Raises WireError for other bytes."""
        message = view_message(data, Observation, "observation")
        return request_from_message(message), message

    def observation(self, message: Any, offer: SessionOffer) -> PolicyObservation:
        observation = observation_from_message(
            message, offer, self._spec.image_shapes, self._spec.observation_steps, self._manifest.limits
        )
        default = self._manifest.default_task
        # The task may have changed since admission.
        if self._manifest.pin_task and observation.task not in {"", default}:
            raise WireError(f"task: found {observation.task!r}, expected {default!r}, which is pinned")
        if problem := find_task_problem(self._spec, observation.task or default):
            raise WireError(f"task: {problem}")
        task = self._manifest.instruct(observation.task)
        seed = make_seed(_content(message, task)) if self._spec.samples else 0
        return replace(observation, task=task, seed=seed)


def _content(message: Any, task: str) -> Iterator[Any]:
    """Yield what a request shows and asks, as it travelled: no ids and no clocks, which replays differ in."""
    yield task.encode()
    yield struct.pack("<QQ", message.inference_delay_steps, message.prefix_length)
    yield from (message.state, message.prefix_model, message.prefix_robot)
    yield from (image.data for image in (*message.images, *message.raw_images))
    if message.history_steps:
        yield message.history_state
        yield from (image.data for image in (*message.history_images, *message.history_raw_images))


def sample_requests(spec: PolicySpec, manifest: Manifest) -> Iterator[tuple[list[bytes], SessionOffer]]:
    """Yield samples of the training shapes, then those of each image size that the manifest names.

    Raises PolicyError for image sizes of a policy that sees no images, and for a policy with more cameras
    than a robot may offer.
    """
    if len(spec.image_shapes) > manifest.max_cameras:
        found = f"found {manifest.max_cameras}, but policy {spec.name} has {len(spec.image_shapes)} cameras"
        raise PolicyError(f"max_cameras: {found}")
    if manifest.warmup_image_sizes and not spec.image_shapes:
        sizes = ", ".join(f"{height} x {width}" for height, width in manifest.warmup_image_sizes)
        expected = f"none: policy {spec.name} has no images"
        raise PolicyError(f"warmup_image_sizes: found {sizes}, expected {expected}")
    task = manifest.default_task or spec.sample_task
    yield sample_batch(spec, task)
    for size in manifest.warmup_image_sizes:
        shapes = {name: (*size, shape[2]) for name, shape in spec.image_shapes.items()}
        yield sample_batch(replace(spec, image_shapes=shapes), task)


def sample_batch(spec: PolicySpec, task: str) -> tuple[list[bytes], SessionOffer]:
    """Return serialized observations of the training shapes, and the offer of a robot that could send them.

    If the policy supports RTC they differ in prefix and delay, as robots do that share a call: a policy may
    take longer for them than for equal ones. The first has the longest prefix: guidance is slower than none
    and needs a warm-up of its own.
    """
    # Images of their own in each step: they take as long to decode as a moving robot's.
    *past, present = [
        SensedStep(np.zeros(len(spec.state_names), np.float32), [*map(_picture, spec.image_shapes.values())])
        for _ in range(spec.observation_steps)
    ]
    offer = SessionOffer(
        action_names=spec.action_names,
        state_names=spec.state_names,
        images=tuple(
            ImageFeature(name, image.format, *shape[:2])
            for (name, shape), image in zip(spec.image_shapes.items(), present.images, strict=True)
        ),
        fps=spec.trained_fps,
        task=task,
        wants_rtc=spec.supports_rtc,
        max_observation_steps=spec.observation_steps,
    )
    batch, prefixes = [], [(0, 0)]  # actions left, and delay [control ticks]
    if spec.supports_rtc:  # of robots at different places of their chunks
        places, chunk_size = enumerate((8, 0, 4, 6, 2, 7, 3, 5)), spec.chunk_size
        prefixes = [(chunk_size * eighths // 8, 1 + chunk_size * place // 16) for place, eighths in places]
    for rows, delay in prefixes:
        prefix = np.zeros((rows, spec.action_dim), np.float32) if rows else None
        request = replace(
            BLANK_REQUEST, task=task, inference_delay_steps=delay, prefix_model=prefix, prefix_robot=prefix
        )
        message = observation_to_message(request, present.state, present.images, Time(), past)
        batch.append(serialize_message(message))
    return batch, offer


def _picture(shape: tuple[int, int, int]) -> CompressedImage:
    """Return colour for `(height, width, 3)`, else depth, encoded as where a contract says nothing."""
    height, width, channels = shape
    if channels == 3:
        name, image = BY_COLOUR["rgb"], _shading(shape, 255).astype(np.uint8)
    else:
        name, image = BY_COLOUR["depth"], _shading((height, width), 65_535).astype(np.uint16)
    encoding = IMAGE_ENCODINGS.get(name)
    return CompressedImage(format=name, data=bytes_field(encoding.encode(image, encoding.options())))


def _shading(shape: tuple[int, ...], peak: int) -> NDArray[np.float64]:
    """Return noisy rows that grow brighter: black or pure noise would not decode in a real image's time."""
    ramp = np.linspace(0.2, 0.8, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return peak * np.clip(ramp + np.random.default_rng(0).normal(0.0, 0.03, shape), 0.0, 1.0)
