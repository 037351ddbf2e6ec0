# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Dashboard, alerts and page agree with the metrics that a server has, and are installed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from remote_inference.base.paths import share_path
from remote_inference.server.monitoring.health import PAGE
from remote_inference.server.monitoring.metrics import ServerMetrics
from remote_inference.server.monitoring.snapshot import ServerSnapshot

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "config" / "grafana_dashboard.json"
OPERATIONS = ROOT / "docs" / "how-to" / "watching.md"
METRIC = re.compile(r"\b(?:policy_server|process)_[a-z_]*[a-z]\b")


@pytest.fixture
def names() -> set[str]:
    """Return the names of all samples of a server with one robot."""
    snapshot = ServerSnapshot("/policy_server", "abc", "active", 0.0)
    metrics = ServerMetrics(lambda: snapshot, lambda: 0.0)
    metrics.keep({"/robot": {}})
    return {sample.name for family in metrics.families() for sample in family.samples}


def dashboard_queries() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    variables = [v["query"]["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    return queries + variables


def alert_queries() -> list[str]:
    return re.findall(r"^ +expr: (.*)$", OPERATIONS.read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("query", dashboard_queries() + alert_queries())
def test_a_query_asks_for_metrics_that_exist(query: str, names: set[str]) -> None:
    asked = set(METRIC.findall(re.sub(r'"[^"]*"', "", query)))
    assert asked
    assert asked <= names


def test_the_dashboard_shows_every_metric_of_ours(names: set[str]) -> None:
    """By its base name; a new metric must find its place, or be named here."""
    shown = {_base(name) for query in dashboard_queries() for name in METRIC.findall(query)}
    ours = {_base(name) for name in names if name.startswith("policy_server")}
    assert ours - shown == {"policy_server"}  # the info metric


def _base(name: str) -> str:
    return re.sub(r"_(bucket|count|sum|created|total|info)$", "", name)


def test_the_dashboard_s_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_page_and_dashboard_are_installed() -> None:
    source = ROOT / "src" / "remote_inference" / "server" / "monitoring" / PAGE.name
    assert PAGE.read_bytes() == source.read_bytes()
    assert share_path("config", DASHBOARD.name).read_bytes() == DASHBOARD.read_bytes()
