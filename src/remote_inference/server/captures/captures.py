# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Captures: served requests with their chunks, one file each in a bounded ring, to be served again.

`remote-inference replay --capture` serves them and compares the chunks: a request that was served alone gives
the same bytes, one that was served in a batch gives close values.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from remote_inference.base.background_writer import BackgroundWriter
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.errors import UserError
from remote_inference.base.exchange import Chunk, ImageFeature, SessionKind, SessionOffer
from remote_inference.base.policy import Float32Array, Policy
from remote_inference.base.repeats import Repeats
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.policies import load_on_first_device
from remote_inference.server.requests.request_decoder import RequestDecoder

SUFFIX = ".capture"
VERSION = 5  # 2: batch_size; 3: observations with a history; 4: their capture_skew_s; 5: their queue_s
WAITING_MAX = 16  # captures; more are dropped, the newest first
CLOSE_TIMEOUT_S = 5.0


class CaptureError(UserError):
    """A file is not a capture; the message names the file."""


@dataclass(frozen=True)
class Capture:
    """One request as it arrived, and its answer.

    data: serialized Observation. model and robot: float32 `[chunk_size, action_dim]`. batch_size: requests
    that were served together, this one included.
    """

    offer: SessionOffer
    data: bytes
    model: Float32Array
    robot: Float32Array
    policy_version: str
    seq_id: int
    batch_size: int


class CaptureRing:
    """Keeps the newest `maximum` captures of a folder; captures of earlier runs count, too."""

    def __init__(self, folder: Path, maximum: int) -> None:
        """Create the folder. Raises OSError when it cannot be written."""
        self._folder = folder
        self._maximum = maximum
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:  # the folder may be read-only
            probe.write(b"probe")
        self._files = sorted(folder.glob(f"*{SUFFIX}"))
        self._next = int(self._files[-1].stem) + 1 if self._files else 0

    def put(self, capture: Capture) -> Path:
        """Write a capture and remove the oldest beyond the maximum; return the new file."""
        path = self._folder / f"{self._next:010d}{SUFFIX}"
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(_to_bytes(capture))
        unfinished.rename(path)  # a reader never sees half a capture
        self._next += 1
        self._files.append(path)
        while len(self._files) > self._maximum:
            self._files.pop(0).unlink(missing_ok=True)
        return path


class CaptureWriter:
    """Writes the ring of a manifest's `capture_dir` on its own thread: inference never waits for a disk.

    Raises DocumentError when the folder cannot be written.
    """

    def __init__(self, folder: str, maximum: int, warn: Callable[[str], None]) -> None:
        """warn: called with what is lost, fewer and fewer times, on the thread that lost it."""
        try:
            ring = CaptureRing(Path(folder), maximum)
        except (OSError, ValueError) as error:
            raise DocumentError(f"capture_dir: cannot use {folder}: {error}") from error
        self._log = warn
        self._repeats = Repeats()
        self._writer = BackgroundWriter("captures", ring.put, WAITING_MAX, self._warn)

    @property
    def dropped(self) -> int:
        """Captures lost to a disk that is slow, full or gone."""
        return self._writer.dropped

    def put(self, offer: SessionOffer, data: bytes, chunk: Chunk, batch_size: int) -> None:
        """Queue a request and its answer, or drop both when the disk does not keep up."""
        version, seq_id = chunk.policy_version, chunk.seq_id
        self._writer.put(Capture(offer, data, chunk.model, chunk.robot, version, seq_id, batch_size))

    def close(self) -> None:
        """Write the waiting captures and end."""
        if not self._writer.close(CLOSE_TIMEOUT_S):
            self._log(f"captures: the disk has not answered for {CLOSE_TIMEOUT_S:g} s: {self.dropped} lost")

    def _warn(self, reason: str) -> None:
        cause = reason.partition("'")[0]  # without the file, which is another one each time
        text = f"a capture is lost, {self.dropped} so far: {reason}"
        if line := self._repeats.line(text, time.monotonic(), cause):
            self._log(line)


def load_capture(path: Path) -> Capture:
    """Read a capture. Raises CaptureError naming the file."""
    try:
        fields = msgpack.unpackb(path.read_bytes())
        if fields["version"] != VERSION:
            raise CaptureError(f"{path}: version: found {fields['version']}, expected {VERSION}")
        offer = fields["offer"]
        offer = {key: tuple(value) if isinstance(value, list) else value for key, value in offer.items()}
        offer["kind"] = SessionKind(offer["kind"])
        offer["images"] = tuple(ImageFeature(**image) for image in offer["images"])
        for space in ("model", "robot"):
            fields[space] = np.frombuffer(fields[space], np.float32).reshape(fields["shape"])
        others = {key: fields[key] for key in Capture.__dataclass_fields__ if key != "offer"}
        return Capture(SessionOffer(**offer), **others)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be read: {error.strerror}") from error
    except CaptureError:
        raise
    except Exception as error:  # msgpack and numpy raise many kinds for other bytes
        raise CaptureError(f"{path}: is not a capture: {type(error).__name__}: {error}") from error


def _to_bytes(capture: Capture) -> bytes:
    fields: dict[str, Any] = {
        **vars(capture),
        "version": VERSION,
        "offer": {**asdict(capture.offer), "kind": capture.offer.kind.value},
        "shape": list(capture.model.shape),
        "model": capture.model.astype(np.float32).tobytes(),
        "robot": capture.robot.astype(np.float32).tobytes(),
    }
    packed: bytes = msgpack.packb(fields)
    return packed


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
    with closing(placed.policy) as policy:
        decoder = RequestDecoder(manifest, policy.spec)
        tolerance = BATCH_TOLERANCE[manifest.model.dtype or policy.spec.dtype]
        if "cuda" in placed.device:
            tolerance = max(tolerance, TF32_TOLERANCE)
        return [_compare(path, capture, policy, decoder, tolerance) for path, capture in captures]


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
