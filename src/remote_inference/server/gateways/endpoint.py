# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The websocket server for programs that use openpi-client, on a thread and an event loop of its own."""

from __future__ import annotations

import hmac
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from remote_inference.base.contract.image_source import RAW
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.exchange import ImageFeature, SessionOffer
from remote_inference.base.nodes.runtime import StartupError
from remote_inference.base.policy import PolicySpec
from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.openpi import pack
from remote_inference.server.gateways.connection import Connection, ObservationReader, limit_connections
from remote_inference.server.gateways.loop_thread import LoopThread
from remote_inference.server.manifest.sections import OpenpiSection, read_api_key
from remote_inference.server.nodes.gateway_host import GatewayHost

CLOSE_TIMEOUT_S = 1.0  # for a client to answer a close frame
WAITING_FRAMES = 2  # of a client that sends before it has an answer; then it is not read any more
MAX_OTHER_SOCKETS = 32  # sockets besides those of all sessions: probes, and handshakes that have not ended
HEALTH_PATH = "/healthz"

# websockets logs every client that hangs up in its handshake, with a traceback.
_SILENT = logging.getLogger(f"{__name__}.websockets")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


class OpenpiEndpoint:
    """Answers clients until closed.

    The loop only reads, converts and sends: the policy computes on the server's own thread, so pings are
    answered during the longest inference. Raises StartupError when section and policy do not fit, the key
    cannot be read or the port cannot be opened.
    """

    def __init__(self, section: OpenpiSection, host: GatewayHost) -> None:
        self._section = section
        self._host = host
        spec, manifest = host.serving.policy.spec, host.serving.manifest
        try:
            keys, file = section.keys_for(spec), section.api_key_file
            key = read_api_key(Path(file), "openpi.api_key_file") if file else ""
        except DocumentError as error:
            raise StartupError(str(error)) from error
        self._authorization = f"Api-Key {key}".encode() if key else b""  # the header that clients must send
        self._reader = ObservationReader(keys, spec, manifest.default_task)
        try:
            self._metadata = pack(dict(section.metadata or _describe(spec)))
        except WireError as error:
            raise StartupError(f"openpi.metadata: {error}") from error
        self._names: set[str] = set()  # of the sessions that are open
        self._thread = LoopThread("openpi", f"{section.host}:{section.port}", self._serve, host.on_failure)

    def close(self) -> bool:
        """End all connections with code 1001, and free the port; return False when that takes too long."""
        return self._thread.close()

    async def _serve(self, until_closed: Callable[[], Awaitable[None]]) -> None:
        manifest = self._host.serving.manifest
        async with serve(
            self._handle,
            self._section.host,
            self._section.port,
            process_request=self._check,
            create_connection=limit_connections(manifest.max_sessions + MAX_OTHER_SOCKETS),
            origins=[None],  # no page in a browser on this machine
            compression=None,
            max_size=manifest.max_request_bytes,
            max_queue=WAITING_FRAMES,
            close_timeout=CLOSE_TIMEOUT_S,
            server_header=None,
            logger=_SILENT,
        ):
            await until_closed()

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer or refuse a handshake, or let it pass with None."""
        path = request.path.partition("?")[0]
        if path == HEALTH_PATH:
            reason = self._host.find_refusal()
            status = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
            return connection.respond(status, f"{reason or 'OK'}\n")
        if path != self._section.path:
            return connection.respond(HTTPStatus.NOT_FOUND, f"expected the path {self._section.path}\n")
        if self._authorization:
            found = ",".join(request.headers.get_all("Authorization")).encode(errors="replace")
            if not hmac.compare_digest(found, self._authorization):
                what = "another one" if found else "none"
                return connection.respond(
                    HTTPStatus.UNAUTHORIZED,
                    f"Authorization: found {what}, expected Api-Key and the server's key\n",
                )
        return None

    async def _handle(self, socket: ServerConnection) -> None:
        name = next(name for name in map("openpi:{}".format, itertools.count(1)) if name not in self._names)
        self._names.add(name)
        try:
            connection = Connection(socket, self._host, self._reader, self._metadata)
            await connection.serve(self._offer(name, socket))
        finally:
            self._names.discard(name)

    def _offer(self, name: str, socket: ServerConnection) -> SessionOffer:
        """Return the offer of a robot that fits the policy: openpi's clients say nothing of themselves.

        The name is none that a ROS robot could have, and stays the same for a client that comes back alone.
        """
        spec, peer = self._host.serving.policy.spec, socket.remote_address
        return SessionOffer(
            action_names=spec.action_names,
            state_names=spec.state_names,
            images=tuple(ImageFeature(feature, RAW) for feature in spec.image_shapes),
            fps=spec.trained_fps,
            task="",
            wants_rtc=False,
            robot_type="openpi",
            robot_namespace=name,
            client=f"openpi client {peer[0]}:{peer[1]}" if peer else "openpi client",
            tasks_in_requests=True,
        )


def _describe(spec: PolicySpec) -> Mapping[str, Any]:
    return {
        "policy_name": spec.name,
        "policy_revision": spec.revision,
        "policy_fingerprint": spec.fingerprint,
        "chunk_size": spec.chunk_size,
        "trained_fps": spec.trained_fps,
        "action_names": list(spec.action_names),
        "state_names": list(spec.state_names),
    }
