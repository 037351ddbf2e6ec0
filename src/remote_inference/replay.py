# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay-capture`: serve captured requests again and compare the chunks byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from remote_inference.captures import load_capture
from remote_inference.core.policy import Policy
from remote_inference.core.server.capture import Capture
from remote_inference.core.server.manifest import Manifest
from remote_inference.nodes.request_decoder import RequestDecoder
from remote_inference.policies import load_policy


@dataclass(frozen=True)
class Replay:
    """How a request's chunk compares with the captured one."""

    path: Path
    seq_id: int
    is_equal: bool  # bytes of both spaces
    largest_difference: float  # over both spaces, in the unit of each; NaN when shapes differ
    is_same_policy: bool  # by fingerprint


def replay(paths: Sequence[Path], manifest: Manifest) -> list[Replay]:
    """Serve captures with a manifest's policy, each with processors of its own.

    What a session's processors or a policy remembered of earlier requests is not part of a capture. Raises
    CaptureError for a file that is none, PolicyError when the policy cannot be loaded or cannot answer.
    """
    captures = [(path, load_capture(path)) for path in paths]
    policy = load_policy(manifest.model)
    try:
        return [_replay(path, capture, policy, RequestDecoder(manifest)) for path, capture in captures]
    finally:
        policy.close()


def _replay(path: Path, capture: Capture, policy: Policy, decoder: RequestDecoder) -> Replay:
    _, message = decoder.request(capture.data)
    processors = policy.make_processors()
    (model,) = policy.predict([processors.pre(decoder.observation(message, capture.offer))])
    robot = processors.post(model)
    pairs = [(model, capture.model), (robot, capture.robot)]
    comparable = all(found.shape == expected.shape for found, expected in pairs)
    return Replay(
        path=path,
        seq_id=capture.seq_id,
        is_equal=comparable and all(a.astype(np.float32).tobytes() == b.tobytes() for a, b in pairs),
        largest_difference=max(float(np.abs(a - b).max()) for a, b in pairs) if comparable else float("nan"),
        is_same_policy=capture.policy_version == policy.spec.fingerprint,
    )
