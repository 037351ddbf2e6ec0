# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Kinds of values that several sections of a contract hold, and what is required of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from remote_inference.core.names import find_topic_name_problem


def _require_topic_name(name: str) -> str:
    if problem := find_topic_name_problem(name):
        raise ValueError(problem)
    return name


Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
NodeName = Annotated[str, AfterValidator(_require_topic_name)]
Topic = Annotated[
    str, AfterValidator(_require_topic_name), Field(description="topic, relative to the robot's namespace")
]


def require_unique(names: tuple[str, ...] | list[str], what: str) -> None:
    """Raise ValueError, naming `what`, when a name stands twice."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{what}: {', '.join(twice)} found more than once, expected unique names")
