# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The metrics in Prometheus's format and conventions; a series ends with its session."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from remote_inference.server.monitoring.metrics import ServerMetrics
from remote_inference.server.monitoring.snapshot import ServerSnapshot
from remote_inference.server.requests.request_log import RequestRecord

RECORD = RequestRecord(
    session_id="s1",
    robot="/a",
    client="/a/remote_inference",
    seq_id=1,
    batch_size=2,
    queue_wait_ms=30.0,
    inference_ms=20.0,
    staleness_ms=90.0,
    slack_ms=-40.0,
    capture_skew_ms=12.5,
    superseded=3,
)
DURATIONS = ("request_duration", "queue_wait", "inference_duration", "staleness", "slack", "capture_skew")


class Scrape:
    """The samples of one scrape, by name and labels."""

    def __init__(self, metrics: ServerMetrics) -> None:
        body, self.content_type = metrics.render("")
        self.families = {f.name: f for f in text_string_to_metric_families(body.decode())}
        self.samples = {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __getitem__(self, name: str) -> float:
        return self.samples[f"policy_server_{name}",]

    def of(self, name: str, robot: str = "/a") -> float:
        return self.samples[f"policy_server_{name}", robot]

    def labels(self, name: str) -> list[dict[str, str]]:
        name = f"policy_server_{name}"
        return [s.labels for f in self.families.values() for s in f.samples if s.name == name]

    def robots(self) -> set[str]:
        return {s.labels["robot"] for f in self.families.values() for s in f.samples if "robot" in s.labels}


def make_metrics(tag_keys: Sequence[str] = (), **snapshot: object) -> ServerMetrics:
    now = ServerSnapshot("/policy_server", "abc", "active", made_s=0.0, accepting=True)
    metrics = ServerMetrics(lambda: replace(now, **snapshot), lambda: 1.0, tag_keys)
    metrics.keep({"/a": {}})
    return metrics


def test_a_request_is_counted_in_seconds_under_its_robot():
    metrics = make_metrics()
    metrics.record(RECORD)
    metrics.record(RECORD)
    scrape = Scrape(metrics)
    sums = [scrape.of(f"{name}_seconds_sum") for name in DURATIONS]
    assert sums == pytest.approx([0.1, 0.06, 0.04, 0.18, 0.0, 0.025])
    assert [scrape.of(f"{name}_seconds_count") for name in DURATIONS] == [2.0] * 6
    assert scrape.of("superseded_requests_total") == 6.0
    assert scrape.of("late_chunks_total") == 2.0
    assert scrape.of("request_errors_total") == 0.0
    assert (scrape["batch_size_count"], scrape["batch_size_sum"]) == (2.0, 4.0)


def test_errors_are_counted_and_unreadable_requests_have_no_duration():
    metrics = make_metrics()
    metrics.record(replace(RECORD, status="error", outcome="inference failed"))
    metrics.record(RequestRecord("s1", "/a", "/a/n", status="error", outcome="unreadable"))
    scrape = Scrape(metrics)
    assert scrape.of("request_errors_total") == 2.0
    assert [scrape.of(f"{name}_seconds_count") for name in DURATIONS] == [1.0] * 6
    assert scrape["batch_size_count"] == 1.0


def test_a_robot_s_series_begin_with_its_session_and_end_with_it():
    """Series begin at zero: a rate needs a first sample."""
    metrics = make_metrics()
    metrics.keep({"/a": {}, "/b": {}})
    assert Scrape(metrics).robots() == {"/a", "/b"}
    assert Scrape(metrics).of("request_duration_seconds_count", "/b") == 0.0
    metrics.record(RECORD)
    metrics.keep({"/a": {}})
    scrape = Scrape(metrics)
    assert scrape.robots() == {"/a"}
    assert scrape.of("request_duration_seconds_count") == 1.0


def test_a_request_that_ends_after_its_session_brings_no_series_back():
    metrics = make_metrics()
    metrics.keep({})
    metrics.record(RECORD)
    assert Scrape(metrics).robots() == set()
    assert Scrape(metrics)["batch_size_count"] == 1.0


def test_an_error_of_a_robot_without_series_is_counted_and_a_refused_offer_too():
    metrics = make_metrics(refused_sessions=7)
    metrics.record(replace(RECORD, robot="openpi:3", status="error"))
    metrics.record(replace(RECORD, robot="openpi:3"))
    metrics.record(replace(RECORD, status="error"))
    scrape = Scrape(metrics)
    assert scrape["unattributed_errors_total"] == 1.0
    assert scrape["refused_sessions_total"] == 7.0
    assert scrape.robots() == {"/a"}


def test_the_series_of_a_robot_that_comes_back_begin_anew_and_count():
    metrics = make_metrics()
    metrics.record(RECORD)
    metrics.keep({})
    metrics.keep({"/a": {}})
    assert Scrape(metrics).of("request_duration_seconds_count") == 0.0
    metrics.record(RECORD)
    assert Scrape(metrics).of("request_duration_seconds_count") == 1.0


def test_the_tags_that_the_server_names_are_labels_and_no_others():
    metrics = make_metrics(tag_keys=("site", "operator"))
    metrics.keep({"/a": {"site": 'lab "2"', "run": "7"}})
    metrics.record(RECORD)
    labels = Scrape(metrics).labels("request_errors_total")
    assert labels == [{"robot": "/a", "tag_site": 'lab "2"', "tag_operator": ""}]


def test_a_robot_that_comes_back_with_another_tag_begins_anew():
    """A label cannot change: the robot would be counted twice."""
    metrics = make_metrics(tag_keys=("site",))
    metrics.keep({"/a": {"site": "lab"}, "/b": {"site": "lab"}})
    metrics.record(RECORD)
    metrics.keep({"/a": {"site": "hall", "run": "8"}, "/b": {"site": "lab", "run": "8"}})
    metrics.record(RECORD)
    sites = {
        labels["robot"]: labels["tag_site"] for labels in Scrape(metrics).labels("staleness_seconds_count")
    }
    assert sites == {"/a": "hall", "/b": "lab"}
    assert len(Scrape(metrics).labels("staleness_seconds_count")) == 2
    metrics.keep({})
    assert Scrape(metrics).robots() == set()


def test_gauges_are_read_at_the_scrape():
    quiet = ServerSnapshot("/s", "abc", "inactive", 0.0, load=0.5)
    moments = [
        ServerSnapshot("/s", "abc", "active", 0.0, accepting=True, load=0.25, max_sessions=4, policy="p 1"),
        replace(quiet, failed_batches=3, audit_lines_dropped=9, captures_dropped=8),
    ]
    metrics = ServerMetrics(lambda: moments[0], lambda: 1.0)
    scrape = Scrape(metrics)
    assert [scrape[name] for name in ("ready", "load_ratio", "max_sessions", "sessions")] == [1, 0.25, 4, 0]
    assert scrape.families["policy_server_info"].samples[0].labels["policy"] == "p 1"
    moments.pop(0)
    scrape = Scrape(metrics)
    assert [scrape[name] for name in ("ready", "load_ratio", "failed_batches")] == [0, 0.5, 3]
    assert [scrape[f"{name}_dropped_total"] for name in ("audit_lines", "captures")] == [9, 8]


def test_two_servers_in_one_process_share_nothing():
    first, second = make_metrics(), make_metrics()
    first.record(RECORD)
    assert Scrape(second).of("request_duration_seconds_count") == 0.0


def test_names_follow_the_conventions():
    for name, family in Scrape(make_metrics()).families.items():
        assert family.documentation
        if family.type == "counter":
            assert all(s.name.endswith("_total") for s in family.samples), name
        assert not name.endswith(("_ms", "_milliseconds")), name


def test_the_scraper_chooses_the_format():
    metrics = make_metrics()
    assert metrics.render("")[1].startswith("text/plain")
    body, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_the_process_itself_is_measured():
    started_s = Scrape(make_metrics()).samples["process_start_time_seconds",]
    assert 0 < started_s <= time.time() + 1.0
