# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables of what the model cards of the belt arm's policies say was measured, side by side."""

from __future__ import annotations

from pathlib import Path

from markdown_table import make_table

MODELS = Path(__file__).parents[1] / "config" / "models"
LATENCIES_MS = (0, 300, 450, 600, 800, 1000)
# Column, policy, and what its card calls the condition behind the latency.
COLUMNS = (
    ("trim", "belt_arm_plain", "trim"),
    ("guidance", "belt_arm_guidance", "guidance"),
    ("trained", "belt_arm", "trained"),
    ("trained, flow", "belt_arm_flow", "trained"),
    ("expert's plan for the present", "belt_arm", "expert's plan for the present"),
    ("expert's plan for the arrival", "belt_arm", "expert's plan for the arrival"),
)


def latency_table() -> str:
    """Return the cubes lifted by latency and way to continue."""
    cards = {policy: _rows(policy) for _, policy, _ in COLUMNS}
    return make_table(
        ("latency", *(column for column, _, _ in COLUMNS)),
        (
            (
                f"{latency_ms} ms",
                *(
                    cards[policy].get(f"{latency_ms} ms, {condition}", ("not measured",))[0]
                    for _, policy, condition in COLUMNS
                ),
            )
            for latency_ms in LATENCIES_MS
        ),
    )


def seams_table() -> str:
    """Return the steps at seams and within chunks by latency and way to continue."""
    rows = []
    for latency_ms in LATENCIES_MS:
        for column, policy, condition in COLUMNS[:4]:
            cells = _rows(policy).get(f"{latency_ms} ms, {condition}")
            if cells:
                rows.append((f"{latency_ms} ms, {column}", *cells))
    return make_table(("condition", "lifted", "mean time", "steps at seams", "steps within chunks"), rows)


def _rows(policy: str) -> dict[str, tuple[str, ...]]:
    """Return the cells of a card's table of results by condition."""
    card = (MODELS / policy / "README.md").read_text(encoding="utf-8")
    table = card[card.index("| condition |") : card.index("\n\n## Limits")]
    cells = (line.strip("| ").split(" | ") for line in table.splitlines()[2:])
    return {condition: tuple(rest) for condition, *rest in cells}
