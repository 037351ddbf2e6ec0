# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a server's status says of the policy that it serves."""

from __future__ import annotations

import statistics

from remote_inference.core.admission import ServerTerms
from remote_inference.msg import ServerStatus
from remote_inference.nodes.server.serving import Serving


def describe_policy(status: ServerStatus, serving: Serving, terms: ServerTerms) -> None:
    """Fill in what the policy is, how much of it is used, and how it does."""
    spec, worker = serving.policy.spec, serving.worker
    status.policy_name = spec.name
    status.policy_revision = spec.revision
    status.policy_fingerprint = spec.fingerprint
    status.action_names = list(spec.action_names)
    status.state_names = list(spec.state_names)
    status.image_features = list(spec.image_shapes)
    status.chunk_size = spec.chunk_size
    status.observation_steps = spec.observation_steps
    status.trained_fps = spec.trained_fps
    status.supports_rtc = spec.supports_rtc
    status.continuation = spec.continuation.value
    status.serving_mode = spec.serving_mode.value
    status.accepting = terms.accepting and not terms.failing
    status.max_sessions = terms.capacity(spec)
    status.load = terms.load
    status.requests = worker.counters.requests
    status.errors = worker.counters.errors
    status.superseded = worker.counters.superseded
    if samples := tuple(worker.inference_ms):
        status.inference_ms = statistics.median(samples)
    status.response_ms = serving.response_ms
    if serving.weights:
        status.weights_version = serving.weights.view.version
