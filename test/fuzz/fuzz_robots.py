# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots of any message: contracts over all installed message types, and what their topics may bring."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from math import inf
from random import Random
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from fuzz_target import Target
from mutation import FLOATS, MAX_INPUT_BYTES, spoil_bytes, spoil_tree
from rclpy.serialization import deserialize_message, serialize_message

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.state_source import StateSource
from remote_inference.base.documents.document import DocumentError, parse_document, parse_json
from remote_inference.base.rotations import ROTATION_FORMS
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.commands import make_command_writers, make_sink_reader
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.sensors.fields import message_type, number_paths
from remote_inference.base.wire.sensors.state_readers import StateReader, find_class, make_state_readers
from remote_inference.robot.queue.relative_rows import RelativeRows
from remote_inference.robot.safety.guard import Guard
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY, JOINTS, contract_document
from support.robot.pose_robot import pose_document

PACKAGES = ("geometry_msgs", "sensor_msgs", "std_msgs", "trajectory_msgs", "builtin_interfaces", "nav_msgs")
KINDS = ("position", "velocity", "effort", "switch", "pose", "speed")
UNITS = ("degrees", "percent", "signed_percent", "fraction", "ticks", "furlongs")
MESSAGES = 4  # of each topic


def _run(data: bytes) -> None:
    """Build what reads and writes a contract's messages, and let it read and write some."""
    tree = parse_json(data, "here")
    seed = tree.pop("messages", 0) if isinstance(tree, dict) else 0
    contract = parse_document(tree, Contract, "here")
    try:
        readers = make_state_readers(contract)
        writers = make_command_writers(contract)
    except WireError as error:
        raise WireError(f"here: {error}") from error  # as those who load a contract say it
    random = Random(str(seed))
    for source, (_, reader) in zip(contract.state, readers, strict=True):
        for message in _messages(random, find_class(source, "state")):
            _read(source, reader, message)
    seen = contract.state_units.to_policy([_number(random) for _ in contract.state_names])
    assert seen.shape == (len(contract.policy_state_names),)
    for sink, writer in zip(contract.commands, writers, strict=True):
        message = writer.message(_rows(random, contract), Time())
        again = deserialize_message(serialize_message(message), type(message))
        if sink.action is None:
            make_sink_reader(sink, contract).read(again)


def _rows(random: Random, contract: Contract) -> np.ndarray:
    """Return commands as the guard lets them pass, of a chunk of the policy."""
    width = len(contract.policy_action_names)
    chunk = np.array([[_number(random) for _ in range(width)] for _ in range(3)], np.float32)
    relative = RelativeRows(contract)
    measured = np.array([_number(random) for _ in contract.actions.names])
    with np.errstate(over="ignore"):
        chunk = relative.resolve(chunk, measured) if relative.can_resolve(measured) else chunk
    assert chunk.shape == (3, width)
    rows = contract.action_units.to_robot(chunk)
    assert rows.shape == (3, contract.action_dim)
    guard = Guard(contract.actions, contract.period_s)
    guarded = [guard.check(row, measured).action for row in rows]
    assert all(action is None or np.isfinite(action).all() for action in guarded), "a number of no size"
    return np.array([measured if action is None else action for action in guarded])


def _read(source: StateSource, reader: StateReader, message: Any) -> None:
    try:
        values = reader.read(message)
    except SensorError as error:
        if not str(error).startswith(f"{source.topic}: "):
            raise AssertionError(f"found {str(error)!r}, expected the topic first") from error
    else:
        assert values.shape == (len(source.entries),)
        assert np.isfinite(values).all(), "found values that are not finite"


def _messages(random: Random, kind: type[Any]) -> Iterator[Any]:
    """Yield messages of a type: some with numbers, some spoiled on their way."""
    for _ in range(MESSAGES):
        message = kind()
        _fill(random, message, 4)
        data = serialize_message(message)
        if random.random() < 0.5:
            data = spoil_bytes(random, data, [data])
        with suppress(Exception):  # the middleware refuses it
            yield deserialize_message(data, kind)


def _fill(random: Random, message: Any, depth: int) -> None:
    """Give the fields of a message values, and its sequences items."""
    for name, kind in message.get_fields_and_field_types().items():
        item = kind.removeprefix("sequence<").partition(">")[0].partition(",")[0].partition("[")[0]
        inner = message_type(item)
        if kind.startswith("sequence<"):
            items: list[Any] = [_value(random, item, depth) for _ in range(random.randrange(4))]
            if inner or item in ("float", "double", "string"):
                setattr(message, name, items if depth or not inner else [])
        elif inner and depth and "[" not in kind:
            _fill(random, getattr(message, name), depth - 1)
        elif kind in ("float", "double"):
            setattr(message, name, _value(random, kind, depth))


def _value(random: Random, kind: str, depth: int) -> Any:
    if kind == "string":
        return random.choice((*JOINTS, "", "other"))
    if not (inner := message_type(kind)):
        return random.choice(
            [number for number in FLOATS if kind == "double" or not 1e38 < abs(number) < inf]
        )
    made = message_class(inner)()
    if depth:
        _fill(random, made, depth - 1)
    return made


def _number(random: Random) -> float:
    """Return a number as the guard lets it pass: finite, and a float32's."""
    return random.choice([number for number in FLOATS if abs(number) < 1e30])


@cache
def _types() -> tuple[str, ...]:
    found = []
    for package in PACKAGES:
        try:
            names = dir(import_module(f"{package}.msg"))
        except ImportError:  # not among the wheels
            continue
        found += [f"{package}/msg/{name}" for name in names if name[0].isupper()]
    return tuple(found)


@cache
def _paths(type_name: str) -> tuple[str, ...]:
    message_class(type_name)
    return tuple(number_paths(type_name))


def _some_paths(random: Random, type_name: str, count: int) -> list[str]:
    """Return paths of a type to numbers, now and then misspelt, beyond an end, or a slice."""
    known = _paths(type_name) or ("data",)
    paths = []
    for _ in range(count):
        path = random.choice(known)
        match random.randrange(24):
            case 0:
                path = path.replace("[0]", f"[{random.choice((1, 8, 9, 36, 10**9))}]")
            case 1:
                path = path.replace("[0]", f"[0:{random.choice((0, 1, 4, 10**6))}]")
            case 2:
                path = path[: random.randrange(len(path) + 1)]
            case 3:
                path = path.replace(".", random.choice(("..", "[0].", "/")), 1)
            case _:
                pass
        paths.append(path)
    return paths


def _other_state(random: Random, tree: Any) -> None:
    kind = random.choice(_types())
    paths = _some_paths(random, kind, random.randrange(1, 5))
    source = {"topic": f"topic_{random.randrange(4)}", "type": kind, "fields": paths}
    if random.random() < 0.5:
        source["names"] = [f"number_{random.randrange(999)}" for _ in paths]
    tree["state"].append(source)


def _other_command(random: Random, tree: Any) -> None:
    kind = random.choice(_types())
    name = random.choice(tree["actions"]["names"])
    paths = _some_paths(random, kind, random.randrange(1, 3))
    command: dict[str, Any] = {"topic": f"command_{random.randrange(4)}", "type": kind}
    command["fields"] = dict.fromkeys(paths, name)
    if random.random() < 0.4:
        command["constant"] = dict.fromkeys(_some_paths(random, kind, 1), random.choice((0, 1.5, "x", True)))
    place = random.randrange(len(tree["commands"]))
    before = tree["commands"][place]
    left = [one for one in before.get("names", []) if one != name]
    tree["commands"][place : place + 1] = [command, *([{**before, "names": left}] if left else [])]


def _other_kind(random: Random, tree: Any) -> None:
    limit = tree["actions"]["limits"][random.choice(tree["actions"]["names"])]
    limit["kind"] = random.choice(KINDS)
    if limit["kind"] == "switch":
        limit.pop("max_velocity", None)
        limit |= {"opens_below": -0.2, "closes_above": 0.2, "dwell_s": random.choice((0, 1, 100))}


def _other_unit(random: Random, tree: Any) -> None:
    place = random.choice((tree["actions"], random.choice(tree["state"])))
    names = place.get("names") or list(JOINTS)
    scale: dict[str, Any] = {"unit": random.choice(UNITS), "names": [random.choice(names)]}
    others = {"range": [-1.0, 1.0], "factor": random.choice(FLOATS), "offset": 90, "invert": True}
    scale |= {key: value for key, value in others.items() if random.random() < 0.3}
    place["scale"] = [*place.get("scale", ()), scale]


def _other_form(random: Random, tree: Any) -> None:
    """Let a policy say a pose, or see a quaternion, in another form; let it say motions."""
    form = random.choice((*ROTATION_FORMS.names, "axis"))
    names = [f"r{place}" for place in range(random.choice((3, 3, 6, 6, 4)))]
    rotation = {"form": form, "names": names}
    if random.random() < 0.5:
        source = random.choice(tree["state"])
        quaternion = random.sample((source.get("names") or source["fields"])[-4:], 4)
        source["rotations"] = [rotation | {"quaternion": quaternion}]
        return
    pose = random.choice(list(tree["actions"]["poses"].values()))
    if random.random() < 0.6:
        pose["rotation"] = rotation
    else:
        pose["relative"] = {
            "to": random.choice(("chunk_start", "previous", "next")),
            "frame": random.choice(("tool", "base", "world")),
        }


def _other_messages(random: Random, tree: Any) -> None:
    tree["messages"] = random.randrange(10**6)


CHANGES: Sequence[Callable[[Random, Any], None]] = (
    _other_state,
    _other_state,
    _other_command,
    _other_command,
    _other_kind,
    _other_unit,
    _other_form,
    _other_form,
    _other_messages,
)


def _spoil(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a contract of another robot, sometimes spoiled like any other document."""
    if random.random() < 0.2:
        return spoil_tree(random, data, others)
    try:
        tree = json.loads(data)
        for _ in range(random.choice((1, 1, 2, 3, 5))):
            random.choice(CHANGES)(random, tree)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # it was spoiled before
        return random.choice(others)
    return json.dumps(tree).encode("utf-8", "surrogatepass")[:MAX_INPUT_BYTES]


def _seeds() -> list[bytes]:
    arm = contract_document()
    base = contract_document("velocity")
    base["state"].append(
        {
            "topic": "imu",
            "type": "sensor_msgs/msg/Imu",
            "fields": ["orientation.x", "angular_velocity.z", "linear_acceleration_covariance[0:3]"],
        }
    )
    base["commands"] = [
        {
            "topic": "cmd_vel",
            "type": "geometry_msgs/msg/TwistStamped",
            "fields": {"twist.linear.x": JOINTS[0], "twist.angular.z": JOINTS[1]},
            "constant": {"header.frame_id": "base_link"},
        }
    ]
    mixed = contract_document()
    mixed["actions"]["limits"][JOINTS[1]]["kind"] = "velocity"
    mixed["commands"] = [
        {"topic": "arm", "type": JOINT_TRAJECTORY, "names": [JOINTS[0]]},
        {"topic": "belt", "type": FLOAT64_MULTI_ARRAY, "names": [JOINTS[1]]},
    ]
    return [json.dumps({**tree, "messages": 1}).encode() for tree in (arm, base, mixed, pose_document())]


TARGETS = [Target("robot", _run, _seeds, _spoil, (DocumentError, WireError), 6, "here: ")]
