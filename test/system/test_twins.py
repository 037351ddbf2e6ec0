# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Two nodes of one robot that start at the same time: neither is the newcomer."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote_inference.base.wire.qos import HEARTBEAT_TOPIC
from remote_inference.msg import Heartbeat
from remote_inference.srv import GetStatus
from remote_inference.tools.deployment import bringup
from support.nodes.fleet import SERVER
from support.nodes.rig import DEADLINE_S, DEEP_QOS, Rig, RigProcesses, write_contract, write_manifest

BEATS = 60  # two seconds


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[dict[str, RigProcesses]]:
    """Each node logs into a folder of its own."""
    made = {name: RigProcesses(tmp_path / name) for name in ("one", "other")}
    yield made
    for group in made.values():
        group.stop()


def test_they_wait_for_each_other_and_say_so_until_one_has_ended(
    rig: Rig, groups: dict[str, RigProcesses], tmp_path: Path
) -> None:
    beats: dict[int, list[int]] = defaultdict(list)
    rig.subscribe(Heartbeat, HEARTBEAT_TOPIC, lambda beat: beats[beat.instance].append(beat.phase), DEEP_QOS)
    node = bringup.robot(write_contract(tmp_path), namespace=rig.namespace, parameters={"autostart": True})
    twins = {name: group.start(node) for name, group in groups.items()}
    waits = f"another node is called {rig.namespace}/remote_inference: waiting until it is gone"
    for name in twins:
        log = tmp_path / name / "remote_inference.log"
        rig.wait_for(lambda log=log: waits in log.read_text(), f"{name} says so")
    rig.start_server(write_manifest(tmp_path))
    rig.wait_for(lambda: rig.call(GetStatus, f"{SERVER}/get_status").status.accepting, "a server")
    rig.wait_for(lambda: len(beats) == len(twins), "both are heard")
    seen = {instance: len(phases) for instance, phases in beats.items()}
    rig.wait_for(lambda: all(len(beats[one]) > count + BEATS for one, count in seen.items()), "both live on")
    assert {phase for phases in beats.values() for phase in phases} == {Heartbeat.IDLE}
    assert not rig.commands
    twins["one"].send_signal(signal.SIGINT)
    assert twins["one"].wait(DEADLINE_S) == 0
    rig.wait_for_commands(5)
    rig.wait_for(lambda: any(Heartbeat.COMMANDING in phases for phases in beats.values()), "it commands")
    assert sum(Heartbeat.COMMANDING in phases for phases in beats.values()) == 1
