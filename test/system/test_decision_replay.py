# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Real nodes are replayed bit for bit from what they publish of their decisions, as in the fault tests."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from rcl_interfaces.srv import GetParameters
from rclpy.task import Future
from std_srvs.srv import Trigger

from remote_inference.bags.decisions.comparison import DIFFERS
from remote_inference.base.wire.qos import CHUNK_TOPIC, DECISIONS_TOPIC
from remote_inference.robot.watchdog import EXECUTOR_STALE_NS
from support.nodes.decision_tape import DecisionTape
from support.nodes.rig import Rig, write_contract, write_manifest


def start(rig: Rig, folder: Path, latency_ms: float = 0.0) -> DecisionTape:
    tape = DecisionTape(rig)
    rig.start_server(write_manifest(folder, inject_latency_ms=latency_ms))
    rig.start_robot(write_contract(folder), buffer_time_s=0.4, merge_mode="replace")
    rig.wait_for_commands(20)
    return tape


@pytest.mark.parametrize("latency_ms", [0.0, 300.0, 600.0])
def test_a_robot_is_replayed_at_any_latency(latency_ms: float, rig: Rig, tmp_path: Path) -> None:
    tape = start(rig, tmp_path, latency_ms)
    rig.wait_for_commands(60)
    rig.group.stop()
    report = tape.check(tmp_path)
    assert all(report.compared[kind] for kind in ("ticks", "commands", "requests", "chunks"))
    waits = [now_ns - heard_ns for now_ns, _, heard_ns in tape.calls("play") if heard_ns]
    assert np.median(waits) < EXECUTOR_STALE_NS, "else a robot that is well would wait for what it hears"


def test_storms_of_pauses_resumes_and_resets_are_replayed(rig: Rig, tmp_path: Path) -> None:
    tape = start(rig, tmp_path)
    clients = [
        rig.node.create_client(Trigger, f"remote_inference/{name}") for name in ("pause", "resume", "reset")
    ]
    assert all(client.wait_for_service(30.0) for client in clients)
    rig.call(GetParameters, "remote_inference/get_parameters")  # who answers this client knows those before
    rng = random.Random(0)
    newest: dict[str, Future] = {}
    for _ in range(20):
        for _ in range(5):  # at once: nobody waits for an answer
            client = rng.choice(clients)
            newest[client.srv_name] = client.call_async(Trigger.Request())
        rig.wait_for_executed(3)
    # A pause must not follow the resume. Of older calls a full queue may have dropped some.
    rig.wait_for(lambda: all(answer.done() for answer in newest.values()), "answers to the last calls")
    rig.trigger("resume")
    rig.wait_for_commands(20)
    rig.group.stop()
    report = tape.check(tmp_path)
    assert report.compared["commands"] > 20


def test_a_recorder_that_starts_later_still_gets_the_begin(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path))
    rig.wait_for_commands(60)
    tape = DecisionTape(rig)
    rig.wait_for(lambda: tape.count(DECISIONS_TOPIC) > 2, "the journal")
    rig.wait_for_executed(60)
    rig.group.stop()
    assert tape.check(tmp_path).unrecorded["ticks"] > 30


def test_a_byte_that_was_changed_on_the_chunk_s_topic_is_found(rig: Rig, tmp_path: Path) -> None:
    tape = start(rig, tmp_path)
    rig.wait_for_commands(60)
    rig.group.stop()
    tape.check(tmp_path)
    tape.flip_bit(CHUNK_TOPIC, -40)
    report = tape.replay(tmp_path / "changed")
    assert report.exit_code == DIFFERS
    assert report.first is not None
    assert report.first.what.startswith("chunk ")
