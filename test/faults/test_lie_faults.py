# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The driver of a moving arm lies: no command is farther from where the arm is than its limits allow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.faults.lying_arm import LIES, Kind, LyingArm, find_hasty

# Chunks replace each other, so that much is queued.
PARAMETERS = {"merge_mode": "replace", "buffer_time_s": 2.5, "max_action_age_s": 1.5}
Note = Callable[[str, str], None]


EACH = [
    pytest.param(
        controller,
        kind,
        marks=pytest.mark.fault(f"{name}, with a {controller} controller"),
        id=f"{name}, {controller}",
    )
    for name, kind in LIES.items()
    for controller in ("position", "trajectory")
]


@pytest.mark.parametrize(("lying", "kind"), EACH, indirect=["lying"])
def test_a_lie_leads_no_joint_faster_than_its_limits(lying: LyingArm, kind: Kind, note: Note) -> None:
    lying.start(**PARAMETERS)
    begin_ns = lying.lie(kind)
    steps = [step for step in lying.steps if step.time_ns > begin_ns]
    farthest = max((step.distance for step in steps), default=0.0)
    hasty = find_hasty(steps)
    assert not hasty, f"{len(hasty)} commands, the first of them: {hasty[0]}"
    stop = lying.states[-1].stop
    note(
        f"no command was more than {farthest:.2f} rad from the arm; {lying.states[-1].state_name}",
        "-, `clear_stop` and `resume`" if stop else "-",
    )
