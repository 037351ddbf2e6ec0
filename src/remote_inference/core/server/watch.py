# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether the policy still answers: if not, robots leave, and in the end the process is restarted."""

from __future__ import annotations

from remote_inference.core.server.load import BusyMeter

UNREADY_SHARE = 0.5  # of inference_timeout_s; robots leave before the process is restarted


class PolicyWatch:
    """Watches one policy. The worker's thread tells what happens; any thread asks for the reasons.

    Times are the worker's monotonic clock [ns].
    """

    def __init__(self, inference_timeout_s: float) -> None:
        """inference_timeout_s: how long a step may last until the process should be restarted."""
        self._inference_timeout_s = inference_timeout_s
        self.busy = BusyMeter()

    def unhealthy_reason(self, now_ns: int) -> str:
        """Return why the process should be restarted, or an empty string."""
        return self._hang(now_ns, self._inference_timeout_s)

    def unready_reason(self, now_ns: int) -> str:
        """Return why no robot should be served here, or an empty string."""
        return self._hang(now_ns, UNREADY_SHARE * self._inference_timeout_s)

    def _hang(self, now_ns: int, limit_s: float) -> str:
        running_s = self.busy.running_s(now_ns)
        return f"an inference has not ended for {running_s:.0f} s" if running_s > limit_s else ""
