# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The policy `hold`: nothing moves, whatever the robot does when it is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remote_inference.base.admission import judge, make_offer
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.policy import PolicyError, PolicyObservation
from remote_inference.server.policies.hold import HoldPolicy
from support.builders import make_terms

ARM, BASE, TURN = "elbow", "base_vx", "base_wz"
TWIST = "geometry_msgs/msg/TwistStamped"
LIMIT = {"min": -1.0, "max": 1.0, "max_velocity": 1.0}


def hold(folder: Path, **changes: Any) -> HoldPolicy:
    config = {
        "name": "hold",
        "revision": "1",
        "state_names": [BASE, ARM],
        "action_names": [ARM, BASE, TURN],
        "zeros": [BASE, TURN],
        "chunk_size": 4,
        "trained_fps": 30.0,
    }
    (folder / "policy.json").write_text(json.dumps(config | changes))
    return HoldPolicy(folder)


def answer(policy: HoldPolicy, state: list[float]) -> list[list[float]]:
    processors = policy.make_processors()
    observation = PolicyObservation(state=np.array(state, np.float32), images={}, task="")
    [chunk] = policy.predict([processors.pre(observation)])
    rows: list[list[float]] = processors.post(chunk).tolist()
    return rows


def test_a_base_that_drives_is_told_to_stand_and_an_arm_to_stay(tmp_path: Path) -> None:
    assert answer(hold(tmp_path), [0.125, -0.5]) == [[-0.5, 0.0, 0.0]] * 4


def test_without_zeros_each_action_is_what_is_measured(tmp_path: Path) -> None:
    policy = hold(tmp_path, action_names=[ARM, BASE], zeros=[])
    assert answer(policy, [0.125, -0.5]) == [[-0.5, 0.125]] * 4


def mobile_arm(*, relative: list[str] | None = None, **kinds: str) -> Contract:
    """Return the contract of an arm on a base; kinds: of actions that are not positions."""
    actions = (ARM, BASE, TURN)
    content = {
        "robot_type": "mobile_arm",
        "fps": 30.0,
        "state": [
            {"topic": "odom", "type": TWIST, "fields": ["twist.linear.x"], "names": [BASE]},
            {
                "topic": "joint_states",
                "type": "sensor_msgs/msg/JointState",
                "field": "position",
                "names": [ARM],
            },
        ],
        "images": {},
        "actions": {
            "kind": "position",
            "names": list(actions),
            "relative": {"to": "chunk_start", "names": relative} if relative else None,
            "limits": {name: {**LIMIT, "kind": kinds.get(name, "position")} for name in actions},
        },
        "commands": [
            {"topic": name, "type": "std_msgs/msg/Float64MultiArray", "names": [name]} for name in actions
        ],
    }
    return parse_document(content, Contract, "contract")


@pytest.mark.parametrize("kind", ["velocity", "effort"])
def test_a_robot_on_which_what_is_measured_would_go_on_is_refused(tmp_path: Path, kind: str) -> None:
    policy = hold(tmp_path, zeros=[TURN])
    verdict = judge(make_offer(mobile_arm(base_vx=kind, base_wz="velocity")), policy.spec, make_terms())
    assert verdict.rejection == "kinds"
    assert (
        verdict.reason == f"action 'base_vx' is {kind} on the robot, position or switch or pose in the policy"
    )


def test_a_robot_whose_position_would_be_sent_to_zero_is_refused(tmp_path: Path) -> None:
    policy = hold(tmp_path, zeros=[ARM, BASE, TURN])
    verdict = judge(make_offer(mobile_arm(base_vx="velocity", base_wz="effort")), policy.spec, make_terms())
    assert (
        verdict.reason
        == "action 'elbow' is position on the robot, velocity or effort or relative_position in the policy"
    )


@pytest.mark.parametrize("kind", ["velocity", "effort"])
def test_a_robot_whose_zeros_are_named_is_admitted(tmp_path: Path, kind: str) -> None:
    offer = make_offer(mobile_arm(base_vx=kind, base_wz=kind))
    assert judge(offer, hold(tmp_path).spec, make_terms()).accepted


def test_a_robot_whose_joint_counts_from_where_it_is_would_go_twice_as_far_and_is_refused(
    tmp_path: Path,
) -> None:
    """Unless it is commanded no way."""
    contract = mobile_arm(base_vx="velocity", base_wz="velocity", relative=[ARM])
    verdict = judge(make_offer(contract), hold(tmp_path).spec, make_terms())
    assert verdict.reason == (
        "action 'elbow' is relative_position on the robot, position or switch or pose in the policy: "
        "its answers have the robot's state in them already"
    )
    still = hold(tmp_path, zeros=[ARM, BASE, TURN])
    assert judge(make_offer(contract), still.spec, make_terms()).accepted
    assert answer(still, [0.125, -0.5]) == [[0.0, 0.0, 0.0]] * 4


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"zeros": [BASE]}, "action_names: found 'base_wz', expected names of state_names or of zeros: "),
        ({"zeros": [BASE, TURN, "lift"]}, "zeros: found 'lift', expected names of action_names: "),
    ],
)
def test_names_that_nobody_knows_are_refused(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyError, match=f"policy.json: {problem}"):
        hold(tmp_path, **changes)
