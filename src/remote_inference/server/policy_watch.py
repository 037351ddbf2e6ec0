# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Watches whether the policy still answers; if not, robots leave, and finally the process is restarted."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from remote_inference.server.policy_error import is_device_lost

UNREADY_SHARE = 0.5  # of inference_timeout_s: robots leave before the process is restarted
CHECK_PERIOD_NS = 2_000_000_000  # between two probes of a failing policy
LOAD_WINDOW_NS = 5_000_000_000


class BusyMeter:
    """Fraction of the last seconds in which the worker was busy; times are its monotonic clock [ns]."""

    def __init__(self) -> None:
        self._spans: deque[tuple[int, int]] = deque()
        self._busy_ns = 0  # sum of the spans
        self._begun_ns: int | None = None  # start of the step in progress
        self._lock = threading.Lock()  # the worker writes, services and status read

    def begin(self, now_ns: int) -> None:
        """Note that a step begins. Its time so far counts until `add` is called."""
        with self._lock:
            self._begun_ns = now_ns

    def add(self, begin_ns: int, end_ns: int) -> None:
        """Add a step that has ended."""
        with self._lock:
            self._begun_ns = None
            self._spans.append((begin_ns, end_ns))
            self._busy_ns += end_ns - begin_ns
            self._forget(end_ns - LOAD_WINDOW_NS)  # nobody may ever ask for the fraction

    def running_s(self, now_ns: int) -> float:
        """Return how long the step in progress has lasted [s], 0 between steps."""
        with self._lock:
            return 0.0 if self._begun_ns is None else max(0, now_ns - self._begun_ns) / 1e9

    def fraction(self, now_ns: int) -> float:
        """Return the busy fraction of the window, 0 to 1."""
        oldest_ns = now_ns - LOAD_WINDOW_NS
        with self._lock:
            self._forget(oldest_ns)
            outside_ns = max(0, oldest_ns - self._spans[0][0]) if self._spans else 0
            running_ns = 0 if self._begun_ns is None else max(0, now_ns - max(self._begun_ns, oldest_ns))
            return min(1.0, (self._busy_ns - outside_ns + running_ns) / LOAD_WINDOW_NS)

    def _forget(self, oldest_ns: int) -> None:
        """Drop the steps that had ended by then."""
        while self._spans and self._spans[0][1] <= oldest_ns:
            begin_ns, end_ns = self._spans.popleft()
            self._busy_ns -= end_ns - begin_ns


class PolicyWatch:
    """Watches one policy. The device's thread probes it; any thread counts batches and asks for reasons.

    Failed batches may be the robots' fault, and a policy without requests could never prove its recovery.
    So the server probes the policy with a request of its own, and the probe decides whether the policy
    fails. Times are the worker's monotonic clock [ns].
    """

    def __init__(
        self, rehearse: Callable[[], object], *, max_consecutive_failures: int, inference_timeout_s: float
    ) -> None:
        """rehearse: probes the policy with a request of the server's own; raises when that fails.

        max_consecutive_failures: failed batches in a row after which the server probes the policy.
        inference_timeout_s: longest duration of a step before the process should be restarted.
        """
        self._rehearse = rehearse
        self._max_consecutive_failures = max_consecutive_failures
        self._inference_timeout_s = inference_timeout_s
        self._failure = ""  # of the last probe
        self._doubtful = False  # a probe is due, and waits until no episode is at stake
        self._loss = ""  # of a device, in words; it stays: another device may go on answering
        self._next_check_ns = 0
        self.failed_batches = 0  # in a row
        self._lock = threading.Lock()  # guards what `count` changes
        self.busy = BusyMeter()
        self.finishing = BusyMeter()  # of the thread that postprocesses and answers

    @property
    def failing(self) -> bool:
        """True while the policy does not answer the robots' requests, and no probe has shown that it can."""
        return bool(self._failure) or self._doubtful

    def count(self, *, answered: bool) -> None:
        """Count a batch. answered: whether the policy answered any request of the batch."""
        with self._lock:
            if not answered:
                self.failed_batches += 1
                return
            self.failed_batches = 0
            self._failure = ""
            self._doubtful = False
            self._next_check_ns = 0

    def note_error(self, error: BaseException) -> str:
        """Return in words what the author's code raised; note if a device no longer works in this process.

        It is caught as BaseException: a library in Rust panics with one, and `sys.exit` raises one. A thread
        of the server that ended with it would leave its robots without an answer. Raises KeyboardInterrupt,
        which is no error of the author's.
        """
        if isinstance(error, KeyboardInterrupt):
            raise error
        text = f"{type(error).__name__}: {error}"
        if is_device_lost(error):
            self._loss = self._loss or text
        return text

    def check_when_due(self, clock_ns: Callable[[], int], *, episode_at_stake: bool = False) -> None:
        """Probe the policy after too many failed batches in a row, and until it answers again.

        episode_at_stake: whether a probe would end the episode of a robot. The policy then counts as failing
        without one: the robot gets DRAINING, and the probe is made when it has left.
        """
        begin_ns = clock_ns()
        with self._lock:
            if self.failed_batches < self._max_consecutive_failures or begin_ns < self._next_check_ns:
                return
            self._doubtful = episode_at_stake
            if episode_at_stake:
                return
        self.busy.begin(begin_ns)
        try:
            self._rehearse()
        except BaseException as error:
            text = self.note_error(error)
            with self._lock:
                self._failure = text
                self._next_check_ns = clock_ns() + CHECK_PERIOD_NS
        else:
            self.count(answered=True)
        self.busy.add(begin_ns, clock_ns())

    def unhealthy_reason(self, now_ns: int) -> str:
        """Return why the process should be restarted, or an empty string."""
        if self._loss:
            return f"the device is lost: {self._loss}"
        return self._hang(now_ns, self._inference_timeout_s)

    def unready_reason(self, now_ns: int) -> str:
        """Return why no robot should be served here, or an empty string."""
        if reason := self.unhealthy_reason(now_ns):
            return reason
        if failure := self._failure:
            count = self.failed_batches
            return f"the policy failed {count} batches in a row and the server's probe: {failure}"
        if self._doubtful:
            count = self.failed_batches
            return f"the policy failed {count} batches in a row; a probe would end a robot's episode"
        return self._hang(now_ns, UNREADY_SHARE * self._inference_timeout_s)

    def _hang(self, now_ns: int, limit_s: float) -> str:
        if (running_s := self.busy.running_s(now_ns)) > limit_s:
            return f"an inference has not ended for {running_s:.0f} s"
        if (running_s := self.finishing.running_s(now_ns)) > limit_s:
            return f"postprocessing has not ended for {running_s:.0f} s"
        return ""
