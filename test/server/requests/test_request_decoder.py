# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server's decoder makes the policy's instruction; samples are what robots would send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from remote_inference.base.policy import Continuation, PolicyError, PolicyObservation, PolicySpec
from remote_inference.base.wire.arrays import WireError
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.requests.request_decoder import (
    RequestDecoder,
    sample_batch,
    sample_requests,
)
from remote_inference.server.warmup import Rehearsal, find_speed, make_ready
from support.builders import ShiftProcessors, SteadyPolicy, make_spec

SPEC = make_spec(image_shapes={"rgb": (48, 64, 3), "depth": (32, 24, 1)})


def make_manifest(**changes: Any) -> Manifest:
    return Manifest(model=ModelSource(backend="hold", path="x"), **{"default_task": "wave", **changes})


def task_for(robots_task: str, **changes: Any) -> str:
    decoder = RequestDecoder(make_manifest(**changes), SPEC)
    (data, *_), offer = sample_batch(SPEC, robots_task)
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
    (data, *_), offer = sample_batch(spec, "")
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
        for (data, *_), offer in sample_requests(spec, manifest):
            _, message = decoder.request(data)
            assert bool(decoder.observation(message, offer).task) == bool(offer.task) == reads_task


def test_samples_have_the_training_s_size_and_then_those_of_the_robots():
    manifest = make_manifest(warmup_image_sizes=((480, 640), (96, 128)))
    decoder = RequestDecoder(manifest, SPEC)
    shapes = []
    for (data, *_), offer in sample_requests(SPEC, manifest):
        _, message = decoder.request(data)
        images = decoder.observation(message, offer).images
        shapes.append((images["rgb"].shape, images["depth"].shape))
    assert shapes == [
        ((48, 64, 3), (32, 24)),
        ((120, 160, 3), (480, 640)),  # no more is decoded than twice what the policy sees
        ((96, 128, 3), (96, 128)),
    ]


def test_image_sizes_of_a_policy_without_images_are_refused():
    manifest = make_manifest(warmup_image_sizes=((480, 640),))
    with pytest.raises(PolicyError, match="warmup_image_sizes: found 480 x 640, expected none: policy"):
        list(sample_requests(replace(SPEC, image_shapes={}), manifest))


def waits_of(spec: PolicySpec) -> list[tuple[int, int]]:
    """Return rows and delay of each request of a batch."""
    decoder = RequestDecoder(make_manifest(), spec)
    batch, offer = sample_batch(spec, "wave")
    seen = [decoder.observation(decoder.request(data)[1], offer) for data in batch]
    return [
        (0 if found.prefix_model is None else len(found.prefix_model), found.inference_delay_steps)
        for found in seen
    ]


def test_requests_of_a_batch_differ_in_prefix_and_delay():
    rows, delays = zip(*waits_of(replace(SPEC, chunk_size=20)), strict=True)
    assert {0, 20} <= set(rows)
    assert len(set(rows)) == len(set(delays)) == len(rows) == 8
    assert waits_of(replace(SPEC, chunk_size=1))[:2] == [(1, 1), (0, 1)]
    assert waits_of(replace(SPEC, continuation=Continuation.NONE)) == [(0, 0)]


class DelayProcessors(ShiftProcessors):
    """Hands the delay on to the policy."""

    def pre(self, observation: PolicyObservation) -> Any:
        return super().pre(observation), observation.inference_delay_steps


class TenMillisecondsPerCall(SteadyPolicy):
    """Calls its network once for a batch, or once for each delay in it."""

    def __init__(self, *, mixes_delays: bool) -> None:
        super().__init__(max_batch=8)
        self.now_ns = 0
        self._mixes_delays = mixes_delays

    def make_processors(self) -> DelayProcessors:
        return DelayProcessors()

    def predict(self, batch: Sequence[Any]) -> Any:
        calls = 1 if self._mixes_delays else len({delay for _, delay in batch})
        self.now_ns += calls * 10_000_000
        return self.answer([state for state, _ in batch])


def robots_for(policy: TenMillisecondsPerCall) -> int:
    """Return the capacity that the server logs."""
    manifest = make_manifest(scheduler="micro_batch", max_sessions=8)
    decoder = RequestDecoder(manifest, policy.spec)
    (sample,) = sample_requests(policy.spec, manifest)
    rehearsal = Rehearsal(policy, decoder, *sample)
    ready = make_ready(policy, rehearsal, manifest, lambda: policy.now_ns)
    return find_speed(policy.spec, ready.request_s).robots


def test_a_policy_that_is_slow_for_mixed_delays_gets_the_lower_capacity():
    """Robots have different delays. Equal requests, which it answers in one call, would promise too much."""
    slow, fast = (robots_for(TenMillisecondsPerCall(mixes_delays=mixes)) for mixes in (False, True))
    assert 0 < 7 * slow < fast
