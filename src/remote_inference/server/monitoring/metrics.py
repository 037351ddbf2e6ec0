# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server's Prometheus metrics: histograms updated by each request, gauges read at each scrape."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from remote_inference.server.live_weights import WeightsView
from remote_inference.server.monitoring.snapshot import ServerSnapshot
from remote_inference.server.requests.request_log import RequestRecord

DURATION_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64)

# Of each robot, in the order of `_RobotSeries`.
DURATIONS = {
    "request_duration": "Time from a request's arrival to its ready chunk: queue wait and inference.",
    "queue_wait": "Time that a request waited: for its turn, for the others of its batch, for the device.",
    "inference_duration": "Time of a request's own decoding and preprocessing, then of policy and "
    "postprocessing for its batch.",
    "staleness": "Time that a robot had waited when its chunk was ready, from its first request since the "
    "last chunk, superseded requests included.",
    "slack": "Time that a robot's queue still lasted when its chunk was ready; 0 of one that came late.",
    "capture_skew": "Time between the oldest and the newest content of an observation; 0 of a client that "
    "does not say it.",
}
COUNTS = {
    "late_chunks": "Chunks that were ready after the robot's queue had ended.",
    "superseded_requests": "Requests replaced by newer ones and never served.",
    "request_errors": "Requests answered with ERROR, or not at all.",
}

# Of the server, by fields of its snapshot.
TOTALS = {
    "refused_sessions": "Offers of sessions that the server has refused; the log says why. A robot asks "
    "again and again.",
    "audit_lines_dropped": "Lines of the request log lost to a full queue or a file that could not be "
    "written.",
    "captures_dropped": "Captures lost to a full queue or a folder that could not be written.",
}


class ServerMetrics(Collector):
    """One server's metrics in a registry of its own.

    Series with the label `robot` (the robot's namespace) exist while its session is open. Other labels of a
    series come from the robot's tags.
    """

    def __init__(
        self,
        snapshot: Callable[[], ServerSnapshot],
        clock_s: Callable[[], float],
        tag_keys: Sequence[str] = (),
    ) -> None:
        """snapshot: called by the scraping thread. clock_s: the snapshots' monotonic clock [s].

        tag_keys: of the tags that become labels.
        """
        self._snapshot = snapshot
        self._clock_s = clock_s
        self._registry = CollectorRegistry()
        self._tag_keys = tuple(tag_keys)
        own: Any = {"labelnames": ("robot", *(f"tag_{key}" for key in tag_keys)), "registry": self._registry}
        series: list[Any] = [
            Histogram(f"policy_server_{name}_seconds", text, buckets=DURATION_BUCKETS_S, **own)
            for name, text in DURATIONS.items()
        ]
        series += [Counter(f"policy_server_{name}", text, **own) for name, text in COUNTS.items()]
        self._per_robot = _RobotSeries(*series)
        self._unattributed_errors = Counter(
            "policy_server_unattributed_errors",
            "Requests that failed, of robots without series: their sessions have ended, or had just begun.",
            registry=self._registry,
        )
        self._batch_size = Histogram(
            "policy_server_batch_size",
            "Requests that were served together; each of them counts once.",
            buckets=BATCH_BUCKETS,
            registry=self._registry,
        )
        self.undelivered = Counter(
            "policy_server_undelivered",
            "Chunks, request records and captures that could not be handed over; the log says why.",
            registry=self._registry,
        )
        self.executor_lag_s = Gauge(
            "policy_server_executor_lag_seconds",
            "Longest time in the last 5 s that ready work waited for the executor, and so a request may have "
            "waited before its arrival was noted.",
            registry=self._registry,
        )
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self._robots: dict[str, _RobotSeries] = {}
        self._label_values: dict[str, tuple[str, ...]] = {}  # of each robot's series
        self._lock = threading.Lock()  # a request that ends after its session must not bring the series back

    def keep(self, robots: Mapping[str, Mapping[str, str]]) -> None:
        """Begin the series of robots with a session, and remove the series of all others.

        robots: their tags. A robot whose labels have changed begins new series.
        """
        kept = {
            robot: (robot, *(tags.get(key, "") for key in self._tag_keys)) for robot, tags in robots.items()
        }
        with self._lock:
            for robot, values in self._label_values.items():
                if kept.get(robot) != values:
                    del self._robots[robot]
                    for metric in vars(self._per_robot).values():
                        metric.remove(*values)
            for robot in kept.keys() - self._robots.keys():
                self._robots[robot] = self._per_robot.labels(kept[robot])
            self._label_values = kept

    def record(self, record: RequestRecord) -> None:
        """Count one request; for an unreadable request count only the error."""
        with self._lock:
            if record.batch_size:
                self._batch_size.observe(record.batch_size)
            if series := self._robots.get(record.robot):
                series.record(record)
            elif record.status == "error":
                self._unattributed_errors.inc()

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the exposition and its content type, in the format that the Accept header prefers."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def families(self) -> list[Metric]:
        """Return every metric with its samples as they are now."""
        return list(self._registry.collect())

    def describe(self) -> list[Metric]:
        return []  # called at registration, when there are no values yet

    def collect(self) -> Iterator[Metric]:
        """Yield what is read from the snapshot at each scrape."""
        now = self._snapshot()
        ready = not now.unready_reason(self._clock_s())
        policy = {"policy": now.policy, "fingerprint": now.policy_fingerprint, "device": now.device}
        server = {"server": now.server, "instance_id": now.instance_id, **policy}
        yield InfoMetricFamily("policy_server", "The served policy; constant 1.", server)
        busy = "Fraction of the last 5 s in which the inference thread had a batch, 0 to 1."
        gauges = {
            "ready": ("1 while the server is ready for robots, as in /readyz.", ready),
            "sessions": ("Open sessions.", len(now.sessions)),
            "max_sessions": ("Sessions admitted at once.", now.max_sessions),
            "load_ratio": (busy, now.load),
            "failed_batches": ("Batches in a row that the policy failed to answer.", now.failed_batches),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"policy_server_{name}", text, value)
        for name, text in TOTALS.items():
            yield CounterMetricFamily(f"policy_server_{name}", text, getattr(now, name))
        yield from _weights_families(now.weights)


@dataclass(frozen=True)
class _RobotSeries:
    """One robot's series, or all robots': finding them by label takes three times as long as counting."""

    request_s: Histogram
    queue_wait_s: Histogram
    inference_s: Histogram
    staleness_s: Histogram
    slack_s: Histogram
    capture_skew_s: Histogram
    late: Counter
    superseded: Counter
    errors: Counter

    def labels(self, values: Sequence[str]) -> _RobotSeries:
        """Return the series with these values of the labels; they begin with the first call."""
        return _RobotSeries(*(metric.labels(*values) for metric in vars(self).values()))

    def record(self, record: RequestRecord) -> None:
        if record.superseded:
            self.superseded.inc(record.superseded)
        if record.status == "error":
            self.errors.inc()
        if not record.batch_size:
            return
        self.request_s.observe((record.queue_wait_ms + record.inference_ms) / 1e3)
        self.queue_wait_s.observe(record.queue_wait_ms / 1e3)
        self.inference_s.observe(record.inference_ms / 1e3)
        self.staleness_s.observe(record.staleness_ms / 1e3)
        self.capture_skew_s.observe(record.capture_skew_ms / 1e3)
        if record.slack_ms is not None:
            self.slack_s.observe(max(0.0, record.slack_ms / 1e3))
            self.late.inc(record.late)


def _weights_families(weights: WeightsView) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "policy_server_weights_version",
        "Version of the live weights that are served; 0: as loaded, -1: no updates are accepted.",
        weights.version,
    )
    yield GaugeMetricFamily(
        "policy_server_weights_staleness_versions",
        "Versions between that which is served and the newest that the trainer has begun to send.",
        weights.behind,
    )
    yield GaugeMetricFamily(
        "policy_server_weights_apply_seconds", "Time that the last exchange of weights took.", weights.apply_s
    )
    yield CounterMetricFamily(
        "policy_server_weights_received_bytes", "Bytes that trainers have sent.", weights.received_bytes
    )
    text = "Updates of the weights, by what they have come to."
    updates = CounterMetricFamily("policy_server_weights_updates", text, labels=("result",))
    updates.add_metric(["applied"], weights.applied)
    updates.add_metric(["rolled_back"], weights.rolled_back)
    for reason, count in weights.refused.items():
        updates.add_metric([f"refused_{reason}"], count)
    yield updates
