# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Many robots of one kind against one server, each at its own pace; they send requests and count chunks."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from rclpy.publisher import Publisher
from sensor_msgs.msg import CompressedImage

from remote_inference.base.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC
from remote_inference.msg import ActionChunk, Observation
from remote_inference.srv import CloseSession, OpenSession
from support.nodes.rig import FEATURE, JOINTS, RETRY_S, Rig

SERVER = "/policy_server"


class FleetRobot:
    """One robot's half of a session: sends a request every `period_s`, or only when a test asks."""

    def __init__(
        self,
        rig: Rig,
        namespace: str,
        period_s: float | None = None,
        joints: Sequence[str] = JOINTS,
        cameras: Sequence[str] = (FEATURE,),
    ) -> None:
        self._rig = rig
        self.namespace = namespace
        self.chunks: list[ActionChunk] = []
        self._eager = False
        self._sent_s = 0.0
        rig.subscribe(ActionChunk, f"{namespace}/{CHUNK_TOPIC}", self._take, EXCHANGE_QOS)
        topic = f"{namespace}/{OBSERVATION_TOPIC}"
        self._publisher = rig.node.create_publisher(Observation, topic, EXCHANGE_QOS)
        self.session = rig.open_session(
            SERVER,
            joints=joints,
            cameras=cameras,
            client=f"{namespace}/remote_inference",
            robot_namespace=namespace,
        )
        assert self.session.accepted, self.session.message
        chunk_topic = f"{namespace}/{CHUNK_TOPIC}"
        rig.wait_for(
            lambda: (
                self._publisher.get_subscription_count() > 0 and rig.node.count_publishers(chunk_topic) > 0
            ),
            "endpoints matched",
        )
        self.fields: dict[str, Any] = {
            "schema_version": 1,
            "session_id": self.session.session_id,
            "session_epoch": 1,
            "episode_id": 1,
            "state": array("f", [0.1] * len(joints)),
            "images": [CompressedImage(format="jpeg", data=array("B", _grey_jpeg())) for _ in cameras],
        }
        self._seq_id = 0
        self.timer = rig.node.create_timer(period_s, self.send) if period_s else None

    def _take(self, chunk: ActionChunk) -> None:
        self.chunks.append(chunk)
        if self._eager:
            self.send()

    def ask_all_the_time(self) -> None:
        """Send a request after each answer, and after RETRY_S without an answer."""

        def send_when_silent() -> None:
            if self._eager and time.monotonic() - self._sent_s > RETRY_S:
                self.send()

        self._eager = True
        self.send()
        self._rig.node.create_timer(RETRY_S / 4, send_when_silent)

    def rest(self) -> None:
        """Stop asking all the time."""
        self._eager = False

    def send(self, **changes: Any) -> int:
        """Publish one observation; return its seq_id."""
        message = self._next(**changes)
        self._publisher.publish(message)
        return message.seq_id

    def publish(self, message: Observation | bytes) -> None:
        """Publish a given message in place of this robot's own observation."""
        self._publisher.publish(message)

    def request(self, **changes: Any) -> ActionChunk:
        """Publish one observation until its chunk arrives; return the chunk."""
        message = self._next(**changes)
        return answer_to(message, self._rig, self._publisher, self.chunks)

    def _next(self, **changes: Any) -> Observation:
        self._seq_id += 1
        self._sent_s = time.monotonic()
        return Observation(**{**self.fields, "seq_id": self._seq_id, **changes})

    def close(self) -> None:
        assert close_session(self._rig, self.session)


def close_session(rig: Rig, session: OpenSession.Response) -> bool:
    """End a session as its owner; return whether the server did."""
    answer = rig.call(
        CloseSession,
        f"{SERVER}/close_session",
        session_id=session.session_id,
        session_token=session.session_token,
    )
    return bool(answer.closed)


def answer_to(message: Observation, rig: Rig, publisher: Publisher, chunks: list[ActionChunk]) -> ActionChunk:
    """Publish an observation until its chunk is among `chunks`; return the chunk."""

    def found() -> list[ActionChunk]:
        return [chunk for chunk in chunks if chunk.seq_id == message.seq_id]

    rig.send_until(lambda: publisher.publish(message), found, f"chunk {message.seq_id}")
    return found()[0]


def _grey_jpeg() -> bytes:
    return bytes(encode_jpeg(np.full((48, 64, 3), 128, np.uint8), 90))
