# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The served policy's side of live weights: one thread receives updates, the device's thread applies them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Protocol

from remote_inference.learn.weights.frames import Applied, Link, Refused
from remote_inference.learn.weights.reasons import WeightsError
from remote_inference.learn.weights.receiver import WeightReceiver
from remote_inference.learn.weights.syncer import ReceiverPump
from remote_inference.learn.weights.tensors import Tensors
from remote_inference.server.live_weights import WeightsView


class Listener(Protocol):
    """Accepts trainers' links."""

    def accept(self, timeout_s: float) -> Link:
        """Return the link to the next one. Raises TimeoutError when none comes, LinkClosedError."""

    def close(self) -> None: ...


class LiveWeights:
    """The tensors of a served policy, and the trainers that may change them.

    `apply` belongs to the thread that calls the policy; all else is for any thread.
    """

    def __init__(
        self,
        tensors: Tensors,
        listeners: Sequence[Listener],
        check: Callable[[], str],
        report: Callable[[Applied | Refused], None],
    ) -> None:
        """Accept trainers. check: returns why the policy does not work with its new weights, or nothing.

        report: called with the outcome of each update. Raises WeightsError for tensors that cannot be
        changed; the listeners are closed then.
        """
        self._report = report
        with ExitStack() as listening:
            for listener in listeners:
                listening.callback(listener.close)
            self._receiver = WeightReceiver(tensors, check=check, report=self._note_outcome)
            self._listening = listening.pop_all()
        self._applied: Counter[str] = Counter()
        self._apply_s = 0.0
        self._rollbacks: list[Future[int]] = []
        self._is_closed = False
        self._lock = threading.Lock()  # of these two
        self._pump = ReceiverPump(self._receiver, *(listener.accept for listener in listeners))

    def apply(self) -> int:
        """Serve the prepared update, or roll back if that was requested; return the version served."""
        if self._rollbacks:
            self._roll_back()
        return self._receiver.apply()

    def ask_for_rollback(self) -> Future[int]:
        """Let the next `apply` serve the version before; gives it or WeightsError, or is cancelled."""
        asked: Future[int] = Future()
        with self._lock:
            if not self._is_closed:
                self._rollbacks.append(asked)
                return asked
        asked.cancel()
        return asked

    @property
    def view(self) -> WeightsView:
        receiver = self._receiver
        return WeightsView(
            version=receiver.version,
            applied=self._applied["applied"],
            rolled_back=self._applied["rolled back"],
            refused={reason.value: count for reason, count in receiver.refusals.copy().items()},
            received_bytes=receiver.received_bytes,
            apply_s=self._apply_s,
            behind=receiver.behind,
        )

    def close(self) -> None:
        """Stop accepting updates; the served weights stay as they are."""
        self._pump.close()
        self._listening.close()
        with self._lock:
            asked, self._rollbacks, self._is_closed = self._rollbacks, [], True
        for future in asked:
            future.cancel()

    def _roll_back(self) -> None:
        with self._lock:
            asked, self._rollbacks = self._rollbacks, []
        for future in asked:
            try:
                version = self._receiver.rollback()
            except WeightsError as error:  # noqa: PERF203  each may be one too many
                future.set_exception(error)
            else:
                self._applied["rolled back"] += 1
                future.set_result(version)

    def _note_outcome(self, outcome: Applied | Refused) -> None:
        if isinstance(outcome, Applied):
            self._applied["applied"] += 1
            self._apply_s = outcome.seconds
        self._report(outcome)
