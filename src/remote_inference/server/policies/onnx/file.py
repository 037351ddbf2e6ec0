# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads an ONNX file and what its metadata says of the policy within; nothing is computed and nothing runs.

docs/reference/onnx_files.md describes the format. What does not fit it is refused here, before ONNX Runtime
sees the file.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

import onnx
from google.protobuf.message import DecodeError, Message
from pydantic import Field, model_validator

from remote_inference.base.documents.document import Document, parse_document, parse_json
from remote_inference.base.limits import MAX_OBSERVATION_STEPS
from remote_inference.base.policy import PolicyError
from remote_inference.server.policies.file_content import (
    HEAD_BYTES,
    PLACEHOLDERS,
    Content,
    explain_damage,
    find_mismatch,
    read_file,
    read_head,
    recognise,
)
from remote_inference.server.policies.trained_policy import TrainedPolicy

# -- What people write for the back end `onnx`: a manifest's options, and the description in an ONNX file --

METADATA_KEY = "remote_inference"  # in `metadata_props`
# Tensors of the graph; images have their feature's name.
STATE, NOISE, ACTIONS = "state", "noise", "actions"
PREFIX, EXECUTED, DELAY = "prefix", "executed_steps", "delay_steps"  # all three, or none
DELAY_INPUTS = (PREFIX, EXECUTED, DELAY)
TASK = "task"

Provider = Literal["tensorrt", "cuda", "cpu"]
Finite = Annotated[float, Field(allow_inf_nan=False)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class OnnxOptions(Document):
    """Keys of `model.options`."""

    providers: tuple[Provider, ...] = ()
    """what computes, the preferred one first; what it cannot compute goes to the next, in the end to the CPU;
    none: cuda or cpu, as `model.device` says"""


class OnnxDescription(TrainedPolicy):
    """The JSON text under `remote_inference` in the `metadata_props` of an ONNX file."""

    format: Annotated[Literal[1], Field(description="version of this table")]
    observation_steps: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_OBSERVATION_STEPS,
            description="control ticks that one observation shows, a row of a chunk apart; more than 1: "
            "state and images have them as second dimension",
        ),
    ] = 1
    action_mean: Annotated[
        tuple[Finite, ...], Field(description="added to each column of `actions` after `action_std`; none: 0")
    ] = ()
    action_std: Annotated[
        tuple[AboveZero, ...],
        Field(description="factor of each column of `actions`; none: 1, `actions` are joint targets"),
    ] = ()

    @model_validator(mode="after")
    def _consistent(self) -> OnnxDescription:
        for key in ("action_mean", "action_std"):
            found, expected = len(getattr(self, key)), len(self.action_names)
            if found not in {0, expected}:
                raise ValueError(f"{key}: found {found} numbers, expected {expected}, one per action")
        if taken := sorted({STATE, NOISE, ACTIONS, TASK, *DELAY_INPUTS} & self.image_features.keys()):
            raise ValueError(f"image_features: found {taken[0]!r}, the name of another tensor")
        return self


MODEL_FILE = "model.onnx"

_COMPILED_OPERATOR = "EPContext"  # holds an engine as machine code, or the path of one
_TYPE_NAMES = {value.number: value.name.lower() for value in onnx.TensorProto.DataType.DESCRIPTOR.values}
_TYPE_NAMES[onnx.TensorProto.FLOAT] = "float32"


@dataclass(frozen=True)
class OnnxFile:
    """A file that fits the format.

    inputs: names of the graph's inputs, each with its numpy dtype. batch: the only batch size of the graph,
    None for any. max_delay_steps: rows of `prefix`, 0 without. external: tensors' data beside the file, by
    the name that the file gives it.
    """

    path: Path
    description: OnnxDescription
    model: bytes
    inputs: Mapping[str, str]
    batch: int | None
    max_delay_steps: int
    external: Mapping[str, mmap.mmap]
    external_paths: tuple[Path, ...]


def read_onnx(path: str | Path) -> OnnxFile:
    """Read the file at `path`, or `model.onnx` in the folder at `path`.

    Raises PolicyError or DocumentError naming file and key, what was found and what was expected.
    """
    path = Path(path) / MODEL_FILE if Path(path).is_dir() else Path(path)
    head = read_head(path)
    if problem := find_mismatch(head, Content.ONNX):  # what loads other formats may run code of the file
        raise PolicyError(f"{path}: {problem}")
    if path.suffix != ".onnx":
        raise PolicyError(f"{path}: found the suffix {path.suffix!r}, expected an ONNX file, *.onnx")
    content = read_file(path)
    try:
        model = onnx.ModelProto.FromString(content)
        _require_text(model, path)
        description = _describe(model, path)
        inputs, batch, max_delay_steps = _check_tensors(model.graph, description, path)
        external_paths = _find_external(model, path)
    except (DecodeError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: {explain_damage(head, Content.ONNX, error)}") from error
    external = {name: _map(file) for name, file in external_paths.items()}
    others = tuple(external_paths.values())
    return OnnxFile(path, description, content, inputs, batch, max_delay_steps, external, others)


def _require_text(model: onnx.ModelProto, path: Path) -> None:
    """Raise PolicyError for a text that is none: protobuf returns it as bytes, where texts are expected."""
    for message in _messages(model):
        for field, value in message.ListFields():
            texts = value if field.is_repeated else (value,)
            if field.type == field.TYPE_STRING and any(isinstance(text, bytes) for text in texts):
                name = f"{message.DESCRIPTOR.name}.{field.name}"
                raise PolicyError(f"{path}: {name}: found bytes that are not UTF-8, expected a text")


def _describe(model: onnx.ModelProto, path: Path) -> OnnxDescription:
    if not model.HasField("graph"):
        raise PolicyError(f"{path}: graph: missing, expected the graph of an ONNX file")
    texts = [entry.value for entry in model.metadata_props if entry.key == METADATA_KEY]
    source = f"{path}: metadata_props: {METADATA_KEY}"
    if len(texts) != 1:
        keys = ", ".join(entry.key for entry in model.metadata_props) or "no keys"
        raise PolicyError(
            f"{source}: found {keys}, expected this key, once: `remote-inference export-onnx` writes it, and "
            "docs/how-to/onnx.md adds it to a file of others (docs/reference/onnx_files.md: what it says)"
        )
    return parse_document(parse_json(texts[0], source), OnnxDescription, source)


@dataclass(frozen=True)
class _Expected:
    """Types that a tensor may have, and its dimensions after the batch."""

    types: tuple[str, ...]
    dims: tuple[int, ...]

    def __str__(self) -> str:
        return f"{' or '.join(self.types)} [{', '.join(map(str, ('batch', *self.dims)))}]"


def _check_tensors(
    graph: onnx.GraphProto, description: OnnxDescription, path: Path
) -> tuple[dict[str, str], int | None, int]:
    """Return the type of each input, the only batch size, None for any, and the longest delay."""
    action_dim = len(description.action_names)
    chunk = _Expected(("float32",), (description.chunk_size, action_dim))
    steps: tuple[int, ...] = ()
    if description.observation_steps > 1:
        steps = (description.observation_steps,)
    needed = {STATE: _Expected(("float32",), (*steps, len(description.state_names)))}
    for feature, (height, width, channels) in description.image_features.items():
        needed[feature] = _Expected(("uint8", "float32"), (*steps, channels, height, width))
    weights = {tensor.name for tensor in graph.initializer}  # listed among the inputs by old exporters
    inputs = {value.name: value for value in graph.input if value.name not in weights}
    outputs = {value.name: value for value in graph.output}
    max_delay_steps = _read_max_delay(inputs[PREFIX], path) if PREFIX in inputs else 0
    if inputs.keys() & set(DELAY_INPUTS):
        needed[PREFIX] = _Expected(("float32",), (max_delay_steps, action_dim))
        needed |= dict.fromkeys((EXECUTED, DELAY), _Expected(("int64",), ()))
    optional = {NOISE: chunk, TASK: _Expected(("string",), ())}
    _check_names("input", inputs, needed, optional, path)
    _check_names("output", outputs, {ACTIONS: chunk}, {}, path)
    expected = {**needed, **optional}
    batches = {_check_tensor(f"{path}: input {name}", inputs[name], expected[name]) for name in inputs}
    batches.add(_check_tensor(f"{path}: output {ACTIONS}", outputs[ACTIONS], chunk))
    fixed = sorted(batches - {None}, key=str)
    if len(fixed) > 1:
        raise PolicyError(f"{path}: batch: found the sizes {fixed}, expected one, or a free dimension")
    types = {name: _type_of(value) for name, value in inputs.items()}
    return types, fixed[0] if fixed else None, max_delay_steps


def _read_max_delay(prefix: Any, path: Path) -> int:
    """Return the number of actions in the input `prefix`, the longest delay of the policy [control ticks]."""
    dims = prefix.type.tensor_type.shape.dim
    rows = int(dims[1].dim_value) if len(dims) > 1 else 0
    if rows < 1:
        raise PolicyError(f"{path}: input {PREFIX}: found no fixed number of rows, expected one above 0")
    return rows


def _check_names(
    kind: str,
    found: Mapping[str, Any],
    needed: Mapping[str, _Expected],
    optional: Mapping[str, _Expected],
    path: Path,
) -> None:
    if set(needed) - found.keys() or found.keys() - {*needed, *optional}:
        others = f" and perhaps {', '.join(optional)}" if optional else ""
        expected = f"{', '.join(needed)}{others}"
        raise PolicyError(f"{path}: {kind}s: found {', '.join(found) or 'none'}, expected {expected}")


def _check_tensor(place: str, value: Any, expected: _Expected) -> int | None:
    """Return the fixed size of the first dimension, None for a free one."""
    dims = value.type.tensor_type.shape.dim
    sizes = [int(dim.dim_value) if dim.WhichOneof("value") == "dim_value" else None for dim in dims]
    fits = len(sizes) == 1 + len(expected.dims) and all(
        found in {None, size} for found, size in zip(sizes[1:], expected.dims, strict=True)
    )
    has_batch = fits and (sizes[0] is None or sizes[0] > 0)
    if not has_batch or _type_of(value) not in expected.types:
        shown = ", ".join(
            str(dim.dim_param or "?") if size is None else str(size)
            for dim, size in zip(dims, sizes, strict=True)
        )
        raise PolicyError(f"{place}: found {_type_of(value)} [{shown}], expected {expected}")
    return sizes[0]


def _type_of(value: Any) -> str:
    if not value.type.HasField("tensor_type"):
        return str(value.type.WhichOneof("value") or "no type")
    return str(_TYPE_NAMES.get(value.type.tensor_type.elem_type, "an unknown type"))


def _find_external(model: onnx.ModelProto, path: Path) -> dict[str, Path]:
    """Return the files that hold tensors' data, by the name that the model gives them.

    Raises PolicyError for one outside its folder, and for what else ONNX Runtime would look up by itself.
    """
    tensors = []
    for message in _messages(model):
        if isinstance(message, onnx.NodeProto) and message.op_type == _COMPILED_OPERATOR:
            found = f"{path}: node {message.name!r}: found {_COMPILED_OPERATOR}, a compiled engine"
            raise PolicyError(f"{found}, which can execute code; expected operators alone")
        if isinstance(message, onnx.TensorProto) and message.data_location == onnx.TensorProto.EXTERNAL:
            tensors.append(message)
    own = [t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    if len(own) != len(tensors):
        found = f"{path}: external data: found it in an attribute or a subgraph"
        raise PolicyError(f"{found}, expected it in initializers of the graph alone")
    files = {}
    for tensor in own:
        locations = [entry.value for entry in tensor.external_data if entry.key == "location"]
        place = f"{path}: external data of {tensor.name!r}"
        if len(locations) != 1:
            raise PolicyError(f"{place}: location: found {len(locations)} of them, expected one")
        files[locations[0]] = _find_inside(path.parent, locations[0], place)
    return files


def _messages(message: Message) -> Iterator[Message]:
    """Yield a message and all that are nested within."""
    yield message
    for _, value in message.ListFields():
        if isinstance(value, Message):
            yield from _messages(value)
        elif not isinstance(value, (str, bytes, int, float)) and value and isinstance(value[0], Message):
            for item in value:
                yield from _messages(item)


def _find_inside(folder: Path, location: str, place: str) -> Path:
    """Return the file at `location`. Raises PolicyError unless it is there and in the folder."""
    wrong = f"{place}: found the location {location!r}"
    if PurePath(location).is_absolute() or ".." in PurePath(location).parts:
        raise PolicyError(f"{wrong}, expected a path within the model's folder")
    try:
        found = Path(os.path.realpath(folder / location))
        is_file = found.is_file() and found.stat().st_size > 0
    except (OSError, ValueError) as error:  # a name that no file can have
        raise PolicyError(f"{wrong}: {error}") from error
    if not found.is_relative_to(os.path.realpath(folder)):
        raise PolicyError(f"{wrong}, which leads to {found}, expected a path within the model's folder")
    if not is_file:
        raise PolicyError(f"{wrong}, where no file with data is")
    return found


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror}") from error
    if recognise(head := data[:HEAD_BYTES]) in PLACEHOLDERS:
        raise PolicyError(f"{path}: {find_mismatch(head, Content.ONNX_DATA)}")
    return data
