# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a recording of one robot consists of: its topics, and which program records them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from remote_inference import __version__
from remote_inference.bags.storage.bag_records import QUOTED_CONTRACT_KEY
from remote_inference.bags.storage.bag_writer import MAX_SPLIT_BYTES, MAX_SPLIT_DURATION_S
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, read_yaml
from remote_inference.base.errors import UserError
from remote_inference.base.exchange import in_namespace
from remote_inference.base.ros_parameters import PARAMETERS_KEY, find_sections
from remote_inference.robot.config import RobotConfig

OWN_TOPICS = {
    "remote_inference/observation": "remote_inference/msg/Observation",
    "remote_inference/chunk": "remote_inference/msg/ActionChunk",
    "remote_inference/state": "remote_inference/msg/ClientState",
    "remote_inference/executed": "remote_inference/msg/ExecutedAction",
    "remote_inference/decisions": "remote_inference/msg/Decisions",
    "remote_inference/watchdog": "remote_inference/msg/WatchdogState",
}
STATUS_TYPE = "remote_inference/msg/ServerStatus"
ROS2_BAG, BAG_RECORDER = "ros2_bag", "bag_recorder"
RECORDERS = ("auto", ROS2_BAG, BAG_RECORDER)


class RecordingError(UserError):
    """A recording cannot be started; the message says why."""


def recorded_topics(
    contract: Contract,
    namespace: str,
    servers: Sequence[str] = (),
    extra_topics: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return message type by absolute topic.

    They are the package's own topics, the contract's sensors, commands, stops and takeover, and the status of
    each server. extra_topics: message type by topic relative to the namespace.
    """
    types = {**OWN_TOPICS, **contract.sensor_types, **(extra_topics or {})}
    types |= {sink.topic: sink.type for sink in contract.topic_commands}
    types |= {source.topic: source.type for source in contract.operator_inputs.values()}
    types |= {f"{server}/status": STATUS_TYPE for server in servers}
    return {in_namespace(namespace, topic): type_name for topic, type_name in types.items()}


def named_servers(servers: Sequence[str], files: Sequence[str | Path]) -> tuple[str, ...]:
    """Return the servers that a robot may use: those named, else its parameter files', else the default.

    A file may name several robots; all of their servers count. Raises DocumentError for a file that cannot be
    read.
    """
    if servers:
        return tuple(servers)
    sections = [own for path in files for _, own in find_sections(read_yaml(path)) if isinstance(own, dict)]
    lists = [own["servers"] for own in sections if isinstance(own.get("servers"), list)]
    found = [name for named in lists for name in named]
    return tuple(dict.fromkeys(found)) or tuple(RobotConfig().servers)


def file_parameters(node: str, files: Sequence[str | Path]) -> dict[str, Any]:
    """Return the parameters that ROS parameter files have for nodes of a name, in any namespace.

    Those for `/**` alone are the robot's, which other nodes would refuse. Raises DocumentError for a file
    that cannot be read.
    """
    parameters: dict[str, Any] = {}
    for path in files:
        sections = find_sections(read_yaml(path))
        for section in (own for name, own in sections if name.rpartition("/")[2] == node):
            if not isinstance(section, dict):
                raise DocumentError(f"{path}: {node}: {PARAMETERS_KEY}: expected a mapping of parameters")
            parameters |= section
    return parameters


def choose_recorder(wanted: str, files: Sequence[str | Path]) -> str:
    """Return which program records: `ros2_bag` or `bag_recorder`.

    wanted: one of RECORDERS. `auto` is `ros2 bag` where it is installed, unless the robot's parameter files
    have parameters of `bag_recorder`. Raises RecordingError for another word, for `ros2_bag` where it is not
    installed or cannot do what the files ask, and DocumentError for a file that cannot be read.
    """
    if wanted not in RECORDERS:
        raise RecordingError(f"recorder: found {wanted!r}, expected one of {', '.join(RECORDERS)}")
    asked = file_parameters(BAG_RECORDER, files)
    if wanted == "auto":
        return ROS2_BAG if has_ros2_bag() and not asked else BAG_RECORDER
    if wanted == ROS2_BAG and asked:
        names = ", ".join(asked)
        raise RecordingError(f"recorder: found ros2_bag, and {names} of bag_recorder in the parameter file")
    if wanted == ROS2_BAG and not has_ros2_bag():
        raise RecordingError(
            "recorder: found ros2_bag, expected the packages ros2bag and rosbag2_storage_mcap"
        )
    return wanted


def has_ros2_bag() -> bool:
    """Return whether `ros2 bag` is installed, and can write MCAP files."""
    if shutil.which("ros2") is None:
        return False
    try:
        from ament_index_python.packages import get_package_prefix  # noqa: PLC0415  part of ROS 2

        return all(get_package_prefix(name) for name in ("ros2bag", "rosbag2_storage_mcap"))
    except (ImportError, LookupError):
        return False


def ros2_bag_command(
    bag: str | Path, topics: Iterable[str], contract: str, *, namespace: str, config: str | Path
) -> list[str]:
    """Return the command line by which `ros2 bag` records topics, split as `bag_recorder` does.

    contract: the text, which the bag carries. config: of the MCAP files.
    """
    custom_data = {
        QUOTED_CONTRACT_KEY: quote(contract, safe=""),  # ROS 2 Jazzy cuts a value at its first '='
        "remote_inference.package_version": __version__,
    }
    return [
        *("ros2", "bag", "record", "--output", str(bag)),
        *("--storage", "mcap", "--storage-config-file", str(config)),
        *("--max-bag-size", str(MAX_SPLIT_BYTES), "--max-bag-duration", str(round(MAX_SPLIT_DURATION_S))),
        *("--node-name", "_".join(["rosbag2_recorder", *namespace.strip("/").split("/")]).rstrip("_")),
        "--disable-keyboard-controls",  # there is no keyboard under `ros2 launch`
        *("--custom-data", *(f"{key}={value}" for key, value in custom_data.items())),
        *("--topics", *topics),
    ]
