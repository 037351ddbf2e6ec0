# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Decodes serialized observations for the server, and makes a sample for the warm-up."""

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

from remote_inference.core.exchange import ImageFeature, Request, SessionOffer
from remote_inference.core.policy import PolicyError, PolicyObservation, PolicySpec, find_task_problem
from remote_inference.core.seeds import make_seed
from remote_inference.core.server.manifest import Manifest
from remote_inference.msg import Observation
from remote_inference.wire import (
    SensedStep,
    WireError,
    bytes_field,
    encode_jpeg,
    encode_png,
    observation_from_message,
    observation_to_message,
    request_from_message,
)
from remote_inference.wire.cdr_view import view_message

JPEG_QUALITY = 90  # the robots' default


class RequestDecoder:
    """Decodes requests for the worker. The manifest's default task and template make the instruction.

    An observation gets a seed of its content if the policy samples: equal requests give equal seeds.
    """

    def __init__(self, manifest: Manifest, spec: PolicySpec) -> None:
        """spec: of the policy; images of cameras that it does not use are not decoded."""
        self._spec = spec
        self._cameras = spec.image_shapes
        self._observation_steps = spec.observation_steps
        self._samples = spec.samples
        self._manifest = manifest

    def request(self, data: bytes) -> tuple[Request, Any]:
        """Return the request's identity and a view of its message. Raises WireError for other bytes."""
        message = view_message(data, Observation, "observation")
        return request_from_message(message), message

    def observation(self, message: Any, offer: SessionOffer) -> PolicyObservation:
        observation = observation_from_message(
            message, offer, self._cameras, self._observation_steps, self._manifest.limits
        )
        default = self._manifest.default_task
        # The task may have changed since admission.
        if self._manifest.pin_task and observation.task not in {"", default}:
            raise WireError(f"task: found {observation.task!r}, expected {default!r}, which is pinned")
        if problem := find_task_problem(self._spec, observation.task or default):
            raise WireError(f"task: {problem}")
        task = self._manifest.instruct(observation.task)
        seed = make_seed(_content(message, task)) if self._samples else 0
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


def sample_requests(spec: PolicySpec, manifest: Manifest) -> Iterator[tuple[bytes, SessionOffer]]:
    """Yield a sample of the training shapes, then one for each image size that the manifest names.

    Raises PolicyError for image sizes of a policy that sees no images, and for a policy with more cameras
    than a robot may offer.
    """
    if len(spec.image_shapes) > manifest.max_cameras:
        found = f"found {manifest.max_cameras}, but policy {spec.name} has {len(spec.image_shapes)} cameras"
        raise PolicyError(f"max_cameras: {found}")
    if manifest.warmup_image_sizes and not spec.image_shapes:
        sizes = ", ".join(f"{height} x {width}" for height, width in manifest.warmup_image_sizes)
        raise PolicyError(
            f"warmup_image_sizes: found {sizes}, expected none: policy {spec.name} has no images"
        )
    task = manifest.default_task or spec.sample_task
    yield sample_request(spec, task)
    for size in manifest.warmup_image_sizes:
        shapes = {name: (*size, shape[2]) for name, shape in spec.image_shapes.items()}
        yield sample_request(replace(spec, image_shapes=shapes), task)


def sample_request(spec: PolicySpec, task: str) -> tuple[bytes, SessionOffer]:
    """Return a serialized observation of the training shapes, and the offer of a robot that could send it.

    The sample has a prefix if the policy supports RTC: guidance is slower and needs a warm-up of its own.
    """
    *past, present = [_sample_step(spec) for _ in range(spec.observation_steps)]
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
    prefix = np.zeros((spec.chunk_size, spec.action_dim), np.float32) if spec.supports_rtc else None
    request = Request(
        session_id="",
        session_epoch=0,
        seq_id=0,
        episode_id=0,
        episode_start=False,
        client_mono_ns=0,
        task=task,
        inference_delay_steps=int(spec.supports_rtc),
        prefix_model=prefix,
        prefix_robot=prefix,
    )
    message = observation_to_message(request, present.state, present.images, Time(), past)
    return serialize_message(message), offer


def _sample_step(spec: PolicySpec) -> SensedStep:
    """Return a step with images of its own: it is decoded in the time that a moving robot's takes."""
    state = np.zeros(len(spec.state_names), np.float32)
    return SensedStep(state, [_picture(shape) for shape in spec.image_shapes.values()])


def _picture(shape: tuple[int, int, int]) -> CompressedImage:
    """Return a JPEG for `(height, width, 3)`, a depth PNG for any other number of channels."""
    height, width, channels = shape
    if channels == 3:
        rgb = _shading(shape, 255).astype(np.uint8)
        return CompressedImage(format="jpeg", data=bytes_field(encode_jpeg(rgb, JPEG_QUALITY)))
    depth = _shading((height, width), 65_535).astype(np.uint16)
    return CompressedImage(format="png", data=bytes_field(encode_png(depth)))


def _shading(shape: tuple[int, ...], peak: int) -> NDArray[np.float64]:
    """Return noisy rows that grow brighter: black or pure noise would not decode in a real image's time."""
    ramp = np.linspace(0.2, 0.8, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return peak * np.clip(ramp + np.random.default_rng(0).normal(0.0, 0.03, shape), 0.0, 1.0)
