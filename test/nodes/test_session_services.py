# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A session that cannot be begun is refused: its robot hears why, and the server keeps nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig import Rig, write_manifest

from remote_inference.core.server.manifest import load_manifest
from remote_inference.core.server.session import SessionRegistry
from remote_inference.nodes.server.serving import Serving
from remote_inference.nodes.server.session_services import SessionServices
from remote_inference.srv import OpenSession
from remote_inference.wire.qos import CHUNK_TOPIC


class Door:
    """The services of a server that lives in this process, so that a step of theirs can be made to fail."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self._rig = rig
        self.node = rig.add_node("door")
        self.registry = SessionRegistry("door")
        manifest = load_manifest(write_manifest(folder), {})
        self.serving = Serving(manifest, self.registry, *[lambda *_: None] * 3)
        services = SessionServices(self.node, self.registry, lambda: None)
        services.start(self.serving)
        services.accepting = True

    def open(self) -> OpenSession.Response:
        return self._rig.open_session("/door")


@pytest.fixture
def door(rig: Rig, tmp_path: Path) -> Iterator[Door]:
    made = Door(rig, tmp_path)
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
def test_a_session_that_cannot_be_begun_is_refused_and_leaves_nothing(
    rig: Rig, door: Door, part: str, name: str
) -> None:
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(door.serving.policy if part == "policy" else door.node, name, fail)
        refused = door.open()
    assert (refused.accepted, refused.rejection) == (False, "internal")
    assert refused.message == "RuntimeError: out of something"
    assert len(door.registry) == 0
    chunks = rig.node.resolve_topic_name(CHUNK_TOPIC)
    rig.wait_for(lambda: door.node.count_publishers(chunks) == 0, "no publisher left")
    assert door.open().accepted
