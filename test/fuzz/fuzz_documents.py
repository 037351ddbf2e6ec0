# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What people write: contracts, manifests, parameters, policies, fleets, names, endpoints, environment."""

from __future__ import annotations

import json
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from fuzz_target import Target, scratch_folder
from mutation import spoil_text, spoil_tree

from remote_inference.base.contract.contract import Contract, parse_contract
from remote_inference.base.contract.fields import find_topic_name_problem
from remote_inference.base.documents.document import (
    Document,
    DocumentError,
    load_document,
    parse_document,
    parse_json,
)
from remote_inference.base.lerobot_format import import_contract
from remote_inference.learn.hud.contract import import_contract as import_hud
from remote_inference.robot.nodes.remote_inference import RobotParameters
from remote_inference.server.manifest.manifest import Manifest, load_manifest
from remote_inference.server.nodes.policy_server import ServerConfig
from remote_inference.server.policies.hold import HoldConfig
from remote_inference.server.policies.networks.torch_chunk import ChunkPolicyConfig
from remote_inference.server.policies.onnx.file import OnnxDescription
from remote_inference.tools.contracts.rosetta.importer import import_contract as import_rosetta
from remote_inference.tools.contracts.urdf import parse_urdf
from remote_inference.tools.deployment.zenoh_config import EndpointError, environment, parse_endpoint
from remote_inference.tools.keys.description import FILE_NAME, Fleet, check_endpoint, check_name, load_fleet
from support import rosetta
from support.builders import contract_document

CONFIG = Path(__file__).parents[2] / "config"
SOURCE = "here"

MANIFEST = {
    "model": {"backend": "hold", "path": "models/hold", "device": "cpu"},
    "default_task": "wave",
    "max_sessions": 4,
    "serving_mode": "auto",
    "inject_latency_ms": 12.5,
    "inject_jitter_ms": 2.5,
    "inject_loss": 0.05,
}
FLEET = {
    "routers": {"hub": {"endpoints": ["tls/10.0.0.1:7447", "tls/[::1]:7447"]}},
    "servers": ["policy_server"],
    "robots": {"robot_1": {"servers": ["policy_server"]}},
    "operators": ["desk"],
}
ONNX = {
    "format": 1, "name": "tiny", "revision": "1", "state_names": ["a"], "action_names": ["a"],
    "image_features": {"front": [4, 6, 3]}, "chunk_size": 3, "trained_fps": 20.0,
    "action_mean": [0.5], "action_std": [0.1],
}  # fmt: skip
HOLD = {
    "name": "hold", "revision": "1", "state_names": ["a"], "action_names": ["a"],
    "image_features": {"front": [48, 64, 3]}, "chunk_size": 10, "trained_fps": 20.0,
}  # fmt: skip

URDF = b"""<?xml version="1.0" encoding="utf-8"?><robot name="arm"><!-- six joints -->
<joint name="lift" type="revolute"><limit lower="-1.5" upper="1.5" velocity="2" effort="10"/></joint>
<joint name="roll" type="continuous"/><link name="a&amp;b"/>
<joint name="finger" type="prismatic"><mimic joint="lift" multiplier="-1"/></joint></robot>"""

INFO = {
    "codebase_version": "v3.0", "robot_type": "so101_follower", "fps": 30, "features": {
        "action": {"dtype": "float32", "shape": [2], "names": ["lift.pos", "gripper.pos"]},
        "observation.state": {"dtype": "float32", "shape": [2], "names": {"motors": ["lift", "gripper"]}},
        "observation.images.a": {"dtype": "video", "shape": [48, 64, 3], "info": {"is_depth_map": True}},
    },
}  # fmt: skip
HUD = {
    "robot_type": "arm", "control_rate": 15, "features": {
        "front/image": {"role": "observation", "type": "rgb", "dtype": "image"},
        "state": {"role": "observation", "names": ["lift", "lift.velocity"]},
        "prompt": {"role": "observation", "dtype": "string"},
        "action": {
            "role": "action", "type": "joint_pos", "names": ["lift"], "limits": {"min": [-1], "max": [1]},
        },
    },
}  # fmt: skip


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _in_file(name: str, load: Any) -> Any:
    """Return what writes bytes to a file and loads the file."""

    def run(data: bytes) -> None:
        path = scratch_folder() / name
        path.write_bytes(data)
        load(path)

    return run


def _tree_of(model: type[Document]) -> Any:
    """Return what validates a JSON tree: the same as YAML's, and a hundred times as fast to read."""
    return lambda data: parse_document(parse_json(data, SOURCE), model, SOURCE)


def _yaml(*contents: Any) -> list[bytes]:
    return [yaml.safe_dump(content, sort_keys=False).encode() for content in contents]


def _json(*contents: Any) -> list[bytes]:
    return [json.dumps(content).encode() for content in contents]


def _load_from_environment(data: bytes) -> None:
    """The first line is the variable's rest, the others its value."""
    name, _, value = _as_text(data).replace("\x00", "").partition("\n")  # the system allows no NUL there
    path = scratch_folder() / "environment.manifest.yaml"
    if not path.exists():
        path.write_bytes(_yaml(MANIFEST)[0])
    load_manifest(path, {f"REMOTE_INFERENCE_MANIFEST_{name}": value})


def _find_environment(data: bytes) -> None:
    router, _, override = _as_text(data).partition("\n")
    environment(CONFIG / "zenoh", router, {"ZENOH_CONFIG_OVERRIDE": override})


def _robot_parameters() -> dict[str, Any]:
    parameters = {"contract": "a.yaml", "servers": ["/policy_server"], "tags": ["site=lab_2"]}
    return {**parameters, "buffer_time_s": "auto", "autostart": True}


def _contract() -> list[bytes]:
    whole = yaml.safe_load((CONFIG / "belt_arm.contract.yaml").read_text(encoding="utf-8"))
    felt = contract_document()
    felt["state"] += [
        {"topic": "imu", "type": "sensor_msgs/msg/Imu", "fields": ["orientation.w", "angular_velocity.z"]},
        {"topic": "pad", "type": "std_msgs/msg/Float32MultiArray", "fields": ["data[0:3]"], "names": ["pad"]},
        {"topic": "dofs", "type": "control_msgs/msg/MultiDOFStateStamped", "names": ["x.feedback"]},
    ]
    return _json(contract_document(), whole, felt)


TARGETS = (
    Target(
        "contract_yaml",
        lambda data: parse_contract(_as_text(data), SOURCE),
        lambda: _yaml(contract_document()),
        spoil_text,
        (DocumentError,),
        0.4,
        f"{SOURCE}: ",
    ),
    Target("contract", _tree_of(Contract), _contract, spoil_tree, (DocumentError,), 3, f"{SOURCE}: "),
    Target(
        "manifest_yaml",
        _in_file("m.yaml", load_manifest),
        lambda: _yaml(MANIFEST),
        spoil_text,
        (DocumentError,),
        0.5,
        tempfile.gettempdir(),
    ),
    Target(
        "manifest",
        _tree_of(Manifest),
        lambda: _json(MANIFEST),
        spoil_tree,
        (DocumentError,),
        2,
        f"{SOURCE}: ",
    ),
    Target(
        "manifest_environment",
        _load_from_environment,
        lambda: [b"MAX_SESSIONS\n8", b"MODEL__DEVICE\ncuda:1", b"DEFAULT_TASK\n'wave'"],
        spoil_text,
        (DocumentError,),
        0.2,
    ),
    Target(
        "robot_parameters",
        _tree_of(RobotParameters),
        lambda: _json(_robot_parameters()),
        spoil_tree,
        (DocumentError,),
        2,
        f"{SOURCE}: ",
    ),
    Target(
        "server_parameters",
        _tree_of(ServerConfig),
        lambda: _json({"manifest": "m.yaml", "autostart": True}),
        spoil_tree,
        (DocumentError,),
        1,
        f"{SOURCE}: ",
    ),
    Target(
        "chunk_policy",
        lambda data: ChunkPolicyConfig.parse(data, Path(SOURCE)),
        lambda: [path.read_bytes() for path in sorted((CONFIG / "models").glob("*/policy.json"))],
        spoil_tree,
        (DocumentError,),
        1,
        f"{SOURCE}: ",
    ),
    Target(
        "hold_policy",
        _in_file("policy.json", lambda path: load_document(path, HoldConfig)),
        lambda: _json(HOLD),
        spoil_tree,
        (DocumentError,),
        1,
        tempfile.gettempdir(),
    ),
    Target(
        "onnx_description",
        _tree_of(OnnxDescription),
        lambda: _json(ONNX),
        spoil_tree,
        (DocumentError,),
        1,
        f"{SOURCE}: ",
    ),
    Target(
        "fleet_yaml",
        _in_file(FILE_NAME, lambda path: load_fleet(path.parent)),
        lambda: _yaml({**FLEET, "revoked": {"robot_9": date(2027, 1, 31)}}),
        spoil_text,
        (DocumentError,),
        0.5,
        tempfile.gettempdir(),
    ),
    Target("fleet", _tree_of(Fleet), lambda: _json(FLEET), spoil_tree, (DocumentError,), 2, f"{SOURCE}: "),
    Target(
        "lerobot_info",
        lambda data: import_contract(data, SOURCE).to_yaml(),
        lambda: _json(INFO),
        spoil_tree,
        (DocumentError,),
        1,
        f"{SOURCE}: ",
    ),
    Target(
        "hud_contract",
        lambda data: import_hud(data, SOURCE).to_yaml(),
        lambda: _json(HUD),
        spoil_tree,
        (DocumentError,),
        1,
        f"{SOURCE}: ",
    ),
    Target(
        "rosetta_contract",
        lambda data: import_rosetta(data, SOURCE).to_yaml(),
        lambda: _json(rosetta.guided_arm(), rosetta.coded_robot(), rosetta.base()),
        spoil_tree,
        (DocumentError,),
        1,
        f"{SOURCE}: ",
    ),
    Target(
        "urdf",
        lambda data: parse_urdf(data, SOURCE),
        lambda: [URDF],
        spoil_text,
        (DocumentError,),
        1,
        f"{SOURCE}: ",
    ),
    Target(
        "topic_name",
        lambda data: find_topic_name_problem(_as_text(data)),
        lambda: [b"front/image_raw", b"/arm/joint_states"],
        spoil_text,
        (),
        2,
    ),
    Target(
        "member_name",
        lambda data: check_name(_as_text(data)),
        lambda: [b"robot_1"],
        spoil_text,
        (ValueError,),
    ),
    Target(
        "fleet_endpoint",
        lambda data: check_endpoint(_as_text(data)),
        lambda: [b"tls/10.0.0.1:7447", b"tls/[::1]:7447"],
        spoil_text,
        (ValueError,),
    ),
    Target(
        "zenoh_endpoint",
        lambda data: parse_endpoint(_as_text(data), SOURCE),
        lambda: [b"tcp/localhost:7447", b"quic/[fe80::1]:7447#so_sndbuf=65536"],
        spoil_text,
        (EndpointError,),
        2,
        f"{SOURCE}: ",
    ),
    Target(
        "zenoh_environment",
        _find_environment,
        lambda: [b'tcp/localhost:7447\nmode="client";connect/endpoints=["tcp/a:1"]'],
        spoil_text,
        (EndpointError,),
        2,
        "router:=: ",
    ),
)
