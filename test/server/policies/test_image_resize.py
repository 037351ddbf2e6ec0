# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots' images come to the size of the training as they did in the training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import PolicyObservation
from remote_inference.server.policies.networks.torch_chunk import (
    CONFIG_FILE,
    ChunkPolicyConfig,
    RegressionConfig,
    TorchChunkPolicy,
    save_policy,
)
from remote_inference.server.policies.trained_policy import box_resize, crop_resize, letterbox_resize

CAMERA = "observation.images.front"


def write_policy(folder: Path, image_resize: Any) -> Path:
    """Write a policy that takes 24 x 32 images, in each mode with the same weights."""
    config = RegressionConfig(
        name="tiny",
        revision="1",
        state_names=("shoulder", "elbow"),
        action_names=("shoulder", "elbow"),
        image_features={CAMERA: (24, 32, 3)},
        image_resize=image_resize,
        chunk_size=4,
        trained_fps=30.0,
        channels=(4, 4, 4),
        hidden_units=16,
    )
    torch.manual_seed(0)
    network = config.make_network()
    network.encoders[0].pool.temperature.data.fill_(50.0)  # an untrained network hardly looks
    save_policy(folder, config, network)
    return folder


def observe(height: int, width: int) -> PolicyObservation:
    image = np.random.default_rng(0).integers(1, 256, (height, width, 3), np.uint8)
    return PolicyObservation(np.array([0.1, 0.2], np.float32), {CAMERA: image}, "")


def ask(policy: Any, observation: PolicyObservation) -> np.ndarray:
    (chunk,) = policy.predict([policy.make_processors().pre(observation)])
    return np.asarray(chunk)


def test_letterboxed_images_keep_their_proportions_in_the_middle_of_black(tmp_path: Path) -> None:
    """A square camera leaves 4 columns on each side."""
    policy = TorchChunkPolicy(write_policy(tmp_path, "letterbox"))
    (boxed,) = policy.make_processors().pre(observe(48, 48)).images
    assert boxed.shape == (3, 24, 32)
    assert boxed[:, :, 4:-4].all()
    assert not boxed[:, :, :4].any()
    assert not boxed[:, :, -4:].any()


@pytest.mark.parametrize("shape", [(72, 96), (1, 500), (500, 1), (71, 97), (480, 640)])
def test_letterboxing_fits_every_shape(shape: tuple[int, int]) -> None:
    boxed = letterbox_resize(np.full((*shape, 3), 9, np.uint8), 72, 96)
    assert boxed.shape == (3, 72, 96)
    assert boxed.max() == 9
    if shape[0] * 96 == shape[1] * 72:
        assert (boxed == 9).all()


def test_cropped_images_are_the_middle_at_the_proportions_of_the_training(tmp_path: Path) -> None:
    """A square camera loses 6 rows above and below."""
    policy = TorchChunkPolicy(write_policy(tmp_path, "crop"))
    observation = observe(48, 48)
    (cropped,) = policy.make_processors().pre(observation).images
    np.testing.assert_array_equal(cropped, box_resize(observation.images[CAMERA][6:-6], 24, 32))


@pytest.mark.parametrize("shape", [(72, 96), (1, 500), (500, 1), (71, 97), (480, 640)])
def test_cropping_fits_every_shape_and_leaves_proportions_alone_that_fit(shape: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    cropped = crop_resize(image, 72, 96)
    assert cropped.shape == (3, 72, 96)
    if shape[0] * 96 == shape[1] * 72:
        np.testing.assert_array_equal(cropped, box_resize(image, 72, 96))


@pytest.mark.parametrize(("shape", "axis"), [((48, 100), 1), ((100, 48), 0)])
def test_cropping_cuts_the_same_off_on_both_sides(shape: tuple[int, int], axis: int) -> None:
    """What is off the middle by the same on both sides stays so."""
    image = np.zeros((*shape, 3), np.uint8)
    half = np.abs(np.arange(shape[axis]) - (shape[axis] - 1) / 2)
    image[:] = half.astype(np.uint8)[:, None, None] if axis == 0 else half.astype(np.uint8)[None, :, None]
    cropped = crop_resize(image, 24, 32)
    np.testing.assert_array_equal(cropped, np.flip(cropped, axis + 1))
    assert cropped.max() < image.max(), "the borders are cut off"


def test_a_file_without_the_mode_stretches_as_before_it_existed(tmp_path: Path) -> None:
    file = write_policy(tmp_path, "stretch") / CONFIG_FILE
    assert "image_resize" not in file.read_text()
    assert ChunkPolicyConfig.parse(file.read_bytes(), file).image_resize == "stretch"


def test_a_mode_that_nobody_knows_is_named(tmp_path: Path) -> None:
    file = write_policy(tmp_path, "letterbox") / CONFIG_FILE
    file.write_text(file.read_text().replace("letterbox", "squash"))
    with pytest.raises(DocumentError) as refusal:
        TorchChunkPolicy(tmp_path)
    expected = "expected 'stretch', 'letterbox' or 'crop'"
    assert str(refusal.value) == f"{file}: image_resize: found 'squash', {expected}"


def test_an_exported_policy_letterboxes_as_its_source_does(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="found no onnxscript, which requirements/dev.txt lists")
    from remote_inference.server.policies.onnx.export import export_policy
    from remote_inference.server.policies.onnx.policy import OnnxPolicy

    source = write_policy(tmp_path / "letterbox", "letterbox")
    exported = OnnxPolicy(export_policy(source, tmp_path / "out").path)
    square = observe(48, 48)
    expected = ask(TorchChunkPolicy(source), square)
    np.testing.assert_allclose(ask(exported, square), expected, atol=1e-4)
    stretched = TorchChunkPolicy(write_policy(tmp_path / "stretch", "stretch"))
    assert np.abs(ask(stretched, square) - expected).max() > 0.01, "the mode decides about the answer"
