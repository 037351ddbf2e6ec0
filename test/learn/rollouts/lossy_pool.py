# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of a pool on a network that loses, repeats, delays and reorders what it carries. No ROS."""

from __future__ import annotations

import heapq
import queue
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from remote_inference.learn.environments.slot_pool import SlotPool
from remote_inference.learn.nodes.environment_pool import PoolAnswers

IDLE_S = 0.01
JOIN_S = 30.0


class LossyPool:
    """See PoolServices. A thread stands for the pool's node."""

    pool = "/pool"

    def __init__(self, slots: SlotPool, *, loss: float = 0.0, delay_s: float = 0.0, seed: int = 0) -> None:
        """loss: of requests, and of responses; as many are doubled. delay_s: longest, of each."""
        self.carried: list[str] = []  # what has arrived at the node, by service
        self.warnings: list[str] = []
        self.is_there = self.is_alive = True
        self._slots = slots
        self._answers = PoolAnswers(slots)
        self._loss, self._delay_s = loss, delay_s
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        self._sent: queue.SimpleQueue[tuple[float, int, Callable[[], None]]] = queue.SimpleQueue()
        self._order = count()
        self._stop = threading.Event()
        self._node = threading.Thread(target=self._spin, daemon=True)
        self._node.start()

    def is_ready(self, service: str) -> bool:
        return self.is_there

    def send(self, service: str, request: Any, on_response: Callable[[Any], None]) -> Callable[[], None]:
        self._carry(partial(self._arrive, service, request, on_response))
        return lambda: None  # who has stopped to listen is told all the same

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def close(self) -> None:
        self._stop.set()
        self._node.join(JOIN_S)
        assert not self._node.is_alive()

    def die(self) -> None:
        """Say nothing any more."""
        self.is_alive = False

    def _arrive(self, service: str, request: Any, on_response: Callable[[Any], None]) -> None:
        self.carried.append(service)
        kind = service.partition("_")[0]
        getattr(self._answers, kind)(request, lambda response: self._carry(partial(on_response, response)))

    def _carry(self, deliver: Callable[[], None]) -> None:
        with self._lock:
            fate = self._rng.random()
            copies = 0 if fate < self._loss else 2 if fate < 2 * self._loss else 1
            for _ in range(copies):
                due_s = time.monotonic() + self._rng.random() * self._delay_s
                self._sent.put((due_s, next(self._order), deliver))

    def _spin(self) -> None:
        on_the_way: list[tuple[float, int, Callable[[], None]]] = []
        while not self._stop.is_set():
            try:
                heapq.heappush(on_the_way, self._sent.get(timeout=IDLE_S if self._delay_s else 10 * IDLE_S))
            except queue.Empty:
                self._answers.answer_late()
                self._slots.expire()
            while on_the_way and on_the_way[0][0] <= time.monotonic():
                _, _, deliver = heapq.heappop(on_the_way)
                if self.is_alive:
                    deliver()
