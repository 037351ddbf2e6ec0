# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether a policy still answers: what makes a server not ready, and what makes it unhealthy."""

from __future__ import annotations

from collections.abc import Callable

from remote_inference.base.policy import DeviceLostError, PolicyError
from remote_inference.server.policy_watch import CHECK_PERIOD_NS, PolicyWatch
from support.builders import ns


class Policy:
    """A probe that fails while `error` is set."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.rehearsals = 0

    def __call__(self) -> None:
        self.rehearsals += 1
        if self.error is not None:
            raise self.error


def make_watch(rehearse: Callable[[], None] = lambda: None) -> PolicyWatch:
    return PolicyWatch(rehearse, max_consecutive_failures=3, inference_timeout_s=30.0)


def test_a_step_that_does_not_end_is_not_ready_at_half_its_time_and_unhealthy_after_it():
    watch = make_watch()
    watch.busy.begin(ns(100.0))
    for seconds, unready, unhealthy in ((14.0, "", ""), (16.0, "16 s", ""), (31.0, "31 s", "31 s")):
        reasons = watch.unready_reason(ns(100.0 + seconds)), watch.unhealthy_reason(ns(100.0 + seconds))
        for reason, words in zip(reasons, (unready, unhealthy), strict=True):
            assert words in reason
            assert bool(words) == bool(reason)


def test_a_step_that_ended_late_leaves_the_server_ready():
    watch = make_watch()
    watch.busy.begin(0)
    watch.busy.add(0, ns(40.0))
    assert watch.unready_reason(ns(90.0)) == watch.unhealthy_reason(ns(90.0)) == ""


def fail(watch: PolicyWatch, times: int) -> None:
    for _ in range(times):
        watch.count(answered=False)
        watch.check_when_due(lambda: 0)


def test_failed_batches_alone_do_not_make_the_policy_failing():
    """The requests may be at fault: a policy that answers the server's probe does not fail."""
    policy = Policy()
    watch = make_watch(policy)
    fail(watch, 2)
    assert policy.rehearsals == 0
    fail(watch, 1)
    assert (policy.rehearsals, watch.failed_batches, watch.failing) == (1, 0, False)
    assert watch.unready_reason(0) == ""


def test_a_policy_that_also_fails_the_probe_is_not_ready_and_says_why():
    policy = Policy()
    policy.error = PolicyError("no room")
    watch = make_watch(policy)
    fail(watch, 3)
    assert watch.failing
    assert watch.unready_reason(0) == (
        "the policy failed 3 batches in a row and the server's probe: PolicyError: no room"
    )
    assert watch.unhealthy_reason(0) == ""


def test_a_failing_policy_is_probed_until_it_answers():
    policy = Policy()
    policy.error = PolicyError("no room")
    watch = make_watch(policy)
    fail(watch, 3)
    watch.check_when_due(lambda: CHECK_PERIOD_NS - 1)
    assert policy.rehearsals == 1
    watch.check_when_due(lambda: CHECK_PERIOD_NS)
    assert (policy.rehearsals, watch.failing) == (2, True)
    policy.error = None
    watch.check_when_due(lambda: 2 * CHECK_PERIOD_NS)
    assert (policy.rehearsals, watch.failing, watch.unready_reason(0)) == (3, False, "")
    watch.check_when_due(lambda: 3 * CHECK_PERIOD_NS)
    assert policy.rehearsals == 3


def test_a_lost_device_is_unhealthy_though_another_answers():
    """Of several replicas one may be lost."""
    policy = Policy()
    policy.error = DeviceLostError("CUDA error: an illegal memory access was encountered")
    watch = make_watch(policy)
    fail(watch, 3)
    assert "the device is lost" in watch.unhealthy_reason(0)
    assert "illegal memory access" in watch.unready_reason(0)
    watch.count(answered=True)
    assert "the device is lost" in watch.unready_reason(0)


def test_a_probe_that_hangs_is_reported_like_any_inference():
    seen = []

    def hang() -> None:
        seen.append(watch.unhealthy_reason(ns(31.0)))

    watch = make_watch(hang)
    fail(watch, 3)
    assert seen == ["an inference has not ended for 31 s"]
    assert watch.busy.running_s(ns(32.0)) == 0.0
