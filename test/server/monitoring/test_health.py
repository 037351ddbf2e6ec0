# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The health port as HTTP clients see it, the patient, the mistaken and the slow ones."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

import pytest
from typing_extensions import Self

from remote_inference.base.nodes.runtime import StartupError
from remote_inference.server.monitoring import health
from remote_inference.server.monitoring.health import HealthServer
from remote_inference.server.monitoring.metrics import ServerMetrics
from remote_inference.server.monitoring.snapshot import EXECUTOR_DEADLINE_S, ServerSnapshot
from support.free_ports import free_port
from support.waiting import wait_until

DEADLINE_S = 30.0
PATHS = ("/", "/healthz", "/readyz", "/metrics", "/status.json")


class Port:
    """A health server with a snapshot that tests replace."""

    def __init__(self) -> None:
        self.number = free_port()
        self.snapshot = ServerSnapshot("/policy_server", "abc", "active", time.monotonic(), accepting=True)
        metrics = ServerMetrics(lambda: self.snapshot, time.monotonic)
        self.server = HealthServer(self.number, lambda: self.snapshot, metrics.render)

    def change(self, **changes: Any) -> None:
        self.snapshot = replace(self.snapshot, **changes)

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
        connection = HTTPConnection("127.0.0.1", self.number, timeout=DEADLINE_S)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    def connect(self, host: str = "127.0.0.1") -> socket.socket:
        """host: the address to come from."""
        return socket.create_connection(("127.0.0.1", self.number), DEADLINE_S, source_address=(host, 0))


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port()
    yield made
    made.server.close()


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/healthz", "application/json"),
        ("/readyz", "application/json"),
        ("/readyz?verbose=1", "application/json"),
        ("/status.json", "application/json"),
        ("/metrics", "text/plain"),
    ],
)
def test_every_path_answers_with_its_type(port: Port, path: str, content_type: str):
    answer, body = port.ask(path)
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith(content_type)
    assert len(body) == int(answer.headers["Content-Length"]) > 0


@pytest.mark.parametrize("path", PATHS)
def test_head_answers_as_get_without_a_body(port: Port, path: str):
    with port.connect() as connection:  # by hand: http.client reads no body after HEAD
        connection.sendall(f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
    assert " 200 OK\r\n" in answer
    assert f"\r\nContent-Length: {len(port.ask(path)[1])}\r\n" in answer or path == "/metrics"
    assert answer.endswith("\r\n\r\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_other_methods_are_refused_with_those_allowed(port: Port, method: str):
    answer, body = port.ask("/healthz", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert f"found {method}" in json.loads(body)["reason"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("path", ["/nothing", "/status_page.html", "/../health.py", "/healthz/"])
def test_other_paths_are_not_found(port: Port, method: str, path: str):
    assert port.ask(path, method)[0].status == 404


def test_the_page_may_fetch_from_its_own_server_only(port: Port):
    answer, _ = port.ask("/")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy


def test_readiness_and_health_say_why_not(port: Port):
    port.change(accepting=False, lifecycle_state="inactive")
    answer, body = port.ask("/readyz")
    assert (answer.status, json.loads(body)["ready"]) == (503, False)
    assert "inactive" in json.loads(body)["reason"]
    assert port.ask("/healthz")[0].status == 200
    port.change(accepting=True, policy_unready="the policy failed 10 batches in a row")
    assert "10 batches" in json.loads(port.ask("/readyz")[1])["reason"]
    port.change(policy_unready="")
    assert port.ask("/readyz")[0].status == 200


def test_an_executor_that_stands_still_is_unhealthy_unless_it_loads(port: Port):
    port.change(made_s=time.monotonic() - EXECUTOR_DEADLINE_S - 1.0)
    answer, body = port.ask("/healthz")
    assert (answer.status, json.loads(body)["healthy"]) == (503, False)
    assert port.ask("/readyz")[0].status == 503
    port.change(loading=True)
    assert port.ask("/healthz")[0].status == 200
    assert port.ask("/readyz")[0].status == 503


def test_a_bug_in_the_answer_is_said_and_not_hidden(port: Port):
    port.snapshot = None  # type: ignore[assignment]
    answer, body = port.ask("/status.json")
    assert answer.status == 500
    assert "AttributeError" in json.loads(body)["reason"]


def test_a_port_in_use_is_named(port: Port):
    with pytest.raises(StartupError, match=f"health_port: found {port.number} in use, expected a free port"):
        HealthServer(port.number, lambda: port.snapshot, lambda _: (b"", ""))


def test_a_closed_server_frees_its_port():
    port = Port()
    port.server.close()
    HealthServer(port.number, lambda: port.snapshot, lambda _: (b"", "")).close()


def test_a_slow_client_is_cut_off_at_its_deadline_however_it_drips(
    port: Port, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(health, "REQUEST_DEADLINE_S", 0.3)
    with port.connect() as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        end_s = time.monotonic() + DEADLINE_S
        while not cut_off(slow):
            assert time.monotonic() < end_s


def cut_off(connection: socket.socket) -> bool:
    """Send one byte more; tell whether the other side has ended the connection."""
    try:
        connection.sendall(b"x")
        return bool(select.select([connection], [], [], 0.02)[0]) and connection.recv(1) == b""
    except OSError:
        return True


def test_slow_clients_do_not_use_up_the_server(port: Port, monkeypatch: pytest.MonkeyPatch):
    """More than its connections are held open and silent; a probe gets through once their time is over."""
    monkeypatch.setattr(health, "REQUEST_DEADLINE_S", 0.3)
    idle = [port.connect() for _ in range(health.MAX_CONNECTIONS + 8)]
    end_s = time.monotonic() + DEADLINE_S
    while not answers(port):
        assert time.monotonic() < end_s
    for connection in idle:
        connection.close()


class IdleClients:
    """Keeps every connection of a port taken: opens a new one, and says nothing, for each that ends."""

    def __init__(self, port: Port, count: int = health.MAX_CONNECTIONS, host: str = "127.0.0.1") -> None:
        self._port = port
        self._count = count
        self._host = host
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.opened = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)

    def _run(self) -> None:
        held: list[socket.socket] = []
        while not self._stop.wait(0.02):
            ended = [client for client in held if has_ended(client)]
            for client in ended:
                held.remove(client)
                client.close()
            while len(held) < self._count:
                held.append(self._port.connect(self._host))
                self.opened += 1
        for client in held:
            client.close()


def has_ended(client: socket.socket) -> bool:
    readable, _, _ = select.select([client], [], [], 0.0)
    try:
        return bool(readable) and client.recv(1) == b""
    except OSError:
        return True


def test_a_probe_is_answered_while_idle_clients_take_every_connection(port: Port):
    """A probe that fails a few times has the server taken out of service, or restarted."""
    with IdleClients(port) as idle:
        wait_until(lambda: idle.opened >= health.MAX_CONNECTIONS, "connections taken")
        assert [answers(port) for _ in range(20)] == [True] * 20


@pytest.mark.parametrize("host", ["127.0.0.2", "127.0.0.1"], ids=["of another peer", "of the probe's peer"])
def test_every_probe_is_answered_beside_200_idle_connections_of_one_peer(port: Port, host: str):
    with IdleClients(port, 200, host) as idle:
        wait_until(lambda: idle.opened >= 400, "connections taken and opened again")
        assert [answers(port) for _ in range(40)] == [True] * 40


def test_a_peer_s_connections_end_its_own_oldest_and_no_other_peer_s(
    port: Port, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(health, "REQUEST_DEADLINE_S", 3 * DEADLINE_S)  # which would end the patient one, too
    with port.connect() as patient:
        held = [port.connect("127.0.0.2") for _ in range(3 * health.MAX_CONNECTIONS_OF_A_PEER)]
        wait_until(lambda: has_ended(held[0]), "the peer's oldest connection ended")
        assert answers(port)  # so all connections were taken
        patient.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in patient.recv(65_536)
        for connection in held:
            connection.close()


def test_a_probe_whose_thread_begins_late_is_kept_when_idle_newcomers_are_too_many(
    port: Port, monkeypatch: pytest.MonkeyPatch
):
    may_begin = threading.Event()
    begin = health._Handler.setup

    def begin_late(handler: Any) -> None:
        may_begin.wait(DEADLINE_S)
        begin(handler)

    monkeypatch.setattr(health._Handler, "setup", begin_late)
    with port.connect() as probe:
        probe.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        held = [port.connect() for _ in range(3 * health.MAX_CONNECTIONS_OF_A_PEER)]
        wait_until(lambda: has_ended(held[0]), "the oldest idle connection ended")
        may_begin.set()
        assert b" 200 " in probe.recv(65_536)
        for connection in held:
            connection.close()


def test_connections_that_come_all_at_once_get_a_bounded_number_of_threads(port: Port):
    before = threading.active_count()
    held = [port.connect() for _ in range(6 * health.MAX_CONNECTIONS)]
    assert answers(port)
    assert threading.active_count() - before <= health.MAX_THREADS
    for connection in held:
        connection.close()


def answers(port: Port) -> bool:
    try:
        return port.ask("/healthz")[0].status == 200
    except (OSError, HTTPException):
        return False


def test_a_closed_server_ends_its_connections_and_their_threads():
    port = Port()
    clients = [port.connect() for _ in range(4)]
    for client in clients:
        client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
    end_s = time.monotonic() + DEADLINE_S
    while len(port.server._server._connections) < 4:
        assert time.monotonic() < end_s
        time.sleep(0.01)
    port.server.close()
    for client in clients:
        while not cut_off(client):
            assert time.monotonic() < end_s
        client.close()
