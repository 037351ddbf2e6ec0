# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The health port: /healthz, /readyz, /metrics, /status.json and the status page at /. Read-only."""

from __future__ import annotations

import errno
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

from remote_inference.base.nodes.runtime import StartupError
from remote_inference.server.monitoring.snapshot import ServerSnapshot

HOST = "0.0.0.0"
REQUEST_DEADLINE_S = 5.0  # from accepting a connection to closing it
MAX_CONNECTIONS = 32  # one more ends the oldest one
MAX_CONNECTIONS_OF_A_PEER = 8  # one more ends the oldest one of its own address
MAX_THREADS = 64  # also of connections that have been ended and whose thread has not noticed
MAX_THREADS_OF_A_PEER = 32
WAITING_CONNECTIONS = 128  # not accepted yet: one that finds no place tries again after a second
SWEEP_PERIOD_S = 0.5
JSON = "application/json"
PAGE = Path(__file__).with_name("status_page.html")
# Names come from robots: the page shows them, never runs them, and fetches nothing from other hosts.
CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

Answer = tuple[HTTPStatus, bytes, str]  # status, body, content type


class HealthServer:
    """Answers HTTP on its own threads with what `snapshot` and `metrics` return; touches no ROS entity.

    Raises StartupError when the port cannot be opened.
    """

    def __init__(
        self, port: int, snapshot: Callable[[], ServerSnapshot], metrics: Callable[[str], tuple[bytes, str]]
    ) -> None:
        """metrics: returns exposition and content type for an Accept header.

        The threads of the health port call `snapshot` and `metrics`.
        """
        self._snapshot = snapshot
        self._metrics = metrics
        self._page = PAGE.read_bytes()
        try:
            self._server = _Server(port, self.answer)
        except OSError as error:
            found = f"{port} in use" if error.errno == errno.EADDRINUSE else f"{port}: {error.strerror}"
            raise StartupError(f"health_port: found {found}, expected a free port") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(SWEEP_PERIOD_S,), name="health", daemon=True
        )
        self._thread.start()

    def answer(self, path: str, accept: str) -> Answer | None:
        """Return the answer for a path without its query, or None for an unknown path."""
        now_s = time.monotonic()
        match path:
            case "/":
                return HTTPStatus.OK, self._page, "text/html; charset=utf-8"
            case "/healthz":
                return _verdict("healthy", self._snapshot().unhealthy_reason(now_s))
            case "/readyz":
                return _verdict("ready", self._snapshot().unready_reason(now_s))
            case "/status.json":
                return HTTPStatus.OK, self._snapshot().to_json(now_s).encode(), JSON
            case "/metrics":
                body, content_type = self._metrics(accept)
                return HTTPStatus.OK, body, content_type
        return None

    def close(self) -> None:
        """Free the port."""
        self._server.shutdown()
        self._server.end_connections()
        self._server.server_close()
        self._thread.join(REQUEST_DEADLINE_S)


def _verdict(name: str, reason: str) -> Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
    return _answer(status, reason, **{name: not reason})


def _answer(status: HTTPStatus, reason: str, **content: object) -> Answer:
    return status, json.dumps({**content, "reason": reason}).encode(), JSON


@dataclass
class _Connection:
    peer: str  # its address
    begun_s: float
    is_asking: bool = False  # its request is being read or answered


class _Server(ThreadingHTTPServer):
    """Ends connections at their deadline, and the oldest when there are too many, of one peer or in all.

    So slow and idle clients can neither use up its threads nor keep a probe out, which asks as it connects.
    """

    request_queue_size = WAITING_CONNECTIONS

    def __init__(self, port: int, answer: Callable[[str, str], Answer | None]) -> None:
        self.answer = answer
        self._connections: dict[Any, _Connection] = {}  # the oldest first
        self._handlers: Counter[str] = Counter()  # by peer
        self._guard = threading.Lock()
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's would also look the host up in DNS, which may take long

    def process_request(self, request: Any, client_address: Any) -> None:
        peer = client_address[0]
        with self._guard:
            admitted = self._handlers[peer] < MAX_THREADS_OF_A_PEER and self._handlers.total() < MAX_THREADS
            if admitted:
                self._handlers[peer] += 1
                self._connections[request] = _Connection(peer, time.monotonic())
                own = [r for r, connection in self._connections.items() if connection.peer == peer]
                self._end_surplus(own, MAX_CONNECTIONS_OF_A_PEER)
                self._end_surplus(list(self._connections), MAX_CONNECTIONS)
        if admitted:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._guard:
                self._handlers -= Counter([client_address[0]])  # forgets a peer that has none left

    def note_asking(self, request: Any) -> None:
        """Note that a connection has sent a request: one that has sent none is ended before it."""
        with self._guard:
            if connection := self._connections.get(request):
                connection.is_asking = True

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        now_s = time.monotonic()
        with self._guard:
            self._end([r for r, c in self._connections.items() if now_s - c.begun_s > REQUEST_DEADLINE_S])

    def end_connections(self) -> None:
        """End all connections: nothing checks their deadlines any more."""
        with self._guard:
            self._end(list(self._connections))

    def _end_surplus(self, requests: list[Any], most: int) -> None:
        """End the oldest of some connections beyond `most`, before others those that do not ask."""
        older = sorted(requests[:-1], key=lambda r: self._connections[r].is_asking or _has_asked(r))
        self._end(older[: max(0, len(requests) - most)])

    def _end(self, requests: list[Any]) -> None:
        for request in requests:
            self._connections.pop(request)
            with suppress(OSError):  # the connection has just ended
                request.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads or writes

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the connection broke or reached its deadline."""


def _has_asked(request: Any) -> bool:
    """Return whether a connection has sent something that its thread has not read yet."""
    try:
        return bool(request.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:  # it has sent nothing, or has just ended
        return False


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "remote_inference"
    sys_version = ""

    def handle_one_request(self) -> None:
        # Before anything is read, which would take from the socket by what the server knows a request.
        if self.connection.recv(1, socket.MSG_PEEK):
            self.server.note_asking(self.connection)
        super().handle_one_request()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        try:
            answer = self.server.answer(path, self.headers.get("Accept", ""))
        except Exception as error:  # a probe must get an answer, not a broken connection
            answer = _answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
        if answer is None:
            answer = _answer(HTTPStatus.NOT_FOUND, f"{path}: unknown path")
        elif self.command not in {"GET", "HEAD"}:
            answer = _answer(HTTPStatus.METHOD_NOT_ALLOWED, f"found {self.command}, expected GET or HEAD")
        self._send(*answer)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_GET  # noqa: N815

    def _send(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", CONTENT_POLICY)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Keep probes and scrapes out of the node's output."""
