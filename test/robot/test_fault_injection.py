# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What an injected fault loses, delays and holds back."""

from __future__ import annotations

import math
import re

import pytest

from remote_inference.robot.safety.fault_injection import (
    MAX_HELD,
    Fault,
    FaultInjection,
    Kind,
    Target,
    parse_fault,
)

S = 1_000_000_000
FREEZE = Fault(Target.CHUNKS, Kind.FREEZE, duration_s=2.0)
DELAY = Fault(Target.CHUNKS, Kind.DELAY, duration_s=2.0, delay_s=0.5)
LOSE_ALL = Fault(Target.CHUNKS, Kind.DROP, duration_s=2.0, probability=1.0)
LOSE_HALF = Fault(Target.CHUNKS, Kind.DROP, duration_s=2.0, probability=0.5)


def begin(fault: Fault, seed: int = 0) -> FaultInjection:
    injection = FaultInjection(seed)
    injection.begin(fault, 0)
    return injection


def passed(injection: FaultInjection, count: int = 200) -> list[int]:
    return [item for number in range(count) for item in injection.pass_on(Target.CHUNKS, number, number)]


def test_without_a_fault_everything_goes_on_at_once() -> None:
    injection = FaultInjection()
    assert [injection.pass_on(target, target.name, 5) for target in Target] == [[t.name] for t in Target]
    assert injection.fault is None


@pytest.mark.parametrize("fault", [FREEZE, DELAY, LOSE_ALL])
def test_a_fault_disturbs_only_its_target(fault: Fault) -> None:
    injection = begin(fault)
    assert injection.pass_on(Target.CHUNKS, "chunk", 1) == []
    assert injection.pass_on(Target.OBSERVATIONS, "observation", 1) == ["observation"]
    assert injection.pass_on(Target.SENSORS, "snapshot", 1) == ["snapshot"]


def test_what_is_dropped_never_comes() -> None:
    injection = begin(LOSE_ALL)
    assert passed(injection) == []
    assert injection.end_if_over(2 * S) == LOSE_ALL
    assert injection.take_due(Target.CHUNKS, 100 * S) == []
    assert injection.pass_on(Target.CHUNKS, "next", 2 * S) == ["next"]


def test_the_same_seed_drops_the_same_share() -> None:
    first, again, other = (passed(begin(LOSE_HALF, seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert 60 < len(first) < 140


def test_a_delay_keeps_the_order_and_ends_with_the_fault() -> None:
    injection = begin(DELAY)
    assert injection.pass_on(Target.CHUNKS, "a", 0) == []
    assert injection.pass_on(Target.CHUNKS, "b", S // 4) == []
    assert injection.take_due(Target.CHUNKS, S // 2 - 1) == []
    assert injection.take_due(Target.CHUNKS, S // 2) == ["a"]
    assert injection.take_due(Target.CHUNKS, S) == ["b"]
    assert injection.pass_on(Target.CHUNKS, "late", 2 * S - 1) == []
    assert injection.pass_on(Target.CHUNKS, "next", 2 * S) == ["late", "next"]


def test_what_is_frozen_comes_at_the_end_in_order() -> None:
    injection = begin(FREEZE)
    assert passed(injection, 3) == []
    assert injection.end_if_over(2 * S - 1) is None
    assert injection.end_if_over(2 * S) == FREEZE
    assert injection.fault is None
    assert injection.take_due(Target.CHUNKS, 2 * S) == [0, 1, 2]
    assert injection.end_if_over(3 * S) is None


def test_a_fault_is_over_though_nobody_has_ended_it() -> None:
    assert begin(LOSE_ALL).pass_on(Target.CHUNKS, "chunk", 2 * S) == ["chunk"]


def test_a_new_fault_replaces_the_old_one_and_frees_what_it_held() -> None:
    injection = begin(FREEZE)
    assert injection.pass_on(Target.CHUNKS, "held", 1) == []
    injection.begin(LOSE_ALL, S)
    assert injection.fault == LOSE_ALL
    assert injection.pass_on(Target.CHUNKS, "lost", S) == ["held"]
    assert injection.end_if_over(2 * S) is None
    assert injection.end_if_over(3 * S) == LOSE_ALL


def test_what_is_held_is_bounded() -> None:
    injection = begin(FREEZE)
    passed(injection, MAX_HELD + 50)
    assert injection.take_due(Target.CHUNKS, 2 * S) == list(range(MAX_HELD))


def test_a_fault_says_what_it_is() -> None:
    assert str(parse_fault("chunks", "drop", 10.0, 0.0, 0.5)) == "drop chunks for 10 s, probability 0.5"
    assert str(parse_fault("sensors", "delay", 5.0, 0.3, 0.0)) == "delay sensors for 5 s, by 0.3 s"
    assert str(parse_fault("observations", "freeze", 1.5, 0.0, 0.0)) == "freeze observations for 1.5 s"


@pytest.mark.parametrize(
    ("request_of", "problem"),
    [
        (("arm", "drop", 1.0, 0.0, 1.0), "target: found 'arm', expected chunks, observations or sensors"),
        (("chunks", "", 1.0, 0.0, 1.0), "kind: found '', expected drop, delay or freeze"),
        (("chunks", "drop", 61.0, 0.0, 1.0), "duration_s: found 61, expected above 0 to 60"),
        (("chunks", "drop", 0.0, 0.0, 1.0), "duration_s: found 0, expected above 0 to 60"),
        (("chunks", "drop", math.nan, 0.0, 1.0), "duration_s: found nan, expected above 0 to 60"),
        (("chunks", "drop", 1.0, 0.0, 0.0), "probability: found 0, expected above 0 to 1"),
        (("chunks", "drop", 1.0, 0.0, 1.5), "probability: found 1.5, expected above 0 to 1"),
        (("chunks", "drop", 1.0, 0.5, 1.0), "delay_s: found 0.5, expected 0 for this kind of fault"),
        (("chunks", "delay", 1.0, math.inf, 0.0), "delay_s: found inf, expected above 0 to 5"),
        (("chunks", "freeze", 1.0, 0.0, math.nan), "probability: found nan, expected 0"),
    ],
)
def test_a_request_out_of_bounds_is_refused(
    request_of: tuple[str, str, float, float, float], problem: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}"):
        parse_fault(*request_of)
