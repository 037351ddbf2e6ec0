# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The endpoint for openpi's clients: each has a session, an answer per observation, and leaves nothing."""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from remote_inference.base.nodes.runtime import StartupError
from remote_inference.server.captures.captures import replay
from remote_inference.server.frameworks.openpi import pack, unpack
from remote_inference.server.gateways.connection import ObservationReader
from remote_inference.server.gateways.endpoint import MAX_OTHER_SOCKETS, OpenpiEndpoint
from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.nodes.gateway_host import GatewayHost, open_gateways
from remote_inference.server.nodes.serving import Serving
from remote_inference.server.nodes.session_services import SessionServices
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.sessions import Session, SessionRegistry
from support.nodes.health_port import ask
from support.nodes.rig import DEADLINE_S, FEATURE, Rig

PING_S = 1.5
IMAGE = np.zeros((48, 64, 3), np.uint8)
OBSERVATION = {"state": np.array([0.25, -0.5]), "image": IMAGE, "prompt": "wave"}


class LocalServer:
    """A server's sessions and endpoint in this process."""

    def __init__(self, rig: Rig, folder: Path, port: int, **changes: Any) -> None:
        self._rig, self.port = rig, port
        self._clients = ExitStack()
        section = {
            "port": port,
            "state": ["state"],
            "images": {FEATURE: "image"},
            **changes.pop("openpi", {}),
        }
        model = {"backend": "support.nodes.gated_policy:GatedPolicy", "path": "."}
        path = folder / "manifest.yaml"
        path.write_text(repr({"model": model, "max_sessions": 2, "openpi": section, **changes}))
        self.records: list[RequestRecord] = []
        self.registry = SessionRegistry("server")
        self.serving = Serving(load_manifest(path, {}), self.registry, _send, self.records.append, self._fail)
        self.policy: Any = self.serving.policy
        node = rig.add_node("server")
        self.services = SessionServices(node, self.registry, lambda: None)
        self.refusals = self.services.refusals
        self.services.start(self.serving)
        self.services.accepting = True
        self.host = GatewayHost(self.serving, self.services, self.records.append, self._fail)
        self.failures: list[Exception] = []
        try:
            (self.gateway,) = open_gateways(self.host)
        except StartupError:
            self.serving.close()
            raise

    def _fail(self, error: Exception) -> None:
        self.failures.append(error)

    def connect(self, path: str = "/", **options: Any) -> ClientConnection:
        """Connect as openpi-client does, and take the metadata."""
        client = self.dial(path, **options)
        client.metadata = unpack(client.recv(DEADLINE_S))  # type: ignore[attr-defined]
        return client

    def dial(self, path: str = "/", **options: Any) -> ClientConnection:
        uri = f"ws://127.0.0.1:{self.port}{path}"
        client = connect(uri, compression=None, max_size=None, open_timeout=DEADLINE_S, **options)
        return self._clients.enter_context(client)

    def wait_for(self, condition: Callable[[], Any], what: str) -> None:
        self._rig.wait_for(condition, what)

    def wait_until_free(self) -> None:
        self.wait_for(lambda: not len(self.registry), "no session left")

    def close(self) -> None:
        self.policy.gate.set()
        assert self.gateway is not None
        assert self.gateway.close()
        self._clients.close()
        self.serving.close()
        assert not self.failures


def _send(session: Session, chunk: Any) -> None:
    assert session.link is not None
    session.link.send(chunk)


@pytest.fixture
def start(rig: Rig, tmp_path: Path, port: int) -> Iterator[Callable[..., LocalServer]]:
    with ExitStack() as stack:

        def make(**changes: Any) -> LocalServer:
            made = LocalServer(rig, tmp_path, port, **changes)
            stack.callback(made.close)
            return made

        yield make


def infer(client: ClientConnection, observation: Any = OBSERVATION) -> dict[str, Any]:
    client.send(pack(observation))
    return read(client)


def read(client: ClientConnection) -> dict[str, Any]:
    answer = client.recv(DEADLINE_S)
    assert isinstance(answer, bytes), answer
    return unpack(answer)


def wait_for_close(client: ClientConnection) -> tuple[int, str]:
    """Return code and reason with which the server closes."""
    with pytest.raises(ConnectionClosed) as caught:
        client.recv(DEADLINE_S)
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


# -- what openpi's clients get -------------------------------------------------------------------------------


def test_an_observation_is_answered_with_a_chunk_and_its_times(start: Callable[..., LocalServer]):
    server = start()
    client = server.connect()
    assert client.metadata["policy_name"] == "gated"  # type: ignore[attr-defined]
    answers = [infer(client) for _ in range(3)]
    for answer in answers:
        np.testing.assert_array_equal(answer["actions"], np.tile([0.25, -0.5], (20, 1)))
        assert answer["actions"].dtype == np.float32
    assert set(answers[0]["server_timing"]) == {"infer_ms", "queue_wait_ms"}
    assert answers[1]["server_timing"]["prev_total_ms"] > 0
    server.wait_for(lambda: len(server.records) == 3, "three records")
    assert [record.seq_id for record in server.records] == [1, 2, 3]
    assert {(record.robot, record.status) for record in server.records} == {("openpi:1", "ok")}
    assert "openpi client 127.0.0.1:" in server.records[0].client
    client.close()
    server.wait_until_free()


def test_a_policy_that_reads_the_task_is_served_to_clients_that_name_it_with_each_request(
    start: Callable[..., LocalServer],
):
    server = start()
    server.policy.spec = replace(server.policy.spec, reads_task=True)
    assert infer(server.connect())["actions"].shape == (20, 2)


def test_the_manifest_says_what_a_client_is_told(start: Callable[..., LocalServer]):
    server = start(openpi={"metadata": {"reset_pose": [0.0, 1.5]}, "path": "/v1/policy"})
    assert server.connect("/v1/policy?x=1").metadata == {"reset_pose": [0.0, 1.5]}  # type: ignore[attr-defined]
    with pytest.raises(InvalidStatus) as caught:
        server.dial("/")
    assert caught.value.response.status_code == 404


def test_a_client_of_roboarena_infers_and_resets(start: Callable[..., LocalServer]):
    server = start()
    client = server.connect()
    for episode_id in range(3):
        assert infer(client, {**OBSERVATION, "endpoint": "infer"})["actions"].shape == (20, 2)
        (session,) = server.registry.all()
        assert session.episode_id == episode_id
        client.send(pack({"endpoint": "reset"}))
        assert client.recv(DEADLINE_S) == "reset successful"
    assert session.processors.resets == 3  # type: ignore[attr-defined]


def test_clients_have_sessions_of_their_own(start: Callable[..., LocalServer]):
    server = start()
    clients = [server.connect(), server.connect()]
    for index, client in enumerate(clients):
        state = np.array([index, -index], float)
        assert infer(client, {**OBSERVATION, "state": state})["actions"][0].tolist() == state.tolist()
    assert {s.offer.robot_namespace for s in server.registry.all()} == {"openpi:1", "openpi:2"}


def test_a_captured_observation_can_be_replayed(start: Callable[..., LocalServer], tmp_path: Path):
    server = start(capture_dir="captures")
    infer(server.connect())
    folder = tmp_path / "captures"
    server.wait_for(lambda: list(folder.glob("*.capture")), "the capture")
    (replayed,) = replay(list(folder.glob("*.capture")), server.host.serving.manifest)
    assert replayed.is_equal


def test_a_health_probe_needs_no_key(start: Callable[..., LocalServer], tmp_path: Path):
    (tmp_path / "door.key").write_text("secret\n")
    server = start(openpi={"api_key_file": "door.key"})
    assert ask(server.port, "/healthz") == (200, "OK\n")
    server.services.accepting = False
    assert ask(server.port, "/healthz") == (503, "server is not active\n")


# -- what takes long -----------------------------------------------------------------------------------------


def test_pings_and_others_are_answered_during_an_inference(start: Callable[..., LocalServer]):
    server = start()
    client, other = server.connect(), server.connect()
    server.policy.gate.clear()
    client.send(pack(OBSERVATION))
    assert server.policy.computing.wait(DEADLINE_S)
    for asking in (client, other):
        assert asking.ping().wait(DEADLINE_S)
    assert ask(server.port, "/healthz")[0] == 200
    server.policy.gate.set()
    assert read(client)["actions"].shape == (20, 2)


def test_an_inference_longer_than_a_client_waits_for_a_pong_costs_no_connection(
    start: Callable[..., LocalServer],
):
    """openpi-client pings every 20 s and waits 20 s: here an inference of minutes takes seconds."""
    server = start()
    client = server.connect(ping_interval=PING_S / 10, ping_timeout=PING_S)
    server.policy.gate.clear()
    client.send(pack(OBSERVATION))
    assert server.policy.computing.wait(DEADLINE_S)
    end_s = time.monotonic() + 2 * PING_S
    server.wait_for(lambda: time.monotonic() > end_s, "a long inference")
    server.policy.gate.set()
    assert read(client)["actions"].shape == (20, 2)
    assert infer(client)["actions"].shape == (20, 2)


def test_a_client_that_leaves_during_an_inference_frees_its_session(start: Callable[..., LocalServer]):
    server = start(max_sessions=1)
    client = server.connect()
    server.policy.gate.clear()
    client.send(pack(OBSERVATION))
    assert server.policy.computing.wait(DEADLINE_S)
    client.socket.shutdown(socket.SHUT_RDWR)  # without a close frame
    server.wait_until_free()
    newcomer = server.connect()
    server.policy.gate.set()
    assert infer(newcomer)["actions"].shape == (20, 2)


def test_a_client_may_read_its_answer_late_and_ask_before(start: Callable[..., LocalServer]):
    """openpi's wire has no ids: answers come in the order of the observations, and none is left out."""
    server = start()
    late, other = server.connect(), server.connect()
    states = [np.array([index, 0.0]) for index in range(4)]
    for state in states:
        late.send(pack({**OBSERVATION, "state": state}))
    server.wait_for(lambda: len(server.records) == len(states), "every answer")
    assert infer(other)["actions"].shape == (20, 2)
    assert [read(late)["actions"][0].tolist() for _ in states] == [state.tolist() for state in states]


# -- what is refused -----------------------------------------------------------------------------------------

BAD_FRAMES = {
    "a text frame": ("infer", "frame: found a text frame, expected a binary one"),
    "no msgpack": (b"\xc1", "are not msgpack"),
    "no map": (pack([1]), "expected a map"),
    "an unknown endpoint": (
        pack({"endpoint": "kill"}),
        "endpoint: found 'kill', expected 'infer' or 'reset'",
    ),
    "an endpoint that is a list": (pack({"endpoint": ["infer"]}), "expected 'infer' or 'reset'"),
    "a wrong key": (pack({"state": np.zeros(2), "img": IMAGE, "prompt": ""}), "image: found no such key"),
    "a wrong type": (pack({**OBSERVATION, "image": IMAGE / 255}), "image: found float64 of shape"),
    "another layout": (pack({**OBSERVATION, "image": IMAGE.transpose(2, 0, 1)}), "of shape [3, 48, 64]"),
    "no prompt": (pack({"state": np.zeros(2), "image": IMAGE}), "prompt: found no such key"),
    "a long prompt": (pack({**OBSERVATION, "prompt": "x" * 5000}), "task: found 5000 characters"),
    "NaN": (pack({**OBSERVATION, "state": np.array([0, np.nan])}), "found elbow = nan"),
    "an object array": (
        pack({"image": b"?"}).replace(pack(b"?"), pack({b"__ndarray__": True, b"dtype": "|O", b"data": b""})),
        "dtype: found '|O'",
    ),
}


@pytest.mark.parametrize(("frame", "words"), BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_a_bad_frame_is_answered_in_words_and_ends_the_session(
    start: Callable[..., LocalServer], frame: str | bytes, words: str
):
    server = start()
    client, other = server.connect(), server.connect()
    client.send(frame)
    answer = client.recv(DEADLINE_S)
    assert isinstance(answer, str)
    assert words in answer
    assert "Traceback" not in answer
    assert wait_for_close(client)[0] == 1011
    server.wait_for(lambda: len(server.registry) == 1, "the session's end")
    server.wait_for(lambda: server.records, "the record")
    assert [record.status for record in server.records] == ["error"]
    assert words in server.records[0].outcome
    assert infer(other)["actions"].shape == (20, 2)


def test_a_frame_beyond_max_request_bytes_ends_the_connection(start: Callable[..., LocalServer]):
    server = start(max_request_bytes=16_384)
    client = server.connect()
    client.send(bytes(16_385))
    code, reason = wait_for_close(client)
    assert code == 1009
    assert "16384" in reason
    server.wait_until_free()
    assert [(record.status, record.seq_id) for record in server.records] == [("error", 1)]
    assert "16384" in server.records[0].outcome


def test_a_fault_of_the_server_s_own_is_told_to_the_client_and_in_the_log(
    start: Callable[..., LocalServer], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def fail(*_: object) -> bytes:
        raise RuntimeError("a key that nobody has")

    monkeypatch.setattr(ObservationReader, "read", fail)
    server = start()
    client = server.connect()
    client.send(pack(OBSERVATION))
    assert client.recv(DEADLINE_S) == "RuntimeError: a key that nobody has"
    assert wait_for_close(client)[0] == 1011
    server.wait_until_free()
    assert server.refusals.count == 1
    assert "refused: RuntimeError: a key that nobody has" in capfd.readouterr().err


def test_a_policy_s_failure_is_told_and_ends_the_session(start: Callable[..., LocalServer]):
    server = start()
    client = server.connect()
    server.policy.fails = True
    client.send(pack(OBSERVATION))
    assert client.recv(DEADLINE_S) == "inference failed: PolicyError: the policy has no idea"
    assert wait_for_close(client)[0] == 1011
    server.wait_until_free()


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (None, "found none"),
        ("Api-Key wrong", "found another one"),
        ("Api-Key secre", "found another one"),
        ("Bearer secret", "found another one"),
        ("Api-Key s\u00e9cret", "found another one"),
    ],
)
def test_a_client_without_the_key_is_refused(
    start: Callable[..., LocalServer], tmp_path: Path, header: str | None, words: str
):
    (tmp_path / "door.key").write_text("secret\n")
    server = start(openpi={"api_key_file": "door.key"})
    with pytest.raises(InvalidStatus) as caught:
        server.dial(additional_headers={"Authorization": header} if header else {})
    assert caught.value.response.status_code == 401
    assert words in caught.value.response.body.decode()
    assert "secret" not in caught.value.response.body.decode()
    assert len(server.registry) == 0
    assert infer(server.connect(additional_headers={"Authorization": "Api-Key secret"}))


def test_a_page_in_a_browser_is_refused(start: Callable[..., LocalServer]):
    server = start()
    with pytest.raises(InvalidStatus) as caught:
        server.dial(origin="http://example.org")
    assert caught.value.response.status_code == 403


def test_a_plain_request_is_no_session(start: Callable[..., LocalServer]):
    server = start()
    assert ask(server.port, "/")[0] == 426
    assert len(server.registry) == 0


def test_a_client_beyond_the_last_place_is_told_so(start: Callable[..., LocalServer]):
    server = start(max_sessions=1)
    first = server.connect()
    code, reason = wait_for_close(server.dial())
    assert code == 1013
    assert reason.startswith("1 of 1 sessions are open")
    first.close()
    server.wait_until_free()
    server.connect()


def test_sockets_that_say_nothing_are_bounded(start: Callable[..., LocalServer]):
    server = start(max_sessions=2)
    client = server.connect()
    with ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        strangers = [
            stack.enter_context(socket.create_connection(address, DEADLINE_S))
            for _ in range(2 + MAX_OTHER_SOCKETS + 4)
        ]
        ended: list[socket.socket] = []
        while len(ended) < 5:  # the client has a place, too
            ended, _, _ = select.select(strangers, [], [], DEADLINE_S)
            assert ended
        assert set(ended) == set(strangers[-5:]), "those with a place may take time for their handshakes"
        assert infer(client)["actions"].shape == (20, 2)
    server.wait_for(lambda: ask(server.port, "/healthz")[0] == 200, "places for others")
    assert infer(server.connect())["actions"].shape == (20, 2)


# -- the end -------------------------------------------------------------------------------------------------


def test_a_server_that_drains_answers_and_sends_the_client_away(start: Callable[..., LocalServer]):
    server = start()
    client = server.connect()
    server.services.accepting, server.serving.worker.finishing.draining = False, True
    assert infer(client)["actions"].shape == (20, 2)
    assert wait_for_close(client) == (1001, "server is draining")
    assert wait_for_close(server.dial()) == (1013, "server is not active")
    server.wait_until_free()


def test_a_silent_client_loses_its_session(start: Callable[..., LocalServer], rig: Rig):
    server = start(session_idle_timeout_s=1.0)
    client = server.connect()

    def is_free() -> bool:
        rig.run_on_executor(server.services.end_abandoned)
        return not len(server.registry)

    server.wait_for(is_free, "the session's end")
    code, reason = wait_for_close(client)
    assert code == 1001
    assert re.fullmatch(r"no request for \d+ s", reason)


def test_a_request_that_is_never_answered_ends_with_its_session(start: Callable[..., LocalServer], rig: Rig):
    server = start(session_idle_timeout_s=1.0)
    client = server.connect()
    server.policy.gate.clear()
    client.send(pack(OBSERVATION))
    assert server.policy.computing.wait(DEADLINE_S)

    def is_free() -> bool:
        rig.run_on_executor(server.services.end_abandoned)
        return not len(server.registry)

    server.wait_for(is_free, "the session's end")
    code, reason = wait_for_close(client)
    assert code == 1001
    assert re.fullmatch(r"no request for \d+ s", reason)


def test_a_closed_door_sends_everybody_away_and_frees_the_port(start: Callable[..., LocalServer]):
    server = start()
    idle, waiting = server.connect(), server.connect()
    server.policy.gate.clear()
    waiting.send(pack(OBSERVATION))
    assert server.policy.computing.wait(DEADLINE_S)
    assert server.gateway is not None
    assert server.gateway.close()
    assert [wait_for_close(client)[0] for client in (idle, waiting)] == [1001, 1001]
    server.wait_until_free()
    assert OpenpiEndpoint(server.host.serving.manifest.openpi, server.host).close()
    assert server.records == [], "nobody has asked anything wrong"


def test_a_port_in_use_is_named(start: Callable[..., LocalServer], rig: Rig, tmp_path: Path):
    server = start()
    with pytest.raises(
        StartupError, match=rf"openpi: found 127.0.0.1:{server.port} \(.*in use.*\), expected a f"
    ):
        OpenpiEndpoint(server.host.serving.manifest.openpi, server.host)


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file or directory"), (b"\n", "with 0 characters"), (b"\xff", "no UTF-8 text")],
    ids=["missing", "empty", "bytes"],
)
def test_a_key_that_cannot_be_used_is_named(
    start: Callable[..., LocalServer], tmp_path: Path, content: bytes | None, words: str
):
    if content is not None:
        (tmp_path / "door.key").write_bytes(content)
    with pytest.raises(StartupError, match=r"openpi.api_key_file: found .*door.key") as caught:
        start(openpi={"api_key_file": "door.key"})
    assert words in str(caught.value)


def test_metadata_that_cannot_be_sent_is_named(start: Callable[..., LocalServer]):
    with pytest.raises(StartupError, match=r"openpi.metadata: frame: "):
        start(openpi={"metadata": {"big": 2**70}})


def test_a_library_that_is_missing_is_named(
    start: Callable[..., LocalServer], monkeypatch: pytest.MonkeyPatch
):
    server = start()
    monkeypatch.setattr(
        "remote_inference.server.nodes.gateway_host.resolve_name",
        lambda name: (_ for _ in ()).throw(ModuleNotFoundError("no", name="websockets")),
    )
    with pytest.raises(StartupError, match=r"openpi: found no websockets, .*: pip install websockets"):
        list(open_gateways(server.host))
