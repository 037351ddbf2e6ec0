# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as a policy: what it answers, in which batches, on which device."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="found no onnx, which requirements/server.txt lists")
pytest.importorskip("onnxruntime", reason="found no onnxruntime, which requirements/server.txt lists")

import onnx
import onnxruntime
from onnx import TensorProto

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import (
    Continuation,
    DeviceError,
    DeviceLostError,
    PastStep,
    PolicyError,
    PolicyObservation,
    ServingMode,
)
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies import load_policy
from remote_inference.server.policies.onnx.policy import OnnxPolicy
from remote_inference.server.warmup import find_serving_mode
from support.policies.onnx_models import (
    CAMERA,
    DESCRIPTION,
    JOINTS,
    ROWS,
    TASKS,
    WEIGHTS,
    make_weights,
    move_weights_out,
    save_model,
)

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "onnx.md"


def observe(value: float = 0.5, brightness: int = 10, seed: int = 0) -> PolicyObservation:
    return PolicyObservation(
        state=np.array([value, 2 * value], np.float32),
        images={CAMERA: np.full((4, 6, 3), brightness, np.uint8)},
        task="",
        seed=seed,
    )


def ask(policy: Any, *observations: PolicyObservation) -> list[np.ndarray]:
    pre = policy.make_processors().pre
    return policy.predict([pre(observation) for observation in observations])


def expected(observation: PolicyObservation) -> np.ndarray:
    """What the model computes, without its noise."""
    moved: np.ndarray = (observation.state @ WEIGHTS).reshape(ROWS, 2)
    return moved + observation.images[CAMERA].mean()


def test_a_file_of_somebody_else_is_served_by_its_metadata(tmp_path: Path):
    save_model(tmp_path, description={**DESCRIPTION, "action_mean": [1.0, 2.0], "action_std": [0.5, 0.25]})
    policy: Any = load_policy(ModelSource(backend="onnx", path=str(tmp_path)))
    spec = policy.spec
    assert (spec.name, spec.revision, spec.state_names, spec.action_names) == ("tiny", "1", JOINTS, JOINTS)
    assert (dict(spec.image_shapes), spec.chunk_size, spec.trained_fps) == ({CAMERA: (4, 6, 3)}, ROWS, 30.0)
    assert (spec.continuation, spec.max_batch, spec.samples) == (Continuation.NONE, 64, False)
    assert list(spec.action_ranges.values()) == [(0.0, 2.0), (1.5, 2.5)]
    assert find_serving_mode(policy, "").mode is ServingMode.SHARED
    (chunk,) = ask(policy, observe())
    assert (chunk.shape, chunk.dtype) == ((ROWS, 2), np.float32)
    np.testing.assert_allclose(chunk, expected(observe()), rtol=1e-5)
    robot = policy.make_processors().post(chunk)
    np.testing.assert_allclose(robot, chunk * [0.5, 0.25] + [1.0, 2.0], rtol=1e-5)
    policy.close()


def test_without_normalisation_model_space_is_robot_space(tmp_path: Path):
    policy = OnnxPolicy(save_model(tmp_path))
    (chunk,) = ask(policy, observe())
    np.testing.assert_array_equal(policy.make_processors().post(chunk), chunk)


def test_float_images_go_in_between_0_and_1(tmp_path: Path):
    policy = OnnxPolicy(save_model(tmp_path, image_type=TensorProto.FLOAT))
    (dark,), (bright,) = ask(policy, observe(brightness=0)), ask(policy, observe(brightness=255))
    np.testing.assert_allclose(bright - dark, 1.0, rtol=1e-5)


@pytest.mark.parametrize(("batch", "most"), [("batch", 64), (1, 1), (4, 4)])
def test_each_input_of_a_batch_gets_its_own_answer(tmp_path: Path, batch: Any, most: int):
    policy = OnnxPolicy(save_model(tmp_path, batch=batch, with_noise=True))
    assert policy.spec.max_batch == most
    for count in {1, min(3, most), most}:
        observations = [observe(value=who, brightness=who, seed=who) for who in range(count)]
        together = ask(policy, *observations)
        assert len(together) == count
        for chunk, observation in zip(together, observations, strict=True):
            np.testing.assert_allclose(chunk, ask(policy, observation)[0], rtol=1e-5)
    with pytest.raises(PolicyError, match=f"batch: expected 1 to {most} inputs, found {most + 1}"):
        ask(policy, *[observe()] * (most + 1))
    with pytest.raises(PolicyError, match=f"batch: expected 1 to {most} inputs, found 0"):
        policy.predict([])


def test_noise_is_drawn_from_the_seed_of_the_observation(tmp_path: Path):
    policy = OnnxPolicy(save_model(tmp_path, with_noise=True))
    first, again, other = (ask(policy, observe(seed=seed))[0] for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert policy.spec.samples
    noise = first - expected(observe())
    assert 0.1 < noise.std() < 3.0
    assert np.abs(first - other).max() > 0.01
    assert find_serving_mode(policy, "").mode is ServingMode.SHARED


def test_a_file_with_noise_and_a_batch_of_one_may_have_replicas_as_it_draws_by_itself(tmp_path: Path):
    path = save_model(tmp_path, batch=1, with_noise=True)
    policy = load_policy(ModelSource(backend="onnx", path=str(path), replicas=("cpu", "cpu")))
    np.testing.assert_array_equal(*ask(policy, observe(seed=1), observe(seed=1)))
    policy.close()


def test_the_task_goes_in_as_text(tmp_path: Path):
    policy = OnnxPolicy(save_model(tmp_path, with_task=True))
    assert policy.spec.reads_task
    asked = [replace(observe(), task=task) for task in ("pick", "place", "", "pīck")]
    together = ask(policy, *asked)
    for chunk, observation in zip(together, asked, strict=True):
        told = expected(observation) + TASKS.get(observation.task, 0.0)
        np.testing.assert_allclose(chunk, told, rtol=1e-5)
    assert find_serving_mode(policy, "pick").mode is ServingMode.SHARED


@pytest.mark.parametrize("image_type", [TensorProto.UINT8, TensorProto.FLOAT])
def test_a_policy_with_history_sees_its_steps_oldest_first(tmp_path: Path, image_type: int):
    policy = OnnxPolicy(save_model(tmp_path, steps=2, image_type=image_type))
    assert policy.spec.observation_steps == 2
    before, now = observe(value=-1.0, brightness=51), observe(value=2.0, brightness=255)
    asked = replace(now, past=(PastStep(before.state, before.images),))
    brightness = 51 if image_type == TensorProto.UINT8 else 51 / 255
    moved = (np.concatenate([before.state, now.state]) @ make_weights(2)).reshape(ROWS, 2)
    for chunk in ask(policy, asked, asked):
        np.testing.assert_allclose(chunk, moved + brightness, rtol=1e-5)
    assert find_serving_mode(policy, "").mode is ServingMode.SHARED
    with pytest.raises(PolicyError, match="past: found 0 control ticks, expected 1"):
        ask(policy, now)


def test_rows_and_delay_go_in_where_the_graph_takes_them(tmp_path: Path):
    """Of each request its own, also in a batch: without a prefix, with a short one and with a long one."""
    policy = OnnxPolicy(save_model(tmp_path, delay_rows=4))
    assert policy.spec.continuation is Continuation.TRAINED
    waits = [(0, 0), (0, 3), (2, 3), (6, 3), (6, 9)]
    asked = [
        replace(observe(), prefix_model=np.full((rows, 2), 0.5, np.float32), inference_delay_steps=delay)
        for rows, delay in waits
    ]
    for chunk, observation, (rows, delay) in zip(ask(policy, *asked), asked, waits, strict=True):
        ticks = min(delay, 4)  # the longest delay that the graph knows
        executed = min(rows, ticks)
        np.testing.assert_allclose(chunk, expected(observation) + executed + ticks - executed, rtol=1e-5)


def test_external_data_is_served_from_any_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = b""

    def edit(model: onnx.ModelProto) -> None:
        nonlocal content
        content = move_weights_out(model, "weights.data")

    save_model(tmp_path, edit=edit)
    data = tmp_path / "weights.data"
    data.write_bytes(content)
    monkeypatch.chdir("/")
    policy = OnnxPolicy(tmp_path)
    np.testing.assert_allclose(ask(policy, observe())[0], expected(observe()), rtol=1e-5)
    data.write_bytes(content[:-4] + b"\x00\x00\x80\x3f")
    assert OnnxPolicy(tmp_path).spec.fingerprint != policy.spec.fingerprint
    data.write_bytes(content[:-4])
    with pytest.raises(PolicyError, match=r"model\.onnx: .*weights.*out of bounds"):
        OnnxPolicy(tmp_path)


def test_the_fingerprint_follows_file_and_options(tmp_path: Path):
    def fingerprint(**model: Any) -> str:
        return load_policy(ModelSource(backend="onnx", path=str(tmp_path), **model)).spec.fingerprint

    save_model(tmp_path)
    first, again = fingerprint(), fingerprint()
    assert first == again
    assert fingerprint(options={"providers": ["cpu"]}) != first
    save_model(tmp_path, description={**DESCRIPTION, "name": "other"})
    assert fingerprint() != first


def test_a_graph_that_onnx_runtime_refuses_is_named_in_one_line(tmp_path: Path):
    def edit(model: onnx.ModelProto) -> None:
        model.graph.node[0].op_type = "MatMull"

    with pytest.raises(PolicyError, match=r"^\S+/model\.onnx: .*MatMull") as caught:
        OnnxPolicy(save_model(tmp_path, edit=edit))
    assert "\n" not in str(caught.value)


def test_a_call_that_fails_is_an_error_in_one_line(tmp_path: Path):
    def edit(model: onnx.ModelProto) -> None:
        model.graph.initializer[1].raw_data = np.array([-1, 5, 2]).tobytes()  # the chunk's shape

    policy = OnnxPolicy(save_model(tmp_path, edit=edit))
    with pytest.raises(PolicyError, match=r"^\S+/model\.onnx: .*Reshape") as caught:
        ask(policy, observe())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("CUDA failure 700: an illegal memory access was encountered ; GPU=0", DeviceLostError),
        ("CUDA failure 2: out of memory ; GPU=0", PolicyError),
    ],
)
def test_a_lost_device_is_distinguished_from_a_full_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, kind: type[PolicyError]
):
    policy = OnnxPolicy(save_model(tmp_path))

    def fail(*_: Any) -> None:
        raise RuntimeError(message)

    monkeypatch.setattr(policy._session, "run", fail)
    with pytest.raises(PolicyError, match=message.split(";", maxsplit=1)[0]) as caught:
        ask(policy, observe())
    assert type(caught.value) is kind


# -- devices, providers, options -----------------------------------------------------------------------------


@pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(),
    reason="the refusal shows only where onnxruntime has no CUDA",
)
@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ({"device": "cuda"}, "cuda"),
        ({"device": "cuda:1"}, "cuda"),
        ({"device": "cuda:0", "options": {"providers": ["tensorrt", "cuda"]}}, "tensorrt"),
    ],
)
def test_a_provider_that_is_not_there_is_a_device_error(tmp_path: Path, model: Any, provider: str):
    save_model(tmp_path)
    with pytest.raises(
        DeviceError, match=f"'{model['device']}', which needs the provider {provider}, .* only cpu"
    ):
        load_policy(ModelSource(backend="onnx", path=str(tmp_path), **model))


def test_a_provider_that_does_not_start_is_a_device_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """ONNX Runtime leaves such a provider out, with a warning, and would compute on the CPU."""
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        pytest.raises(DeviceError, match=r"could not start CUDAExecutionProvider, it has only CPUExecution"),
    ):
        OnnxPolicy(save_model(tmp_path), "cuda")


def test_a_gpu_that_is_not_there_is_a_device_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA failure 101: invalid device ordinal ; GPU=7")

    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    monkeypatch.setattr(onnxruntime, "InferenceSession", fail)
    with pytest.raises(DeviceError, match=r"model\.device: CUDA failure 101: invalid device ordinal"):
        OnnxPolicy(save_model(tmp_path), "cuda:7")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ({"device": "npu:1"}, r"model\.device: found 'npu:1', expected cpu, cuda or cuda:N"),
        (
            {"options": {"providers": ["cuda"]}},
            r"providers: found cuda, expected none or cpu: model\.device is 'cpu'",
        ),
        (
            {"device": "cuda", "options": {"providers": ["cpu"]}},
            r"providers: found cpu, expected cuda or tensorrt among them: model\.device is 'cuda'",
        ),
        ({"dtype": "bfloat16"}, r"model\.dtype: found 'bfloat16', expected 'float32'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tmp_path: Path, model: Any, text: str):
    save_model(tmp_path)
    with pytest.raises(PolicyError, match=text):
        load_policy(ModelSource(backend="onnx", path=str(tmp_path), **model))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"providers": ["openvino"]}, r"model\.options: providers\.0: found 'openvino', expected 'tensorrt'"),
        ({"provider": "cuda"}, r"model\.options: provider: unknown key, did you mean 'providers'"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: Any, text: str):
    with pytest.raises(DocumentError, match=text):
        load_policy(ModelSource(backend="onnx", path=str(tmp_path), options=options))


def test_neither_torch_nor_a_missing_library_is_needed_before_it_is_used(tmp_path: Path):
    save_model(tmp_path)
    code = (
        "import sys\nfrom remote_inference.server.manifest.manifest import ModelSource\n"
        "from remote_inference.server.policies import load_policy\n"
        "assert not {'onnx', 'onnxruntime'} & set(sys.modules)\n"
        f"load_policy(ModelSource(backend='onnx', path={str(tmp_path)!r}))\n"
        "assert 'torch' not in sys.modules and 'onnxscript' not in sys.modules"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_library_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "remote_inference.server.policies.onnx.policy")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(PolicyError, match=r"model\.backend: 'onnx' cannot be imported: .*onnxruntime"):
        load_policy(ModelSource(backend="onnx", path=str(tmp_path)))


def test_the_page_s_program_makes_a_file_of_somebody_else_fit(tmp_path: Path):
    theirs = {"state": "obs", CAMERA: "image", "actions": "out"}

    def edit(model: Any) -> None:
        del model.metadata_props[:]
        for value in (*model.graph.input, *model.graph.output):
            value.name = theirs[value.name]
        for node in model.graph.node:
            node.input[:] = [theirs.get(name, name) for name in node.input]
            node.output[:] = [theirs.get(name, name) for name in node.output]

    save_model(tmp_path, edit=edit).rename(tmp_path / "theirs.onnx")
    (program,) = re.findall(r"```python\n# describe\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60)
    policy = OnnxPolicy(tmp_path)
    assert (policy.spec.name, policy.spec.chunk_size) == ("reach", ROWS)
    np.testing.assert_allclose(ask(policy, observe())[0], expected(observe()), rtol=1e-5)
