# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`explain --at` and `--command`: a motion is walked back to what was sent, and what is missing is named."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage

from remote_inference.bags.provenance.explanation import explain_motion, find_latency, parse_moment
from remote_inference.bags.provenance.motion import (
    ChunkSummary,
    ChunkUse,
    Command,
    Correction,
    ImageFacts,
    Latency,
    Motion,
    Policy,
    Request,
    RobotStatus,
    SensorArrival,
    WatchdogChange,
    find_corrections,
)
from remote_inference.bags.provenance.run_reader import JournalTimes, Run
from remote_inference.bags.provenance.text import WIDTH
from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import POLICY, BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.bags.timeline.messages import RecordedChunk
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.errors import UserError
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.msg import ClientState, ExecutedAction, Observation, ServerStatus, WatchdogState
from remote_inference.robot.safety.effects import SendRequest
from remote_inference.tools.cli import main
from support.builders import JOINTS, contract_document, make_config
from support.recording import explained_run
from support.recording.decision_bag import NS as SIMULATED, Message, SimulatedJournal, messages_of, write
from support.recording.explained_run import (
    BEGIN_MS,
    BEGIN_TICK,
    CAME_MS,
    CAPTURED_MS,
    CLAMPED_TICK,
    FIRST_ROW,
    HORIZON,
    INFERENCE_MS,
    OWN,
    SENT_MS,
    VERSION,
    WAIT_MS,
    command,
    digest,
    write_explained_run,
)
from support.recording.synthetic_run import START_NS, TOPICS, Recording, jpeg
from support.robot.pose_robot import POSE, pose_at, pose_contract
from support.robot.simulation import HOP_NS, World, streaming


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_explained_run(tmp_path_factory.mktemp("bags") / "run")


def make_command(action: tuple[float, ...], interventions: tuple[str, ...]) -> SimpleNamespace:
    row = {"row": 0, "row_fraction": 0.0, "earlier_seq_ids": ()}
    return SimpleNamespace(action=action, interventions=interventions, **row)


def explain(bag: Path, *options: str, code: int = 0) -> None:
    assert main(["explain", str(bag), *options]) == code


def explained(capsys: pytest.CaptureFixture[str], bag: Path, *options: str) -> Any:
    explain(bag, *options, "--json")
    return json.loads(capsys.readouterr().out)


def test_a_command_is_walked_back_to_its_observation(bag: Path) -> None:
    motion = explain_motion(bag, tick=BEGIN_TICK)
    assert (motion.namespace, motion.command.source) == ("/arm", "CHUNK")
    assert motion.command.t_s == pytest.approx(BEGIN_MS / 1e3 + 0.003, abs=1e-6)  # the bag begins 3 ms early
    assert motion.joints == dict(zip(JOINTS, command(1, FIRST_ROW), strict=True))
    assert motion.units == dict.fromkeys(JOINTS, "rad")
    request = motion.request
    assert request is not None
    assert (request.session_id, request.seq_id, request.task, request.delay_steps) == ("s1", 1, "wave", 4)
    assert request.sent_s == pytest.approx(SENT_MS / 1e3 + 0.003, abs=1e-6)
    assert request.capture_skew_ms == pytest.approx(12.5)
    assert [(i.camera, i.width, i.height, i.sha256) for i in request.images] == [
        (camera, 320, 240, digest(camera, SENT_MS / 1e3)) for camera in ("wrist", "front")
    ]
    answer = motion.answer
    assert answer is not None
    assert (answer.horizon, answer.status, answer.policy_version) == (HORIZON, "OK", VERSION)
    assert answer.received_s == pytest.approx(CAME_MS / 1e3 + 0.003, abs=1e-6)
    assert motion.reasons == ()


def test_the_latencies_add_up_to_the_age(bag: Path) -> None:
    latency = explain_motion(bag, tick=BEGIN_TICK + 1).latency
    assert latency is not None
    assert latency.sensing_ms == pytest.approx(SENT_MS - CAPTURED_MS, abs=0.01)
    assert latency.transport_ms == pytest.approx(CAME_MS - SENT_MS - WAIT_MS - INFERENCE_MS, abs=0.01)
    assert (latency.queue_wait_ms, latency.inference_ms) == (WAIT_MS, INFERENCE_MS)
    assert latency.waiting_ms == pytest.approx(BEGIN_MS + 50 - CAME_MS, abs=0.01)
    parts = [latency.sensing_ms, latency.transport_ms, WAIT_MS, INFERENCE_MS, latency.waiting_ms]
    assert latency.age_ms == pytest.approx(sum(filter(None, parts)))


def test_what_became_of_a_chunk_s_rows_is_told(bag: Path) -> None:
    rows = explain_motion(bag, tick=BEGIN_TICK + 3).rows
    assert rows is not None
    assert (rows.horizon, rows.first, rows.last, rows.executed) == (HORIZON, FIRST_ROW, HORIZON - 1, 7)
    assert rows.dropped == FIRST_ROW


def test_what_the_guard_changed_is_told_by_joint_and_rule(bag: Path) -> None:
    motion = explain_motion(bag, tick=CLAMPED_TICK)
    assert [(c.joint, c.rule, c.before, c.after) for c in motion.corrections] == [
        (JOINTS[0], "joint_limit", 1.5, 1.0),
        (JOINTS[1], "velocity_limit", 0.75, 0.25),
    ]
    assert explain_motion(bag, tick=CLAMPED_TICK + 1).corrections == ()


@pytest.mark.parametrize(
    ("number", "command", "interventions", "found"),
    [
        (0.7, 1.0, (), []),
        (0.5, 1.0, ("dwell",), []),
        (0.2, 1.0, ("dwell",), [(JOINTS[1], "dwell", 0.2, 1.0)]),
        (0.7, 0.0, ("dwell",), [(JOINTS[1], "dwell", 0.7, 0.0)]),
    ],
)
def test_a_switch_is_corrected_only_where_it_waits(
    number: float, command: float, interventions: tuple[str, ...], found: list[tuple[str, str, float, float]]
) -> None:
    document = contract_document()
    limit = {"kind": "switch", "min": 0.0, "max": 1.0, "closes_above": 0.6, "opens_below": 0.4}
    document["actions"]["limits"][JOINTS[1]] = limit
    array = "std_msgs/msg/Float64MultiArray"
    document["commands"] = [{"topic": name, "type": array, "names": [name]} for name in JOINTS]
    executed = make_command((0.1, command), interventions)
    answer = SimpleNamespace(actions=np.array([[0.1, number]]))
    contract = parse_document(document, Contract, "f")
    corrections = find_corrections(executed, answer, JOINTS, contract)
    assert [(one.joint, one.rule, one.before, one.after) for one in corrections] == found


@pytest.mark.parametrize(
    ("row", "command", "rule", "found"),
    [
        (-2.0 * pose_at(0.0, angle=0.3), pose_at(angle=0.3), "velocity_limit", []),
        (pose_at(x=0.7), pose_at(x=0.5), "joint_limit", [("x", "joint_limit")]),
        (
            pose_at(x=0.3, angle=0.6),
            pose_at(x=0.1, angle=0.2),
            "velocity_limit",
            [(name, "velocity_limit") for name in ("x", "qz", "qw")],
        ),
    ],
)
def test_length_and_sign_of_a_quaternion_are_no_correction(
    row: np.ndarray, command: np.ndarray, rule: str, found: list[tuple[str, str]]
) -> None:
    executed = make_command(tuple(command), (rule,))
    answer = SimpleNamespace(actions=row[np.newaxis])
    corrections = find_corrections(executed, answer, POSE, pose_contract())
    assert [(one.joint, one.rule) for one in corrections] == found


def test_a_mean_of_chunks_names_them_and_is_no_correction_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_explained_run(tmp_path / "run", earlier_seq_ids=[3, 4, 7])
    motion = explained(capsys, path, "--command", str(CLAMPED_TICK))
    assert motion["command"]["earlier_seq_ids"] == [3, 4, 7]
    assert motion["corrections"] == []
    assert "what the guard changed: its action was a mean of several chunks" in motion["missing"]
    explain(path, "--command", str(CLAMPED_TICK))
    assert "a mean with 3 earlier chunks, of requests 3 to 7" in capsys.readouterr().out


def test_a_row_in_the_policys_units_is_told_in_the_robots(bag: Path) -> None:
    document = contract_document()
    halves = [{"unit": "halves", "names": list(JOINTS), "factor": 2.0}]
    document["state"][0]["scale"] = document["actions"]["scale"] = halves
    motion = explain_motion(bag, contract=parse_document(document, Contract, "f"), tick=CLAMPED_TICK)
    assert [(c.before, c.after) for c in motion.corrections] == [(0.75, 1.0), (0.375, 0.25)]
    assert motion.request is not None
    assert motion.request.state == (0.25, 0.125)


def test_without_a_contract_the_rule_of_each_joint_is_left_open(tmp_path: Path) -> None:
    plain = write_explained_run(tmp_path / "run", has_contract=False)
    motion = explain_motion(plain, tick=CLAMPED_TICK)
    assert [(c.joint, c.rule) for c in motion.corrections] == [(JOINTS[0], ""), (JOINTS[1], "")]
    assert motion.command.interventions == ("joint_limit", "velocity_limit")


@pytest.mark.parametrize(
    ("tick", "words", "since_ms"),
    [
        (5, ["nothing was commanded", "the robot was paused since 0.003 s; the node", "CONNECTING"], 160),
        (40, ["repeated the last", "older than max_action_age_s", "STALLED: queue empty"], 2160),
        (60, ["nothing was commanded", "stopped: /e_stop: pressed"], 2660),
        (80, ["the robot was paused since 3.003 s: stopped by /e_stop: pressed"], 2660),
        (92, ["a point of the way home"], 4660),
        (105, ["the command watchdog had stopped the controllers: no beat for 0.3 s"], 4910),
    ],
)
def test_a_moment_without_a_chunk_is_explained(bag: Path, tick: int, words: list[str], since_ms: int) -> None:
    motion = explain_motion(bag, tick=tick)
    told = "; ".join(motion.reasons)
    assert not [word for word in words if word not in told], told
    assert motion.since_s == pytest.approx(since_ms / 1e3 + 0.003, abs=1e-6)
    assert (motion.request, motion.latency) == (None, None)
    last = motion.before
    assert (last.tick if last else None) == (None if tick < BEGIN_TICK else BEGIN_TICK + 14)


def test_the_state_of_then_is_told_and_not_a_later_one(bag: Path) -> None:
    standing = explain_motion(bag, tick=BEGIN_TICK + 1).standing
    assert standing is not None
    assert (standing.state, standing.cause, standing.server) == (
        "STREAMING",
        "chunk 1 merged",
        "/policy_server",
    )


@pytest.mark.parametrize(
    "at", ["1.263", "1790000001.260", "2026-09-21T14:13:21.260Z", "2026-09-21T16:13:21.26+02:00"]
)
def test_an_instant_may_be_of_the_run_or_absolute(bag: Path, at: str) -> None:
    assert explain_motion(bag, at=at).command.tick == BEGIN_TICK + 2


@pytest.mark.parametrize("text", ["noon", "-1", "nan", "1e300", "2026-09-21T14:13:21", ""])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"--at: found .* expected"):
        parse_moment(text, START_NS, "--at")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--at", "0.001"), "--at: found no control tick by 0.001 s, expected 0.163 s or later"),
        (("--at", "9999"), "--at: found 9999.000 s, expected 5.613 s at most, its end"),
        (("--command", "9999"), "--command: found no control tick 9999; the bag's last one is 109"),
        (("--namespace", "/leg", "--at", "1"), "no robot /leg in the bag, which holds /arm"),
        (("--at", "1", "--out", "r.png"), "--out: the picture is of the whole run"),
        (("--at", "1", "--from", "0"), "--from, --to: expected none with --at or --command"),
        (("--request-log", "log"), "--request-log: expected --at, --command or --html"),
        (("--at", "1.2", "--request-log", "none.jsonl"), "--request-log: none.jsonl: No such file"),
    ],
)
def test_what_cannot_be_explained_is_named_in_one_line(
    bag: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    explain(bag, *options, code=2)
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_time_long_after_the_last_tick_says_so_and_what_the_node_and_the_watchdog_said_then(
    tmp_path: Path,
) -> None:
    """The node was killed while it executed a chunk: what it says of itself is from before."""
    recording = Recording({**TOPICS, f"{OWN}/watchdog": "remote_inference/msg/WatchdogState"}, list(JOINTS))
    recording.state(0, ClientState.STREAMING, "chunk 1 merged", server="/policy_server")
    for tick in range(20):
        recording.executed(50 * tick, tick, [0.5, 0.25], seq_id=1, action_age_s=0.1)
    for at_ms, state, cause in (
        (0, WatchdogState.ARMED, ""),
        (1300, WatchdogState.TRIPPED, "silent for 0.3 s"),
    ):
        recording.add("watchdog", at_ms, WatchdogState(state=state, cause=cause))
    recording.joints(4000, [0.5, 0.25], list(JOINTS))
    motion = explain_motion(recording.write(tmp_path / "run"), at="3.95")
    assert motion.command.tick == 19
    assert motion.reasons == (
        "no control tick for 3.0 s before the instant: this is the last one before it",
        "the command watchdog had stopped the controllers: silent for 0.3 s",
    )
    assert motion.watchdog is not None
    assert motion.watchdog.state == "TRIPPED"


@pytest.mark.parametrize("topic", ["observation", "chunk", "state"])
def test_a_missing_topic_is_named_and_the_rest_is_told(tmp_path: Path, topic: str) -> None:
    motion = explain_motion(write_explained_run(tmp_path / "run", leave_out=topic), tick=BEGIN_TICK)
    told = "; ".join(motion.missing)
    assert f"{OWN}/{topic} is not in the bag: " in told
    assert told.count(" is not in the bag: ") == 2  # with the journal, which the run lacks
    known = {"observation": motion.request, "chunk": motion.answer, "state": motion.standing}
    assert {name for name, part in known.items() if part is None} == {topic}


def test_a_bag_of_others_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = write_explained_run(tmp_path / "run", leave_out="executed")
    explain(foreign, "--at", "1", code=2)
    assert f"{foreign}: no robot in the bag" in capsys.readouterr().err


def test_a_node_that_began_anew_is_told_apart_by_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = Recording()
    for at_ms, tick in ((0, 1), (100, 2), (1000, 1), (1100, 2)):
        recording.executed(at_ms, tick)
    twice = recording.write(tmp_path / "run")
    explain(twice, "--command", "2", code=2)
    assert "control tick 2 of several runs of the node, at 0.100, 1.100 s" in capsys.readouterr().err
    assert explain_motion(twice, at="1.05").since_s == pytest.approx(1.0)


def damage(bag: Path, folder: Path, share: float) -> Path:
    """Copy a bag, and spoil its bytes around a share of its file."""
    spoiled = Path(shutil.copytree(bag, folder / "spoiled"))
    file = next(spoiled.glob("*.mcap"))
    data = bytearray(file.read_bytes())
    place = int(share * len(data))
    data[place : place + 400] = bytes(400)
    file.write_bytes(data)
    return spoiled


def test_a_damaged_bag_is_told_up_to_the_damage_or_named(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, share in enumerate((0.05, 0.3, 0.5, 0.7, 0.95, 0.999)):
        folder = tmp_path / str(number)
        folder.mkdir()
        spoiled = damage(bag, folder, share)
        code = main(["explain", str(spoiled), "--at", "1.3", "--json"])
        said = capsys.readouterr()
        if code:
            assert (code, said.err.count("\n")) == (2, 1), said.err
            assert str(spoiled) in said.err
        else:
            motion = json.loads(said.out)
            found = motion["command"]["tick"] == BEGIN_TICK + 2
            assert found or "this is the last control tick before the damage" in motion["missing"][0]
        explain(spoiled, "--html", str(folder / "page.html"), "--quiet", code=code)
        assert "Traceback" not in capsys.readouterr().err


def test_the_server_s_log_line_is_found_in_its_rotated_files(
    bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "requests.jsonl"
    line = {"session_id": "s1", "seq_id": 1, "inference_ms": INFERENCE_MS, "outcome": "ok"}
    other = json.dumps({**line, "session_id": "s2", "outcome": "foreign"})
    log.write_text(f'{other}\n{{"session_id": "s1", "seq', encoding="utf-8")  # the server was killed
    assert (
        "found no line of session s1, request 1"
        in explained(capsys, bag, "--at", "1.2", "--request-log", str(log))["missing"][-1]
    )
    spoiled = ('{"session_id": ["s1"], "seq_id": 1}', '{"session_id": "s1", "seq_id": 1e999}', "no JSON")
    lines = [*spoiled, json.dumps(line), *spoiled]
    log.with_name("requests.jsonl.1").write_text("\n".join(lines), encoding="utf-8")
    assert explained(capsys, bag, "--at", "1.2", "--request-log", str(log))["log_line"] == line


def test_a_chunk_whose_numbers_do_not_fit_its_shape_costs_the_rows_alone(tmp_path: Path) -> None:
    recording = Recording()
    recording.observation(10, 1)
    recording.chunk(50, 1, horizon=3, action_dim=6, chunk_robot=[0.0] * 17, inference_ms=7.0)
    recording.executed(60, 1, [0.0] * 6, seq_id=1, action_age_s=0.05)
    motion = explain_motion(recording.write(tmp_path / "run"), tick=1)
    assert motion.answer is not None
    assert motion.latency is not None
    assert (motion.answer.horizon, motion.corrections, motion.latency.inference_ms) == (0, (), 7.0)


def test_the_policy_is_named_by_the_server_s_status(tmp_path: Path) -> None:
    recording = Recording({**TOPICS, "/policy_server/status": "remote_inference/msg/ServerStatus"})
    for version in ("other", VERSION):
        status = ServerStatus(
            server="/policy_server",
            policy_fingerprint=version,
            policy_name="pick",
            policy_revision=version,
            manifest_digest="ab" * 32,
        )
        recording.add("status", 0, status)
    recording.executed(10, 1, [0.0] * 6, seq_id=1, policy_version=VERSION)
    policy = explain_motion(recording.write(tmp_path / "run"), tick=1).policy
    assert policy is not None
    assert (policy.name, policy.revision, policy.server) == ("pick", VERSION, "/policy_server")
    assert policy.manifest_digest == "ab" * 32


@pytest.mark.parametrize("by_record", [True, False])
def test_of_two_servers_with_the_same_weights_the_one_that_served_is_named(
    by_record: bool, tmp_path: Path
) -> None:
    servers = {"/policy_server": "1", "/standby_server": "2"}
    kind = "remote_inference/msg/ServerStatus"
    recording = Recording({**TOPICS, **({} if by_record else {f"{s}/status": kind for s in servers})})
    for server, revision in () if by_record else servers.items():
        status = ServerStatus(server=server, policy_fingerprint=VERSION, policy_revision=revision)
        recording.add(f"{server[1:]}/status", 1, status)
    for at_ms, server in ((5, "/standby_server"), (15, "/policy_server")):
        recording.state(at_ms, ClientState.STREAMING, "chunk 1 merged", server=server)
        recording.executed(at_ms + 5, at_ms, [0.0] * 6, seq_id=1, policy_version=VERSION)
    bag = recording.write(tmp_path / "run")
    if by_record:
        with BagReader(bag) as written, BagWriter(tmp_path / "noted", written.topics.values()) as noted:
            for server, revision in servers.items():
                values = {"fingerprint": VERSION, "server": server, "revision": revision}
                noted.add_record(POLICY, values, kept_for=server)
            for topic, at_ns, data in written.raw_messages():
                noted.write(topic, at_ns, data)
        bag = tmp_path / "noted"
    for tick, revision in ((5, "2"), (15, "1")):
        policy = explain_motion(bag, tick=tick).policy
        assert policy is not None
        assert policy.revision == revision


def test_text_fits_80_columns_and_says_what_json_says(bag: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for tick in (5, BEGIN_TICK, CLAMPED_TICK, 40, 105):
        explain(bag, "--command", str(tick))
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= WIDTH
    explain(bag, "--command", str(CLAMPED_TICK))
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "shoulder +1.0000 rad",
        "shoulder: +1.5000 -> +1.0000 (joint_limit)",
        "action 5 of the answer to request 1, which has 10 actions",
        "actions 0 to 2 were stale when it came, and were skipped",
        "1 of session s1",
        "its sensors are 12.5 ms apart",
        f"wrist: jpeg 320x240, {len_of('wrist')} bytes",
        f"sha256 {digest('front', SENT_MS / 1e3)[:12]}",
        f"weights {VERSION}",
    ):
        assert words in text


def len_of(camera: str) -> int:
    return len(jpeg(f"{camera} {SENT_MS / 1e3:.2f} s", (0, 80, 130)))


def test_the_reference_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "provenance.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    kinds = (
        Motion,
        Command,
        RobotStatus,
        WatchdogChange,
        ChunkUse,
        Request,
        ImageFacts,
        SensorArrival,
        ChunkSummary,
    )
    kinds += (Latency, Correction, Policy)
    assert [f"{kind.__name__}.{f.name}" for kind in kinds for f in fields(kind) if f.name not in named] == []


def test_the_bag_stays_as_it_is(bag: Path, tmp_path: Path) -> None:
    before = {file.name: hashlib.sha256(file.read_bytes()).digest() for file in bag.iterdir()}
    explain(bag, "--at", "1.2", "--html", str(tmp_path / "page.html"), "--quiet")
    assert {file.name: hashlib.sha256(file.read_bytes()).digest() for file in bag.iterdir()} == before


# -- with the robot's journal ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated() -> tuple[World, list[Message]]:
    world = streaming(World(make_config(max_action_age_s=1.0))).run(2)
    return world, messages_of(world)


def motions(world: World, messages: list[Message], path: Path, count: int = 5) -> list[Motion]:
    bag = write(path / "bag", messages)
    ticks = [index for index, (_, tick) in enumerate(world.ticks) if tick.queued is not None]
    return [explain_motion(bag, SIMULATED, tick=tick) for tick in ticks[:: len(ticks) // count]]


def test_the_capture_time_of_each_sensor_is_the_robot_s_own(
    simulated: tuple[World, list[Message]], tmp_path: Path
) -> None:
    for motion in motions(*simulated, tmp_path):
        queued = simulated[0].ticks[motion.command.tick][1].queued
        assert queued is not None
        request = motion.request
        assert request is not None
        assert {sensor.topic for sensor in motion.sensors} == set(simulated[0].contract.topics)
        oldest_ms = (request.mono_ns - queued.source.capture_ns) / 1e6
        assert motion.sensors[0].before_request_ms == pytest.approx(oldest_ms)
        assert motion.latency is not None
        assert motion.latency.sensing_ms == pytest.approx(oldest_ms)


def test_a_chunk_came_when_it_came_however_late_the_worker_took_it() -> None:
    world = streaming(World(make_config(merge_mode="replace"))).run(1.0)
    sent = len(world.sent)
    world.run_until(lambda: len(world.sent) > sent)
    request = world.sent[-1]
    world.hung = True
    world.run(0.4)
    world.hung = False
    world.run(0.1)
    times = JournalTimes()
    for _, _, message in SimulatedJournal(7).messages(world.engine.journal.take()[1]):
        times.add(message)
    assert times.problem == ""
    took_ns = times.chunk_ns[request.session_id, request.seq_id] - request.client_mono_ns
    assert took_ns == 2 * HOP_NS + world.inference_ns


def test_a_request_that_an_order_to_resume_sent_has_its_arrivals() -> None:
    """The node orders it with the number of pauses, which stands behind the time."""
    world = streaming(World(make_config())).run(0.5)
    world.pause()
    world.run(3.0)
    world.now_ns += 1  # no other call has this time
    sent = len(world.sent)
    world.resume(world.engine.pauses)
    assert len(world.sent) == sent + 1
    times = JournalTimes()
    times.add_request(world.sent[-1].client_mono_ns, of_ticks=False)
    for _, _, message in SimulatedJournal(7).messages(world.engine.journal.take()[1]):
        times.add(message)
    assert set(times.arrivals[world.sent[-1].client_mono_ns]) == set(world.contract.topics)


def test_arrivals_are_not_known_where_requests_wait_for_a_set_that_fits() -> None:
    """The journal has the newest messages; the sets are made of older ones, too."""
    world = streaming(World(make_config(max_observation_skew_s=0.1)))
    times = JournalTimes()
    times.add_request(world.sent[-1].client_mono_ns, of_ticks=False)
    for _, _, message in SimulatedJournal(7).messages(world.engine.journal.take()[1]):
        times.add(message)
    assert times.arrivals[world.sent[-1].client_mono_ns] == {}


def find_latency_of(
    arrivals: dict[str, int], contract: Contract | None = None, cameras: int = 0, age_ms: float = 332.0
) -> Latency:
    """Return the latency of a command 300 ms after its request, which was made at 2 s; arrivals in ns."""
    images = (ImageFacts("any", "jpeg", 4, 4, 9, "", None),) * cameras
    request = Request("s", 1, 1, 1, False, "", 2.0, 0, 2 * 10**9, 0, 0, 0, (), images)
    answer = RecordedChunk(0, "OK", "", np.zeros((4, 1), np.float32), 5.0, 10.0, 0, 0.0, "")
    command = Command(7, 2.3, 0, "CHUNK", (0.0,), False, 1, (), "s", 1, 2, age_ms, "")
    run = Run(requests={("s", 1): request})
    run.times.arrivals[request.mono_ns] = arrivals
    run.times.chunk_ns["s", 1] = 2_120_000_000
    return find_latency(run, command, request, answer, contract)


def test_a_sensor_that_the_policy_does_not_see_does_not_count_as_capture() -> None:
    """A robot may have an older camera that its session's policy does not need."""
    contract = parse_document(contract_document(), Contract, "contract")
    arrivals = {"unused": 1_200_000_000, "joints": 1_970_000_000, "used": 1_990_000_000}
    for known in (None, contract):
        latency = find_latency_of(arrivals, known)
        assert latency.sensing_ms == pytest.approx(30.0)
        assert (latency.transport_ms, latency.waiting_ms) == pytest.approx((105.0, 182.0))


def test_capture_is_the_oldest_arrival_also_when_two_clocks_speak_for_another() -> None:
    """A command's stamp and its age are of two clocks; the process may have been interrupted in between."""
    contract = parse_document(contract_document(), Contract, "contract")
    assert len(contract.topics) > 1
    arrivals = {topic: 1_995_500_000 + 400_000 * place for place, topic in enumerate(contract.topics)}
    latency = find_latency_of(arrivals, contract, len(contract.images), age_ms=304.0)
    assert latency.sensing_ms == pytest.approx(4.5)


def test_ids_and_rows_are_those_that_the_engine_executed(
    simulated: tuple[World, list[Message]], tmp_path: Path
) -> None:
    world = simulated[0]
    sent = {e.request.seq_id: e.request for _, e in world.effects if isinstance(e, SendRequest)}
    for motion in motions(*simulated, tmp_path):
        now_ns, tick = world.ticks[motion.command.tick]
        assert tick.queued is not None
        assert tick.command is not None
        source, request = tick.queued.source, motion.request
        assert request is not None
        assert (motion.command.session_id, motion.command.seq_id) == (source.session_id, source.seq_id)
        assert (request.mono_ns, request.delay_steps) == (
            sent[source.seq_id].client_mono_ns,
            sent[source.seq_id].inference_delay_steps,
        )
        assert motion.command.row == tick.queued.step_index
        assert np.array_equal(motion.command.action, tick.command)
        assert motion.command.age_ms == pytest.approx((now_ns - source.capture_ns) / 1e6, abs=1e-3)


def test_a_journal_that_cannot_be_read_costs_the_capture_times_alone(
    simulated: tuple[World, list[Message]], tmp_path: Path
) -> None:
    def spoil(topic: str, number: int, data: bytes) -> bytes:
        return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:] if topic.endswith("/decisions") else data

    world, messages = simulated
    bag = write(tmp_path / "bag", messages, spoil)
    ticks = [index for index, (_, tick) in enumerate(world.ticks) if tick.queued is not None]
    motion = explain_motion(bag, SIMULATED, tick=ticks[-1])
    assert (motion.sensors, motion.request is None) == ((), False)
    assert any("sensor's message had arrived is not known: decisions:" in text for text in motion.missing)


def test_two_robots_in_a_bag_are_told_apart(bag: Path, tmp_path: Path) -> None:
    with BagWriter(
        tmp_path / "two",
        [
            BagTopic(f"/{n}/remote_inference/executed", "remote_inference/msg/ExecutedAction")
            for n in ("a", "b")
        ],
    ) as two:
        for name, value in (("a", 1.0), ("b", 2.0)):
            message = ExecutedAction(tick=1, source=1, action=[value], joint_names=["j"], session_id=name)
            two.write(f"/{name}/remote_inference/executed", START_NS, serialize_message(message))
    with pytest.raises(UserError, match="several robots in the bag, name one: /a, /b"):
        explain_motion(tmp_path / "two", tick=1)
    assert explain_motion(tmp_path / "two", "/b", tick=1).joints == {"j": 2.0}


def test_cameras_keep_their_names_though_one_travels_raw_and_another_encoded(tmp_path: Path) -> None:
    contract = contract_document()
    contract["images"] = {
        "front": {"topic": "front/image_raw", "type": "sensor_msgs/msg/Image", "jpeg_quality": 0},
        "wrist": {"topic": "wrist/compressed", "type": "sensor_msgs/msg/CompressedImage"},
    }
    contract["rename"] = {}
    recording = Recording(explained_run.TOPICS, JOINTS)
    wrist = CompressedImage(format="jpeg", data=jpeg("wrist", (0, 80, 130)))
    front = image_to_message(np.zeros((48, 64, 3), np.uint8))
    sent = Observation(session_id="s1", seq_id=1, episode_id=1, state=[0.5, 0.25], client_mono_ns=1)
    sent.images, sent.raw_images = [wrist], [front]
    recording.add("observation", 1000, sent)
    for row in range(5):
        at_ms, action = 1160 + 50 * row, explained_run.command(1, row)
        recording.executed(at_ms, 20 + row, action, seq_id=1, step_index=row, action_age_s=0.2)
    motion = explain_motion(recording.write(tmp_path / "bag", "", json.dumps(contract)), tick=21)
    assert motion.request is not None
    assert {image.camera: (image.width, image.height) for image in motion.request.images} == {
        "wrist": (320, 240),
        "front": (64, 48),
    }
