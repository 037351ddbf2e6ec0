# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""ROS parameters from a Document: each field becomes a read-only parameter with range and description."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

import annotated_types
from pydantic.fields import FieldInfo
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node
from rclpy.parameter import Parameter

from remote_inference.core.document import Document, allowed_names, parse_document

Model = TypeVar("Model", bound=Document)


def declare_parameters(node: Node, model: type[Model]) -> Model:
    """Declare every field of a model and return the model with the parameters' values.

    Raises rclpy's ParameterException for a value of the wrong type or out of range, and DocumentError for one
    that contradicts another.
    """
    values = {
        name: node.declare_parameter(name, _default(field), _descriptor(field)).value
        for name, field in model.model_fields.items()
    }
    return parse_document(values, model, f"parameters of {node.get_fully_qualified_name()}")


def require_parameter(node: Node, name: str, description: str) -> str:
    """Declare a string parameter that must be given; return it, or an empty string when it is not."""
    descriptor = ParameterDescriptor(description=description, read_only=True)
    node.declare_parameter(name, Parameter.Type.STRING, descriptor)
    return str(node.get_parameter_or(name, Parameter(name, Parameter.Type.STRING, "")).value)


def _default(field: FieldInfo) -> Any:
    return list(field.default) if isinstance(field.default, tuple) else field.default


def _descriptor(field: FieldInfo) -> ParameterDescriptor:
    # A field that takes a number or a word has no single ROS type.
    words = allowed_names(field) or [word for word in get_args(field.annotation) if isinstance(word, str)]
    descriptor = ParameterDescriptor(
        description=field.description or "",
        additional_constraints=f"one of {', '.join(words)}" if words else "",
        read_only=True,
        dynamic_typing=float in get_args(field.annotation),
    )
    low: Any = next((bound.ge for bound in field.metadata if isinstance(bound, annotated_types.Ge)), None)
    high: Any = next((bound.le for bound in field.metadata if isinstance(bound, annotated_types.Le)), None)
    if low is None or high is None:
        return descriptor
    if field.annotation is int:
        descriptor.integer_range = [IntegerRange(from_value=low, to_value=high, step=1)]
    else:
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
    return descriptor
