# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The driver of a moving arm lies: no command is farther from where the arm is than its limits allow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.builders import ns
from support.faults.lying_arm import INTERVAL_NS, Kind, LyingArm
from support.faults.watched_arm import PERIOD_S
from support.nodes.rig import CONTRACT
from support.robot.lying_sensors import TURN, Frozen, Late, Lie, Restarted, Second, Shifted, Wrong

MAX_VELOCITY = CONTRACT["actions"]["limits"]["shoulder"]["max_velocity"]  # [rad/s]
STEP = MAX_VELOCITY * PERIOD_S  # [rad]
# Chunks replace each other, so that much is queued.
PARAMETERS = {"merge_mode": "replace", "buffer_time_s": 2.5, "max_action_age_s": 1.5}
SHOULDER = (0,)
FAR_AWAY = (1.5,)  # [rad], three from where the arm begins
Note = Callable[[str, str], None]


def lasting(of: type[Lie], lasts_ns: int, *more: object) -> Kind:
    """Return a kind of lie about the shoulder that lasts for a time."""
    return lambda begin_ns: of(SHOULDER, begin_ns, begin_ns + lasts_ns, *more)


LIES = {
    "one joint state is wrong": lasting(Wrong, INTERVAL_NS, FAR_AWAY),
    "joint states are wrong for 0.1 s": lasting(Wrong, ns(0.1), FAR_AWAY),
    "joint states are wrong for 1 s": lasting(Wrong, ns(1.0), FAR_AWAY),
    "the driver restarts, and its joints are at 0 for 0.2 s": lasting(Restarted, ns(0.6), (0.0,), ns(0.4)),
    "two publishers of one joint": lasting(Second, ns(2.0), (0.0,), INTERVAL_NS, 1, 1),
    "one joint state comes 0.6 s late": lasting(Late, INTERVAL_NS, ns(0.6)),
    "an encoder loses a turn": lasting(Shifted, ns(2.0), -TURN),
    "joint states stand still while their stamps go on": lasting(Frozen, ns(2.0)),
}
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
    # A command may be a moment on its way to an arm that moves on meanwhile: one step more.
    hasty = [step for step in steps if step.distance > STEP + MAX_VELOCITY * max(PERIOD_S, step.due_s)]
    assert not hasty, f"{len(hasty)} commands, the first of them: {hasty[0]}"
    stop = lying.states[-1].stop
    note(
        f"no command was more than {farthest:.2f} rad from the arm; {lying.states[-1].state_name}",
        "-, `clear_stop` and `resume`" if stop else "-",
    )
