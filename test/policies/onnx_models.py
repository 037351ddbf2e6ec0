# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Small ONNX files as other people's exporters write them: `actions = state W + mean(camera) (+ noise)`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CAMERA = "observation.images.front"
ROWS, JOINTS = 3, ("shoulder", "elbow")
DESCRIPTION: dict[str, Any] = {
    "format": 1,
    "name": "tiny",
    "revision": "1",
    "state_names": list(JOINTS),
    "action_names": list(JOINTS),
    "image_features": {CAMERA: [4, 6, 3]},
    "chunk_size": ROWS,
    "trained_fps": 30.0,
}
WEIGHTS = np.arange(12, dtype=np.float32).reshape(2, 6) / 10


def make_model(
    *,
    batch: int | str = "batch",
    image_type: int = TensorProto.UINT8,
    with_noise: bool = False,
    description: Any = None,
    edit: Callable[[onnx.ModelProto], None] = lambda model: None,
) -> onnx.ModelProto:
    """Return a model. description: the metadata, DESCRIPTION by default. edit: spoils it."""
    inputs = [
        helper.make_tensor_value_info("state", TensorProto.FLOAT, [batch, 2]),
        helper.make_tensor_value_info(CAMERA, image_type, [batch, 3, 4, 6]),
    ]
    actions = helper.make_tensor_value_info("actions", TensorProto.FLOAT, [batch, ROWS, 2])
    nodes = [
        helper.make_node("MatMul", ["state", "weights"], ["flat"]),
        helper.make_node("Reshape", ["flat", "chunk"], ["moved"]),
        helper.make_node("Cast", [CAMERA], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels", "axes"], ["mean"], keepdims=0),
        helper.make_node("Reshape", ["mean", "column"], ["brightness"]),
        helper.make_node("Add", ["moved", "brightness"], ["seen" if with_noise else "actions"]),
    ]
    if with_noise:
        inputs.append(helper.make_tensor_value_info("noise", TensorProto.FLOAT, [batch, ROWS, 2]))
        nodes.append(helper.make_node("Add", ["seen", "noise"], ["actions"]))
    constants = {
        "weights": WEIGHTS,
        "chunk": np.array([-1, ROWS, 2]),
        "axes": np.array([1, 2, 3]),
        "column": np.array([-1, 1, 1]),
    }
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "tiny", inputs, [actions], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(model, {"remote_inference": json.dumps(description or DESCRIPTION)})
    edit(model)
    return model


def save_model(folder: Path, **options: Any) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(make_model(**options).SerializeToString())
    return path


def move_weights_out(model: onnx.ModelProto, location: str) -> bytes:
    """Make the weights external data at `location`; return what the file must hold."""
    tensor = model.graph.initializer[0]
    content = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "8"), ("length", str(len(content)))):
        tensor.external_data.add(key=key, value=value)
    return bytes(8) + content
