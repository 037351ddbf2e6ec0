# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server's Prometheus metrics: histograms updated by each request, gauges read at each scrape."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from remote_inference.core.server.request_record import RequestRecord
from remote_inference.monitoring.snapshot import ServerSnapshot

DURATION_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64)


class ServerMetrics:
    """One server's metrics in a registry of its own.

    Series with the label `robot` (the robot's namespace) exist while its session is open.
    """

    def __init__(self, snapshot: Callable[[], ServerSnapshot], clock_s: Callable[[], float]) -> None:
        """snapshot: called by the scraping thread. clock_s: the snapshots' monotonic clock [s]."""
        self._registry = CollectorRegistry()
        self._request_s = self._durations(
            "request_duration", "Time from a request's arrival to its ready chunk: queue wait and inference."
        )
        self._queue_wait_s = self._durations("queue_wait", "Time from a request's arrival to its inference.")
        self._inference_s = self._durations(
            "inference_duration", "Time of decoding, policy and processors for the batch of a request."
        )
        self._staleness_s = self._durations(
            "staleness",
            "Time that a robot had waited when its chunk was ready, from its first request since the last "
            "chunk, superseded requests included.",
        )
        self._superseded = self._count(
            "superseded_requests", "Requests replaced by newer ones and never served."
        )
        self._errors = self._count("request_errors", "Requests answered with ERROR, or not at all.")
        self._per_robot = (
            self._request_s,
            self._queue_wait_s,
            self._inference_s,
            self._staleness_s,
            self._superseded,
            self._errors,
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
        self._registry.register(_SnapshotCollector(snapshot, clock_s))
        ProcessCollector(registry=self._registry)
        self._robots: frozenset[str] = frozenset()
        self._lock = threading.Lock()  # a request that ends after its session must not bring the series back

    def keep(self, robots: Iterable[str]) -> None:
        """Begin the series of robots with a session, and remove the series of all others."""
        with self._lock:
            robots = frozenset(robots)
            for metric in self._per_robot:
                for robot in self._robots - robots:
                    metric.remove(robot)
                for robot in robots - self._robots:
                    metric.labels(robot)
            self._robots = robots

    def record(self, record: RequestRecord) -> None:
        """Count one request; for an unreadable request count only the error."""
        with self._lock:
            if record.batch_size:
                self._batch_size.observe(record.batch_size)
            if record.robot not in self._robots:
                return
            self._superseded.labels(record.robot).inc(record.superseded)
            self._errors.labels(record.robot).inc(record.status == "error")
            if not record.batch_size:
                return
            request_ms = record.queue_wait_ms + record.inference_ms
            self._request_s.labels(record.robot).observe(request_ms / 1e3)
            self._queue_wait_s.labels(record.robot).observe(record.queue_wait_ms / 1e3)
            self._inference_s.labels(record.robot).observe(record.inference_ms / 1e3)
            self._staleness_s.labels(record.robot).observe(record.staleness_ms / 1e3)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the exposition and its content type, in the format that the Accept header prefers."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def families(self) -> list[Metric]:
        """Return every metric with its samples as they are now."""
        return list(self._registry.collect())

    def _durations(self, name: str, help_text: str) -> Histogram:
        return Histogram(
            f"policy_server_{name}_seconds",
            help_text,
            ["robot"],
            buckets=DURATION_BUCKETS_S,
            registry=self._registry,
        )

    def _count(self, name: str, help_text: str) -> Counter:
        return Counter(f"policy_server_{name}", help_text, ["robot"], registry=self._registry)


class _SnapshotCollector(Collector):
    def __init__(self, snapshot: Callable[[], ServerSnapshot], clock_s: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._clock_s = clock_s

    def describe(self) -> list[Metric]:
        return []  # called at registration, when there are no values yet

    def collect(self) -> Iterator[Metric]:
        now = self._snapshot()
        ready = not now.unready_reason(self._clock_s())
        yield InfoMetricFamily(
            "policy_server",
            "The served policy; constant 1.",
            {
                "server": now.server,
                "instance_id": now.instance_id,
                "policy": now.policy,
                "fingerprint": now.policy_fingerprint,
                "device": now.device,
            },
        )
        gauges = {
            "ready": ("1 while the server is ready for robots, as in /readyz.", ready),
            "sessions": ("Open sessions.", len(now.sessions)),
            "max_sessions": ("Sessions admitted at once.", now.max_sessions),
            "load_ratio": ("Fraction of the last 5 s in which the worker was busy, 0 to 1.", now.load),
            "failed_batches": ("Batches in a row that the policy failed to answer.", now.failed_batches),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"policy_server_{name}", text, value)
        yield CounterMetricFamily(
            "policy_server_audit_lines_dropped",
            "Lines of the request log lost to a full queue or a file that could not be written.",
            now.audit_lines_dropped,
        )
        yield CounterMetricFamily(
            "policy_server_captures_dropped",
            "Captures lost to a full queue or a folder that could not be written.",
            now.captures_dropped,
        )
