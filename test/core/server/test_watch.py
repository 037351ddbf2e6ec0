# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether a policy still answers: what makes a server not ready, and what makes it unhealthy."""

from __future__ import annotations

from builders import ns

from remote_inference.core.server.watch import PolicyWatch


def test_a_step_that_does_not_end_is_not_ready_at_half_its_time_and_unhealthy_after_it():
    watch = PolicyWatch(inference_timeout_s=30.0)
    watch.busy.begin(ns(100.0))
    for seconds, unready, unhealthy in ((14.0, "", ""), (16.0, "16 s", ""), (31.0, "31 s", "31 s")):
        reasons = watch.unready_reason(ns(100.0 + seconds)), watch.unhealthy_reason(ns(100.0 + seconds))
        for reason, words in zip(reasons, (unready, unhealthy), strict=True):
            assert words in reason
            assert bool(words) == bool(reason)


def test_a_step_that_ended_late_leaves_nothing_behind():
    watch = PolicyWatch(inference_timeout_s=30.0)
    watch.busy.begin(0)
    watch.busy.add(0, ns(40.0))
    assert watch.unready_reason(ns(90.0)) == watch.unhealthy_reason(ns(90.0)) == ""
