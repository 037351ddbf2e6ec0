# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One line of each kind is admitted per period, and kinds that have fallen silent are forgotten."""

from __future__ import annotations

from remote_inference.server.throttle import Throttle


def test_one_line_of_each_key_is_admitted_per_period():
    throttle = Throttle(10.0)
    admitted = [now_s for now_s in range(100, 125) if throttle.admits("a", now_s)]
    assert admitted == [100, 110, 120]


def test_keys_do_not_silence_each_other():
    throttle = Throttle(10.0)
    assert [throttle.admits(key, 0.0) for key in ("a", "b", "a", "b")] == [True, True, False, False]


def test_keys_that_have_fallen_silent_are_forgotten():
    throttle = Throttle(10.0)
    for number in range(1_000):
        throttle.admits(f"robot {number}", float(number))
    assert len(throttle._admitted_s) <= 10
