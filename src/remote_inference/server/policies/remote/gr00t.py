# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Serves the policy of a GR00T N1.6 server: ZeroMQ request and reply, msgpack messages.

Of the server's endpoints `ping`, `get_modality_config`, `get_action` and `reset` are called. `kill`, which
ends the server for everybody, is not.
"""

from __future__ import annotations

import io
import math
import time
from typing import Annotated, Any

import numpy as np
import zmq
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import Field

from remote_inference.base.contract.action_kinds import ANY_KIND
from remote_inference.base.documents.problems import show_value
from remote_inference.base.policy import Float32Array, PolicyError
from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.openpi import (
    DTYPES,
    MAX_FRAME_BYTES,
    read_msgpack,
    read_numpy,
    write_msgpack,
)
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies.remote.policy import (
    Entry,
    LinkError,
    RemoteInput,
    RemoteOptions,
    RemotePolicy,
    Server,
    names_of,
    one_line,
    require_actions,
)


class Gr00tOptions(RemoteOptions):
    """Keys of `model.options` for the back end `gr00t`."""

    host: Annotated[str, Field(min_length=1, description="machine of the GR00T server")]
    port: Annotated[int, Field(ge=1, le=65_535, description="its TCP port")] = 5555
    actions: Annotated[
        tuple[Entry, ...],
        Field(min_length=1, description="entries that make a row, in the order of the contract's names"),
    ]


# -- GR00T N1.6's messages: msgpack in which a map with the key `__ndarray_class__` holds an array as `.npy`
#
# `pack` writes what N1.6's client writes. `unpack` reads what its server writes, and arrays as later ones
# (msgpack-numpy's) and openpi's write them, within limits and only the types of `DTYPES`: the header of an
# array is read before its memory is taken, and nothing is unpickled.

_ARRAY, _NPY = "__ndarray_class__", "as_npy"
_MODALITIES, _JSON = {"__ModalityConfig_class__", "__ModalityConfig__"}, "as_json"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def pack(value: Any) -> bytes:
    """Return the message of a value: maps, lists, text, numbers, None, and arrays of a type in DTYPES.

    Raises WireError for anything else.
    """
    return write_msgpack(value, _describe, "message")


def unpack(data: bytes) -> Any:
    """Return the value of a message: arrays as read-only views, modality configurations as maps.

    Raises WireError for bytes that are no message within the limits, and for arrays of other types or whose
    data does not fill their shape.
    """
    return read_msgpack(data, "message", object_hook=_read_map, max_ext_len=0)


def _describe(value: Any) -> dict[str, Any]:
    if not isinstance(value, np.ndarray) or value.dtype.str not in DTYPES:
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise TypeError(f"found {kind}")
    stream = io.BytesIO()
    np.save(stream, value, allow_pickle=False)
    return {_ARRAY: True, _NPY: stream.getvalue()}


def _read_map(values: dict[Any, Any]) -> Any:
    if _ARRAY in values:
        return _read_npy(values.get(_NPY))
    if not _MODALITIES.isdisjoint(values):
        return values.get(_JSON)
    return read_numpy(values)


def _read_npy(data: Any) -> NDArray[Any]:
    if not isinstance(data, bytes):
        raise WireError(f"array: {_NPY}: found a value of type {type(data).__name__}, expected bytes")
    stream = io.BytesIO(data)
    try:
        shape, is_fortran, dtype = _HEADERS[npy.read_magic(stream)](stream)
    except Exception as error:  # numpy parses the header with the compiler of Python, which raises anything
        reason = show_value(" ".join(str(error).split()))
        raise WireError(f"array: {_NPY} has no header of the npy format: {reason}") from error
    if dtype.str not in DTYPES:
        raise WireError(f"array: dtype: found {show_value(dtype.str)}, expected one of {', '.join(DTYPES)}")
    found, expected = len(data) - stream.tell(), math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or found != expected:
        raise WireError(
            f"array: found {found} bytes of data, expected {expected} for shape {show_value(shape)}"
        )
    flat = np.frombuffer(data, dtype, offset=stream.tell()) if found else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def load(source: ModelSource) -> RemotePolicy:
    """Connect to the server of a manifest. Raises DocumentError for options, PolicyError for the server."""
    options = source.read_options(Gr00tOptions)
    server = Gr00tServer(options, options.find_api_key(source))
    return RemotePolicy(server, source, options, names_of(options.actions))


class Gr00tServer(Server):
    """A GR00T N1.6 server. A socket that got no answer is thrown away, so no late answer is ever taken."""

    def __init__(self, options: Gr00tOptions, api_key: str) -> None:
        super().__init__(f"GR00T server at tcp://{options.host}:{options.port}", options)
        self._options = options
        self._api_key = api_key
        self._context = zmq.Context()
        self._socket: Any = None
        self._language_key = ""

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def open(self, timeout_s: float) -> bytes:
        self.close()
        deadline_s = time.monotonic() + timeout_s
        self._socket = self._context.socket(zmq.REQ)
        self._socket.linger = 0
        self._socket.maxmsgsize = MAX_FRAME_BYTES
        try:
            self._socket.connect(f"tcp://{self._options.host}:{self._options.port}")
        except zmq.ZMQError as error:
            raise LinkError(f"{self.place}: {error}") from error
        self._ask({"endpoint": "ping"}, timeout_s)
        left_s = max(0.0, deadline_s - time.monotonic())
        modalities = self._ask({"endpoint": "get_modality_config"}, left_s)
        self._language_key = self._check_modalities(modalities)
        self.kinds = self._read_kinds(modalities["action"])
        return repr(modalities).encode()

    def infer(self, model_input: RemoteInput, timeout_s: float) -> Float32Array:
        observation = {
            "video": {key: image[np.newaxis, np.newaxis] for key, image in model_input.images.items()},
            "state": {
                key: part[np.newaxis, np.newaxis] for key, part in self.split_state(model_input.state).items()
            },
            "language": {self._language_key: [[model_input.task]]},
        }
        data = {"observation": observation, "options": None}
        answer = self._ask({"endpoint": "get_action", "data": data}, timeout_s)
        if not isinstance(answer, list) or len(answer) != 2 or not isinstance(answer[0], dict):
            raise PolicyError(f"{self.place}: get_action: expected a list of a map of actions and a map")
        rows = []
        for entry in self._options.actions:
            shape = (1, self._options.chunk_size, len(entry.names))
            where = f"{self.place}: action {entry.key!r}"
            rows.append(require_actions(where, answer[0].get(entry.key), shape)[0])
        return np.concatenate(rows, axis=1)

    def reset(self, timeout_s: float) -> None:
        self._ask({"endpoint": "reset", "data": {"options": None}}, timeout_s)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, request: dict[str, Any], timeout_s: float) -> Any:
        """Return the server's answer. Raises LinkError when there is none, PolicyError when it refuses."""
        what = f"{self.place}: {request['endpoint']}"
        if self._api_key:
            request["api_token"] = self._api_key
        try:
            self._socket.send(pack(request), zmq.NOBLOCK)
            if not self._socket.poll(round(1000 * timeout_s)):
                raise LinkError(f"{what}: no answer within {timeout_s:.1f} s")
            answer = unpack(self._socket.recv(zmq.NOBLOCK))
        except (zmq.ZMQError, WireError) as error:
            raise LinkError(f"{what}: {error}") from error
        if isinstance(answer, dict) and "error" in answer:
            raise PolicyError(f"{what}: the server says: {one_line(answer['error'])}")
        return answer

    def _check_modalities(self, modalities: Any) -> str:
        """Return the key of the task. Raises PolicyError when the options do not fit what the server says."""
        options = self._options
        for modality, option, entries, steps in (
            ("video", "images", options.images.values(), 1),
            ("state", "state", options.state, 1),
            ("action", "actions", options.actions, options.chunk_size),
        ):
            keys, found_steps = self._read_modality(modalities, modality)
            given = sorted(entry.key for entry in entries)
            if given != sorted(keys):
                expected = f"those of the {self.place}: {show_value(sorted(keys))}"
                found = f"found the keys {show_value(given)}"
                raise PolicyError(f"model.options: {option}: {found}, expected {expected}")
            if found_steps != steps:
                wanted = f"chunk_size {steps}" if modality == "action" else f"{steps}, as robots send"
                raise PolicyError(
                    f"{self.place}: modality {modality}: found {found_steps} steps, expected {wanted}"
                )
        keys, steps = self._read_modality(modalities, "language")
        if len(keys) != 1 or steps != 1:
            found = f"{len(keys)} keys of {steps} steps"
            raise PolicyError(f"{self.place}: modality language: found {found}, expected one of one step")
        return keys[0]

    def _read_kinds(self, action: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        """Return the kinds of the actions that N1.6 learned as differences: its answers have the state added.

        Of others the server does not say it. Raises PolicyError for a description that N1.6 does not make.
        """
        configs = action.get("action_configs") or []
        keys = action["modality_keys"]
        if not isinstance(configs, list) or len(configs) not in {0, len(keys)}:
            found = f"{self.place}: modality action: action_configs: found {show_value(configs)}"
            raise PolicyError(f"{found}, expected none or one of each key")
        relative = {
            key
            for key, config in zip(keys, configs, strict=False)
            if isinstance(config, dict) and config.get("rep") == "RELATIVE"
        }
        entries = [entry for entry in self._options.actions if entry.key in relative]
        return {name: ANY_KIND for entry in entries for name in entry.names}

    def _read_modality(self, modalities: Any, name: str) -> tuple[list[str], int]:
        """Return the keys of a modality, and how many steps it has."""
        modality = modalities.get(name) if isinstance(modalities, dict) else None
        match modality:
            case {"modality_keys": list(keys), "delta_indices": list(steps)}:
                if all(isinstance(key, str) for key in keys):
                    return keys, len(steps)
        expected = "modality_keys and delta_indices, as N1.6 has"
        raise PolicyError(f"{self.place}: modality {name}: found {show_value(modality)}, expected {expected}")
