# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Replays recorded commands on an arm: the robot's own node, and a server that answers with the recording.

No other path leads to the controllers than that of every policy: the guard, the stops, the safety states and
the operator's handles are those of the robot's node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from remote_inference.base.clients.operator_client import POLL_S, ROBOT_NODE, OperatorClient
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.yaml_text import dump_yaml
from remote_inference.base.exchange import in_namespace
from remote_inference.base.nodes.graph import full_name
from remote_inference.base.policy import Float32Array
from remote_inference.server.policies.recorded_commands import CONFIG_FILE, ROWS_FILE
from remote_inference.tools.deployment import bringup

CONTRACT_FILE, MANIFEST_FILE = "robot.contract.yaml", "replay.manifest.yaml"
SERVER = "replay_server"
NAMES_S = 0.5  # an endpoint may be known before the name of its node is
WATCHDOG_NODE = "command_watchdog"
# The replay goes on where its prefix is: chunks replace the queue, and rows are dropped as they are executed.
CHUNKS = {"merge_mode": "replace", "delay_policy": "consumed", "request_mode": "overlap"}


def write_files(folder: Path, contract: Contract, rows: Float32Array, source: str) -> None:
    """Write contract, manifest and policy of a replay into a folder.

    rows: `[rows, action_dim]`. source: name of the bag. Raises DeploymentError for a robot that is not
    commanded by positions.
    """
    if others := sorted(set(contract.actions.kinds) - {"position"}):
        raise bringup.DeploymentError(
            f"found {' and '.join(others)} actions, expected position actions: others lead an arm elsewhere "
            "each time"
        )
    measured = tuple(name for source in contract.measured for name in source.names)
    # The commands were recorded in the robot's units and at its control rate, and so this policy speaks them.
    state = tuple(found.source.model_copy(update={"scale": ()}) for found in contract.measurements)
    actions = contract.actions.model_copy(update={"scale": (), "relative": None})
    update = {"state": state, "actions": actions, "images": {}, "rename": {}, "task": "", "policy_fps": None}
    changed = contract.model_copy(update=update)
    policy = {
        "bag": source,
        "state_names": list(changed.state_names),
        "positions": list(measured or contract.actions.names),
        "action_names": list(contract.actions.names),
        "max_velocity": [contract.actions.limits[name].fastest for name in contract.actions.names],
        "fps": contract.fps,
    }
    model = {"backend": "remote_inference.server.policies.recorded_commands:load", "path": "."}
    document = dump_yaml(changed.model_dump(mode="json", exclude_defaults=True))
    (folder / CONTRACT_FILE).write_text(document, "utf-8")
    (folder / MANIFEST_FILE).write_text(dump_yaml({"model": model}), "utf-8")
    (folder / CONFIG_FILE).write_text(json.dumps(policy), "utf-8")
    np.save(folder / ROWS_FILE, rows)


def processes(folder: Path, *, namespace: str, parameter_files: Sequence[Path]) -> list[bringup.Process]:
    """Describe the processes of a replay: watchdog, server and the robot's node, which waits for `resume`.

    folder: with the files of `write_files`.
    """
    namespace, contract = bringup.absolute_namespace(namespace), folder / CONTRACT_FILE
    return [
        bringup.command_watchdog(contract, namespace=namespace),
        bringup.server(folder / MANIFEST_FILE, name=SERVER, namespace=namespace),
        bringup.robot(
            contract,
            namespace=namespace,
            servers=[f"{namespace.rstrip('/')}/{SERVER}"],
            parameter_files=parameter_files,
            parameters={"autostart": False, **CHUNKS},
        ),
    ]


# -- Finds other nodes that command the robot, in the ROS graph ------------------------------------------


def find_other_commanders(
    client: OperatorClient, namespace: str, contract: Contract, watch_s: float
) -> list[str]:
    """Return who commands a robot, one text each; watch the graph for a time, or until there is one.

    The robot's own watchdog commands nothing while no node beats. One that is left over ends soon after its
    node, or nobody ended it: then it would watch the next node beside that one's own.
    """
    for _ in range(max(1, round(watch_s / POLL_S))):
        client.spin(POLL_S)
        if _find_nodes(client, namespace, contract):
            client.spin(NAMES_S)
            if found := _find_nodes(client, namespace, contract):
                return found
    watchdog = in_namespace(namespace, WATCHDOG_NODE)
    is_left = any(name == watchdog for name, _ in _find_publishers(client, namespace, contract))
    return [f"{watchdog}, the robot's watchdog, is left over of an earlier run"] if is_left else []


def _find_nodes(client: OperatorClient, namespace: str, contract: Contract) -> list[str]:
    watchdog = in_namespace(namespace, WATCHDOG_NODE)
    found = {
        f"{name} publishes {topic}"
        for name, topic in _find_publishers(client, namespace, contract)
        if name != watchdog
    }
    node = in_namespace(namespace, ROBOT_NODE)
    if (namespace or "/") in client.find_robots():
        found.add(f"{node} is running")
    return sorted(found)


def _find_publishers(client: OperatorClient, namespace: str, contract: Contract) -> Iterator[tuple[str, str]]:
    """Yield the full name of each node that publishes commands, with the topic."""
    for sink in contract.topic_commands:
        topic = in_namespace(namespace, sink.topic)
        for endpoint in client.node.get_publishers_info_by_topic(topic):
            yield full_name(endpoint), topic
