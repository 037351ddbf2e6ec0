# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The layouts for Foxglove and PlotJuggler show topics and fields that a recording has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from trajectory_msgs.msg import JointTrajectoryPoint

from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.base.contract.contract import load_contract
from remote_inference.base.paths import share_path
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.qos import PREVIEW_TOPIC
from remote_inference.tools.deployment.bringup import recorded_topics

CONFIG = share_path("config")
NAMESPACE = "/belt_arm_1"
PLOTTED = {"Plot", "StateTransitions"}


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A message of each topic of a recording of the demo's arm, read from a bag; by topic."""
    path = tmp_path_factory.mktemp("bag") / "bag"
    contract = load_contract(CONFIG / "belt_arm.contract.yaml")
    topics = recorded_topics(contract, NAMESPACE, ["/policy_server"])
    topics[f"{NAMESPACE}/{PREVIEW_TOPIC}"] = "trajectory_msgs/msg/JointTrajectory"  # seen live, not recorded
    size = len(contract.actions.names)
    filled: dict[str, list[Any]] = dict.fromkeys(("action", "state", "position"), [0.0] * size)
    filled["points"] = [JointTrajectoryPoint(positions=[0.0] * size)]
    with BagWriter(path, [BagTopic(name, kind) for name, kind in topics.items()]) as bag:
        for stamp_ns, (name, kind) in enumerate(topics.items()):
            message = message_class(kind)()
            for field, value in filled.items():
                if message.get_fields_and_field_types().get(field, "").startswith("sequence"):
                    setattr(message, field, value)
            bag.write(name, stamp_ns, serialize_message(message))
    with BagReader(path) as bag:
        return {topic: message for topic, _, message in bag.messages()}


def value_at(message: Any, fields: str) -> Any:
    """Return a field by its path, `a.b[0]`, the first of `a[:].b`. Raises AttributeError or IndexError."""
    for name, index in re.findall(r"(\w+)(?:\[(\d+|:)\])?", fields):
        message = getattr(message, name)
        message = message[0 if index == ":" else int(index)] if index else message
    return message


def foxglove() -> dict[str, Any]:
    return json.loads((CONFIG / "foxglove_layout.json").read_text())


def foxglove_paths() -> Iterator[str]:
    for panel, config in foxglove()["configById"].items():
        if panel.split("!")[0] in PLOTTED:
            yield from (path["value"] for path in config["paths"])


def plotjuggler_curves() -> list[str]:
    root = ElementTree.parse(CONFIG / "plotjuggler_layout.xml").getroot()
    return [curve.attrib["name"] for curve in root.iter("curve")]


@pytest.mark.parametrize("path", list(foxglove_paths()))
def test_foxglove_plots_fields_that_are_recorded(path: str, messages: dict[str, Any]) -> None:
    topic, _, fields = path.partition(".")
    assert isinstance(value_at(messages[topic], fields), int | float | bool | str | np.number)


@pytest.mark.parametrize("curve", plotjuggler_curves())
def test_plotjuggler_plots_numbers_that_are_recorded(curve: str, messages: dict[str, Any]) -> None:
    topic = next(topic for topic in messages if curve.startswith(f"{topic}/"))
    value = value_at(messages[topic], curve.removeprefix(f"{topic}/").replace("/", "."))
    assert isinstance(value, int | float | bool | np.number)


def test_foxglove_shows_cameras_and_messages_that_are_recorded(messages: dict[str, Any]) -> None:
    panels = foxglove()["configById"]
    images = [panel["imageMode"]["imageTopic"] for panel in panels.values() if "imageMode" in panel]
    contract = load_contract(CONFIG / "belt_arm.contract.yaml")
    assert images == [f"{NAMESPACE}/{image.topic}" for image in contract.images.values()]
    assert {panel["topicPath"] for panel in panels.values() if "topicPath" in panel} <= messages.keys()


def test_foxglove_places_each_panel_once() -> None:
    def places(part: Any) -> Iterator[str]:
        if isinstance(part, str):
            yield part
        else:
            yield from (*places(part["first"]), *places(part["second"]))

    layout = foxglove()
    assert sorted(places(layout["layout"])) == sorted(layout["configById"])


def test_every_joint_is_plotted() -> None:
    size = len(load_contract(CONFIG / "belt_arm.contract.yaml").actions.names)
    executed = f"{NAMESPACE}/remote_inference/executed"
    assert [path for path in foxglove_paths() if path.startswith(f"{executed}.action[")] == [
        f"{executed}.action[{i}]" for i in range(size)
    ]
    ahead = f"{NAMESPACE}/{PREVIEW_TOPIC}.points[:].positions"
    assert [path for path in foxglove_paths() if path.startswith(ahead)] == [
        f"{ahead}[{i}]" for i in range(size)
    ]
    assert {f"{executed}/action[{i}]" for i in range(size)} <= set(plotjuggler_curves())
    assert Path(CONFIG / "plotjuggler_layout.xml").read_text().count("<Tab ") == 3
