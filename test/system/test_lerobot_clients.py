# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots of LeRobot's asynchronous inference at a server's door: their calls, refusals and ends.

LeRobot's own client is tried where LeRobot is installed, in test/policies_lerobot.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from remote_inference.srv import GetStatus
from support.lerobot_messages import VALUES, field, observation_pickle, part, picture, unpickle, wish_pickle
from support.nodes.fleet import SERVER, FleetRobot
from support.nodes.rig import DEADLINE_S, Rig, write_manifest

SERVICE = "/transport.AsyncInference/"
PART_BYTES = 100


class Robot:
    """Speaks to the door as LeRobot's client does."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        # Else a second channel of this process would share the first one's connection, and its address.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}", options))

    def call(self, name: str, message: bytes = b"") -> bytes:
        method = self._channel.unary_unary(SERVICE + name)
        answer: bytes = method(message, timeout=DEADLINE_S, wait_for_ready=True)
        return answer

    def ask_for(self, policy: str = "hold", **changes: Any) -> None:
        self.call("Ready")
        self.call("SendPolicyInstructions", field(1, wish_pickle(policy, **changes)))

    def send(self, content: bytes) -> None:
        pieces = [content[begin : begin + PART_BYTES] for begin in range(0, len(content), PART_BYTES)]
        parts = [part(piece, 2) for piece in pieces[:-1]] + [part(pieces[-1])]
        self._channel.stream_unary(SERVICE + "SendObservations")(iter(parts), timeout=DEADLINE_S)

    def actions(self) -> list[Any]:
        answer = self.call("GetActions")
        return unpickle(answer[answer.index(b"\x80\x04") :]) if answer else []

    def leave(self) -> None:
        self._channel.close()


@pytest.fixture
def connect(port: int) -> Iterator[Callable[[], Robot]]:
    with ExitStack() as stack:
        yield lambda: Robot(port, stack)


def sessions(rig: Rig) -> list[str]:
    return list(rig.call(GetStatus, f"{SERVER}/get_status").status.sessions)


def details(call: Callable[[], Any]) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    return str(caught.value.details())


def test_it_shares_a_server_with_a_ros_robot(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[[], Robot]
):
    rig.start_server(write_manifest(tmp_path, lerobot_async={"port": port}, audit_file="audit.jsonl"))
    ros_robot = FleetRobot(rig, "/robot_1")
    robot = connect()
    robot.ask_for()
    ros_robot.ask_all_the_time()
    for timestep in range(3):
        robot.send(observation_pickle(timestep=timestep))
        actions = robot.actions()
        assert [action.timestep for action in actions] == list(range(timestep, timestep + 10))
        assert actions[9].timestamp - actions[0].timestamp == pytest.approx(9 / 30.0)
        assert [action.action.tolist() for action in actions] == [[0.5, -0.25]] * 10
    rig.wait_for(lambda: ros_robot.chunks, "a chunk of the ROS robot")
    ros_robot.rest()
    (own,) = set(sessions(rig)) - {ros_robot.session.session_id}
    robot.leave()
    rig.wait_for(lambda: own not in sessions(rig), "the session's end")

    def audited() -> list[str]:
        *whole, _ = (tmp_path / "audit.jsonl").read_text().split("\n")  # the last line may be half written
        lines = [json.loads(line) for line in whole]
        return [line["outcome"] for line in lines if line["robot"] == "lerobot:1"]

    rig.wait_for(lambda: audited() == ["ok"] * 3, "its requests in the audit file")


def test_what_does_not_fit_the_policy_is_refused_with_the_reason(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[[], Robot]
):
    rig.start_server(write_manifest(tmp_path, lerobot_async={"port": port}))
    robot = connect()
    refused = {
        "pretrained_name_or_path: found 'me/other', expected 'hold'": {"policy": "me/other"},
        "found the order elbow, shoulder, expected shoulder, elbow": {"joints": ("elbow", "shoulder")},
        "found 3 joints, expected 2: shoulder, elbow": {"joints": ("shoulder", "elbow", "wrist")},
        "found the cameras none, expected observation.images.camera, too": {"cameras": {}},
        "actions_per_chunk: found 0, expected 1 or more": {"actions_per_chunk": 0},
    }
    for reason, changes in refused.items():
        assert reason in details(lambda changes=changes: robot.ask_for(**changes))
    assert not sessions(rig)
    assert "expected SendPolicyInstructions first" in details(robot.actions)
    robot.ask_for(joints=("a", "b"))  # other words for as many joints
    robot.send(observation_pickle({**VALUES, "a.pos": 1.0, "b.pos": 2.0}))
    assert robot.actions()[0].action.tolist() == [1.0, 2.0]


def test_a_second_robot_is_refused_where_one_fits(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[[], Robot]
):
    rig.start_server(write_manifest(tmp_path, lerobot_async={"port": port}, max_sessions=1))
    first, second = connect(), connect()
    first.ask_for()
    assert "1 of 1" in details(second.ask_for)
    first.ask_for()  # anew, on the same connection
    assert len(sessions(rig)) == 1


def test_only_what_lerobot_s_server_would_serve_is_answered(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[[], Robot]
):
    rig.start_server(write_manifest(tmp_path, lerobot_async={"port": port}))
    robot = connect()
    robot.ask_for()
    robot.send(observation_pickle(timestep=0))
    assert robot.actions()
    robot.send(observation_pickle(timestep=1, must_go=False))  # where it was
    assert not robot.actions()
    moved = {**VALUES, "shoulder.pos": 1.5}
    robot.send(observation_pickle(moved, timestep=0, must_go=False))  # a step that was answered
    assert not robot.actions()
    robot.send(observation_pickle(moved, timestep=2, must_go=False))
    robot.send(observation_pickle({**moved, "elbow.pos": 3.0}, timestep=3, must_go=False))
    assert [action.action.tolist() for action in robot.actions()[:1]] == [[1.5, 3.0]]
    assert not robot.actions()


def test_what_cannot_be_read_is_refused_and_the_session_goes_on(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[[], Robot]
):
    proof = tmp_path / "proof"

    class Harmful:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {proof}",)

    rig.start_server(write_manifest(tmp_path, lerobot_async={"port": port}, max_request_bytes=20_000))
    robot = connect()
    robot.ask_for()
    harmful = observation_pickle({**VALUES, "shoulder.pos": Harmful()})
    robot.send(harmful)
    assert "found a call of posix.system, expected an array of numpy's" in details(robot.actions)
    assert "found a call of posix.system, expected LeRobot's TimedObservation" in details(
        lambda: robot.send(pickle.dumps(Harmful()))
    )
    assert "found more than 20000 bytes" in details(
        lambda: robot.send(observation_pickle({**VALUES, "camera": picture(100, 100)}))
    )
    robot.send(observation_pickle({**VALUES, "shoulder.pos": np.nan}, timestep=1))
    assert not robot.actions()
    robot.send(observation_pickle(timestep=2))
    assert robot.actions()
    assert not proof.exists()


def test_a_session_that_the_server_ends_is_told_with_the_reason(
    rig: Rig, tmp_path: Path, port: int, connect: Callable[[], Robot]
):
    manifest = write_manifest(tmp_path, lerobot_async={"port": port}, session_idle_timeout_s=1.0)
    rig.start_server(manifest)
    robot = connect()
    robot.ask_for()
    rig.wait_for(lambda: not sessions(rig), "the session's end")
    assert "no request" in details(robot.actions)
    robot.ask_for()
    robot.send(observation_pickle())
    assert robot.actions()


def test_a_port_in_use_stops_the_server_with_a_reason(rig: Rig, tmp_path: Path, port: int):
    with socket.create_server(("127.0.0.1", port)):
        rig.start_server(write_manifest(tmp_path, lerobot_async={"port": port}))
        assert rig.server is not None
        assert rig.server.wait(DEADLINE_S) == 2
