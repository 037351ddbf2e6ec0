# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A signal that comes while rclpy works is handled when rclpy is done."""

from __future__ import annotations

import signal

import pytest

from remote_inference.nodes.operator_client import deferred_signals


def test_ctrl_c_is_raised_after_the_work_and_not_within_it() -> None:
    done = []

    def work() -> None:
        with deferred_signals():
            signal.raise_signal(signal.SIGINT)
            done.append("the work")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["the work"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
