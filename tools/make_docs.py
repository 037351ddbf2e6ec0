# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes what the documentation takes from the code: two pictures and the tables.

make docs

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; test/package/test_docs.py compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
import rtc_picture
import state_picture
from pydantic.fields import FieldInfo

from remote_inference.core.document import allowed_names
from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.robot.state_machine import DESCRIPTIONS, TRANSITIONS, Event, State
from remote_inference.core.server.manifest import Manifest, ModelSource
from remote_inference.core.server.request_record import RequestRecord
from remote_inference.monitoring.metrics import ServerMetrics
from remote_inference.monitoring.snapshot import ServerSnapshot
from remote_inference.recording import request_log

DOCS = Path(__file__).parents[1] / "docs"
RTC_PICTURE = DOCS / "images" / "rtc_weights.png"
FLOW_CARD = DOCS.parent / "config" / "models" / "belt_arm_flow" / "README.md"
MARK = "<!-- generated: "
DOCUMENTS = tuple(path for path in sorted(DOCS.rglob("*.md")) if MARK in path.read_text(encoding="utf-8"))


def states_table() -> str:
    """Return the states and what they mean."""
    return _table(("state", "meaning"), ((f"`{state.name}`", DESCRIPTIONS[state]) for state in State))


def transitions_table() -> str:
    """Return the transitions; states from which an event leads to the same state share a row."""
    rows: dict[tuple[Event, State], list[State]] = {}
    for event in Event:
        for before in State:
            if (after := TRANSITIONS.get((before, event))) is not None:
                rows.setdefault((event, after), []).append(before)
    return _table(
        ("from", "event", "to", "meaning"),
        (
            (
                ", ".join(f"`{state.name}`" for state in before),
                event.value,
                f"`{after.name}`",
                DESCRIPTIONS[event],
            )
            for (event, after), before in rows.items()
        ),
    )


def parameters_table() -> str:
    """Return every parameter of the robot node."""
    return _settings_table(RobotConfig.model_fields)


def manifest_table() -> str:
    """Return every key of a manifest."""
    model = {f"model.{name}": field for name, field in ModelSource.model_fields.items()}
    rest = {name: field for name, field in Manifest.model_fields.items() if name != "model"}
    return _settings_table(model | rest)


def _settings_table(settings: Mapping[str, FieldInfo]) -> str:
    return _table(
        ("name", "type", "default", "range", "unit", "description"),
        (_parameter_row(name, field) for name, field in settings.items()),
    )


def _parameter_row(name: str, field: FieldInfo) -> tuple[str, ...]:
    unit = re.search(r" \[(.+?)\]", field.description or "")
    description = (field.description or "").replace(unit.group(0) if unit else "", "")
    return (
        f"`{name}`",
        _type(field.annotation),
        "required" if field.is_required() else f"`{_value(field.default)}`",
        _range(field),
        unit.group(1) if unit else "",
        description,
    )


def _type(annotation: Any) -> str:
    """Return a type as `ros2 param` names it."""
    kinds: dict[Any, str] = {
        bool: "bool",
        int: "integer",
        float: "double",
        str: "string",
        tuple: "string array",
    }
    origin = get_origin(annotation)
    if origin in {Union, UnionType}:
        return " or ".join(_type(part) for part in get_args(annotation))
    return "string" if origin is Literal else kinds[origin or annotation]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value or '""'
    return "[" + ", ".join(value) + "]" if isinstance(value, tuple) else f"{value}"


def _range(field: FieldInfo) -> str:
    """Return the bounds, or the words that are allowed."""
    if names := allowed_names(field):
        return ", ".join(f"`{name}`" for name in names)
    bounds = {type(bound): bound for bound in field.metadata}
    if annotated_types.Ge in bounds:
        return f"{bounds[annotated_types.Ge].ge:g} to {bounds[annotated_types.Le].le:g}"
    if annotated_types.MinLen in bounds and field.annotation is not str:
        return f"at least {bounds[annotated_types.MinLen].min_length}"
    alternatives = (
        get_args(field.annotation)
        if get_origin(field.annotation) in {Union, UnionType}
        else [field.annotation]
    )
    words = [word for part in alternatives if get_origin(part) is Literal for word in get_args(part)]
    numbers = ["a number"] if float in alternatives else []
    return ", ".join([*numbers, *(f"`{word}`" for word in words)])


def metrics_table() -> str:
    """Return the metrics that a scrape of a server with one robot gives, the standard process's left out."""
    snapshot = ServerSnapshot("/policy_server", "id", "active", made_s=0.0)
    metrics = ServerMetrics(lambda: snapshot, lambda: 0.0)
    metrics.keep(["/robot"])
    families = [family for family in metrics.families() if family.name.startswith("policy_server")]
    suffixes = {"counter": "_total", "info": "_info"}
    return _table(
        ("name", "type", "per robot", "meaning"),
        (
            (
                f"`{family.name}{suffixes.get(family.type, '')}`",
                family.type,
                "yes" if any("robot" in sample.labels for sample in family.samples) else "",
                family.documentation,
            )
            for family in families
        ),
    )


def request_log_table() -> str:
    """Return the fields of a line of the request log, in order."""
    types = {field.name: _json_type(field.type) for field in fields(RequestRecord)}
    return _table(
        ("field", "type", "meaning"),
        ((f"`{name}`", types.get(name, "string"), text) for name, text in request_log.DESCRIPTIONS.items()),
    )


def seams_table() -> str:
    """Return what the model card of the flow policy says was measured."""
    card = FLOW_CARD.read_text(encoding="utf-8")
    return card[card.index("| condition |") : card.index("\n\n## Limits")]


def _json_type(annotation: Any) -> str:
    return {"int": "integer", "float": "number"}.get(annotation, "string")


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


TABLES = {
    "states": states_table,
    "transitions": transitions_table,
    "parameters": parameters_table,
    "manifest": manifest_table,
    "metrics": metrics_table,
    "request_log": request_log_table,
    "seams": seams_table,
}


def fill(text: str) -> str:
    """Return a document with its generated parts as the code has them now."""
    return re.sub(
        r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}\n{TABLES[match[2]]()}\n\n{match[3]}",
        text,
        flags=re.DOTALL,
    )


def main() -> None:
    state_picture.draw_states(state_picture.PICTURE)
    rtc_picture.draw(RTC_PICTURE)
    for path in DOCUMENTS:
        path.write_text(fill(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
