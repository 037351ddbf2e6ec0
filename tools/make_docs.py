# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes what the documentation takes from the code: pictures, tables, and the schemas of `config/schema`.

make docs

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; test/package/test_docs.py compares.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import card_tables
import interface_tables
import policy_tables
import rtc_picture
import schemas
import settings_tables
import state_picture
import verb_tables
from markdown_table import make_table

import remote_inference
from remote_inference.learn.evaluation.episode_ledger import FAILURES
from remote_inference.learn.weights.reasons import Reason
from remote_inference.robot.safety.state_machine import DESCRIPTIONS, TRANSITIONS, Event, State
from remote_inference.robot.watchdog import (
    DESCRIPTIONS as WATCHDOG_DESCRIPTIONS,
    TRANSITIONS as WATCHDOG_TRANSITIONS,
    WatchdogEvent,
    WatchdogState,
)
from remote_inference.server.monitoring.metrics import ServerMetrics
from remote_inference.server.monitoring.snapshot import ServerSnapshot
from remote_inference.server.requests import request_log
from remote_inference.server.requests.request_log import RequestRecord

DOCS = Path(__file__).parents[1] / "docs"
RTC_PICTURE = DOCS / "images" / "rtc_weights.png"
MARK = "<!-- generated: "
DOCUMENTS = tuple(path for path in sorted(DOCS.rglob("*.md")) if MARK in path.read_text(encoding="utf-8"))


def states_table() -> str:
    """Return the states and their meanings."""
    return make_table(("state", "meaning"), ((f"`{state.name}`", DESCRIPTIONS[state]) for state in State))


def transitions_table() -> str:
    """Return the transitions; states from which an event leads to the same state share a row."""
    rows: dict[tuple[Event, State], list[State]] = {}
    for event in Event:
        for before in State:
            if (after := TRANSITIONS.get((before, event))) is not None:
                rows.setdefault((event, after), []).append(before)
    return make_table(
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


def watchdog_table() -> str:
    """Return the watchdog's states, their meanings, and what leads into each."""

    def entries(after: WatchdogState) -> str:
        events = (
            event
            for event in WatchdogEvent
            for before in WatchdogState
            if WATCHDOG_TRANSITIONS.get((before, event)) is after
        )
        return "; ".join(dict.fromkeys(event.value for event in events))

    return make_table(
        ("state", "meaning", "entered when"),
        ((f"`{state.name}`", WATCHDOG_DESCRIPTIONS[state], entries(state)) for state in WatchdogState),
    )


def troubles_table() -> str:
    """Return what each kind of error costs an evaluation."""
    return make_table(
        ("kind", "error", "attempts in one run", "then"),
        (
            (
                failure.kind,
                failure.meaning,
                str(failure.attempts),
                "the episode counts as failed" if failure.is_result else "the next run plays it",
            )
            for failure in FAILURES.values()
        ),
    )


def metrics_table() -> str:
    """Return the metrics that a scrape of a server with one robot gives, the standard process's left out."""
    snapshot = ServerSnapshot("/policy_server", "id", "active", made_s=0.0)
    metrics = ServerMetrics(lambda: snapshot, lambda: 0.0)
    metrics.keep({"/robot": {}})
    families = [family for family in metrics.families() if family.name.startswith("policy_server")]
    suffixes = {"counter": "_total", "info": "_info"}
    return make_table(
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
    return make_table(
        ("field", "type", "meaning"),
        ((f"`{name}`", types.get(name, "string"), text) for name, text in request_log.DESCRIPTIONS.items()),
    )


def _json_type(annotation: Any) -> str:
    types = {"int": "integer", "float": "number", "Mapping[str, str]": "object"}
    return types.get(annotation, "string")


def weight_refusals_table() -> str:
    """Return why updates of weights are refused."""
    return make_table(("reason", "means"), ((f"`{reason.value}`", reason.meaning) for reason in Reason))


def face_table() -> str:
    """Return what other packages may import, with the first sentence of what each says of itself."""
    return make_table(
        ("name", "what it is"),
        (
            (f"`{name}`", _first_sentence(getattr(remote_inference, name)))
            for names in remote_inference.FACE.values()
            for name in names
        ),
    )


def _first_sentence(named: object) -> str:
    if not (inspect.isclass(named) or inspect.isroutine(named)):
        return f"type: `{named}`"
    return inspect.cleandoc(named.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


TABLES = {
    "face": face_table,
    "states": states_table,
    "weight_refusals": weight_refusals_table,
    "transitions": transitions_table,
    "watchdog": watchdog_table,
    "parameters": settings_tables.parameters_table,
    "recorder": settings_tables.recorder_table,
    "environment_node": settings_tables.environment_node_table,
    "manifest": settings_tables.manifest_table,
    "contract": settings_tables.contract_table,
    "evaluation": settings_tables.evaluation_table,
    "troubles": troubles_table,
    "hold": settings_tables.hold_table,
    "lerobot": settings_tables.lerobot_table,
    "chunk_policy": settings_tables.chunk_policy_table,
    "flow_policy": settings_tables.flow_policy_table,
    "prefix_policy": settings_tables.prefix_policy_table,
    "onnx_description": settings_tables.onnx_description_table,
    "gr00t_options": settings_tables.gr00t_options_table,
    "openpi_options": settings_tables.openpi_options_table,
    "onnx_options": settings_tables.onnx_options_table,
    "policy_spec": policy_tables.policy_spec_table,
    "policy_observation": policy_tables.policy_observation_table,
    "topics": interface_tables.topics_table,
    "messages": interface_tables.messages,
    "services": interface_tables.services,
    "actions": interface_tables.actions,
    "verbs": verb_tables.verbs,
    "exit_codes": verb_tables.exit_codes,
    "metrics": metrics_table,
    "request_log": request_log_table,
    "latency": card_tables.latency_table,
    "seams": card_tables.seams_table,
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
    for name, text in schemas.SCHEMAS.items():
        (schemas.FOLDER / name).write_text(text, encoding="utf-8")
    for path in DOCUMENTS:
        path.write_text(fill(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
