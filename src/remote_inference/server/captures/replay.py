# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay --capture`: serve captured requests again and compare the chunks.

A request that was served alone gives the same bytes; a request that was served in a batch gives close values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from remote_inference.base.policy import Float32Array, Policy
from remote_inference.server.captures.captures import Capture, load_capture
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.policies import load_on_first_device
from remote_inference.server.requests.request_decoder import RequestDecoder

# A batch is summed in another order than one request. By the precision of the weights, relative to the
# largest value of the space, or to 1 where that is larger.
BATCH_TOLERANCE: Mapping[str, float] = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 5e-2}
# A GPU takes 10 bits of a float32 for convolutions, as torch lets it: a sampler of five steps was 3e-3 off.
TF32_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Replay:
    """The comparison of a request's chunk with the captured one."""

    path: Path
    seq_id: int
    batch_size: int  # of the captured request, which is served alone now
    is_same_policy: bool  # by fingerprint
    error: str = ""  # why the chunks cannot be compared
    is_equal: bool = False  # bytes of both spaces
    is_close: bool = False  # within the tolerance for batches, both spaces
    largest_difference: float = math.nan  # over both spaces, in the unit of each

    @property
    def agrees(self) -> bool:
        """True when the chunk equals the captured one, within the tolerance of the captured batch."""
        return self.is_equal or (self.is_close and self.batch_size > 1)

    def to_json(self) -> dict[str, Any]:
        """Return it ready for JSON; `largest_difference` is NaN where there is nothing to compare."""
        return {**asdict(self), "path": str(self.path), "agrees": self.agrees}

    def __str__(self) -> str:
        if self.error:
            outcome = f"cannot be compared: {self.error}"
        elif self.is_equal:
            outcome = "equal"
        else:
            outcome = "equal within tolerance, " if self.agrees else ""
            outcome += f"differs by {self.largest_difference:.2g}"
        batch = f" (served in a batch of {self.batch_size})" if self.batch_size > 1 else ""
        other = "" if self.is_same_policy else ", another policy"
        return f"{self.path}: request {self.seq_id}: {outcome}{batch}{other}"


def replay(paths: Sequence[Path], manifest: Manifest) -> list[Replay]:
    """Serve captures with a manifest's policy, each alone and with fresh processors.

    A capture does not hold what processors or policy remembered of earlier requests. Raises CaptureError for
    a file that is not a capture, PolicyError when the policy cannot be loaded.
    """
    captures = [(path, load_capture(path)) for path in paths]
    placed = load_on_first_device(manifest.model)
    policy = placed.policy
    try:
        decoder = RequestDecoder(manifest, policy.spec)
        tolerance = BATCH_TOLERANCE[manifest.model.dtype or policy.spec.dtype]
        if "cuda" in placed.device:
            tolerance = max(tolerance, TF32_TOLERANCE)
        return [_compare(path, capture, policy, decoder, tolerance) for path, capture in captures]
    finally:
        policy.close()


def _compare(
    path: Path, capture: Capture, policy: Policy, decoder: RequestDecoder, tolerance: float
) -> Replay:
    same_policy = capture.policy_version == policy.spec.fingerprint
    result = Replay(path, capture.seq_id, capture.batch_size, same_policy)
    try:
        chunks = _serve(capture, policy, decoder)
    except Exception as error:  # of the wire or of the policy; the other captures may be served
        return replace(result, error=f"{type(error).__name__}: {error}")
    pairs = list(zip(chunks, (capture.model, capture.robot), strict=True))
    if any(found.shape != expected.shape for found, expected in pairs):
        found, expected = list(chunks[0].shape), list(capture.model.shape)
        return replace(result, error=f"found a chunk of shape {found}, expected {expected}")
    return replace(
        result,
        is_equal=all(found.tobytes() == expected.tobytes() for found, expected in pairs),
        is_close=all(_are_close(found, expected, tolerance) for found, expected in pairs),
        largest_difference=max(float(np.abs(found - expected).max()) for found, expected in pairs),
    )


def _serve(capture: Capture, policy: Policy, decoder: RequestDecoder) -> tuple[Float32Array, Float32Array]:
    _, message = decoder.request(capture.data)
    processors = policy.make_processors()
    policy.reset()  # an exclusive one remembers the capture before
    observation = decoder.observation(message, capture.offer)
    (model,) = policy.predict([processors.pre(observation)])
    robot = processors.post(model)
    return np.asarray(model, np.float32), np.asarray(robot, np.float32)


def _are_close(found: Float32Array, expected: Float32Array, tolerance: float) -> bool:
    scale = max(1.0, float(np.abs(expected).max()))
    return bool((np.abs(found - expected) <= tolerance * scale).all())
