# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Motions of real nodes are walked back to the very messages that were sent, at 300 ms."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from remote_inference.bags.decisions.replay import replay_decisions
from remote_inference.bags.provenance.explanation import explain_motion
from remote_inference.bags.provenance.motion import Motion
from remote_inference.bags.provenance.page.page import write_page
from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.timeline.messages import stamped_ns
from support.nodes.decision_tape import DecisionTape
from support.nodes.rig import Rig, write_contract, write_manifest

LATENCY_MS = 300.0
DEADLINE_S = 240.0
LOG_ROUNDING_MS = 0.51e-3  # the log keeps whole microseconds; a message keeps a float32


@pytest.fixture(scope="module")
def demo_bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "run"
    options = ("--episodes", "2", "--latency-ms", f"{LATENCY_MS:g}", "--quiet", "--out", str(out))
    command = [sys.executable, "-m", "remote_inference.tools.cli", "demo", *options]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (ended.returncode, ended.stderr) == (0, "")
    return out / "bag"


def messages_of(bag: Path, kind: str) -> list[Any]:
    with BagReader(bag) as reader:
        (topic,) = [name for name in reader.topics if name.endswith(f"/remote_inference/{kind}")]
        return [message for _, _, message in reader.messages([topic])]


def some_commands(bag: Path, count: int = 6) -> list[Any]:
    # A recorder may be matched after the first requests, and on a busy machine one may not reach it.
    asked, answered = (
        {(m.session_id, m.seq_id) for m in messages_of(bag, kind)} for kind in ("observation", "chunk")
    )
    heard = asked & answered
    executed = messages_of(bag, "executed")
    chunked = [m for m in executed if m.source == m.CHUNK and (m.session_id, m.seq_id) in heard]
    assert len(chunked) >= count
    return chunked[:: max(1, len(chunked) // count)]


def require_sum(motion: Motion, at_least_ms: float) -> None:
    """Require that the parts of a command's age add up, and that none of them is less than nothing."""
    latency = motion.latency
    assert latency is not None
    parts = [latency.sensing_ms, latency.transport_ms, latency.queue_wait_ms, latency.inference_ms]
    known = [part for part in (*parts, latency.waiting_ms) if part is not None]
    assert len(known) == 5
    assert min(known) >= 0
    assert sum(known) == pytest.approx(latency.age_ms)
    assert latency.transport_ms is not None
    assert latency.transport_ms >= at_least_ms


def test_the_demo_s_commands_lead_to_what_was_sent(demo_bag: Path) -> None:
    sent = {(m.session_id, m.seq_id): m for m in messages_of(demo_bag, "observation")}
    chunks = {(m.session_id, m.seq_id): m for m in messages_of(demo_bag, "chunk")}
    for executed in some_commands(demo_bag):
        motion = explain_motion(demo_bag, tick=executed.tick)
        assert motion.missing == ()
        key = executed.session_id, executed.seq_id
        observation, chunk, request = sent[key], chunks[key], motion.request
        assert request is not None
        assert (request.session_id, request.seq_id, request.mono_ns) == (*key, observation.client_mono_ns)
        assert [image.sha256 for image in request.images] == [
            hashlib.sha256(image.data).hexdigest() for image in observation.images
        ]
        assert [image.camera for image in request.images] == ["front", "wrist"]
        assert all(image.stamp_ns for image in request.images)
        row = chunk.chunk_robot.reshape(chunk.horizon, chunk.action_dim)[executed.step_index]
        guarded = {one.joint: (one.before, one.after) for one in motion.corrections}
        for name, before, after in zip(motion.joints, row.tolist(), executed.action.tolist(), strict=True):
            assert guarded.get(name, (before, after)) == (before, after)
            assert name in guarded or after == pytest.approx(before, abs=1e-6)
        assert bool(guarded) <= bool(executed.interventions)
        assert motion.rows is not None
        assert motion.rows.first <= executed.step_index <= motion.rows.last
        require_sum(motion, LATENCY_MS)
        ages_ms = [sensor.before_request_ms for sensor in motion.sensors]
        assert len(ages_ms) == 3
        assert motion.latency is not None
        assert motion.latency.sensing_ms == max(ages_ms)
        assert motion.policy is not None
        assert (motion.policy.name, motion.policy.fingerprint) == ("belt_arm", executed.policy_version)


def first_paused_tick(bag: Path) -> int:
    """Return the first tick after a state that says that the robot is paused, by their stamps.

    The tick may be recorded first, or a tick before it later: they are published by different threads.
    """
    paused_ns = None
    with BagReader(bag) as reader:
        kinds = {"/remote_inference/executed", "/remote_inference/state"}
        topics = [name for name in reader.topics if any(name.endswith(kind) for kind in kinds)]
        for topic, received_ns, message in reader.messages(topics):
            at_ns = stamped_ns(received_ns, message)
            if topic.endswith("/state"):
                paused_ns = (paused_ns or at_ns) if message.paused else None
            elif paused_ns is not None and at_ns > paused_ns:
                return int(message.tick)
    raise AssertionError("the bag holds no tick of a paused robot")


def test_the_demo_s_decisions_are_reproduced_bit_for_bit(demo_bag: Path) -> None:
    replayed = replay_decisions(demo_bag, None, {})
    assert (replayed.exit_code, replayed.first, replayed.problems) == (0, None, [])
    assert replayed.compared["ticks"] > 50


def test_the_demo_s_pause_is_explained(demo_bag: Path) -> None:
    motion = explain_motion(demo_bag, tick=first_paused_tick(demo_bag))
    paused = [reason for reason in motion.reasons if reason.startswith("the robot was paused since ")]
    assert len(paused) == 1
    assert paused[0].endswith(": the node starts so (autostart: false)")
    assert motion.before is None


def test_the_demo_s_page_holds_every_tick_and_request(demo_bag: Path, tmp_path: Path) -> None:
    written = write_page(demo_bag, tmp_path / "page.html")
    assert written.ticks == len(messages_of(demo_bag, "executed"))
    assert written.images == len(messages_of(demo_bag, "observation"))
    assert written.left_out == ()


def test_the_server_s_log_has_the_line_of_each_request(rig: Rig, tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    tape = DecisionTape(rig)
    rig.start_server(write_manifest(tmp_path, inject_latency_ms=LATENCY_MS, audit_file=str(log)))
    rig.start_robot(write_contract(tmp_path), buffer_time_s=0.4, merge_mode="replace")
    rig.wait_for_commands(60)
    rig.group.stop()
    tape.replay(tmp_path)
    bag = tmp_path / "decisions_bag"
    lines = {line["seq_id"]: line for line in map(json.loads, log.read_text().splitlines())}
    assert len(lines) > 2
    for executed in some_commands(bag, 4):
        motion = explain_motion(bag, tick=executed.tick, request_log=log)
        assert motion.log_line == lines[executed.seq_id]
        assert motion.answer is not None
        assert motion.latency is not None
        logged_ms = lines[executed.seq_id]["inference_ms"]
        assert motion.latency.inference_ms == pytest.approx(logged_ms, abs=LOG_ROUNDING_MS)
        require_sum(motion, 0.0)
