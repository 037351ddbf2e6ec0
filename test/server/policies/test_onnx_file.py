# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""ONNX files that are refused before anything is loaded, each in one line that says what to mend."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="found no onnx, which requirements/server.txt lists")

import onnx
from onnx import TensorProto, helper

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import PolicyError
from remote_inference.server.policies.file_content import Content
from remote_inference.server.policies.onnx.file import read_onnx
from support.policies.onnx_models import CAMERA, DESCRIPTION, make_model, move_weights_out, save_model

Edit = Callable[[onnx.ModelProto], Any]
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 98765\n"


def refusal(path: Path) -> str:
    """Return the error of a file that is refused: one line that begins with the file's path."""
    with pytest.raises((PolicyError, DocumentError)) as caught:
        read_onnx(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def test_a_file_that_fits_is_read_with_its_description(tmp_path: Path):
    path = save_model(tmp_path, with_noise=True)
    file = read_onnx(tmp_path)
    assert (file.path, file.description.name, file.batch, dict(file.external)) == (path, "tiny", None, {})
    assert file.inputs == {"state": "float32", CAMERA: "uint8", "noise": "float32"}


@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".bin", ".onnx"])
@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"PK\x03\x04", Content.ZIP.value),
        (pickle.dumps({}), "a pickle: loading one can execute code"),
        (bytes([2, *bytes(7)]) + b"{}", "a safetensors file"),
    ],
)
def test_other_formats_are_named_by_their_content_and_not_by_their_suffix(
    tmp_path: Path, suffix: str, content: bytes, found: str
):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(content)
    assert refusal(path) == f"found {found}, expected an ONNX file"


def test_a_model_of_another_suffix_is_refused_and_not_called_a_pickle(tmp_path: Path):
    path = tmp_path / "model.bin"
    path.write_bytes(make_model().SerializeToString())
    assert refusal(path) == "found the suffix '.bin', expected an ONNX file, *.onnx"


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(PolicyError, match=r"model\.onnx: No such file"):
        read_onnx(tmp_path)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: data[:-7], "an ONNX file that is damaged or cut off, expected it whole: "),
        (lambda _: b"Entry not found", "the text 'Entry not found', expected an ONNX file: "),
        (lambda _: b"\x80\x02}q\x00.", "a pickle: loading one can execute code, expected an ONNX file"),
        (lambda _: b"", "an empty file, expected an ONNX file; copy or download it again"),
        (lambda _: LFS_POINTER, "a Git LFS pointer in the place of the file, expected an ONNX file; run "),
        (lambda _: b"<!DOCTYPE html><html>", "an answer of a web server (HTML or XML), expected an ONNX"),
    ],
)
def test_damaged_bytes_are_refused(tmp_path: Path, damage: Callable[[bytes], bytes], problem: str):
    path = save_model(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert refusal(path).startswith(f"found {problem}")


def drop_metadata(model: onnx.ModelProto) -> None:
    del model.metadata_props[:]
    model.metadata_props.add(key="author", value="somebody")


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (
            drop_metadata,
            "metadata_props: remote_inference: found author, expected this key, once: `remote-inference "
            "export-onnx` writes it, and docs/how-to/onnx.md adds it to a file of others",
        ),
        (
            lambda model: model.metadata_props.add(key="remote_inference", value="{}"),
            "metadata_props: remote_inference: found remote_inference, remote_inference, expected this key, ",
        ),
        (
            lambda model: helper.set_model_props(model, {"remote_inference": "{"}),
            "metadata_props: remote_inference: is not valid JSON: line 1",
        ),
    ],
)
def test_missing_and_damaged_metadata_are_refused(tmp_path: Path, edit: Edit, text: str):
    assert refusal(save_model(tmp_path, edit=edit)).startswith(text)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"format": 2}, "format: found 2, expected 1"),
        ({"chunk_size": "3"}, "chunk_size: found '3', expected a whole number"),
        ({"trained_fps": 0.0}, "trained_fps: found 0.0, expected more than 0"),
        ({"colour": "bgr"}, "colour: unknown key, expected one of "),
        ({"observation_steps": 0}, "observation_steps: found 0, expected at least 1"),
        ({"observation_steps": 17}, "observation_steps: found 17, expected at most 16"),
        ({"action_mean": [0.5]}, "action_mean: found 1 numbers, expected 2, one per action"),
        ({"action_std": [1.0, 0.0]}, "action_std.1: found 0.0, expected more than 0"),
        (
            {"image_features": {"noise": [4, 6, 3]}},
            "image_features: found 'noise', the name of another tensor",
        ),
    ],
)
def test_a_wrong_description_names_key_found_and_expected(tmp_path: Path, changes: Any, text: str):
    path = save_model(tmp_path, description={**DESCRIPTION, **changes})
    assert refusal(path).startswith(f"metadata_props: remote_inference: {text}")


def test_a_missing_key_says_what_it_means(tmp_path: Path):
    description = {key: value for key, value in DESCRIPTION.items() if key != "trained_fps"}
    assert refusal(save_model(tmp_path, description=description)) == (
        "metadata_props: remote_inference: trained_fps: missing, "
        "expected control rate of the training data [Hz]"
    )


def retype(place: Any, elem_type: int, *dims: int | str) -> None:
    place.CopyFrom(helper.make_tensor_value_info(place.name, elem_type, list(dims)))


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (
            lambda model: setattr(model.graph.input[0], "name", "observation.state"),
            f"inputs: found observation.state, {CAMERA}, expected state, {CAMERA} and perhaps noise, task",
        ),
        (
            lambda model: model.graph.input.append(
                helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", 8])
            ),
            f"inputs: found state, {CAMERA}, tokens, expected state, {CAMERA} and perhaps noise, task",
        ),
        (
            lambda model: setattr(model.graph.output[0], "name", "action"),
            "outputs: found action, expected actions",
        ),
        (
            lambda model: retype(model.graph.input[0], TensorProto.DOUBLE, "batch", 2),
            "input state: found double [batch, 2], expected float32 [batch, 2]",
        ),
        (
            lambda model: retype(model.graph.input[0], TensorProto.FLOAT, "batch", 7),
            "input state: found float32 [batch, 7], expected float32 [batch, 2]",
        ),
        (
            lambda model: retype(model.graph.input[1], TensorProto.UINT8, "batch", 4, 6, 3),
            f"input {CAMERA}: found uint8 [batch, 4, 6, 3], expected uint8 or float32 [batch, 3, 4, 6]",
        ),
        (
            lambda model: retype(model.graph.output[0], TensorProto.FLOAT16, "batch", 3, 2),
            "output actions: found float16 [batch, 3, 2], expected float32 [batch, 3, 2]",
        ),
        (
            lambda model: retype(model.graph.output[0], TensorProto.FLOAT, "batch", 6),
            "output actions: found float32 [batch, 6], expected float32 [batch, 3, 2]",
        ),
        (
            lambda model: retype(model.graph.input[0], TensorProto.FLOAT, 0, 2),
            "input state: found float32 [0, 2], expected float32 [batch, 2]",
        ),
        (
            lambda model: model.graph.input[0].type.sequence_type.SetInParent(),
            "input state: found sequence_type [], expected float32 [batch, 2]",
        ),
        (
            lambda model: (
                retype(model.graph.input[0], TensorProto.FLOAT, 2, 2),
                retype(model.graph.output[0], TensorProto.FLOAT, 4, 3, 2),
            ),
            "batch: found the sizes [2, 4], expected one, or a free dimension",
        ),
    ],
)
def test_other_inputs_and_outputs_are_refused(tmp_path: Path, edit: Edit, text: str):
    assert refusal(save_model(tmp_path, edit=edit)) == text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"description": {**DESCRIPTION, "observation_steps": 2}},
            "input state: found float32 [batch, 2], expected float32 [batch, 2, 2]",
        ),
        (
            {"steps": 3, "description": {**DESCRIPTION, "observation_steps": 2}},
            "input state: found float32 [batch, 3, 2], expected float32 [batch, 2, 2]",
        ),
        (
            {"steps": 2, "edit": lambda model: retype(model.graph.input[1], TensorProto.UINT8, 4, 3, 4, 6)},
            f"input {CAMERA}: found uint8 [4, 3, 4, 6], expected uint8 or float32 [batch, 2, 3, 4, 6]",
        ),
        (
            {"with_task": True, "edit": lambda model: retype(model.graph.input[2], TensorProto.INT64, 1, 8)},
            "input task: found int64 [1, 8], expected string [batch]",
        ),
        (
            {"with_task": True, "edit": lambda model: retype(model.graph.input[2], TensorProto.STRING)},
            "input task: found string [], expected string [batch]",
        ),
        (
            {"delay_rows": 4, "edit": lambda model: model.graph.input.pop()},
            f"inputs: found state, {CAMERA}, prefix, executed_steps, expected state, {CAMERA}, prefix, "
            "executed_steps, delay_steps and perhaps noise, task",
        ),
        (
            {"delay_rows": 4, "edit": lambda model: retype(model.graph.input[3], TensorProto.INT32, "n")},
            "input executed_steps: found int32 [n], expected int64 [batch]",
        ),
    ],
)
def test_wrong_inputs_for_history_task_and_wait_are_refused(tmp_path: Path, options: Any, text: str):
    assert refusal(save_model(tmp_path, **options)) == text


@pytest.mark.parametrize(
    ("batch", "expected"), [("batch", None), (1, 1), (4, 4)], ids=["free", "one at a time", "four"]
)
def test_a_fixed_batch_is_found(tmp_path: Path, batch: int | str, expected: int | None):
    save_model(tmp_path, batch=batch)
    assert read_onnx(tmp_path).batch == expected


def test_a_compiled_engine_is_refused(tmp_path: Path):
    """It is machine code of an accelerator's vendor, or the path of a file with it."""

    def edit(model: onnx.ModelProto) -> None:
        then = helper.make_graph([helper.make_node("EPContext", [], ["y"], name="engine")], "then", [], [])
        model.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=then))

    assert refusal(save_model(tmp_path, edit=edit)).startswith("node 'engine': found EPContext, a compiled")


# -- external data -------------------------------------------------------------------------------------------


def save_with_external(folder: Path, location: str) -> tuple[Path, bytes]:
    content = b""

    def edit(model: onnx.ModelProto) -> None:
        nonlocal content
        content = move_weights_out(model, location)

    return save_model(folder, edit=edit), content


@pytest.mark.parametrize("location", ["weights.data", "./parts/weights.data"])
def test_external_data_in_the_folder_is_found(tmp_path: Path, location: str):
    (tmp_path / "parts").mkdir()
    _, content = save_with_external(tmp_path, location)
    (tmp_path / location).write_bytes(content)
    file = read_onnx(tmp_path)
    assert {name: data[:] for name, data in file.external.items()} == {location: content}
    assert file.external_paths == ((tmp_path / location).resolve(),)


@pytest.mark.parametrize("location", ["/etc/hostname", "../secret", "parts/../../secret", ".."])
def test_external_data_outside_the_folder_is_refused(tmp_path: Path, location: str):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(100))
    path, _ = save_with_external(folder, location)
    assert refusal(path) == (
        f"external data of 'weights': found the location {location!r}, "
        "expected a path within the model's folder"
    )


@pytest.mark.parametrize("link", ["weights.data", "parts"])
def test_a_link_out_of_the_folder_is_refused(tmp_path: Path, link: str):
    folder, outside = tmp_path / "model", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    path, content = save_with_external(
        folder, "weights.data" if link == "weights.data" else "parts/weights.data"
    )
    (outside / "weights.data").write_bytes(content)
    (folder / link).symlink_to(outside / "weights.data" if link == "weights.data" else outside)
    assert "which leads to " in refusal(path)


@pytest.mark.parametrize("location", ["missing.data", "parts", "", "a\x00b", "x" * 300, "*/_ORT_MEM_ADDR_/*"])
def test_external_data_that_is_no_file_is_refused(tmp_path: Path, location: str):
    (tmp_path / "parts").mkdir()
    path, _ = save_with_external(tmp_path, location)
    assert refusal(path).startswith(f"external data of 'weights': found the location {location!r}")


def test_a_pipe_in_place_of_external_data_is_refused_without_waiting(tmp_path: Path):
    os.mkfifo(tmp_path / "weights.data")
    path, _ = save_with_external(tmp_path, "weights.data")
    assert refusal(path).endswith("where no file with data is")


def test_a_pointer_in_the_place_of_external_data_is_named(tmp_path: Path):
    path, _ = save_with_external(tmp_path, "weights.data")
    data = tmp_path.resolve() / "weights.data"
    data.write_bytes(LFS_POINTER)
    with pytest.raises(PolicyError) as caught:
        read_onnx(path)
    assert str(caught.value) == (
        f"{data}: found a Git LFS pointer in the place of the file, expected the tensors' data of an ONNX "
        "file; run `git lfs pull` where it was cloned"
    )


def test_external_data_of_a_constant_is_refused(tmp_path: Path):
    """ONNX Runtime would look it up by itself."""

    def edit(model: onnx.ModelProto) -> None:
        move_weights_out(model, "weights.data")
        tensor = TensorProto()
        tensor.CopyFrom(model.graph.initializer[0])
        del model.graph.initializer[0]
        model.graph.node.insert(0, helper.make_node("Constant", [], ["weights"], value=tensor))

    assert refusal(save_model(tmp_path, edit=edit)).startswith(
        "external data: found it in an attribute or a subgr"
    )


def test_a_description_that_is_huge_is_quoted_in_part(tmp_path: Path):
    path = save_model(tmp_path, description=json.loads(json.dumps({**DESCRIPTION, "name": ["x" * 10_000]})))
    assert len(refusal(path)) < 1_000
