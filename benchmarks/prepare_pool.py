# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures what a server gains by preparing requests on a pool, beside the same worker without one.

Run `python benchmarks/prepare_pool.py [--blocks 5] [--seconds 1]`. Everything is in one process and without
middleware: sessions that ask again as soon as they are answered, the server's worker, decoder and pool.
Blocks with and without the pool take turns.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from worker_rig import WorkerRig, begin

import remote_inference.server.policies  # noqa: F401  names the back ends
from remote_inference.base.exchange import SessionOffer
from remote_inference.base.policy import Float32Array, PolicyObservation, PolicySpec
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_batch
from remote_inference.server.sessions import Session
from remote_inference.server.warmup import make_scheduler
from remote_inference.tools.tables import Table, print_table

JOINTS = tuple(f"joint_{index}" for index in range(6))
CHUNK_SIZE = 50
CAMERA = (480, 640, 3)
ROBOTS = 64
EMULATED_DECODING_S = 2.5e-3  # two 640x480 JPEG images on one core
EMULATED_CORES = 16
MAX_BATCH = 16

METHOD = f"""\
{ROBOTS} sessions ask again as soon as they are answered. [italic]Emulated[/italic]: decoding is a sleep of \
{EMULATED_DECODING_S * 1e3:g} ms that needs neither core nor GIL, on a pool of {EMULATED_CORES} threads, as \
a machine with as many cores would have. [italic]JPEG[/italic]: two real 640x480 images, on a pool with a \
thread for each core of this machine. [italic]Policy[/italic]: the time of one call, a sleep too, as on a \
device of its own."""


@dataclass(frozen=True)
class Case:
    """What is measured. cameras: real JPEG images of a request; 0: decoding is emulated."""

    scheduler: str
    cameras: int
    policy_s: float = 0.0

    @property
    def threads(self) -> int:
        return len(os.sched_getaffinity(0)) if self.cameras else EMULATED_CORES


CASES = tuple(
    Case(scheduler, cameras, policy_s)
    for cameras, policy_s in ((0, 0.0), (0, 10e-3), (2, 0.0), (2, 10e-3))
    for scheduler in ("round_robin", "micro_batch")
)


class StillPolicy:
    """Answers with the measured positions, after a given time, and is its own processors."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.spec = PolicySpec(
            name="still",
            revision="1",
            fingerprint="f",
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={f"camera_{index}": CAMERA for index in range(case.cameras)},
            chunk_size=CHUNK_SIZE,
            trained_fps=30.0,
            max_batch=MAX_BATCH,
        )

    def make_processors(self) -> StillPolicy:
        return self

    def pre(self, observation: PolicyObservation) -> Float32Array:
        return observation.state

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        if self._case.policy_s:
            time.sleep(self._case.policy_s)
        return [np.tile(state, (CHUNK_SIZE, 1)) for state in batch]

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Do nothing: there is no device."""


class SleepingDecoder(RequestDecoder):
    """Decodes no image, and takes the time that two would take."""

    def observation(self, message: Any, offer: SessionOffer) -> PolicyObservation:
        time.sleep(EMULATED_DECODING_S)
        return super().observation(message, offer)


def make_manifest(scheduler: str) -> Manifest:
    """Return what a server with this scheduler would serve; nothing is loaded."""
    model = {"backend": "hold", "path": "unused"}
    content = {"model": model, "default_task": "wave", "scheduler": scheduler, "max_batch": MAX_BATCH}
    return Manifest.model_validate(content)


class Load:
    """A worker and the sessions that keep it busy."""

    def __init__(self, case: Case, *, pooled: bool) -> None:
        manifest = make_manifest(case.scheduler)
        policy = StillPolicy(case)
        (self._data, *_), offer = sample_batch(policy.spec, "wave")
        # The sample names the session "", so all of them have this id; nothing here looks a session up.
        self._sessions = [Session("", offer, policy.make_processors()) for _ in range(ROBOTS)]
        self._answers = 0
        decode = RequestDecoder if case.cameras else SleepingDecoder
        self._rig = WorkerRig(
            policy,
            partial(make_scheduler, manifest, MAX_BATCH),
            decode(manifest, policy.spec),
            self._sessions,
            take=self._take,
            threads=case.threads if pooled else 0,
        )

    def run(self, seconds: float) -> float:
        """Return the answers per second of a block. Raises SystemExit for an answer without a chunk."""
        for session in self._sessions:
            self._rig.ask(session, self._data)
        self._rig.start()
        time.sleep(0.2 * seconds)
        before, begin_s = self._answers, time.monotonic()
        time.sleep(seconds)
        rate = (self._answers - before) / (time.monotonic() - begin_s)
        self._rig.stop()
        return rate

    def _take(self, session: Session) -> None:
        self._answers += 1
        self._rig.ask(session, self._data)


def measure(case: Case, blocks: int, seconds: float) -> tuple[str, ...]:
    """Return the row of one case: medians of the blocks, and the median of the ratios with the spread."""
    rates = [[Load(case, pooled=pooled).run(seconds) for pooled in (False, True)] for _ in range(blocks)]
    without, pooled = (statistics.median(column) for column in zip(*rates, strict=True))
    ratios = [after / before for before, after in rates]
    return (
        f"{case.cameras} JPEG" if case.cameras else "emulated",
        f"{case.policy_s * 1e3:g}",
        case.scheduler,
        str(case.threads),
        f"{without:.0f}",
        f"{pooled:.0f}",
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
    )


def main() -> None:
    arguments, console = begin(__doc__, METHOD, seconds=1.0)
    rows = []
    for case in CASES:
        with console.status(f"measuring: {case}"):
            rows.append(measure(case, arguments.blocks, arguments.seconds))
    columns = ("decoding", "policy\nms", "scheduler", "threads", "without\n/s", "pool\n/s", "ratio", "spread")
    print_table(Table("answers per second", columns, rows, columns))


if __name__ == "__main__":
    main()
