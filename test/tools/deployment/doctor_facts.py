# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor is told of a healthy robot, /arm, with the contract of the belt arm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from linters import ROOT

from remote_inference.base.contract.contract import load_contract
from remote_inference.msg import ClientState, ServerStatus
from remote_inference.tools.deployment.doctor.doctor import Finding, TopicFacts

CONTRACT = load_contract(ROOT / "config" / "belt_arm.contract.yaml")
JOINTS, COMMANDS = "/arm/joint_states", "/arm/forward_position_controller/commands"
FRONT, WRIST = "/arm/front/image_raw/compressed", "/arm/wrist/image_raw"
FRONT_FEATURE, WRIST_FEATURE = (image.name for image in CONTRACT.image_features)
CAMERA = TopicFacts(
    ("sensor_msgs/msg/CompressedImage",),
    ("/camera",),
    ("/arm/remote_inference",),
    rate_hz=30.0,
    stamp_age_s=0.02,
)
NAMES = tuple(CONTRACT.state[0].joints)
HEALTHY = {
    JOINTS: TopicFacts(
        ("sensor_msgs/msg/JointState",), ("/driver",), rate_hz=100.0, joints=(NAMES,), stamp_age_s=0.001
    ),
    FRONT: CAMERA,
    WRIST: replace(CAMERA, types=("sensor_msgs/msg/Image",)),
    COMMANDS: TopicFacts(("std_msgs/msg/Float64MultiArray",), ("/arm/remote_inference",), ("/controller",)),
}
STATE = ClientState(
    state=ClientState.STREAMING, state_name="STREAMING", session_id="a", cause="chunk 1 merged"
)
WAITING = ClientState(state=ClientState.CONNECTING, state_name="CONNECTING")
STATUS = ServerStatus(lifecycle_state="active", accepting=True, policy_name="hold", max_sessions=1)


def changed(message: Any, **changes: Any) -> Any:
    """Return a copy of a message with other values in some fields."""
    fields = {name: getattr(message, name) for name in message.get_fields_and_field_types()}
    return type(message)(**{**fields, **changes})


def changed_topic(name: str, **changes: Any) -> dict[str, TopicFacts]:
    """Return healthy facts but for one topic's."""
    return {**HEALTHY, name: replace(HEALTHY[name], **changes)}


def about(findings: Iterable[Finding], subject: str) -> Finding:
    """Return the one finding about a subject."""
    (found,) = [finding for finding in findings if subject in finding.subject]
    return found
