# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The messages of LeRobot's asynchronous inference, as its `robot_client` sends and reads them.

On the wire they are protocol buffers around pickles of LeRobot's dataclasses: RemotePolicyConfig and
TimedObservation come, a list of TimedAction goes. Its classes are not needed: `pickles` reads those that
come, `_ActionPickler` writes those that go.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from numpy.typing import NDArray

from remote_inference.base.policy import Float32Array
from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.pickles import Call, read_pickle, to_numpy

SERVICE = "transport.AsyncInference"
CLIENT_PICKLE_PROTOCOL = 4  # what every Python that LeRobot runs on reads
TRANSFER_END = 3  # of an observation's parts, the last
STATE, IMAGES = "observation.state", "observation.images."
MAX_FEATURES = 256
_TYPES = {"bytes": FieldDescriptorProto.TYPE_BYTES, "int32": FieldDescriptorProto.TYPE_INT32}


def _declare(**messages: Mapping[str, str]) -> Mapping[str, Any]:
    """Return classes of messages by name; their fields, by name, are numbered in order."""
    file = FileDescriptorProto(name="remote_inference/lerobot_async.proto", package="transport")
    for name, fields in messages.items():
        message = DescriptorProto(name=name)
        for number, (field, kind) in enumerate(fields.items(), start=1):
            message.field.add(name=field, number=number, type=_TYPES[kind])
        file.message_type.append(message)
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"transport.{name}")) for name in messages}


# An enumeration stands on the wire as a number.
_MESSAGES = _declare(
    Observation={"transfer_state": "int32", "data": "bytes"},
    PolicySetup={"data": "bytes"},
    Actions={"data": "bytes"},
)


@dataclass(frozen=True)
class PolicyWish:
    """What a client asks for when it connects.

    policy: name or path. state_names: of its joints, in order. cameras: by the feature that each is.
    actions: rows of each answer at most. module: in which the client has LeRobot's dataclasses.
    """

    policy: str
    state_names: tuple[str, ...]
    cameras: Mapping[str, str]
    actions: int
    module: str


@dataclass(frozen=True)
class TimedObservation:
    """An observation, by the client's clock [s] and count of control ticks. must_go: answer in any case."""

    timestamp_s: float
    timestep: int
    must_go: bool
    values: Mapping[str, Any]


def read_part(data: bytes) -> tuple[bytes, bool]:
    """Return the bytes of an observation's part, and whether it is the last. Raises WireError."""
    part = _parse("Observation", data)
    return part.data, part.transfer_state == TRANSFER_END


def read_policy_wish(data: bytes) -> PolicyWish:
    """Read a PolicySetup. Raises WireError naming the field, what was found and expected."""
    call, fields = _read_dataclass(_parse("PolicySetup", data).data, "RemotePolicyConfig")
    features = _get(fields, "lerobot_features", dict)
    if len(features) > MAX_FEATURES:
        raise WireError(f"lerobot_features: found {len(features)}, expected {MAX_FEATURES} at most")
    state = _get(_get(features, STATE, dict), "names", list)
    renamed = fields.get("rename_map") or {}
    cameras: dict[str, str] = {}
    for key in features:
        if key.startswith(IMAGES):
            feature = renamed.get(key, key) if isinstance(renamed, dict) else key
            cameras[_require(feature, str, "rename_map")] = key.removeprefix(IMAGES)
    return PolicyWish(
        _get(fields, "pretrained_name_or_path", str),
        tuple(_require(name, str, STATE) for name in state[:MAX_FEATURES]),
        cameras,
        _get(fields, "actions_per_chunk", int),
        call.function.rpartition(".")[0],
    )


def read_observation(data: bytes) -> TimedObservation:
    """Read the joined parts of an observation. Raises WireError naming the field, found and expected."""
    _, fields = _read_dataclass(data, "TimedObservation")
    return TimedObservation(
        _get(fields, "timestamp", float),
        _get(fields, "timestep", int),
        _get(fields, "must_go", bool),
        _get(fields, "observation", dict),
    )


def read_state(values: Mapping[str, Any], names: Iterable[str]) -> Float32Array:
    """Return the joints of an observation, float32 `[n]`. Raises WireError for one that is no number."""
    return np.array([_read_number(values, name) for name in names], np.float32)


def read_image(values: Mapping[str, Any], camera: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return a camera's picture, uint8 RGB, resized to `[height, width, 3]` exactly as LeRobot's server does.

    Raises WireError for anything but uint8 `[height, width, 3]`.
    """
    value = values.get(camera)
    image = to_numpy(value) if isinstance(value, Call) else None
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise WireError(f"{camera}: found {_describe(value)}, expected uint8 of shape [height, width, 3]")
    if not image.size:
        raise WireError(f"{camera}: found an image without pixels")
    if image.shape[:2] == shape[:2]:
        return image
    channels_first = torch.from_numpy(image.copy()).permute(2, 0, 1).unsqueeze(0)
    resized = torch.nn.functional.interpolate(
        channels_first, size=tuple(shape[:2]), mode="bilinear", align_corners=False
    )
    return resized.squeeze(0).permute(1, 2, 0).numpy()


def write_actions(rows: Float32Array, asked: TimedObservation, step_s: float, module: str) -> bytes:
    """Return the Actions message for a chunk `[n, A]`, one TimedAction each row, step_s apart."""
    kind = type("TimedAction", (), {"__module__": module})
    actions = []
    for index, row in enumerate(torch.from_numpy(np.array(rows, np.float32))):
        action = kind()
        action.timestamp, action.timestep = asked.timestamp_s + index * step_s, asked.timestep + index
        action.action = row
        actions.append(action)
    buffer = io.BytesIO()
    _ActionPickler(buffer, CLIENT_PICKLE_PROTOCOL).dump(actions)
    return bytes(_MESSAGES["Actions"](data=buffer.getvalue()).SerializeToString())


_Pickler: Any = vars(pickle)["_Pickler"]  # the one in Python: the other's names cannot be foreign


class _ActionPickler(_Pickler):  # type: ignore[misc]
    """Writes a class by its name alone, where the standard pickler wants to find it on this machine, too."""

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if getattr(obj, "__name__", "") != "TimedAction":
            super().save_global(obj, name)
            return
        self.save(obj.__module__)
        self.save(obj.__name__)
        self.write(pickle.STACK_GLOBAL)
        self.memoize(obj)


def _parse(name: str, data: bytes) -> Any:
    message = _MESSAGES[name]()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise WireError(f"{name}: {len(data)} bytes that are no such message") from error
    return message


def _read_dataclass(data: bytes, name: str) -> tuple[Call, dict[str, Any]]:
    value = read_pickle(data)
    if not isinstance(value, Call) or not value.function.startswith("lerobot."):
        raise WireError(f"pickle: found {_describe(value)}, expected LeRobot's {name}")
    if value.function.rpartition(".")[2] != name or not isinstance(value.state, dict):
        raise WireError(f"pickle: found {_describe(value)}, expected LeRobot's {name}")
    return value, value.state


def _read_number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    number = to_numpy(value) if isinstance(value, Call) else value
    if isinstance(number, np.ndarray) and number.size == 1:
        number = number.reshape(())[()]
    if isinstance(number, bool) or not isinstance(number, (int, float, np.number)):
        raise WireError(f"{name}: found {_describe(value)}, expected a number")
    return float(number)


def _get(fields: Mapping[str, Any], key: str, kind: type) -> Any:
    return _require(fields.get(key), kind, key)


def _require(value: Any, kind: type, key: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WireError(f"{key}: found {_describe(value)}, expected {kind.__name__}")
    return value


def _describe(value: Any) -> str:
    """Return a value's kind: of what refers to itself, or is long, nothing more may be printed."""
    if isinstance(value, Call):
        return f"a call of {value.function}"
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
