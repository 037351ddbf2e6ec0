# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether the policy still answers: if not, robots leave, and in the end the process is restarted."""

from __future__ import annotations

from collections.abc import Callable

from remote_inference.core.policy import DeviceLostError
from remote_inference.core.server.busy_meter import BusyMeter

UNREADY_SHARE = 0.5  # of inference_timeout_s; robots leave before the process is restarted
CHECK_PERIOD_NS = 2_000_000_000  # between two checks of a policy that fails


class PolicyWatch:
    """Watches one policy. The worker's thread tells what happens; any thread asks for the reasons.

    Batches that fail may be the robots' fault, and a policy that nobody asks any more cannot recover by
    itself: whether it fails is decided by a request of the server's own. Times are the worker's monotonic
    clock [ns].
    """

    def __init__(
        self, rehearse: Callable[[], object], *, max_consecutive_failures: int, inference_timeout_s: float
    ) -> None:
        """rehearse: lets the policy answer a request of the server's own; raises when it does not.

        max_consecutive_failures: failed batches in a row after which it is asked so.
        inference_timeout_s: how long a step may last until the process should be restarted.
        """
        self._rehearse = rehearse
        self._max_consecutive_failures = max_consecutive_failures
        self._inference_timeout_s = inference_timeout_s
        self._failure = ""  # of the last rehearsal
        self._device_lost = False
        self._next_check_ns = 0
        self.failed_batches = 0  # in a row
        self.busy = BusyMeter()

    @property
    def failing(self) -> bool:
        """True while the policy answers neither robots nor the server itself."""
        return bool(self._failure)

    def count(self, *, answered: bool) -> None:
        """Take a batch that the policy was asked. answered: whether anybody got a chunk."""
        if not answered:
            self.failed_batches += 1
            return
        self.failed_batches = 0
        self._failure = ""
        self._device_lost = False
        self._next_check_ns = 0

    def check_when_due(self, clock_ns: Callable[[], int]) -> None:
        """Rehearse after a row of failed batches, and from then on until the policy answers again."""
        begin_ns = clock_ns()
        if self.failed_batches < self._max_consecutive_failures or begin_ns < self._next_check_ns:
            return
        self.busy.begin(begin_ns)
        try:
            self._rehearse()
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
            self._device_lost = isinstance(error, DeviceLostError)
            self._next_check_ns = clock_ns() + CHECK_PERIOD_NS
        else:
            self.count(answered=True)
        self.busy.add(begin_ns, clock_ns())

    def unhealthy_reason(self, now_ns: int) -> str:
        """Return why the process should be restarted, or an empty string."""
        if self._device_lost:
            return f"the device is lost: {self._failure}"
        return self._hang(now_ns, self._inference_timeout_s)

    def unready_reason(self, now_ns: int) -> str:
        """Return why no robot should be served here, or an empty string."""
        if reason := self.unhealthy_reason(now_ns):
            return reason
        if failure := self._failure:
            return f"the policy failed {self.failed_batches} batches in a row and the server's own: {failure}"
        return self._hang(now_ns, UNREADY_SHARE * self._inference_timeout_s)

    def _hang(self, now_ns: int, limit_s: float) -> str:
        running_s = self.busy.running_s(now_ns)
        return f"an inference has not ended for {running_s:.0f} s" if running_s > limit_s else ""
