# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A session that cannot be opened is refused: the robot hears why, and the server keeps nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remote_inference.base.wire.qos import CHUNK_TOPIC, LATCHED_QOS, STATE_TOPIC
from remote_inference.msg import ClientState
from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.nodes import session_services
from remote_inference.server.nodes.serving import Serving
from remote_inference.server.nodes.session_services import SessionServices
from remote_inference.server.sessions import SessionRegistry
from remote_inference.srv import OpenSession
from support.nodes.rig import Rig, write_manifest


class LocalServer:
    """The session services in this process, so that a test can make one of their steps fail."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self._rig = rig
        self.node = rig.add_node("server")
        self.registry = SessionRegistry("server")
        manifest = load_manifest(write_manifest(folder, max_sessions=2), {})
        self.serving = Serving(manifest, self.registry, *[lambda *_: None] * 3)
        self.services = services = SessionServices(self.node, self.registry, lambda: None)
        self.refusals = services.refusals
        services.start(self.serving)
        services.accepting = True

    def open(self, **changes: Any) -> OpenSession.Response:
        return self._rig.open_session("/server", **changes)


@pytest.fixture
def server(rig: Rig, tmp_path: Path) -> Iterator[LocalServer]:
    made = LocalServer(rig, tmp_path)
    yield made
    made.serving.close()


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("out of something")


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("policy", "make_processors"),
        ("node", "create_publisher"),
        ("node", "create_subscription"),
        ("node", "get_publishers_info_by_topic"),
    ],
)
def test_a_session_that_cannot_be_opened_is_refused_and_leaves_nothing(
    rig: Rig, server: LocalServer, part: str, name: str
) -> None:
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(server.serving.policy if part == "policy" else server.node, name, fail)
        refused = server.open()
    assert (refused.accepted, refused.rejection) == (False, "internal")
    assert refused.message == "RuntimeError: out of something"
    assert len(server.registry) == 0
    chunks = rig.node.resolve_topic_name(CHUNK_TOPIC)
    rig.wait_for(lambda: server.node.count_publishers(chunks) == 0, "no publisher left")
    assert server.open().accepted


def test_an_evaluation_makes_room_for_a_robot(rig: Rig, server: LocalServer) -> None:
    """The server of this test has room for two."""
    evaluations = [server.open(kind="evaluation", robot_namespace=f"/evaluation_{index}") for index in (1, 2)]
    assert [reply.accepted for reply in evaluations] == [True, True]
    assert server.open(kind="evaluation", robot_namespace="/evaluation_3").rejection == "capacity"
    robot = server.open()
    assert robot.accepted
    left = {session.session_id for session in server.registry.all()}
    assert left == {evaluations[0].session_id, robot.session_id}
    chunks = f"/evaluation_2/{CHUNK_TOPIC}"
    rig.wait_for(lambda: server.node.count_publishers(chunks) == 0, "its publisher gone")
    assert server.open(robot_namespace="/second_robot").accepted
    assert server.open(robot_namespace="/third_robot").rejection == "capacity"


def test_a_robot_that_asks_for_nothing_is_heard_whether_it_is_paused(
    rig: Rig, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.node.create_publisher(ClientState, STATE_TOPIC, LATCHED_QOS).publish(ClientState(paused=True))
    assert server.open().accepted
    (session,) = server.registry.all()
    monkeypatch.setattr(session_services, "QUIET_AFTER_S", 0.0)
    server.services.end_abandoned()
    rig.wait_for(lambda: session.link is not None and session.link.paused, "its state")


def test_a_robot_that_asks_again_and_again_is_counted_each_time_and_told_once_per_reason(
    server: LocalServer, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = [
        server.open(action_names=["wheel"]),
        server.open(action_names=["wheel"]),
        server.open(robot_namespace="not a namespace"),
        server.open(robot_namespace="not a namespace"),
        server.open(action_names=["wheel"]),
    ]
    assert not any(reply.accepted for reply in asked)
    assert server.refusals.count == 5
    lines = [line for line in capfd.readouterr().err.splitlines() if " refused: " in line]
    assert len(lines) == 2
    assert asked[0].message in lines[0]
    assert asked[2].message in lines[1]
