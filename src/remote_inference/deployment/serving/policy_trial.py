# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tries a manifest's policy as its server would, without ROS."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from remote_inference.core.policy import Float32Array, PolicySpec
from remote_inference.core.server.manifest.manifest import Manifest
from remote_inference.core.server.warmup import Rehearsal, Speed, find_false_promises, find_speed, make_ready
from remote_inference.monitoring.tables import Table
from remote_inference.policies import load_policy
from remote_inference.wire.request_decoder import RequestDecoder, sample_requests


@dataclass(frozen=True)
class Trial:
    """The outcome of trying a policy, with its chunk for a sample request."""

    spec: PolicySpec  # with the serving mode that was found
    speed: Speed
    warnings: tuple[str, ...]  # of the preparation, and promises that the policy cannot keep
    chunk: Float32Array  # [chunk_size, action_dim] in robot space

    def lines(self) -> Iterator[str]:
        """Yield a description in lines of at most 80 columns."""
        speed, mode = self.speed, self.spec.serving_mode.value
        yield f"  answers in {speed.request_s * 1e3:.1f} ms with images as in training, {mode}"
        yield f"  fast enough for {speed.robots} robots at {speed.request_rate_hz:.2g} requests/s each"
        yield f"  a chunk for a state of zeros, {len(self.chunk)} rows:"
        numbers = ("first", "last", "min", "max")
        columns = ((column[0], column[-1], column.min(), column.max()) for column in self.chunk.T)
        rows = [
            (name, *(f"{number:.4g}" for number in column))
            for name, column in zip(self.spec.action_names, columns, strict=True)
        ]
        table = Table("", ("action", *numbers), rows, numbers).to_text()
        yield from textwrap.indent(table, "    ").splitlines()

    def to_json(self) -> dict[str, Any]:
        """Return the outcome ready for JSON."""
        return {
            "request_ms": self.speed.request_s * 1e3,
            "request_rate_hz": self.speed.request_rate_hz,
            "robots": self.speed.robots,
            "serving_mode": self.spec.serving_mode.value,
            "action_names": list(self.spec.action_names),
            "chunk": np.asarray(self.chunk, float).tolist(),
        }


def try_policy(manifest: Manifest) -> Trial:
    """Load a policy, prepare it as its server does, and serve one more request. Raises what these raise."""
    with closing(load_policy(manifest.model)) as policy:
        decoder = RequestDecoder(manifest, policy.spec)
        samples = sample_requests(policy.spec, manifest)
        rehearsal, *others = [Rehearsal(policy, decoder, *sample) for sample in samples]
        readiness = make_ready(policy, rehearsal, manifest, time.monotonic_ns, others)
        speed = find_speed(policy.spec, readiness.request_s)
        (chunk,) = rehearsal.run()
        warnings = (*readiness.warnings, *find_false_promises(manifest, policy.spec, speed.robots))
        return Trial(policy.spec, speed, warnings, chunk)
