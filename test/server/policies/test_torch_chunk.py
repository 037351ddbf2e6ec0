# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The chunk policy: the files that it loads and refuses, and that the shipped policy picks cubes."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from belt_arm.evaluate import SHIPPED_PLAIN_POLICY, evaluate
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import (
    DeviceLostError,
    PolicyError,
    PolicyObservation,
    ServingMode,
    UpdatablePolicy,
)
from remote_inference.learn.environments.belt_arm.scene import CONTROL_HZ, IMAGE_FEATURES, JOINT_NAMES
from remote_inference.learn.environments.belt_arm.strategies import NO_TRIM, TRIM
from remote_inference.server.policies.networks.torch_chunk import CONFIG_FILE, WEIGHTS_FILE, TorchChunkPolicy
from support.device import DEVICE

UNSEEN_SEEDS = range(300, 310)
STATE_KEY = "head.0.weight"


@pytest.fixture(scope="module")
def policy():
    shipped = TorchChunkPolicy(SHIPPED_PLAIN_POLICY, DEVICE)
    yield shipped
    shipped.close()


@pytest.fixture
def folder(tmp_path):
    """A copy of the shipped policy, for tests to damage."""
    for name in (WEIGHTS_FILE, CONFIG_FILE):
        shutil.copy(SHIPPED_PLAIN_POLICY / name, tmp_path / name)
    return tmp_path


def edit_config(folder, **changes):
    path = folder / CONFIG_FILE
    document = json.loads(path.read_text())
    document.update(changes)
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))


def edit_weights(folder, edit):
    tensors = load_file(folder / WEIGHTS_FILE)
    edit(tensors)
    save_file(tensors, folder / WEIGHTS_FILE)


def random_observation(seed, height=240, width=320):
    rng = np.random.default_rng(seed)
    images = {
        feature: rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        for feature in IMAGE_FEATURES.values()
    }
    return PolicyObservation(state=rng.normal(size=6).astype(np.float32), images=images, task="")


def test_the_specification_states_the_contract(policy):
    spec = policy.spec
    assert spec.name == "belt_arm_plain"
    assert spec.state_names == spec.action_names == JOINT_NAMES
    assert spec.action_dim == 6
    assert dict(spec.image_shapes) == {
        "observation.images.front": (72, 96, 3),
        "observation.images.wrist": (72, 96, 3),
    }
    assert (spec.chunk_size, spec.trained_fps, spec.max_batch) == (40, CONTROL_HZ, 16)
    assert (spec.supports_rtc, spec.serving_mode) == (False, ServingMode.SHARED)
    assert (spec.units["shoulder_pan"], spec.units["gripper"]) == ("rad", "m")


def test_the_ranges_of_the_training_data_are_those_of_the_normalisation(policy):
    for what, names in (("state", JOINT_NAMES), ("action", JOINT_NAMES)):
        mean, std = (getattr(policy.network, f"{what}_{kind}").cpu().numpy() for kind in ("mean", "std"))
        ranges = getattr(policy.spec, f"{what}_ranges")
        assert tuple(ranges) == names
        np.testing.assert_allclose(list(ranges.values()), np.stack([mean - 2 * std, mean + 2 * std], 1), 1e-4)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("CUDA error: an illegal memory access was encountered\nCompile with ...", DeviceLostError),
        ("CUDA out of memory. Tried to allocate 2.00 GiB.", RuntimeError),
    ],
)
def test_a_lost_device_is_distinguished_from_a_full_one(folder, monkeypatch, message, kind):
    policy = TorchChunkPolicy(folder, DEVICE)

    def fail(*_):
        raise RuntimeError(message)

    monkeypatch.setattr(policy.network, "answer", fail)
    sample = policy.make_processors().pre(random_observation(0))
    with pytest.raises(kind, match=message.splitlines()[0]):
        policy.predict([sample])


def test_closing_a_policy_frees_the_memory_that_torch_caches(folder, monkeypatch):
    """Moving the weights away leaves their memory in torch's cache, where no other process can use it."""
    policy = TorchChunkPolicy(folder, DEVICE)
    policy._device = torch.device("cuda")  # this machine may have no GPU: the test sees only the call
    left = []
    monkeypatch.setattr(
        torch.cuda,
        "empty_cache",
        lambda: left.append({str(weights.device) for weights in policy.network.parameters()}),
    )
    policy.close()
    assert left == [{"meta"}]


def test_the_shipped_policy_is_small_and_has_a_card(policy):
    assert sum(path.stat().st_size for path in SHIPPED_PLAIN_POLICY.iterdir()) < 1_000_000
    assert policy.spec.fingerprint in (SHIPPED_PLAIN_POLICY / "README.md").read_text()


def test_the_fingerprint_follows_weights_configuration_and_precision(policy, folder):
    assert TorchChunkPolicy(folder).spec.fingerprint == policy.spec.fingerprint
    edit_config(folder, revision="other")
    renamed = TorchChunkPolicy(folder).spec.fingerprint
    edit_weights(folder, lambda tensors: tensors["head.0.bias"].add_(1e-3))
    retrained = TorchChunkPolicy(folder).spec.fingerprint
    coarser = TorchChunkPolicy(folder, dtype="bfloat16").spec.fingerprint
    assert len({policy.spec.fingerprint, renamed, retrained, coarser}) == 4
    assert len(retrained) == 16


def test_batched_chunks_equal_single_ones(policy):
    processors = policy.make_processors()
    batch = [processors.pre(random_observation(seed)) for seed in range(policy.spec.max_batch)]
    batched = policy.predict(batch)
    assert len(batched) == len(batch)
    for sample, chunk in zip(batch, batched, strict=True):
        (alone,) = policy.predict([sample])
        assert (chunk.shape, chunk.dtype) == ((40, 6), np.float32)
        np.testing.assert_allclose(chunk, alone, atol=1e-4)


@pytest.mark.parametrize("name", ["belt_arm", "belt_arm_flow", "belt_arm_guidance", "belt_arm_plain"])
def test_a_policy_says_whether_its_chunks_depend_on_the_seed(name):
    policy = TorchChunkPolicy(SHIPPED_PLAIN_POLICY.with_name(name), DEVICE)
    processors = policy.make_processors()
    one, other = (processors.pre(replace(random_observation(0), seed=seed)) for seed in (1, 2))
    chunks = [policy.predict([sample])[0] for sample in (one, other)]
    assert policy.spec.samples != np.array_equal(*chunks)


@pytest.mark.parametrize("size", [0, 17])
def test_a_batch_of_the_wrong_size_is_refused(policy, size):
    sample = policy.make_processors().pre(random_observation(0))
    with pytest.raises(PolicyError, match=f"expected 1 to 16 inputs, found {size}"):
        policy.predict([sample] * size)


def test_robot_space_is_unnormalised_model_space(policy):
    tensors = load_file(SHIPPED_PLAIN_POLICY / WEIGHTS_FILE)
    post = policy.make_processors().post
    np.testing.assert_allclose(post(np.zeros((40, 6), np.float32))[0], tensors["action_mean"])
    ones = post(np.ones((40, 6), np.float32))
    np.testing.assert_allclose(ones[39], tensors["action_mean"] + tensors["action_std"])
    assert ones.dtype == np.float32


@pytest.mark.parametrize(("height", "width"), [(72, 96), (144, 192), (240, 320), (480, 640), (36, 48)])
def test_images_of_any_resolution_keep_their_areas(policy, height, width):
    observation = random_observation(1, height, width)
    for image in observation.images.values():
        image[:] = 40
        image[: height // 2, :, 0] = 200
    image = policy.make_processors().pre(observation).images[0]
    assert (image.shape, image.dtype) == ((3, 72, 96), np.uint8)
    assert (image[0, :36] == 200).all()
    assert (image[0, 36:] == 40).all()
    assert (image[1:] == 40).all()


def test_an_integer_ratio_is_an_exact_box_filter(policy):
    observation = random_observation(2, 144, 288)
    expected = (
        observation.images[IMAGE_FEATURES["wrist"]].reshape(72, 2, 96, 3, 3).mean((1, 3)).transpose(2, 0, 1)
    )
    resized = policy.make_processors().pre(observation).images[1]
    assert np.abs(resized - expected).max() <= 0.5 + 1e-3


def test_a_missing_camera_is_named(policy):
    observation = random_observation(0)
    del observation.images["observation.images.wrist"]
    with pytest.raises(
        PolicyError, match=r"observation\.images\.wrist: missing; found \['observation\.images\.front"
    ):
        policy.make_processors().pre(observation)


@pytest.mark.parametrize(
    "image", [np.zeros((72, 96, 3), np.float32), np.zeros((72, 96), np.uint8), np.zeros((0, 96, 3), np.uint8)]
)
def test_an_image_of_another_kind_is_refused(policy, image):
    observation = random_observation(0)
    observation.images["observation.images.front"] = image
    with pytest.raises(PolicyError, match=r"observation\.images\.front: found .*, expected uint8"):
        policy.make_processors().pre(observation)


@pytest.mark.parametrize("state", [np.zeros(5), np.zeros((1, 6)), np.full(6, np.inf)])
def test_a_malformed_state_is_refused(policy, state):
    observation = PolicyObservation(state=state, images=random_observation(0).images, task="")
    with pytest.raises(PolicyError, match=r"state: found .*, expected"):
        policy.make_processors().pre(observation)


def test_a_path_may_name_a_weights_file_which_the_configuration_beside_it_describes(policy, folder):
    named = folder / "step_2000.safetensors"
    (folder / WEIGHTS_FILE).rename(named)
    assert TorchChunkPolicy(named).spec.fingerprint == policy.spec.fingerprint
    edit_config(folder, chunk_size=7)
    with pytest.raises(PolicyError, match=r"step_2000\.safetensors: .*: expected shape"):
        TorchChunkPolicy(named)
    (folder / CONFIG_FILE).unlink()
    with pytest.raises(PolicyError, match=rf"{CONFIG_FILE}: No such file"):
        TorchChunkPolicy(named)


@pytest.mark.parametrize("name", [WEIGHTS_FILE, CONFIG_FILE])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(PolicyError, match=f"{name}: No such file"):
        TorchChunkPolicy(folder)


@pytest.mark.parametrize(
    ("length", "found"),
    [
        (0, "an empty file, expected a safetensors file; copy or download it again"),
        (7, "bytes of another format, expected a safetensors file: "),
        (5000, "a safetensors file that is damaged or cut off, expected it whole: "),
    ],
)
def test_truncated_weights_are_refused(folder, length, found):
    path = folder / WEIGHTS_FILE
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(PolicyError, match=rf"model\.safetensors: found {found}"):
        TorchChunkPolicy(folder)


def test_weights_that_are_a_pickle_are_named_as_one(folder):
    path = folder / "model.bin"
    path.write_bytes(pickle.dumps({"weights": 1}))
    found = "a pickle: loading one can execute code, expected a safetensors file"
    with pytest.raises(PolicyError, match=rf"model\.bin: found {found}"):
        TorchChunkPolicy(path)


def test_a_missing_tensor_is_named(folder):
    edit_weights(folder, lambda tensors: tensors.pop("action_std"))
    with pytest.raises(PolicyError, match=r"model\.safetensors: action_std: missing"):
        TorchChunkPolicy(folder)


def test_an_unknown_tensor_is_named(folder):
    edit_weights(folder, lambda tensors: tensors.update(stray=torch.zeros(1)))
    with pytest.raises(PolicyError, match=r"model\.safetensors: stray: not part of"):
        TorchChunkPolicy(folder)


def test_a_tensor_of_another_shape_is_named(folder):
    edit_config(folder, state_names=[*JOINT_NAMES, "seventh"])
    with pytest.raises(PolicyError, match=r"safetensors: state_mean: expected shape \(7,\), found \(6,\)"):
        TorchChunkPolicy(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("architecture", "resnet"),
        ("name", ""),
        ("state_names", []),
        ("action_names", "shoulder_pan"),
        ("chunk_size", 0),
        ("chunk_size", True),
        ("trained_fps", "30"),
        ("channels", [16, 0, 32]),
        ("hidden_units", 2.5),
        ("image_features", {"observation.images.front": [72, 96, 4]}),
    ],
)
def test_a_wrong_value_names_file_key_and_value(folder, key, value):
    edit_config(folder, **{key: value})
    with pytest.raises(DocumentError, match=rf"policy\.json: {key}.*: found .*, expected "):
        TorchChunkPolicy(folder)


@pytest.mark.parametrize("key", ["architecture", "revision", "image_features"])
def test_a_missing_key_names_file_and_key(folder, key):
    edit_config(folder, **{key: None})
    with pytest.raises(DocumentError, match=rf"policy\.json: {key}: missing"):
        TorchChunkPolicy(folder)


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_a_file_that_is_no_json_object_is_refused(folder, text):
    (folder / CONFIG_FILE).write_text(text, encoding="latin-1")
    with pytest.raises(
        DocumentError,
        match=r"policy\.json: (is not valid JSON|is not UTF-8 text|found .*, expected a mapping)",
    ):
        TorchChunkPolicy(folder)


def test_an_unknown_device_or_precision_is_refused():
    with pytest.raises(PolicyError, match=r"model\.device: found 'abacus', expected a device of torch"):
        TorchChunkPolicy(SHIPPED_PLAIN_POLICY, device="abacus")
    with pytest.raises(PolicyError, match="dtype: expected one of float32"):
        TorchChunkPolicy(SHIPPED_PLAIN_POLICY, dtype="float64")


def test_reduced_precision_stays_close(policy):
    reduced = TorchChunkPolicy(SHIPPED_PLAIN_POLICY, DEVICE, dtype="bfloat16")
    sample = policy.make_processors().pre(random_observation(3))
    np.testing.assert_allclose(reduced.predict([sample])[0], policy.predict([sample])[0], atol=0.2)


def test_the_shipped_policy_picks_cubes(policy):
    assert evaluate(policy, UNSEEN_SEEDS).successes >= 9


def test_the_shipped_policy_is_blind_without_cameras(policy):
    """Joint positions alone must not be enough, or the cameras would prove nothing."""
    assert evaluate(policy, UNSEEN_SEEDS, cameras_black=True).successes <= 1


def test_trimming_the_delay_makes_the_difference(policy):
    """At 300 ms a chunk replayed from its first row misses; dropping the elapsed rows repairs it."""
    trimmed = evaluate(policy, UNSEEN_SEEDS, latency_s=0.3, strategy=TRIM)
    stale = evaluate(policy, UNSEEN_SEEDS, latency_s=0.3, strategy=NO_TRIM)
    assert trimmed.successes >= 8
    assert stale.successes <= 3


def test_what_is_written_into_the_weights_is_in_the_next_chunk(folder):
    policy = TorchChunkPolicy(folder, DEVICE)
    sample = policy.make_processors().pre(random_observation(1))
    (before,) = policy.predict([sample])
    with torch.no_grad():
        policy.weights()["head.0.weight"].mul_(0.5)
    (after,) = policy.predict([sample])
    assert not np.array_equal(before, after)


def test_a_policy_in_another_precision_shows_the_weights_that_answer(folder):
    policy = TorchChunkPolicy(folder, DEVICE, dtype="bfloat16")
    sample = policy.make_processors().pre(random_observation(1))
    (before,) = policy.predict([sample])
    assert {tensor.dtype for tensor in policy.weights().values()} == {torch.bfloat16}
    with torch.no_grad():
        policy.weights()["head.0.weight"].mul_(0.5)
    (after,) = policy.predict([sample])
    assert not np.array_equal(before, after)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["action_mean", "action_std"])
def test_weights_with_another_normalisation_of_actions_cannot_be_served(folder, name, dtype):
    """Sessions have copied it: a chunk would be of two versions, in model space and in robot space."""
    policy = TorchChunkPolicy(folder, DEVICE, dtype=dtype)
    assert isinstance(policy, UpdatablePolicy)
    policy.check_weights()
    with torch.no_grad():
        policy.weights()[name].mul_(2.0)
    with pytest.raises(PolicyError, match=f"{name}: found another normalisation of actions"):
        policy.check_weights()
