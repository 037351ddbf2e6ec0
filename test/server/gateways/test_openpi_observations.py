# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Observations of openpi's clients: read by the manifest's keys, and refused in words where they do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.exchange import ImageFeature, Request, SessionOffer
from remote_inference.base.policy import PolicyObservation, PolicySpec
from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.openpi import pack, unpack_map
from remote_inference.server.gateways.connection import ObservationReader
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.manifest.sections import OpenpiSection
from remote_inference.server.requests.request_decoder import RequestDecoder
from support.builders import make_spec

REQUEST = Request(
    session_id="s",
    session_epoch=0,
    seq_id=7,
    episode_id=2,
    episode_start=False,
    client_mono_ns=0,
    task="",
    inference_delay_steps=0,
)
HWC = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
CHW = np.ascontiguousarray(HWC.transpose(2, 0, 1))


def names(count: int) -> tuple[str, ...]:
    return tuple(f"joint_{index}" for index in range(count))


def spec_of(state_dim: int, *cameras: str) -> PolicySpec:
    shapes = {f"observation.images.{camera}": (6, 8, 3) for camera in cameras}
    return make_spec(state_names=names(state_dim), image_shapes=shapes)


# As openpi's examples send them.
DROID = {
    "observation/exterior_image_1_left": HWC,
    "observation/wrist_image_left": HWC[::-1],
    "observation/joint_position": np.linspace(0.0, 0.6, 7),
    "observation/gripper_position": np.array([0.7]),
    "prompt": "pick up the cube",
}
LIBERO = {
    "observation/image": HWC,
    "observation/wrist_image": HWC[::-1],
    "observation/state": np.linspace(0.0, 0.7, 8),
    "prompt": "pick up the cube",
}
ALOHA = {
    "state": np.linspace(0.0, 1.3, 14),
    "images": {"cam_high": CHW, "cam_left_wrist": CHW[:, ::-1]},
    "prompt": "pick up the cube",
}
EXAMPLES = {
    "droid": (DROID, spec_of(8, "exterior_image_1_left", "wrist_image_left")),
    "libero": (LIBERO, spec_of(8, "image", "wrist_image")),
    "aloha": (ALOHA, spec_of(14, "cam_high", "cam_left_wrist")),
}


def read(observation: dict[str, Any], section: dict[str, Any], spec: PolicySpec) -> PolicyObservation:
    """Return what a policy gets of an observation that came over the wire."""
    manifest = Manifest(model=ModelSource(backend="hold", path="x"), default_task=section.pop("task", ""))
    keys = parse_document(section, OpenpiSection, "openpi").keys_for(spec)
    reader = ObservationReader(keys, spec, manifest.default_task)
    decoder = RequestDecoder(manifest, spec)
    request, message = decoder.request(reader.read(unpack_map(pack(observation)), REQUEST))
    assert replace(request, task="") == REQUEST
    images = tuple(ImageFeature(feature, "raw") for feature in spec.image_shapes)
    offer = SessionOffer(spec.action_names, spec.state_names, images, 20.0, "", wants_rtc=False)
    return decoder.observation(message, offer)


@pytest.mark.parametrize("preset", EXAMPLES)
def test_a_preset_reads_what_openpi_s_example_sends(preset: str):
    observation, spec = EXAMPLES[preset]
    seen = read(observation, {"preset": preset}, spec)
    assert seen.task == "pick up the cube"
    np.testing.assert_allclose(seen.state, np.arange(len(spec.state_names)) / 10, atol=1e-6)
    first, second = seen.images.values()
    np.testing.assert_array_equal(first, HWC)
    np.testing.assert_array_equal(second, HWC[::-1])


def test_a_camera_of_another_name_is_mapped_by_the_manifest():
    spec = spec_of(8, "base", "wrist_image_left")
    images = {"observation.images.base": "observation/exterior_image_1_left"}
    seen = read(DROID, {"preset": "droid", "images": images}, spec)
    np.testing.assert_array_equal(seen.images["observation.images.base"], HWC)


def test_keys_of_one_s_own_need_no_preset():
    section = {
        "state": ["arm", "hand/width"],
        "images": {"observation.images.a": "cameras/a"},
        "layout": "chw",
        "prompt": "text",
    }
    observation = {"arm": [0.5, 1], "hand": {"width": 2.0}, "cameras": {"a": CHW}, "text": b"wave", "more": 1}
    seen = read(observation, section, spec_of(3, "a"))
    np.testing.assert_allclose(seen.state, [0.5, 1.0, 2.0])
    np.testing.assert_array_equal(seen.images["observation.images.a"], HWC)
    assert seen.task == "wave"


def test_without_a_prompt_the_manifest_s_task_counts():
    observation = {key: value for key, value in LIBERO.items() if key != "prompt"}
    assert read(observation, {"preset": "libero", "task": "wave"}, EXAMPLES["libero"][1]).task == "wave"


WRONG = {
    "a wrong key": (
        {"observation/state": None, "observation/sate": np.zeros(8)},
        "did you mean 'observation/sa",
    ),
    "no prompt": (
        {"prompt": None},
        "prompt: found no such key, expected the task, for which the server has no",
    ),
    "a prompt that is a number": ({"prompt": 3}, "prompt: found 3, expected a text"),
    "a float image": (
        {"observation/image": HWC.astype(np.float32)},
        "observation/image: found float32 of shape [6, 8, 3], expected a uint8 array of shape [height, w",
    ),
    "an image as chw": ({"observation/image": CHW}, "found uint8 of shape [3, 6, 8], expected a uint8 array"),
    "an image with alpha": ({"observation/image": np.zeros((6, 8, 4), np.uint8)}, "of shape [6, 8, 4]"),
    "a batch of images": ({"observation/image": HWC[None]}, "of shape [1, 6, 8, 3]"),
    "an empty image": ({"observation/image": HWC[:0]}, "of shape [0, 8, 3]"),
    "a text as image": ({"observation/image": "x.png"}, "found 'x.png', expected a uint8 array"),
    "a short state": (
        {"observation/state": np.zeros(7)},
        "state: found 7 in observation/state, expected 8 values",
    ),
    "a batch of states": (
        {"observation/state": np.zeros((1, 8))},
        "found float64 of shape [1, 8], expected num",
    ),
    "a state of truth values": ({"observation/state": np.zeros(8, bool)}, "found bool of shape [8]"),
    "a state of texts": ({"observation/state": ["a"] * 8}, "expected numbers in one dimension"),
    "a state with NaN": (
        {"observation/state": np.full(8, np.nan)},
        "found joint_0 = nan, expected finite values",
    ),
    "a state beyond float32": ({"observation/state": np.full(8, 1e300)}, "found joint_0 = inf"),
}


@pytest.mark.parametrize(("changes", "words"), WRONG.values(), ids=WRONG)
def test_an_observation_that_does_not_fit_is_refused(changes: dict[str, Any], words: str):
    observation = {key: value for key, value in {**LIBERO, **changes}.items() if value is not None}
    with pytest.raises(WireError) as caught:
        read(observation, {"preset": "libero"}, EXAMPLES["libero"][1])
    assert words in str(caught.value)


def test_an_image_as_hwc_is_refused_where_chw_is_expected():
    observation = {**ALOHA, "images": {"cam_high": HWC, "cam_left_wrist": CHW}}
    with pytest.raises(WireError, match=r"images/cam_high: found uint8 of shape \[6, 8, 3\], .* \(chw\)"):
        read(observation, {"preset": "aloha"}, EXAMPLES["aloha"][1])


UNFIT = {
    "a camera that the preset lacks": (
        {"preset": "droid"},
        spec_of(8, "front"),
        "images: found no entry for observation.images.front of the policy",
    ),
    "a feature that the policy lacks": (
        {"preset": "libero", "images": {"observation.images.front": "x"}},
        spec_of(8, "image"),
        "images: found 'observation.images.front', expected features of the policy: observation.images.image",
    ),
    "history": (
        {"preset": "libero"},
        replace(spec_of(8, "image"), observation_steps=2),
        "needs observations of 2 control ticks, clients send one",
    ),
    "depth": (
        {"preset": "libero"},
        make_spec(state_names=names(8), image_shapes={"observation.images.image": (6, 8, 1)}),
        "needs depth (observation.images.image), clients send colour",
    ),
}


@pytest.mark.parametrize(("section", "spec", "words"), UNFIT.values(), ids=UNFIT)
def test_a_section_that_does_not_fit_the_policy_is_refused(section: dict, spec: PolicySpec, words: str):
    with pytest.raises(DocumentError, match="openpi") as caught:
        parse_document(section, OpenpiSection, "openpi").keys_for(spec)
    assert words in str(caught.value)
