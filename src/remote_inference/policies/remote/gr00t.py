# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Serves the policy of a GR00T N1.6 server: ZeroMQ request and reply, messages as in `wire.frameworks.gr00t`.

Of the server's endpoints `ping`, `get_modality_config`, `get_action` and `reset` are called. `kill`, which
ends the server for everybody, is not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import zmq

from remote_inference.core.contract.commands.interfaces import ANY_KIND
from remote_inference.core.documents.problems import show_value
from remote_inference.core.policy import Float32Array, PolicyError
from remote_inference.core.server.manifest.manifest import ModelSource
from remote_inference.policies.remote.connection import LinkError
from remote_inference.policies.remote.gr00t_options import Gr00tOptions
from remote_inference.policies.remote.options import read_api_key
from remote_inference.policies.remote.policy import RemoteInput, RemotePolicy, one_line, require_rows
from remote_inference.wire.arrays import WireError
from remote_inference.wire.frameworks.gr00t import pack, unpack
from remote_inference.wire.frameworks.openpi import MAX_FRAME_BYTES


def load(source: ModelSource) -> RemotePolicy:
    """Connect to the server of a manifest. Raises DocumentError for options, PolicyError for the server."""
    options = source.read_options(Gr00tOptions)
    server = Gr00tServer(options, read_api_key(source.path, options.api_key_file))
    return RemotePolicy(server, source, options, options.action_names)


class Gr00tServer:
    """A GR00T N1.6 server. A socket that got no answer is thrown away, so no late answer is ever taken."""

    def __init__(self, options: Gr00tOptions, api_key: str) -> None:
        self.place = f"GR00T server at tcp://{options.host}:{options.port}"
        self.kinds: Mapping[str, tuple[str, ...]] = {}
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
            "state": self._split(model_input.state),
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
            rows.append(require_rows(where, answer[0].get(entry.key), shape)[0])
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
        except zmq.ZMQError as error:
            raise LinkError(f"{what}: {error}") from error
        except WireError as error:
            raise LinkError(f"{what}: {error}") from error
        if isinstance(answer, dict) and "error" in answer:
            raise PolicyError(f"{what}: the server says: {one_line(answer['error'])}")
        return answer

    def _split(self, state: Float32Array) -> dict[str, Float32Array]:
        """Return the entries of the state, each `[1, 1, names]`."""
        entries, begin = {}, 0
        for entry in self._options.state:
            end = begin + len(entry.names)
            entries[entry.key] = state[np.newaxis, np.newaxis, begin:end]
            begin = end
        return entries

    def _check_modalities(self, modalities: Any) -> str:
        """Return the key of the task. Raises PolicyError when the options do not fit what the server says."""
        options = self._options
        for modality, option, entries, steps in (
            ("video", "images", options.images.values(), 1),
            ("state", "state", options.state, 1),
            ("action", "actions", options.actions, options.chunk_size),
        ):
            keys, found_steps = self._read_modality(modalities, modality)
            _require_keys(option, [entry.key for entry in entries], keys, self.place)
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
            raise PolicyError(
                f"{self.place}: modality action: action_configs: found {show_value(configs)}, expected none "
                "or one of each key"
            )
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
        keys = modality.get("modality_keys") if isinstance(modality, dict) else None
        steps = modality.get("delta_indices") if isinstance(modality, dict) else None
        if (
            not isinstance(keys, list)
            or not isinstance(steps, list)
            or not all(isinstance(key, str) for key in keys)
        ):
            raise PolicyError(
                f"{self.place}: modality {name}: found {show_value(modality)}, expected modality_keys and "
                "delta_indices, as N1.6 has"
            )
        return keys, len(steps)


def _require_keys(option: str, found: list[str], expected: list[str], place: str) -> None:
    """Raise PolicyError when the options name other entries than the server has."""
    if sorted(found) != sorted(expected):
        raise PolicyError(
            f"model.options: {option}: found the keys {show_value(sorted(found))}, expected those of the "
            f"{place}: {show_value(sorted(expected))}"
        )
