# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server's decoder makes the policy's instruction; samples have the sizes that the manifest names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import make_spec

from remote_inference.core.policy import PolicyError
from remote_inference.core.server.manifest import Manifest, ModelSource
from remote_inference.wire import WireError
from remote_inference.wire.request_decoder import RequestDecoder, sample_request, sample_requests

SPEC = make_spec(image_shapes={"rgb": (48, 64, 3), "depth": (32, 24, 1)})


def make_manifest(**changes: Any) -> Manifest:
    return Manifest(model=ModelSource(backend="hold", path="x"), **{"default_task": "wave", **changes})


def task_for(robots_task: str, **changes: Any) -> str:
    decoder = RequestDecoder(make_manifest(**changes), SPEC)
    data, offer = sample_request(SPEC, robots_task)
    _, message = decoder.request(data)
    return decoder.observation(message, offer).task


@pytest.mark.parametrize(("task", "said"), [("point", "In: point Out:"), ("", "In: wave Out:")])
def test_the_policy_reads_the_task_in_its_template(task: str, said: str):
    assert task_for(task, task_template="In: {task} Out:") == said


def test_a_pinned_task_is_compared_without_the_template():
    assert task_for("wave", task_template="In: {task}", pin_task=True) == "In: wave"
    with pytest.raises(WireError, match="task: found 'point', expected 'wave', which is pinned"):
        task_for("point", task_template="In: {task}", pin_task=True)


def test_a_request_without_a_task_is_refused_by_a_policy_that_reads_it():
    spec = replace(SPEC, reads_task=True)
    data, offer = sample_request(spec, "")
    for manifest, refused in (
        (make_manifest(), False),
        (make_manifest(default_task="", task_template="In: {task}"), True),
    ):
        decoder = RequestDecoder(manifest, spec)
        _, message = decoder.request(data)
        if refused:
            with pytest.raises(WireError, match="task: policy waver reads the task: found none, expected"):
                decoder.observation(message, offer)
        else:
            assert decoder.observation(message, offer).task == "wave"


def test_samples_name_a_task_to_a_policy_that_reads_it():
    manifest = make_manifest(default_task="", warmup_image_sizes=((96, 128),))
    for reads_task in (True, False):
        spec = replace(SPEC, reads_task=reads_task)
        decoder = RequestDecoder(manifest, spec)
        for data, offer in sample_requests(spec, manifest):
            _, message = decoder.request(data)
            assert bool(decoder.observation(message, offer).task) == bool(offer.task) == reads_task


def test_samples_have_the_training_s_size_and_then_those_of_the_robots():
    manifest = make_manifest(warmup_image_sizes=((480, 640), (96, 128)))
    decoder = RequestDecoder(manifest, SPEC)
    shapes = []
    for data, offer in sample_requests(SPEC, manifest):
        _, message = decoder.request(data)
        images = decoder.observation(message, offer).images
        shapes.append((images["rgb"].shape, images["depth"].shape))
    assert shapes == [
        ((48, 64, 3), (32, 24)),
        ((480, 640, 3), (480, 640)),
        ((96, 128, 3), (96, 128)),
    ]


def test_image_sizes_of_a_policy_without_images_are_refused():
    manifest = make_manifest(warmup_image_sizes=((480, 640),))
    with pytest.raises(PolicyError, match="warmup_image_sizes: found 480 x 640, expected none: policy"):
        list(sample_requests(replace(SPEC, image_shapes={}), manifest))
