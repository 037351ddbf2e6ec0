# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""ROS parameters from a Document: each field becomes a read-only parameter with range and description."""

from __future__ import annotations

from array import array
from typing import Any, TypeVar, get_args

import annotated_types
from pydantic.fields import FieldInfo
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node

from remote_inference.base.documents.document import Document, allowed_names, parse_document
from remote_inference.base.ros_parameters import ExecutorName, is_rclpys_own


class NodeParameters(Document):
    """The parameters that every node has."""

    executor: ExecutorName = "events"


Model = TypeVar("Model", bound=NodeParameters)


def declare_parameters(node: Node, model: type[Model]) -> Model:
    """Declare every field of a model, and return the model with the values that the node was given.

    Raises DocumentError naming the parameter, what was found and expected, also for an unknown parameter.
    """
    parameters = parse_document(_given(node), model, f"parameters of {node.get_fully_qualified_name()}")
    for name, field in model.every_key().items():
        value = getattr(parameters, name)
        node.declare_parameter(
            name,
            list(value) if isinstance(value, tuple) else value,
            _descriptor(field),
            ignore_override=True,  # the value is the given one, checked: 3 for a double is 3.0
        )
    return parameters


def _given(node: Node) -> dict[str, Any]:
    """Return the parameters of files and command line, without rclpy's own."""
    # Before they are declared, rclpy has no public way to tell which parameters were given.
    return {
        name: list(parameter.value) if isinstance(parameter.value, array) else parameter.value
        for name, parameter in node._parameter_overrides.items()
        if not node.has_parameter(name) and not is_rclpys_own(name)
    }


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
