# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Values that are equal only when every bit of their numbers is."""

from __future__ import annotations

from array import array
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

MOST_SHOWN = 120  # characters of a message
UNCOMPARED = {"header", "__msgtype__"}  # stamps are of the node's clock, which is in no journal


def exact(value: Any) -> Any:
    """Return what stands for a message, a dataclass or a value of theirs in a comparison."""
    if isinstance(value, (np.ndarray, array)):
        return np.asarray(value).tobytes()
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return [exact(item) for item in value]
    return {name: exact(getattr(value, name)) for name in names_of(value)} or value


def names_of(value: Any) -> list[str]:
    """Return the compared fields of a message or a dataclass; none of other values."""
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
    else:
        typed = getattr(value, "get_fields_and_field_types", None)
        names = list(typed()) if typed else []
    return [name for name in names if name not in UNCOMPARED]


def first_difference(names: list[str], recorded: Any, replayed: Any) -> tuple[str, Any, Any]:
    """Return the first field that differs, with both values; of an array, the first element that does.

    names: of the elements of arrays as long, such as joints. Values are equal: a field of no name.
    """
    for name in names_of(recorded):
        before, after = getattr(recorded, name), getattr(replayed, name, None)  # another release lacks it
        if exact(before) != exact(after):
            return _narrow(names, name, before, after)
    return "", recorded, replayed


def _narrow(names: list[str], field: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    if isinstance(before, (str, bytes)) or not hasattr(before, "__len__") or not hasattr(after, "__len__"):
        return field, before, after
    if len(before) != len(after):
        return f"{field}: length", len(before), len(after)
    for place, (one, other) in enumerate(zip(before, after, strict=True)):
        if names_of(one) and exact(one) != exact(other):
            inner, of_one, of_other = first_difference(names, one, other)
            return f"{field}[{place}].{inner}", of_one, of_other
    flat = zip(np.ravel(np.asarray(before)), np.ravel(np.asarray(after)), strict=False)
    for place, (one, other) in enumerate(flat):
        if np.asarray(one).tobytes() != np.asarray(other).tobytes():
            where = names[place % len(names)] if names and len(before) % len(names) == 0 else str(place)
            return f"{field}[{where}]", one.item(), other.item()
    return field, before, after


def show(message: Any) -> str:
    """Return the compared fields of a message that are not empty, on one line, shortened."""
    text = _show(message)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _show(value: Any) -> str:
    if names := names_of(value):
        parts = ((name, _show(getattr(value, name))) for name in names)
        return ", ".join(f"{name}: {text}" for name, text in parts if text not in {"", "[]", "0"})
    if isinstance(value, (np.ndarray, array)):
        return str(value.tolist())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_show, value))}]"
    return str(value)
