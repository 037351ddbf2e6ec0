# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The newest value of each joint counts, whichever message of the topic brought it."""

from __future__ import annotations

import math
from array import array

from hypothesis import given, strategies as st
from sensor_msgs.msg import JointState

from remote_inference.base.contract.action_kinds import MOTIONS
from remote_inference.base.wire.sensors.joint_merge import JointDrivers

NAMES = ("a", "b", "c", "other")
POSITIONS = [("a", "position"), ("b", "position")]


def message(**positions: float) -> JointState:
    return JointState(name=list(positions), position=array("d", positions.values()))


def test_a_message_of_all_joints_passes_unchanged() -> None:
    drivers = JointDrivers(POSITIONS)
    whole = message(b=2.0, a=1.0, other=3.0)
    known = drivers.take(whole, 5)
    assert known is not None
    assert known[0] is whole
    assert known[1] == 5


def test_values_of_a_whole_message_live_on_when_a_partial_one_comes() -> None:
    drivers = JointDrivers(POSITIONS)
    drivers.take(message(a=1.0, b=2.0), 5)
    known = drivers.take(message(b=9.0), 6)
    assert known is not None
    assert dict(zip(known[0].name, known[0].position, strict=True)) == {"a": 1.0, "b": 9.0}
    assert known[1] == 5, "as old as the oldest joint"


def test_of_a_joint_that_stands_twice_in_a_message_the_last_counts() -> None:
    drivers = JointDrivers(POSITIONS)
    drivers.take(message(b=2.0), 1)
    known = drivers.take(JointState(name=["a", "a"], position=array("d", [1.0, 7.0])), 2)
    assert known is not None
    assert list(known[0].position) == [7.0, 2.0]


def test_one_driver_may_tell_a_joint_s_position_and_another_its_velocity() -> None:
    drivers = JointDrivers([*POSITIONS, ("a", "velocity")])
    assert drivers.take(message(a=1.0, other=0.0), 1) is None
    assert drivers.take(JointState(name=["a"], velocity=array("d", [0.5])), 2) is None
    assert drivers.missing == ("b",)
    known = drivers.take(message(b=2.0), 3)
    assert known is not None
    assert known[0].name == ["a", "b"]
    assert list(known[0].position) == [1.0, 2.0]
    assert known[0].velocity[0] == 0.5
    assert math.isnan(known[0].velocity[1]), "the contract does not take it"
    assert len(known[0].effort) == 0
    assert known[1] == 1


def test_a_velocity_that_nobody_tells_is_named() -> None:
    drivers = JointDrivers([("a", "position"), ("a", "velocity"), ("b", "position")])
    assert drivers.take(message(a=1.0), 1) is None
    assert drivers.missing == ("a.velocity", "b")


def test_a_field_without_a_value_for_each_name_tells_nothing() -> None:
    drivers = JointDrivers(POSITIONS)
    drivers.take(message(b=2.0), 1)
    assert drivers.take(JointState(name=["a", "other"], position=array("d", [1.0])), 2) is None
    assert drivers.missing == ("a",)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(NAMES), st.floats(-9.0, 9.0), max_size=4),
        max_size=12,
    )
)
def test_every_joint_has_its_newest_value_and_the_oldest_time(said: list[dict[str, float]]) -> None:
    wanted = NAMES[:3]
    drivers = JointDrivers([(name, "position") for name in wanted])
    newest: dict[str, tuple[float, int]] = {}
    for time_ns, positions in enumerate(said):
        known = drivers.take(message(**positions), time_ns)
        newest |= {name: (value, time_ns) for name, value in positions.items() if name in wanted}
        assert set(drivers.missing) == set(wanted) - set(newest)
        if drivers.missing:
            assert known is None
            continue
        assert known is not None
        told = dict(zip(known[0].name, known[0].position, strict=True))
        assert {name: told[name] for name in wanted} == {name: value for name, (value, _) in newest.items()}
        assert known[1] == min(time for _, time in newest.values())
        assert all(len(getattr(known[0], field)) in (0, len(known[0].name)) for field in MOTIONS)
