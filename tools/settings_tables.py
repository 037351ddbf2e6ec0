# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the settings that a model declares: every key with type, default, range, unit and description."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from markdown_table import make_table
from pydantic.fields import FieldInfo

from remote_inference.bags.nodes.recorder_config import RecorderConfig
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import Document, allowed_names
from remote_inference.learn.evaluation.document import Evaluation
from remote_inference.learn.nodes.environment import EnvironmentParameters
from remote_inference.robot.config import RobotConfig
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.policies.hold import HoldConfig
from remote_inference.server.policies.lerobot.checkpoint import LeRobotOptions
from remote_inference.server.policies.networks.torch_chunk import (
    ChunkPolicyConfig,
    FlowConfig,
    PrefixConfig,
    PrefixFlowConfig,
)
from remote_inference.server.policies.onnx.file import OnnxDescription, OnnxOptions
from remote_inference.server.policies.remote.gr00t import Gr00tOptions
from remote_inference.server.policies.remote.openpi import OpenpiOptions

# How `ros2 param` and YAML name a type.
ROS_TYPES = {bool: "bool", int: "integer", float: "double", str: "string"}
YAML_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", Any: "anything"}
UNIONS = {Union, UnionType}
UNIT = re.compile(r" \[([^\]]+)\]")


def parameters_table() -> str:
    """Return every parameter of the robot node."""
    return _settings_table(RobotConfig.every_key().items(), ROS_TYPES)


def recorder_table() -> str:
    """Return every parameter of the recorder's node."""
    return _settings_table(RecorderConfig.every_key().items(), ROS_TYPES)


def environment_node_table() -> str:
    """Return every parameter of the node `environment`."""
    return _settings_table(EnvironmentParameters.every_key().items(), ROS_TYPES)


def manifest_table() -> str:
    """Return every key of a manifest."""
    return _settings_table(_flatten(Manifest), YAML_TYPES)


def contract_table() -> str:
    """Return every key of a contract."""
    return _settings_table(_flatten(Contract), YAML_TYPES)


def evaluation_table() -> str:
    """Return every key of an evaluation but the robot's parameters, which have a table of their own."""
    own = (item for item in _flatten(Evaluation) if not item[0].startswith("robot"))
    return _settings_table(own, YAML_TYPES)


def hold_table() -> str:
    """Return every key of a hold policy's `policy.json`."""
    return _settings_table(_flatten(HoldConfig), YAML_TYPES)


def lerobot_table() -> str:
    """Return every key of `model.options` of a LeRobot policy."""
    return _settings_table(_flatten(LeRobotOptions), YAML_TYPES)


def chunk_policy_table() -> str:
    """Return every key that the `policy.json` of each chunk policy has."""
    return _settings_table(_flatten(ChunkPolicyConfig), YAML_TYPES)


def onnx_description_table() -> str:
    """Return every key of the description in an ONNX file."""
    return _settings_table(_flatten(OnnxDescription), YAML_TYPES)


def gr00t_options_table() -> str:
    """Return every key of `model.options` for the back end `gr00t`."""
    return _settings_table(_flatten(Gr00tOptions), YAML_TYPES)


def openpi_options_table() -> str:
    """Return every key of `model.options` for the back end `openpi`."""
    return _settings_table(_flatten(OpenpiOptions), YAML_TYPES)


def onnx_options_table() -> str:
    """Return every key of `model.options` for the back end `onnx`."""
    return _settings_table(_flatten(OnnxOptions), YAML_TYPES)


def flow_policy_table() -> str:
    """Return the keys of a flow policy's `policy.json` that the others lack."""
    own = (item for item in _flatten(FlowConfig) if item[0] not in ChunkPolicyConfig.model_fields)
    return _settings_table(own, YAML_TYPES)


def prefix_policy_table() -> str:
    """Return the keys of a prefix policy's `policy.json` that the others lack."""
    own = {**PrefixConfig.every_key(), **PrefixFlowConfig.every_key()}
    keys = (item for item in own.items() if item[0] not in ChunkPolicyConfig.model_fields)
    return _settings_table(keys, YAML_TYPES)


def _flatten(model: type[Document], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield the keys of a document and of its sections, each with its whole path."""
    seen: set[type[Document]] = set()
    for name, field in model.every_key().items():
        yield f"{prefix}{name}", field
        section, path = _section(field.annotation)
        if section is not None and section not in seen:
            yield from _flatten(section, f"{prefix}{name}{path}.")
            seen.add(section)


def _section(annotation: Any) -> tuple[type[Document] | None, str]:
    """Return the document that a key holds, if it does, and how its path goes on."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return annotation, ""
    if origin in UNIONS:
        return next((found for part in parts if (found := _section(part))[0]), (None, ""))
    if origin is tuple and _section(parts[0])[0]:
        return parts[0], "[]"
    if origin is Mapping and _section(parts[1])[0]:
        return parts[1], ".NAME"
    return None, ""


def _settings_table(settings: Iterable[tuple[str, FieldInfo]], types: Mapping[Any, str]) -> str:
    return make_table(
        ("name", "type", "default", "range", "unit", "description"),
        (_row(name, field, types) for name, field in settings),
    )


def _row(name: str, field: FieldInfo, types: Mapping[Any, str]) -> tuple[str, ...]:
    description = field.description or ""
    unit = UNIT.search(description)
    return (
        f"`{name}`",
        _type(field.annotation, types),
        "required" if field.is_required() else _value(field.default),
        _range(field),
        unit[1] if unit else "",
        UNIT.sub("", description, count=1),
    )


def _type(annotation: Any, types: Mapping[Any, str]) -> str:
    """Return what a key holds, in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(parts[0], types)
    if origin in UNIONS:
        return " or ".join(_type(part, types) for part in parts if part is not type(None))
    if origin is Literal:
        return types[type(parts[0])]
    if origin is tuple:
        count = "" if Ellipsis in parts else f"{len(parts)} "
        item = _type(parts[0], types)
        items = item.replace("list", "lists", 1) if item.startswith("list") else f"{item}s"
        return f"{item} array" if types is ROS_TYPES else f"list of {count}{items}"
    if origin is Mapping:
        return f"{_type(parts[1], types)} by name"
    return "section" if _section(annotation)[0] else types[annotation]


def _value(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(str(item) for item in value)}]`"
    return f"`{value}`" if value != "" else '`""`'


def _range(field: FieldInfo) -> str:
    """Return the bounds, or the words that are allowed."""
    if names := allowed_names(field):
        return ", ".join(f"`{name}`" for name in names)
    is_union = get_origin(field.annotation) in UNIONS
    alternatives = [_bare(part) for part in (get_args(field.annotation) if is_union else [field.annotation])]
    words = [word for part in alternatives if get_origin(part) is Literal for word in get_args(part)]
    bounds = "" if str in alternatives else _limits({type(bound): bound for bound in _bounds(field)})
    if not bounds and words and float in alternatives:
        bounds = "a number"
    return ", ".join([*([bounds] if bounds else []), *(f"`{word}`" for word in words)])


def _limits(bounds: Mapping[type, Any]) -> str:
    """Return in words what bounds of pydantic's allow."""
    if annotated_types.Ge in bounds and annotated_types.Le in bounds:
        return f"{bounds[annotated_types.Ge].ge:.10g} to {bounds[annotated_types.Le].le:.10g}"
    if annotated_types.Ge in bounds:
        return f"at least {bounds[annotated_types.Ge].ge:g}"
    if annotated_types.Gt in bounds:
        return f"above {bounds[annotated_types.Gt].gt:g}"
    if annotated_types.MinLen in bounds:
        return f"at least {bounds[annotated_types.MinLen].min_length}"
    return ""


def _bounds(field: FieldInfo) -> Iterator[Any]:
    """Yield a key's bounds; also those of a number that may be left out, which stand at that alternative."""
    yield from field.metadata
    if get_origin(field.annotation) in UNIONS:
        for part in get_args(field.annotation):
            for given in get_args(part)[1:] if get_origin(part) is Annotated else ():
                yield from given.metadata if isinstance(given, FieldInfo) else [given]


def _bare(annotation: Any) -> Any:
    """Return an annotation without what Annotated adds to it."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
