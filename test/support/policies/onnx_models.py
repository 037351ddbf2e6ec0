# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Small ONNX files as other people's exporters write them.

`actions = state W + mean(camera)`, plus what else the graph takes: the noise, a number for the task, the sum
of the executed rows and the ticks without one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
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
TASKS = {"pick": 10.0, "place": 20.0}  # what each adds


def make_weights(steps: int) -> NDArray[np.float32]:
    """Return the factors of the states of so many steps, oldest first."""
    return np.arange(12 * steps, dtype=np.float32).reshape(2 * steps, 6) / np.float32(10)


WEIGHTS = make_weights(1)


def make_model(
    *,
    batch: int | str = "batch",
    image_type: int = TensorProto.UINT8,
    with_noise: bool = False,
    with_task: bool = False,
    steps: int = 1,
    delay_rows: int = 0,
    description: Any = None,
    edit: Callable[[onnx.ModelProto], None] = lambda model: None,
) -> onnx.ModelProto:
    """Return a model. description: the metadata, DESCRIPTION by default. edit: spoils it.

    steps: of an observation; the brightness is then that of the oldest. delay_rows: of the prefix, 0 without.
    """
    time_axis = [steps] if steps > 1 else []
    inputs = [
        helper.make_tensor_value_info("state", TensorProto.FLOAT, [batch, *time_axis, 2]),
        helper.make_tensor_value_info(CAMERA, image_type, [batch, *time_axis, 3, 4, 6]),
    ]
    actions = helper.make_tensor_value_info("actions", TensorProto.FLOAT, [batch, ROWS, 2])
    constants = {
        "weights": make_weights(steps),
        "chunk": np.array([-1, ROWS, 2]),
        "axes": np.array([1, 2, 3]),
        "column": np.array([-1, 1, 1]),
    }
    states, image, nodes = "state", CAMERA, []
    if steps > 1:
        states, image = "states", "oldest"
        constants |= {"row": np.array([-1, 2 * steps]), "first": np.array(0)}
        nodes += [
            helper.make_node("Reshape", ["state", "row"], [states]),
            helper.make_node("Gather", [CAMERA, "first"], [image], axis=1),
        ]
    nodes += [
        helper.make_node("MatMul", [states, "weights"], ["flat"]),
        helper.make_node("Reshape", ["flat", "chunk"], ["moved"]),
        helper.make_node("Cast", [image], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels", "axes"], ["mean"], keepdims=0),
        helper.make_node("Reshape", ["mean", "column"], ["brightness"]),
    ]
    parts = ["moved", "brightness"]
    if with_noise:
        inputs.append(helper.make_tensor_value_info("noise", TensorProto.FLOAT, [batch, ROWS, 2]))
        parts.append("noise")
    if with_task:
        inputs.append(helper.make_tensor_value_info("task", TensorProto.STRING, [batch]))
        table = {"keys_strings": list(TASKS), "values_floats": list(TASKS.values()), "default_float": 0.0}
        nodes += [
            helper.make_node("LabelEncoder", ["task"], ["number"], domain="ai.onnx.ml", **table),
            helper.make_node("Reshape", ["number", "column"], ["told"]),
        ]
        parts.append("told")
    if delay_rows:
        inputs += [
            helper.make_tensor_value_info("prefix", TensorProto.FLOAT, [batch, delay_rows, 2]),
            helper.make_tensor_value_info("executed_steps", TensorProto.INT64, [batch]),
            helper.make_tensor_value_info("delay_steps", TensorProto.INT64, [batch]),
        ]
        constants["rows"] = np.array([1, 2])
        nodes += [
            helper.make_node("ReduceSum", ["prefix", "rows"], ["held"], keepdims=0),
            helper.make_node("Sub", ["delay_steps", "executed_steps"], ["ticks"]),
            helper.make_node("Cast", ["ticks"], ["standing"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["held", "standing"], ["waited"]),
            helper.make_node("Reshape", ["waited", "column"], ["waiting"]),
        ]
        parts.append("waiting")
    nodes.append(helper.make_node("Sum", parts, ["actions"]))
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "tiny", inputs, [actions], weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    described = description or {**DESCRIPTION, **({"observation_steps": steps} if steps > 1 else {})}
    helper.set_model_props(model, {"remote_inference": json.dumps(described)})
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
