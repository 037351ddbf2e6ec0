# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A control rate that a computer does not keep is warned of, by what ticks cost there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, islice, repeat
from pathlib import Path

import pytest
import yaml

from remote_inference.base.contract.contract import Contract, load_contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.paths import share_path
from remote_inference.robot.command import CommandSource
from remote_inference.robot.config import RobotConfig
from remote_inference.tools.deployment.serving.check_contract import TICKS, find_rate_warning, play

SHIPPED = sorted(share_path("config", "robots").glob("*.contract.yaml"))


def contract_at(fps: float) -> Contract:
    document = yaml.safe_load(share_path("config", "belt_arm.contract.yaml").read_text())
    return parse_document(document | {"fps": fps}, Contract, "fast.contract.yaml")


def clock_of(tick_s: float) -> Callable[[], float]:
    """Return a clock on which each tick takes so long."""
    return accumulate(repeat(tick_s)).__next__


def test_a_tick_may_take_half_a_period_and_no_more() -> None:
    assert find_rate_warning(contract_at(250.0), RobotConfig(), 50, clock_of(0.0019)) == ""
    said = find_rate_warning(contract_at(250.0), RobotConfig(), 50, clock_of(0.0025))
    assert said.startswith("fps: a control tick takes 2.5 ms here, of the 4 ms between two at 250 Hz")


def test_one_slow_tick_is_no_slow_computer() -> None:
    times_s = iter([0.0, 1.0, *(1.0 + 1e-4 * number for number in range(40))])
    assert find_rate_warning(contract_at(250.0), RobotConfig(), 50, times_s.__next__) == ""


@pytest.mark.parametrize("path", SHIPPED, ids=[path.name.split(".")[0] for path in SHIPPED])
def test_the_ticks_of_each_shipped_robot_are_led_by_chunks(path: Path) -> None:
    """What is measured is the work of a robot that moves, not of one that waits."""
    ticks = islice(play(load_contract(path), RobotConfig(), 50), TICKS)
    assert {tick.source for tick in ticks} == {CommandSource.CHUNK}
