# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures what a robot waits for beside one whose requests take long to prepare.

Run `python benchmarks/slow_preparation.py [--blocks 5] [--seconds 4]`. Everything is in one process and
without middleware, as in prepare_pool.py. Blocks of the situations take turns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from prepare_pool import MAX_BATCH, Case, StillPolicy, make_manifest
from rclpy.serialization import deserialize_message, serialize_message
from worker_rig import WorkerRig, compare_schedulers

from remote_inference.base.exchange import ImageFeature
from remote_inference.base.wire.arrays import bytes_field
from remote_inference.base.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.msg import Observation
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_batch
from remote_inference.server.sessions import Session
from remote_inference.server.warmup import make_scheduler

PERIOD_S = 0.05
POLICY_S = 10e-3
SEEN = (72, 96, 3)  # by the policy of its cameras
LARGE = (2600, 2700, 3)  # nearly as large as a request may be
SLOW_S = 1.0

METHOD = f"""\
A robot asks every {PERIOD_S * 1e3:g} ms, another one as soon as it is answered. A call of the policy takes \
{POLICY_S * 1e3:g} ms, a sleep; it sees two cameras at {SEEN[1]}x{SEEN[0]}."""


class SeeingPolicy(StillPolicy):
    """Sees two small cameras."""

    def __init__(self) -> None:
        super().__init__(Case("", cameras=2, policy_s=POLICY_S))
        self.spec = replace(self.spec, image_shapes=dict.fromkeys(self.spec.image_shapes, SEEN))


class SlowProcessors:
    """Those of a policy, which wait before they prepare a request."""

    def __init__(self, policy: StillPolicy, wait: Callable[[], None]) -> None:
        self._wait = wait
        self.post, self.reset = policy.post, policy.reset

    def pre(self, observation: Any) -> Any:
        self._wait()
        return observation.state


@dataclass(frozen=True)
class Situation:
    """What the other robot does. wait: before each of its requests is prepared; None: nothing."""

    name: str
    is_there: bool = True
    is_large: bool = False
    wait: Callable[[], None] | None = None


SITUATIONS = (
    Situation("alone", is_there=False),
    Situation("beside another one"),
    Situation(f"beside {LARGE[1]}x{LARGE[0]} pictures", is_large=True),
    Situation(f"beside a preparation of {SLOW_S:g} s", wait=partial(time.sleep, SLOW_S)),
    Situation("beside one that hangs", wait=threading.Event().wait),
)


def enlarge(data: bytes) -> bytes:
    """Return a request with large pictures in the place of its own."""
    message = deserialize_message(data, Observation)
    jpeg = bytes_field(encode_jpeg(np.zeros(LARGE, np.uint8), 30))
    for image in message.images:
        image.data = jpeg
    return bytes(serialize_message(message))


class Server:
    """A worker on threads as a server has them, and two robots."""

    def __init__(self, scheduler: str, situation: Situation) -> None:
        policy, manifest = SeeingPolicy(), make_manifest(scheduler)
        (self._data, *_), offer = sample_batch(policy.spec, "wave")
        self._other_data = enlarge(self._data) if situation.is_large else self._data
        large = tuple(replace(image, height=LARGE[0], width=LARGE[1]) for image in offer.images)
        images: tuple[ImageFeature, ...] = large if situation.is_large else offer.images
        processors = SlowProcessors(policy, situation.wait) if situation.wait else policy
        self._robot = Session("", offer, policy)
        self._other = Session("", replace(offer, images=images), processors)
        self._is_there = situation.is_there
        self._asked_s: float | None = None
        self.waits_ms: list[float] = []
        self._rig = WorkerRig(
            policy,
            partial(make_scheduler, manifest, MAX_BATCH),
            RequestDecoder(manifest, policy.spec),
            [self._robot, self._other],
            take=self._take,
            threads=len(os.sched_getaffinity(0)),
        )

    def run(self, seconds: float) -> list[float]:
        """Return how long the first robot waited for each chunk [ms], after a while to settle."""
        self._rig.start()
        if self._is_there:
            self._rig.ask(self._other, self._other_data)
        begin_s = due_s = time.monotonic()
        while due_s < begin_s + seconds:
            time.sleep(max(0.0, due_s - time.monotonic()))
            if self._asked_s is None:
                self._asked_s = time.monotonic()
                self._rig.ask(self._robot, self._data)
            due_s += PERIOD_S
        self._rig.stop()
        return self.waits_ms[len(self.waits_ms) // 5 :]

    def _take(self, session: Session) -> None:
        if session is self._robot and self._asked_s is not None:
            self.waits_ms.append((time.monotonic() - self._asked_s) * 1e3)
            self._asked_s = None
        elif session is self._other:
            self._rig.ask(self._other, self._other_data)


def measure(scheduler: str, blocks: int, seconds: float) -> list[tuple[str, ...]]:
    """Return a row for each situation."""
    waits_ms: dict[Situation, list[float]] = {situation: [] for situation in SITUATIONS}
    for _ in range(blocks):
        for situation, all_ms in waits_ms.items():
            all_ms.extend(Server(scheduler, situation).run(seconds))
    usual_ms = np.quantile(waits_ms[SITUATIONS[1]], 0.99)
    rows: list[tuple[str, ...]] = []
    for situation, found in waits_ms.items():
        p50, p99 = np.quantile(found, (0.5, 0.99))
        rows.append((scheduler, situation.name, f"{p50:.1f}", f"{p99:.1f}", f"{p99 / usual_ms:.2f}"))
    return rows


COLUMNS = ("scheduler", "situation", "p50", "p99", "p99 / that\nbeside another one")

if __name__ == "__main__":
    compare_schedulers(__doc__, METHOD, measure, "A robot's answers [ms]", COLUMNS)
