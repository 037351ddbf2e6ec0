# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot's handshake by itself, and a server that says yes to everything."""

from __future__ import annotations

from typing import Any

from remote_inference.base.exchange import SessionReply, StatusReply
from remote_inference.robot.requests.handshake import Handshake, Phase
from remote_inference.robot.safety.effects import GetStatus
from support.builders import CAMERA, JOINTS, make_config, make_contract

INITIAL_S, MAXIMUM_S = 0.5, 10.0
TIMEOUT_S = 2.0
STATUS = StatusReply(accepting=True, image_features=(CAMERA,))
REPLY = SessionReply(
    accepted=True, action_names=JOINTS, session_id="s", chunk_size=20, policy_fingerprint="f1"
)


def make_handshake(*servers: str, seed: int = 0, **changes: Any) -> Handshake:
    """Return a handshake with some servers. changes: of the robot's configuration."""
    config = {
        "servers": servers or ("/a",),
        "service_timeout_s": TIMEOUT_S,
        "reconnect_initial_backoff_s": INITIAL_S,
        "reconnect_max_backoff_s": MAXIMUM_S,
    }
    return Handshake(
        make_contract(), make_config(**config | changes), "/robot_1/client", "/robot_1", seed=seed
    )


def walk(handshake: Handshake, to: Phase, now_ns: int) -> Handshake:
    """Take the steps of a handshake in which the server says yes to everything."""
    server = handshake.server
    if to is not Phase.WAITING:
        assert handshake.advance(now_ns) == [GetStatus(server)]
    if to not in {Phase.WAITING, Phase.CHECKING}:
        handshake.take_status_reply(server, STATUS, "", now_ns)
    if to in {Phase.MATCHING, Phase.OPEN}:
        handshake.take_session_reply(server, handshake.epoch, REPLY, now_ns)
    if to is Phase.OPEN:
        handshake.take_presence(True)
        handshake.advance(now_ns)
    assert handshake.phase is to
    return handshake
