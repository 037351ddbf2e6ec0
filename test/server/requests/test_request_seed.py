# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server hands each request a seed of its content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage

from remote_inference.base.policy import Continuation, PolicySpec
from remote_inference.base.wire.arrays import read_message
from remote_inference.msg import Observation
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_batch
from support.builders import make_spec

SPEC = make_spec(image_shapes={"rgb": (48, 64, 3)}, continuation=Continuation.GUIDANCE, observation_steps=2)


def seed_of(
    change: Callable[[Observation], Any] = lambda _: None,
    default_task: str = "",
    spec: PolicySpec = SPEC,
) -> int:
    """Return the seed of a sample request to a policy, changed on its way."""
    (data, *_), offer = sample_batch(SPEC, "wave")
    message = read_message(data, Observation, "observation")
    change(message)
    manifest = Manifest(model=ModelSource(backend="hold", path="x"), default_task=default_task)
    decoder = RequestDecoder(manifest, spec)
    _, message = decoder.request(serialize_message(message))
    return decoder.observation(message, offer).seed


def set_ids_and_clocks(message: Observation) -> None:
    message.session_id, message.session_epoch, message.seq_id = "s7", 3, 99
    message.episode_id, message.episode_start, message.client_mono_ns = 5, True, 123
    message.header.stamp = message.images[0].header.stamp = Time(sec=9)


def take_another_image(message: Observation) -> None:
    (other, *_), _ = sample_batch(make_spec(image_shapes={"rgb": (48, 65, 3)}), "wave")
    message.images[0].data = read_message(other, Observation, "observation").images[0].data


def test_equal_content_has_equal_seeds_whatever_ids_and_clocks_say():
    assert seed_of(set_ids_and_clocks) == seed_of() != 0


def test_a_task_of_the_manifest_counts_as_one_of_the_robot():
    assert seed_of(lambda message: setattr(message, "task", ""), default_task="wave") == seed_of()


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message.state.__setitem__(0, 0.5),
        lambda message: message.prefix_model.__setitem__(0, 0.5),
        lambda message: message.prefix_robot.__setitem__(0, 0.5),
        lambda message: setattr(message, "inference_delay_steps", 2),
        lambda message: setattr(message, "task", "point"),
        lambda message: message.history_state.__setitem__(0, 0.5),
        take_another_image,
        lambda message: setattr(message, "history_images", [CompressedImage()]),
    ],
    ids=["state", "prefix_model", "prefix_robot", "delay", "task", "past state", "image", "past image"],
)
def test_every_part_of_the_content_counts(change: Callable[[Observation], Any]):
    assert seed_of(change) != seed_of()


def test_a_policy_that_does_not_sample_gets_no_seed():
    assert seed_of(spec=replace(SPEC, samples=False)) == 0
