# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server's process as a plain rclpy client sees it: lifecycle, sessions, requests and their failures."""

from __future__ import annotations

import hashlib
import subprocess
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from sensor_msgs.msg import CompressedImage

from remote_inference.base.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC
from remote_inference.msg import ActionChunk, Observation
from remote_inference.srv import CloseSession, GetStatus, OpenSession, ResetSession
from remote_inference.tools.deployment import bringup
from support.nodes.fleet import answer_to
from support.nodes.health_port import ask
from support.nodes.rig import FEATURE, Rig, write_manifest

SERVER = "/policy_server"


def change_state(rig: Rig, transition: int) -> bool:
    request = Transition(id=transition)
    return rig.call(ChangeState, f"{SERVER}/change_state", transition=request).success


def state_of(rig: Rig) -> str:
    return rig.call(GetState, f"{SERVER}/get_state").current_state.label


def open_session(rig: Rig, **changes: Any) -> OpenSession.Response:
    return rig.open_session(SERVER, **changes)


class Client:
    """A robot's half of a session, driven by the test."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.chunks: list[ActionChunk] = []
        rig.subscribe(ActionChunk, CHUNK_TOPIC, self.chunks.append, EXCHANGE_QOS)
        self.publisher = rig.node.create_publisher(Observation, OBSERVATION_TOPIC, EXCHANGE_QOS)
        self.session = open_session(rig)
        assert self.session.accepted, self.session.message
        rig.wait_for(self._matched, "endpoints matched")
        self._seq_id = 0

    def _matched(self) -> bool:
        chunk_topic = self._rig.node.resolve_topic_name(CHUNK_TOPIC)
        return (
            self.publisher.get_subscription_count() > 0 and self._rig.node.count_publishers(chunk_topic) > 0
        )

    def observe(self, **changes: Any) -> Observation:
        """Return the next observation."""
        self._seq_id += 1
        fields: dict[str, Any] = {
            "schema_version": 1,
            "session_id": self.session.session_id,
            "session_epoch": 1,
            "seq_id": self._seq_id,
            "episode_id": 4,
            "client_mono_ns": -123456789,
            "state": array("f", [0.5, -0.25]),
            "images": [CompressedImage(format="jpeg", data=array("B", encode_jpeg(GREY, 90)))],
        }
        return Observation(**{**fields, **changes})

    def request(self, **changes: Any) -> ActionChunk:
        """Publish one observation until its chunk arrives; return the chunk."""
        return answer_to(self.observe(**changes), self._rig, self.publisher, self.chunks)


GREY = np.full((48, 64, 3), 128, np.uint8)


@pytest.fixture
def client(rig: Rig, tmp_path: Path) -> Client:
    rig.start_server(write_manifest(tmp_path))
    return Client(rig)


def test_the_lifecycle_answers_a_plain_client(rig: Rig, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path)
    rig.start_server(manifest, autostart=False)
    assert state_of(rig) == "unconfigured"
    assert open_session(rig).rejection == "draining"
    assert change_state(rig, Transition.TRANSITION_CONFIGURE)
    assert state_of(rig) == "inactive"
    refused = open_session(rig)
    assert (refused.accepted, refused.rejection) == (False, "draining")
    assert change_state(rig, Transition.TRANSITION_ACTIVATE)
    assert open_session(rig).accepted
    status = rig.call(GetStatus, f"{SERVER}/get_status").status
    assert status.manifest_digest == hashlib.sha256(manifest.read_bytes()).hexdigest()
    assert change_state(rig, Transition.TRANSITION_DEACTIVATE)
    assert open_session(rig).rejection == "draining"
    assert change_state(rig, Transition.TRANSITION_CLEANUP)
    assert state_of(rig) == "unconfigured"
    status = rig.call(GetStatus, f"{SERVER}/get_status").status
    assert (list(status.sessions), status.policy_name, status.continuation) == ([], "", "")
    assert not status.manifest_digest
    assert change_state(rig, Transition.TRANSITION_CONFIGURE)
    assert change_state(rig, Transition.TRANSITION_ACTIVATE)
    assert change_state(rig, Transition.TRANSITION_ACTIVE_SHUTDOWN)
    assert state_of(rig) == "finalized"


@pytest.mark.parametrize("transition", [Transition.TRANSITION_ACTIVATE, 99])
def test_a_transition_that_is_not_allowed_is_refused_and_ends_no_session(
    client: Client, rig: Rig, tmp_path: Path, transition: int
) -> None:
    assert not change_state(rig, transition)
    assert state_of(rig) == "active"
    assert client.request().session_id == client.session.session_id
    log = (tmp_path / "logs" / "policy_server.log").read_text()
    assert f"No transition matching {transition} found for current state active" in log
    assert "Traceback" not in log


def test_a_failed_configure_leaves_the_server_unconfigured(rig: Rig, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path)
    rig.start_server(manifest, autostart=False)
    policy = tmp_path / "model" / "policy.json"
    good = policy.read_text()
    policy.write_text(good.replace("20", "0"))
    assert not change_state(rig, Transition.TRANSITION_CONFIGURE)
    assert state_of(rig) == "unconfigured"
    policy.write_text(good)
    assert change_state(rig, Transition.TRANSITION_CONFIGURE)
    log = (tmp_path / "logs" / "policy_server.log").read_text()
    assert "policy.json: chunk_size: found 0, expected at least 1" in log


def test_a_chunk_echoes_its_observation_and_reports_durations(client: Client) -> None:
    chunk = client.request()
    assert (chunk.session_id, chunk.session_epoch) == (client.session.session_id, 1)
    assert (chunk.seq_id, chunk.episode_id, chunk.client_mono_ns) == (1, 4, -123456789)
    assert (chunk.status, chunk.horizon, chunk.action_dim) == (ActionChunk.OK, 20, 2)
    assert chunk.chunk_robot == array("f", [0.5, -0.25] * 20)
    assert chunk.policy_version == client.session.policy_fingerprint
    assert chunk.queue_wait_ms >= 0.0
    assert chunk.inference_ms > 0.0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": array("f", [1.0])}, "state: found"),
        ({"state": array("f", [1.0, float("nan")])}, "elbow = nan"),
        ({"images": []}, "images: found 0"),
        ({"images": [CompressedImage(format="jpeg", data=array("B", b"\xff\xd8 no"))]}, FEATURE),
        ({"schema_version": 77}, "schema_version 77"),
        ({"prefix_length": 3}, "prefix_model"),
    ],
)
def test_a_malformed_observation_costs_one_error_chunk(client: Client, changes: dict, expected: str) -> None:
    chunk = client.request(**changes)
    assert chunk.status == ActionChunk.ERROR
    assert expected in chunk.message
    assert (chunk.horizon, len(chunk.chunk_robot)) == (0, 0)
    assert client.request().status == ActionChunk.OK


def test_a_request_that_names_another_server_s_session_is_not_answered(client: Client, rig: Rig) -> None:
    """The server that holds the named session hears the same topic, and answers. Here it costs nothing."""
    client.publisher.publish(client.observe(session_id="another server's"))
    assert client.request().status == ActionChunk.OK
    assert rig.call(GetStatus, f"{SERVER}/get_status").status.requests == 1
    assert {chunk.session_id for chunk in client.chunks} == {client.session.session_id}


def test_a_pinned_task_binds_every_request(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path, default_task="wave", pin_task=True))
    client = Client(rig)
    assert client.request(task="wave").status == ActionChunk.OK
    assert client.request(task="").status == ActionChunk.OK
    assert "task: found 'clap', expected 'wave'" in client.request(task="clap").message


def test_a_task_of_three_megabytes_is_neither_echoed_nor_logged(rig: Rig, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    rig.start_server(write_manifest(tmp_path, default_task="wave", pin_task=True, audit_file=str(audit)))
    client = Client(rig)
    refused = client.request(task="T" * 3_000_000)
    assert refused.message == "malformed observation: task: found 3000000 characters, expected 4096 at most"
    foreign = open_session(rig, robot_namespace="/other", task="T" * 3_000_000)
    assert foreign.message == "malformed offer: task: found 3000000 characters, expected 4096 at most"
    assert client.request(task="wave").status == ActionChunk.OK
    log = tmp_path / "logs" / "policy_server.log"
    rig.wait_for(lambda: '"status":"ok"' in audit.read_text(), "both requests in the audit file")
    rig.wait_for(lambda: refused.message in log.read_text(), "the refused request in the log")
    assert "TTT" not in audit.read_text() + log.read_text()


def test_a_deactivated_server_answers_draining_with_a_valid_chunk(rig: Rig, client: Client) -> None:
    assert change_state(rig, Transition.TRANSITION_DEACTIVATE)
    chunk = client.request()
    assert (chunk.status, chunk.horizon) == (ActionChunk.DRAINING, 20)


def test_a_robot_that_opens_again_replaces_its_own_session(rig: Rig, client: Client) -> None:
    again = open_session(rig, session_epoch=2)
    assert again.accepted
    assert again.session_id != client.session.session_id
    status = rig.call(GetStatus, f"{SERVER}/get_status").status
    assert list(status.sessions) == [again.session_id]


@pytest.mark.parametrize("namespace", ["/robot-1", "rig", "/a b", "/rig/", f"/{'a' * 218}"])
def test_an_invalid_namespace_is_refused_and_affects_no_other_robot(
    client: Client, rig: Rig, namespace: str
) -> None:
    refused = open_session(rig, robot_namespace=namespace)
    assert not refused.accepted
    assert f"robot_namespace: found {namespace!r}" in refused.message
    assert client.request().status == ActionChunk.OK


def test_a_refused_offer_leaves_the_robot_s_session_alone(client: Client, rig: Rig) -> None:
    assert not open_session(rig, action_names=["other"]).accepted
    assert client.request().status == ActionChunk.OK


def test_capacity_is_refused_with_the_load_in_words(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path, max_sessions=1))
    assert open_session(rig).accepted
    refused = open_session(rig, robot_namespace="/other")
    assert (refused.accepted, refused.rejection) == (False, "capacity")
    assert "1 of 1 sessions are open" in refused.message


def test_a_robot_with_larger_images_than_the_server_takes_is_refused_and_so_is_each_request(
    rig: Rig, tmp_path: Path
) -> None:
    rig.start_server(write_manifest(tmp_path, max_request_pixels=48 * 64, max_cameras=1))
    refused = open_session(rig, image_heights=[49])
    assert (refused.accepted, refused.rejection) == (False, "limits")
    assert "3136 pixels in 1 control ticks, server takes 3072 at most (max_request_pixels)" in refused.message
    refused = open_session(rig, cameras=(FEATURE, "observation.images.other"))
    assert refused.rejection == "limits"
    client = Client(rig)
    larger = np.full((49, 64, 3), 128, np.uint8)
    chunk = client.request(images=[CompressedImage(format="jpeg", data=array("B", encode_jpeg(larger, 90)))])
    assert chunk.status == ActionChunk.ERROR
    assert "pixels" in chunk.message
    assert client.request().status == ActionChunk.OK


def test_closing_and_resetting_an_unknown_session_is_refused(rig: Rig, client: Client) -> None:
    own = {name: getattr(client.session, name) for name in ("session_id", "session_token")}
    assert not rig.call(ResetSession, f"{SERVER}/reset_session", session_id="x").reset
    assert rig.call(ResetSession, f"{SERVER}/reset_session", **own, episode_id=5).reset
    assert not rig.call(CloseSession, f"{SERVER}/close_session", session_id="x").closed
    assert rig.call(CloseSession, f"{SERVER}/close_session", **own).closed
    assert not rig.call(CloseSession, f"{SERVER}/close_session", **own).closed


@pytest.mark.parametrize(("kind", "name"), [(CloseSession, "close_session"), (ResetSession, "reset_session")])
def test_a_session_s_id_which_everybody_reads_ends_and_resets_nothing(
    rig: Rig, client: Client, kind: Any, name: str
) -> None:
    """The status names every session, and so does each observation."""
    (session_id,) = rig.call(GetStatus, f"{SERVER}/get_status").status.sessions
    for token in ("", "a guess"):
        refused = rig.call(kind, f"{SERVER}/{name}", session_id=session_id, session_token=token)
        assert not (refused.closed if kind is CloseSession else refused.reset)
        assert "expected the one that open_session gave" in refused.message
    assert client.request().status == ActionChunk.OK


def test_a_session_s_token_is_in_no_status_log_or_metric(tmp_path: Path, rig: Rig, port: int) -> None:
    audit = tmp_path / "audit.jsonl"
    rig.start_server(write_manifest(tmp_path, health_port=port, audit_file=str(audit)))
    client = Client(rig)
    token = client.session.session_token
    client.request()
    close = {"session_id": client.session.session_id, "session_token": "a guess"}
    assert not rig.call(CloseSession, f"{SERVER}/close_session", **close).closed
    log = tmp_path / "logs" / "policy_server.log"
    rig.wait_for(lambda: '"status":"ok"' in audit.read_text(), "the request in the audit file")
    rig.wait_for(lambda: "refused to touch a session" in log.read_text(), "the refused call in the log")
    pages = [ask(port, path)[1] for path in ("/", "/status.json", "/metrics")]
    status = rig.call(GetStatus, f"{SERVER}/get_status").status
    files = [audit.read_text(), log.read_text()]
    assert len(token) >= 32
    assert all(token not in text for text in (*pages, *files, repr(status)))


def test_a_request_of_an_episode_that_was_reset_is_not_served(rig: Rig, client: Client) -> None:
    own = {name: getattr(client.session, name) for name in ("session_id", "session_token")}
    assert rig.call(ResetSession, f"{SERVER}/reset_session", **own, episode_id=5).reset
    old = client.observe(episode_id=4, seq_id=1_000)
    rig.send_until(
        lambda: client.publisher.publish(old),
        lambda: rig.call(GetStatus, f"{SERVER}/get_status").status.requests > 0,
        "the old request taken",
    )
    assert client.request(episode_id=5).episode_id == 5
    assert all(chunk.episode_id == 5 for chunk in client.chunks)


def test_injected_latency_delays_the_chunk_and_nothing_else(rig: Rig, tmp_path: Path) -> None:
    """The delay is in the network path: the durations that the server reports do not change."""
    rig.start_server(write_manifest(tmp_path, inject_latency_ms=400.0))
    client = Client(rig)
    begin_ns = rig.node.get_clock().now().nanoseconds
    chunk = client.request()
    assert rig.node.get_clock().now().nanoseconds - begin_ns >= 400_000_000
    assert chunk.inference_ms + chunk.queue_wait_ms < 400.0


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"max_sessions": 0}, "manifest.yaml: max_sessions: found 0, expected at least 1"),
        (
            {"model": {"backend": "magic", "path": "."}},
            "manifest.yaml: model.backend: found 'magic', expected",
        ),
        ({"sesions": 1}, "manifest.yaml: sesions: unknown key"),
    ],
)
def test_a_bad_manifest_stops_the_server_at_start_up(tmp_path: Path, manifest: dict, expected: str) -> None:
    process = bringup.server(write_manifest(tmp_path, **manifest))
    ended = subprocess.run(process.command(), capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert expected in ended.stderr
    assert "Traceback" not in ended.stderr
