# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the dataclasses that a policy of one's own meets: every field, and the text below it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise

from markdown_table import make_table

from remote_inference.base.policy import PolicyObservation, PolicySpec


def policy_spec_table() -> str:
    """Return what a policy says of itself."""
    return _fields_table(PolicySpec)


def policy_observation_table() -> str:
    """Return what a policy's processors are given."""
    return _fields_table(PolicyObservation)


def _fields_table(kind: type) -> str:
    return make_table(("field", "type", "default", "meaning"), _rows(kind))


def _rows(kind: type) -> Iterator[tuple[str, ...]]:
    """Yield the fields of a class in order. Raises LookupError for one without a text below it."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    for field, below in pairwise([*body.body, ast.Pass()]):
        if not isinstance(field, ast.AnnAssign):
            continue
        name = ast.unparse(field.target)
        if not (isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)):
            raise LookupError(f"{kind.__name__}.{name}: expected a text below the field")
        meaning = " ".join(str(below.value.value).split())
        yield f"`{name}`", f"`{ast.unparse(field.annotation)}`", _default(field.value), meaning


def _default(value: ast.expr | None) -> str:
    if value is None:
        return "required"
    if isinstance(value, ast.Call):  # field(default_factory=dict)
        (factory,) = (keyword.value for keyword in value.keywords if keyword.arg == "default_factory")
        return f"an empty `{ast.unparse(factory)}`"
    return f"`{ast.unparse(value)}`".replace("'", '"')
