# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Serves the policy of a server that speaks openpi's wire: its own, vLLM-Omni's or RoboArena's.

One WebSocket: the server sends its metadata first, then a chunk for each observation; a text frame is an
error. Frames are those of `frameworks.openpi`.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect

from remote_inference.base.policy import Float32Array, PolicyError
from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.openpi import MAX_FRAME_BYTES, pack, unpack, unpack_map
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies.remote.policy import (
    LinkError,
    RemoteImage,
    RemoteInput,
    RemoteOptions,
    RemotePolicy,
    Server,
    describe,
    one_line,
    require_actions,
    require_distinct,
)
from remote_inference.server.policies.trained_policy import Names


class OpenpiImage(RemoteImage):
    """One camera of a policy behind openpi's wire."""

    inside: Annotated[
        str, Field(description="entry whose map holds the key, for example `images`; empty: the observation")
    ] = ""


class OpenpiOptions(RemoteOptions):
    """Keys of `model.options` for the back end `openpi`."""

    url: Annotated[
        str,
        Field(
            pattern=r"^wss?://[^/\s]+(/\S*)?$",
            description="the server's, such as `ws://gpu:8000`, or with a path as vLLM-Omni's",
        ),
    ]
    images: Annotated[
        Mapping[str, OpenpiImage], Field(description="cameras, by the feature that the robots send")
    ] = {}
    layout: Annotated[
        Literal["hwc", "chw"], Field(description="order of an image's axes: height, width, channels")
    ] = "hwc"
    prompt: Annotated[str, Field(min_length=1, description="entry of the task")] = "prompt"
    action_names: Annotated[Names, Field(description="columns of a chunk: the contract's names")]
    endpoints: Annotated[
        bool,
        Field(
            description="say `endpoint: infer` in each request, and `endpoint: reset` between episodes of an "
            "exclusive policy: RoboArena's and vLLM-Omni's servers know both, openpi's has no reset"
        ),
    ] = False


CLOSE_S = 0.5  # for the server's part of a goodbye
_SERVER_ERROR = "error"  # value of `type` in vLLM-Omni's errors, which are no text frames


def load(source: ModelSource) -> RemotePolicy:
    """Connect to the server of a manifest. Raises DocumentError for options, PolicyError for the server."""
    options = source.read_options(OpenpiOptions)
    places = dict.fromkeys(image.inside or image.key for image in options.images.values())
    require_distinct(
        "state, images and prompt", [*(entry.key for entry in options.state), *places, options.prompt]
    )
    server = OpenpiServer(options, options.find_api_key(source))
    return RemotePolicy(server, source, options, options.action_names)


class OpenpiServer(Server):
    """A server of openpi's wire. Answers have no number: a connection that got none in time is closed."""

    def __init__(self, options: OpenpiOptions, api_key: str) -> None:
        super().__init__(f"openpi server at {options.url}", options)
        self._options = options
        self._headers = {"Authorization": f"Api-Key {api_key}"} if api_key else None
        self._link: ClientConnection | None = None
        self._exit = ExitStack()  # closes the connection, which is made to be used in a `with` statement

    @property
    def is_open(self) -> bool:
        return self._link is not None and self._link.state is State.OPEN

    def open(self, timeout_s: float) -> bytes:
        self.close()
        deadline_s = time.monotonic() + timeout_s
        try:
            self._link = self._exit.enter_context(
                connect(
                    self._options.url,
                    additional_headers=self._headers,
                    compression=None,
                    max_size=MAX_FRAME_BYTES,
                    open_timeout=timeout_s,
                    close_timeout=CLOSE_S,
                    ping_interval=None,  # a server that computes answers no ping; each call has its deadline
                )
            )
        except InvalidStatus as error:
            status = error.response.status_code
            hint = ": the server refuses the key of api_key_file" if status in {401, 403} else ""
            raise LinkError(f"{self.place}: found HTTP status {status}{hint}") from error
        except TimeoutError as error:
            raise LinkError(f"{self.place}: no handshake within {timeout_s:.1f} s") from error
        except (OSError, WebSocketException) as error:
            raise LinkError(f"{self.place}: cannot connect: {one_line(error)}") from error
        _limit_sending_time(self._link.socket, timeout_s)
        frame = self._receive_bytes("metadata", max(0.0, deadline_s - time.monotonic()))
        try:
            metadata = unpack_map(frame)
        except WireError as error:
            raise LinkError(f"{self.place}: metadata: {error}") from error
        self._require_no_error("metadata", metadata)
        return frame

    def infer(self, model_input: RemoteInput, timeout_s: float) -> Float32Array:
        observation = self._describe(model_input)
        if self._options.endpoints:
            observation["endpoint"] = "infer"
        self._send(observation, "inference")
        answer = self._unpack("inference", self._receive_bytes("inference", timeout_s))
        if isinstance(answer, dict):
            if "actions" not in answer:
                raise PolicyError(f"{self.place}: answer: found {describe(answer)}, expected 'actions'")
            answer = answer["actions"]
        shape = (self._options.chunk_size, len(self._options.action_names))
        return require_actions(f"{self.place}: actions", answer, shape)

    def reset(self, timeout_s: float) -> None:
        if not self._options.endpoints:
            return
        self._send({"endpoint": "reset"}, "reset")
        frame = self._receive("reset", timeout_s)
        if isinstance(frame, bytes):  # RoboArena's server says in a text frame that it is done
            self._unpack("reset", frame)

    def close(self) -> None:
        self._link = None
        self._exit.close()

    def _describe(self, model_input: RemoteInput) -> dict[str, Any]:
        observation: dict[str, Any] = {self._options.prompt: model_input.task}
        observation |= self.split_state(model_input.state)
        for image in self._options.images.values():
            pixels = model_input.images[image.key]
            if self._options.layout == "chw":
                pixels = np.ascontiguousarray(pixels.transpose(2, 0, 1))
            place = observation.setdefault(image.inside, {}) if image.inside else observation
            place[image.key] = pixels
        return observation

    def _send(self, request: dict[str, Any], what: str) -> None:
        assert self._link is not None, "Connection opens it before it asks"
        try:
            self._link.send(pack(request))
        except ConnectionClosed as error:
            raise LinkError(f"{self.place}: {what}: the connection ended: {one_line(error)}") from error

    def _receive(self, what: str, timeout_s: float) -> bytes | str:
        """Return the next frame. Raises LinkError when none comes in time."""
        assert self._link is not None, "what is awaited follows `open` or `_send`"
        try:
            return self._link.recv(timeout_s)
        except TimeoutError as error:
            raise LinkError(f"{self.place}: {what}: no answer within {timeout_s:.1f} s") from error
        except ConnectionClosed as error:
            raise LinkError(f"{self.place}: {what}: the connection ended: {one_line(error)}") from error

    def _receive_bytes(self, what: str, timeout_s: float) -> bytes:
        """Return the next frame. Raises LinkError also for a text, which is an error."""
        frame = self._receive(what, timeout_s)
        if isinstance(frame, str):
            raise LinkError(f"{self.place}: {what}: the server says: {one_line(frame)}")
        return frame

    def _unpack(self, what: str, frame: bytes) -> Any:
        """Return an answer. Raises PolicyError for what cannot be read, and for one that is an error."""
        try:
            answer = unpack(frame)
        except WireError as error:
            raise PolicyError(f"{self.place}: {what}: {error}") from error
        self._require_no_error(what, answer)
        return answer

    def _require_no_error(self, what: str, answer: Any) -> None:
        if isinstance(answer, dict) and answer.get("type") == _SERVER_ERROR:
            raise PolicyError(f"{self.place}: {what}: the server says: {one_line(answer.get('message'))}")


def _limit_sending_time(link: socket.socket, timeout_s: float) -> None:
    """Let sending fail after a time: a frozen server reads nothing, and a large observation fills buffers."""
    seconds = int(timeout_s)
    microseconds = int((timeout_s - seconds) * 1e6)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, microseconds))
