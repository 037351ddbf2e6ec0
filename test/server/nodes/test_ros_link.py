# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A session's endpoints: what they keep alive."""

from __future__ import annotations

import weakref

import pytest
from rclpy.node import Node

from remote_inference.server.nodes.session_services import RosLink
from remote_inference.server.sessions import Session
from support.builders import ShiftProcessors, make_offer


@pytest.mark.usefixtures("no_collector")
def test_a_session_that_has_ended_goes_at_once(node: Node) -> None:
    """Its processors may hold memory of a GPU, and replicas count the sessions that live."""
    session = Session("s1", make_offer(), ShiftProcessors())
    session.link = RosLink(node, session.offer, lambda data, session=session: None)  # type: ignore[misc]
    alive = weakref.ref(session.processors)
    session.link.close("closed")
    del session
    assert alive() is None
