# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Lies say what is wrong while they last, and the truth before and after."""

from __future__ import annotations

import numpy as np
import pytest

from support.builders import ns
from support.robot.lying_sensors import (
    TURN,
    Drifting,
    Frozen,
    Late,
    Lie,
    Restarted,
    Second,
    Shifted,
    Wild,
    Wrapping,
    Wrong,
    tell,
)

BEGIN_NS, END_NS = ns(10), ns(11)
TOLD = (1,), BEGIN_NS, END_NS
EVERY = [
    (Wrong(*TOLD, (0.5,)), 0.5),
    (Restarted(*TOLD, (0.0,), ns(0.1)), 0.0),
    (Second(*TOLD, (0.5,), ns(0.1), 1, 1), 0.5),
    (Shifted(*TOLD, TURN), 10.2 + TURN),
    (Drifting(*TOLD, -1.0), 10.0),
    (Wrapping(*TOLD), 10.2 - 2 * TURN),
    (Frozen(*TOLD), 10.0),
    (Late(*TOLD, ns(0.6)), 9.6),
]


def truth(time_ns: int) -> np.ndarray:
    """Two joints, of which the second is as many radians away as there are seconds."""
    return np.array([7.0, time_ns / 1e9])


@pytest.mark.parametrize(("lie", "said"), EVERY, ids=[type(lie).__name__ for lie, _ in EVERY])
def test_a_lie_is_told_of_its_joint_while_it_lasts(lie: Lie, said: float):
    assert lie.distort(BEGIN_NS + ns(0.2), truth) == pytest.approx([7.0, said])
    for honest_ns in (BEGIN_NS - 1, END_NS):
        assert lie.distort(honest_ns, truth) == pytest.approx(truth(honest_ns))
        assert lie.age_ns(honest_ns) == 0
        assert not lie.is_silent(honest_ns)


def test_a_driver_that_restarts_is_silent_first():
    lie = Restarted(*TOLD, (0.0,), ns(0.1))
    assert [lie.is_silent(BEGIN_NS + ns(after_s)) for after_s in (0.0, 0.09, 0.1)] == [True, True, False]


def test_two_publishers_take_turns():
    lie = Second(*TOLD, (0.0,), ns(0.1), 1, 2)
    said = [lie.distort(BEGIN_NS + ns(0.1) * number, truth)[1] for number in range(5)]
    assert said == pytest.approx([0.0, 10.1, 10.2, 0.0, 10.4])


def test_a_late_message_has_its_own_stamp():
    assert Late(*TOLD, ns(0.6)).age_ns(BEGIN_NS) == ns(0.6)


def test_wild_values_differ_from_message_to_message_and_are_the_same_again():
    lie = Wild(*TOLD, (0.5,))
    times_ns = [BEGIN_NS + ns(0.1) * number for number in range(5)]
    off = [lie.distort(time_ns, truth)[1] - truth(time_ns)[1] for time_ns in times_ns]
    assert len(set(off)) == len(off)
    assert max(map(abs, off)) <= 0.5
    assert lie.distort(BEGIN_NS, truth) == pytest.approx(lie.distort(BEGIN_NS, truth))


def test_a_lie_tells_of_what_the_lies_before_it_say():
    said = tell([Wrong(*TOLD, (1.0,)), Shifted(*TOLD, 0.5)], truth)
    assert said(BEGIN_NS) == pytest.approx([7.0, 1.5])
    assert tell([], truth)(BEGIN_NS) == pytest.approx(truth(BEGIN_NS))
