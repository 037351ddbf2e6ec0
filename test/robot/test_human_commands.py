# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A person's command is executed while it is young."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from remote_inference.robot.motion.command_mode import HumanCommands
from remote_inference.robot.step_lock import StepLock
from support.builders import ns


def test_the_newest_command_is_executed_for_its_time_and_no_longer() -> None:
    commands = HumanCommands(silent_s=0.3)
    assert commands.newest(0, since_ns=0) is None
    commands.deposit(np.array([0.1]), 5)
    commands.deposit(np.array([0.2]), 10)
    newest = commands.newest(10 + ns(0.3), since_ns=0)
    assert newest is not None
    assert newest.tolist() == [0.2]
    assert commands.newest(10 + ns(0.3) + 1, since_ns=0) is None


def test_reading_the_command_waits_while_another_thread_has_the_lock() -> None:
    lock = StepLock()
    commands = HumanCommands(0.3, lock)
    with ThreadPoolExecutor(1) as pool:
        with lock:
            looked = pool.submit(commands.newest, 0, 0)
            assert not wait([looked], timeout=0.1).done
        assert looked.result() is None


def test_a_command_of_before_an_instant_was_for_another_moment() -> None:
    commands = HumanCommands(silent_s=0.3)
    commands.deposit(np.array([0.1]), 10)
    assert commands.newest(11, since_ns=10) is not None
    assert commands.newest(11, since_ns=11) is None
