# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which processes, parameters and environment make up a deployment.

The launch files and the command line both use it, so the tests start what `ros2 launch` starts.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from remote_inference import __version__
from remote_inference.bags.storage.bag_records import QUOTED_CONTRACT_KEY, SERVER_STATUS, TOPIC_TYPES
from remote_inference.bags.storage.bag_writer import MAX_SPLIT_BYTES, MAX_SPLIT_DURATION_S
from remote_inference.base import fast_dds
from remote_inference.base.contract.contract import Contract, load_contract
from remote_inference.base.contract.fields import find_topic_name_problem
from remote_inference.base.documents.document import DocumentError, read_yaml
from remote_inference.base.errors import UserError
from remote_inference.base.exchange import in_namespace
from remote_inference.base.paths import PACKAGE, share_path
from remote_inference.base.ros_parameters import PARAMETERS_KEY, find_sections
from remote_inference.robot.config import RobotConfig
from remote_inference.tools.deployment import zenoh_config

# glibc's defaults return blocks near 1 MB to the system at once: each message would cost many page faults.
MALLOC_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MALLOC_TOP_PAD_": "16777216",
}
ROS2_BAG, BAG_RECORDER = "ros2_bag", "bag_recorder"
RECORDERS = ("auto", ROS2_BAG, BAG_RECORDER)


class DeploymentError(UserError):
    """A deployment cannot be started; the message says why."""


@dataclass(frozen=True)
class Process:
    """One node process: executable of this package, name, namespace, parameters and environment.

    The namespace may be given with or without slashes. Raises DocumentError for a missing parameter file and
    DeploymentError for a namespace that ROS refuses.
    """

    executable: str
    name: str
    namespace: str = "/"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    parameter_files: Sequence[str | Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    required: bool = True  # the deployment ends with this process
    is_suspended: bool = True  # by Ctrl-Z, with the deployment
    words: Sequence[str] = ()  # whole command line of a program that is no node of this package

    def __post_init__(self) -> None:
        object.__setattr__(self, "namespace", absolute_namespace(self.namespace))
        for path in self.parameter_files:
            if not Path(path).is_file():
                raise DocumentError(f"{path}: cannot be read: No such file")

    def command(self) -> list[str]:
        """Return the command line that starts the process without `ros2 run`."""
        if self.words:
            return list(self.words)
        command = [sys.executable, "-m", "remote_inference.base.nodes.start", self.executable, "--ros-args"]
        command += ["-r", f"__node:={self.name}", "-r", f"__ns:={self.namespace}"]
        for path in self.parameter_files:
            command += ["--params-file", str(path)]
        for name, value in self.parameters.items():
            command += ["-p", f"{name}:={json.dumps(value, ensure_ascii=False)}"]  # JSON is YAML, too
        return command


def absolute_namespace(namespace: str) -> str:
    """Return a namespace as ROS names it: `robot_1`, `/robot_1` and `/robot_1/` are `/robot_1`.

    Raises DeploymentError for one that ROS refuses.
    """
    return absolute_name(namespace, "namespace") if namespace.strip("/") else "/"


def absolute_name(name: str, what: str) -> str:
    """Return the full name of a node, given with or without its first slash.

    Raises DeploymentError, naming `what`, for one that ROS refuses.
    """
    absolute = "/" + name.strip("/")
    if problem := find_topic_name_problem(absolute):
        raise DeploymentError(f"{what}: {problem}")
    return absolute


def environment(zenoh_settings: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the environment variables for every process of a deployment; those already set win.

    zenoh_settings: JSON5 by key, over the session's file. Raises EndpointError.
    """
    variables = {name: value for name, value in MALLOC_ENVIRONMENT.items() if name not in os.environ}
    if not fast_dds.is_configured(os.environ):
        variables[fast_dds.profile_variable()] = str(share_path("config", "fastdds.xml"))
    return variables | zenoh_config.environment(share_path("config", "zenoh"), "", os.environ, zenoh_settings)


def with_middleware(process: Process, rmw: str, router: str = "") -> Process:
    """Return a process that uses a middleware.

    rmw: RMW_IMPLEMENTATION, empty to keep the one in force. router: endpoint of the Zenoh router that the
    nodes connect to, such as tls/host:7447; empty: the configuration's. Raises EndpointError.
    """
    present = {**os.environ, **process.environment}
    variables = zenoh_config.environment(share_path("config", "zenoh"), router, present)
    if rmw:
        variables["RMW_IMPLEMENTATION"] = rmw
    return replace(process, environment={**process.environment, **variables})


def server(
    manifest: str | Path, *, name: str = "policy_server", namespace: str = "/", autostart: bool = True
) -> Process:
    """Describe one policy server."""
    parameters = {"manifest": str(manifest), "autostart": autostart}
    variables = environment(zenoh_config.SERVER_SETTINGS)
    return Process("policy_server", name, namespace, parameters, environment=variables)


def robot(
    contract: str | Path,
    *,
    namespace: str,
    servers: Sequence[str] = (),
    tags: Sequence[str] = (),
    parameter_files: Sequence[str | Path] = (),
    parameters: Mapping[str, Any] | None = None,
) -> Process:
    """Describe one robot's remote_inference node.

    `servers`, `tags` and `parameters` win over `parameter_files`; without any, the node's defaults hold.
    """
    lists = {"servers": list(servers), "tags": list(tags)}
    named = {name: given for name, given in lists.items() if given}
    parameters = {"contract": str(contract), **named, **(parameters or {})}
    name = "remote_inference"
    return Process(name, name, namespace, parameters, parameter_files, environment())


def command_watchdog(contract: str | Path, *, namespace: str) -> Process:
    """Describe the watchdog of one robot's commands. It is required: no robot moves on unwatched.

    It is never suspended: it stops a robot whose node is.
    What the environment provides for large messages would only cost it memory, and might hold its stops.
    """
    for_large_messages = {*MALLOC_ENVIRONMENT, *fast_dds.PROFILES}
    variables = {key: value for key, value in environment().items() if key not in for_large_messages}
    variables |= fast_dds.shared_memory_off(os.environ)
    name, parameters = "command_watchdog", {"contract": str(contract)}
    return Process(name, name, namespace, parameters, environment=variables, is_suspended=False)


def belt_arm(*, namespace: str) -> Process:
    """Describe the simulated arm."""
    return Process("belt_arm", "belt_arm", namespace, environment=environment())


def robot_processes(
    contract: str | Path,
    *,
    namespace: str,
    servers: Sequence[str] = (),
    tags: Sequence[str] = (),
    parameter_files: Sequence[str | Path] = (),
    bag: str | Path | None = None,
    recorded_by: str = BAG_RECORDER,
) -> list[Process]:
    """Describe everything that runs on a robot: watchdog, node and, with `bag`, its recorder.

    servers: with or without the first slash of their full names. recorded_by: one of RECORDERS.
    What is started first is stopped last: the watchdog sees the end of the node.
    """
    names = [f"/{server.strip('/')}" for server in servers]
    own: dict[str, Any] = {"namespace": namespace, "servers": names, "parameter_files": parameter_files}
    processes = [command_watchdog(contract, namespace=namespace), robot(contract, tags=tags, **own)]
    if bag:
        processes.insert(0, recorder(bag, contract, recorded_by=recorded_by, **own))
    return processes


# -- The recording of one robot: its topics, and which program records them -----------------------------


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
    own = {f"{PACKAGE}/{topic}": type_name for topic, type_name in TOPIC_TYPES.items()}
    types = {**own, **contract.sensor_types, **(extra_topics or {})}
    types |= {sink.topic: sink.type for sink in contract.topic_commands}
    types |= {source.topic: source.type for source in contract.operator_inputs.values()}
    types |= {f"{server}/status": SERVER_STATUS for server in servers}
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
    have parameters of `bag_recorder`. Raises DeploymentError for another word, for `ros2_bag` where it is not
    installed or cannot do what the files ask, and DocumentError for a file that cannot be read.
    """
    if wanted not in RECORDERS:
        raise DeploymentError(f"recorder: found {wanted!r}, expected one of {', '.join(RECORDERS)}")
    asked = file_parameters(BAG_RECORDER, files)
    if wanted == "auto":
        return ROS2_BAG if has_ros2_bag() and not asked else BAG_RECORDER
    if wanted == ROS2_BAG and asked:
        names = ", ".join(asked)
        raise DeploymentError(f"recorder: found ros2_bag, and {names} of bag_recorder in the parameter file")
    if wanted == ROS2_BAG and not has_ros2_bag():
        raise DeploymentError(
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


def recorder(
    bag: str | Path,
    contract: str | Path,
    *,
    namespace: str,
    servers: Sequence[str] = (),
    parameter_files: Sequence[str | Path] = (),
    extra_topics: Mapping[str, str] | None = None,
    recorded_by: str = BAG_RECORDER,
) -> Process:
    """Describe the recorder of one robot: the package's topics, sensors, commands, stops and takeover.

    It is not required: a full disk must not end control.

    parameter_files: the robot's, which may have parameters of `bag_recorder`. extra_topics: message type by
    topic relative to the namespace. recorded_by: one of RECORDERS.

    Raises DocumentError for a bad contract or file, and DeploymentError when that program cannot record or
    `bag` exists already: a recorder that refuses would leave the robot running unrecorded.
    """
    import remote_inference.base.wire  # noqa: F401, PLC0415  names the image encodings

    if Path(bag).exists():
        raise DeploymentError(f"{bag}: exists already, expected the folder of a bag to create")
    namespace = absolute_namespace(namespace)
    program = choose_recorder(recorded_by, parameter_files)
    known = named_servers(servers, parameter_files)
    types = recorded_topics(load_contract(contract), namespace, known, extra_topics)
    process = Process(program, program, namespace, environment=environment(), required=False)
    if program == ROS2_BAG:
        text, config = Path(contract).read_text(encoding="utf-8"), share_path("config", "rosbag2_mcap.yaml")
        words = ros2_bag_command(bag, types, text, namespace=namespace, config=config)
        return replace(process, words=words)
    parameters = {
        **file_parameters(program, parameter_files),
        "path": str(bag),
        "topics": [f"{topic}:{type_name}" for topic, type_name in types.items()],
        "contract": str(contract),
        "robot": in_namespace(namespace, "remote_inference"),
    }
    return replace(process, parameters=parameters)


# -- The processes of simulated robots, and of simulators for trainers -----------------------------------


def simulated_robot(
    name: str,
    contract: str | Path,
    *,
    namespace: str,
    options: Mapping[str, Any] | None = None,
    mode: str = "real_time",
) -> Process:
    """Describe the node `environment` with one environment. name, options: as make_environment takes them."""
    parameters = {
        "environment": name,
        "options": json.dumps(dict(options or {})),
        "contract": str(contract),
        "mode": mode,
    }
    return Process("environment", "environment", namespace, parameters, environment=environment())
