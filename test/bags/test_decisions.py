# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`replay --decisions`: a bag's decisions are reproduced bit for bit, and what was changed in it is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgpack
import pytest
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from remote_inference.bags.decisions.comparison import DIFFERS, EQUAL, UNJUDGED, Report, first_difference
from remote_inference.bags.decisions.replay import parse_change, replay_decisions
from remote_inference.bags.storage.message_decoder import MessageDecoder
from remote_inference.base.contract.controller_stop import STOPS
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import Continuation
from remote_inference.base.wire.arrays import WireError, bytes_field
from remote_inference.msg import Decisions
from remote_inference.robot.decisions import CHECKSUM_BYTES, DecisionDecoder, DecisionEncoder
from remote_inference.robot.journal import Entry
from remote_inference.tools.cli import main
from support.builders import JOINT_TRAJECTORY, make_config, make_contract, make_spec, ns
from support.recording.decision_bag import NS, OWN, Message, SimulatedRecorder, messages_of, write
from support.recording.watched_run import WatchedRun
from support.robot.random_world import play_world
from support.robot.replayed import exact
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, streaming

Change = Callable[[str, int, bytes], "bytes | None"]


@cache
def run_messages() -> tuple[Message, ...]:
    """A run with a stall, a pause and a reset."""
    world = streaming(World(make_config(max_action_age_s=1.0))).run(1)
    world.server.hung = True
    world.run(2)
    world.server.hung = False
    world.run(1).pause()
    world.run(0.5).resume()
    world.run(1).reset("fold")
    return tuple(messages_of(world.run(2)))


def judge(path: Path, change: Change | None = None) -> Report:
    bag = write(path / "bag", run_messages(), *([change] if change else []))
    return replay_decisions(bag, None, {})


def in_turn(first: World, second: World) -> tuple[list[Message], list[Message]]:
    """Return what two nodes of one name sent, the second of which began a second after the first ended."""
    later_ns = first.now_ns - first.start_ns + 10**9
    messages = SimulatedRecorder(second, instance=8).take()
    return SimulatedRecorder(first, instance=7).take(), [
        (at_ns + later_ns, *rest) for at_ns, *rest in messages
    ]


def test_a_node_that_begins_anew_after_a_second_is_no_difference(tmp_path: Path):
    """The first node's first ticks were missed; the second's come before its journal."""
    first = streaming(World(make_config(command_mode="shadow"))).run(0.5)
    second = streaming(World(make_config())).run(1)
    before, after = in_turn(first, second)
    missed = [message for message in before if message[1] == f"{OWN}/executed"][:8]
    report = replay_decisions(write(tmp_path / "bag", [m for m in before if m not in missed] + after), NS, {})
    assert (report.first, report.problems, report.runs) == (None, [], 2)
    assert report.unrecorded["ticks"] == len(missed)
    assert not report.unreplayed["ticks"]


@pytest.mark.parametrize("seen", [0, 5, 9])
def test_a_node_that_is_seen_late_is_not_compared_with_the_one_before_that_was_killed(
    seen: int, tmp_path: Path
):
    """The end of the first one's journal died with it, and the second is seen where the first one's ended."""
    first = streaming(World(make_config(command_mode="shadow"))).run(2)
    second = streaming(World(make_config())).run(3)
    before, after = in_turn(first, second)
    lost = [message for message in before if message[1] == f"{OWN}/decisions"][-1]
    last = max(message.tick for _, topic, message in before if topic == f"{OWN}/executed")
    seen_ns = next(
        at_ns for at_ns, topic, said in after if topic == f"{OWN}/executed" and said.tick == last - seen
    )
    journal_ns = next(at_ns for at_ns, topic, _ in after if topic == f"{OWN}/decisions")
    after = [
        (seen_ns + 1 + at_ns - journal_ns if topic == f"{OWN}/decisions" else at_ns, topic, message)
        for at_ns, topic, message in after
        if at_ns >= seen_ns or topic == f"{OWN}/decisions"
    ]
    found = [*(message for message in before if message is not lost), *sorted(after, key=lambda m: m[0])]
    report = replay_decisions(write(tmp_path / "bag", found), NS, {})
    assert (report.first, report.problems, report.runs) == (None, [], 2)


def test_a_request_of_a_node_that_begins_anew_is_not_compared_with_the_one_before(tmp_path: Path):
    """Of the first node its first request was missed; of the second it comes before ticks and journal."""
    first = streaming(World(make_config(command_mode="shadow"))).run(2)
    second = World(make_config(command_mode="shadow"))
    second.server.restart()  # its sessions have other ids
    streaming(second).run(1)
    before, after = in_turn(first, second)
    observations = [message for message in before if message[1] == f"{OWN}/observation"]
    assert len(observations) > 1
    asked_ns = next(at_ns for at_ns, topic, _ in after if topic == f"{OWN}/observation")
    known = [m for m in after if not (m[1] == f"{OWN}/executed" and m[0] <= asked_ns)]
    report = replay_decisions(
        write(tmp_path / "bag", [m for m in before if m is not observations[0]] + known), NS, {}
    )
    assert (report.first, report.problems, report.runs) == (None, [], 2)
    assert report.unrecorded["requests"] == 1
    assert not report.unreplayed["requests"]


def entries_of(world: World) -> list[Entry]:
    return list(world.engine.journal.take()[1])


@pytest.mark.parametrize("seed", range(100, 108))
def test_a_journal_is_the_same_after_its_way_through_messages(seed: int):
    entries = entries_of(play_world(seed))
    encoder, decoder = DecisionEncoder(), DecisionDecoder()
    back = []
    for first in range(0, len(entries), 37):
        back += decoder.decode(encoder.seal(encoder.encode(entries[first : first + 37])))
    assert exact(back[1:]) == exact([_as_tuples(entry) for entry in entries[1:]])
    begin, again = entries[0].arguments[0], back[0].arguments[0]
    assert (begin.contract, begin.seed, begin.client) == (again.contract, again.seed, again.client)
    assert begin.config == again.config


def _as_tuples(entry: Entry) -> Entry:
    return entry._replace(arguments=tuple(tuple(a) if isinstance(a, list) else a for a in entry.arguments))


def test_no_session_token_leaves_the_node():
    world = streaming(World())
    session = world.engine.handshake.session
    assert session is not None
    token = session.session_token
    assert token
    assert token.encode() not in DecisionEncoder().encode(entries_of(world))


@pytest.mark.parametrize("size", [0, 1, 7])
def test_data_that_are_no_entries_are_refused(size: int):
    with pytest.raises(WireError, match="decisions"):
        list(DecisionDecoder().decode(DecisionEncoder.seal(b"\xc1" * size)[: size + 3 + (size > 1)]))


def test_a_bag_is_reproduced_bit_for_bit(tmp_path: Path):
    report = judge(tmp_path)
    assert (report.first, report.problems) == (None, [])
    assert report.exit_code == EQUAL
    for kind in ("ticks", "commands", "requests", "chunks"):
        assert report.compared[kind] > 5, kind
        assert not report.unrecorded[kind], kind
        assert not report.unreplayed[kind], kind
    assert {"STREAMING", "STALLED"} <= set(report.states)


def test_a_chunk_that_the_worker_took_late_is_replayed_as_it_was_taken(tmp_path: Path):
    world = streaming(World(make_config(merge_mode="replace", buffer_time_s=0.9))).run(1)
    sent = len(world.sent)
    world.run_until(lambda: len(world.sent) > sent)
    world.hung = True
    world.run(0.4)
    world.hung = False
    world.run(1)
    report = replay_decisions(write(tmp_path / "bag", messages_of(world)), None, {})
    assert (report.first, report.problems, report.exit_code) == (None, [], EQUAL)


@pytest.mark.parametrize("seed", range(200, 206))
def test_a_random_robot_s_bag_is_reproduced(seed: int, tmp_path: Path):
    report = replay_decisions(write(tmp_path / "bag", messages_of(play_world(seed))), NS, {})
    assert (report.first, report.problems, report.exit_code) == (None, [], EQUAL)


def test_a_run_of_means_is_reproduced_and_a_changed_chunk_of_one_is_named(tmp_path: Path):
    server = SimulatedServer("/server_a", make_spec(continuation=Continuation.NONE))
    messages = messages_of(streaming(World(make_config(merge_mode="ensemble"), [server])).run(2))
    report = replay_decisions(write(tmp_path / "bag", messages), None, {})
    assert (report.first, report.problems, report.exit_code) == (None, [], EQUAL)
    ticks = [message for _, topic, message in messages if topic.endswith("/executed")]
    mean = next(tick for tick in ticks if len(tick.earlier_seq_ids) == 3)
    before = list(mean.earlier_seq_ids)
    mean.earlier_seq_ids[1] += 100
    first = replay_decisions(write(tmp_path / "changed", messages), None, {}).first
    assert first is not None
    assert (first.field, first.replayed) == ("earlier_seq_ids", " ".join(map(str, before)))


def flip(topic_end: str, number: int, place: int) -> Change:
    """Return a change of one bit in a message of a topic."""

    def change(topic: str, count: int, data: bytes) -> bytes:
        if not topic.endswith(topic_end) or count != number:
            return data
        changed = bytearray(data)
        changed[place] ^= 1
        return bytes(changed)

    return change


def number_of(topic_end: str, accept: Callable[[object], bool]) -> int:
    """Return the number of the middle one of a topic's messages that are accepted."""
    messages = [message for _, topic, message in run_messages() if topic.endswith(topic_end)]
    numbers = [number for number, message in enumerate(messages) if accept(message)]
    return numbers[len(numbers) // 2]


@pytest.mark.parametrize(
    ("topic", "place", "what"),
    [
        ("commands", -3, "commands of tick"),
        ("chunk", -40, "chunk"),
    ],
)
def test_a_changed_bit_of_a_message_is_found_and_named(topic: str, place: int, what: str, tmp_path: Path):
    count = sum(name.endswith(topic) for _, name, _ in run_messages())
    report = judge(tmp_path, flip(f"/{topic}", count // 2, place))
    assert report.exit_code == DIFFERS
    assert report.first is not None
    assert what in report.first.what


def test_a_changed_letter_of_a_request_is_found_and_named(tmp_path: Path):
    report = judge(
        tmp_path,
        lambda topic, n, data: (
            data.replace(b"wave", b"wavf") if topic.endswith("/observation") and n == 5 else data
        ),
    )
    assert report.exit_code == DIFFERS
    assert report.first is not None
    assert (report.first.field, report.first.recorded, report.first.replayed) == ("task", "wavf", "wave")


def test_a_changed_joint_of_a_trajectory_s_point_is_named():
    def trajectory(position: float, points: int = 2) -> JointTrajectory:
        point = JointTrajectoryPoint(positions=[0.0, 0.5])
        last = JointTrajectoryPoint(positions=[0.0, position])
        return JointTrajectory(joint_names=["shoulder", "elbow"], points=[*[point] * (points - 1), last])

    kind = "trajectory_msgs/msg/JointTrajectory"
    decoder = MessageDecoder()
    decoder.add_type(kind, "")
    recorded = decoder.decode(kind, serialize_message(trajectory(0.5)))
    names = ["shoulder", "elbow"]
    assert first_difference(names, recorded, trajectory(0.5)) == ("", recorded, trajectory(0.5))
    assert first_difference(names, recorded, trajectory(0.25)) == ("points[1].positions[elbow]", 0.5, 0.25)
    assert first_difference(names, recorded, trajectory(0.5, points=3)) == ("points: length", 2, 3)


def test_a_changed_joint_of_an_executed_action_is_named(tmp_path: Path):
    number = number_of("/executed", lambda message: bool(message.action))  # type: ignore[attr-defined]
    changed: list[Message] = []
    count = 0
    for at_ns, topic, message in run_messages():
        if topic.endswith("/executed"):
            if count == number:
                before = message.action[1]
                message.action[1] = before + 1e-15
            count += 1
        changed.append((at_ns, topic, message))
    try:
        report = replay_decisions(write(tmp_path / "bag", changed), None, {})
    finally:
        for _, topic, message in run_messages():
            if topic.endswith("/executed") and message.tick == number:
                message.action[1] = before
    assert report.first is not None
    assert (report.first.what, report.first.field) == (f"tick {number}", "action[elbow]")
    assert report.first.recorded != report.first.replayed


def judge_beside(path: Path, times_s: list[float]) -> Report:
    """Judge the run with messages of another sender, at times since its begin, among the commands."""
    commands = [message for message in run_messages() if message[1].endswith("/commands")]
    begin_ns, topic = run_messages()[0][0], commands[0][1]
    others = [
        (begin_ns + round(at_s * 1e9), topic, Float64MultiArray(data=[0.5, float(number)]))
        for number, at_s in enumerate(times_s)
    ]
    messages = sorted([*run_messages(), *others], key=lambda message: message[0])
    return replay_decisions(write(path / "bag", messages), None, {})


def commanding_s() -> list[float]:
    """Return the times of the commands, since the run's begin [s]."""
    begin_ns = run_messages()[0][0]
    return [(at_ns - begin_ns) * 1e-9 for at_ns, topic, _ in run_messages() if topic.endswith("/commands")]


@pytest.mark.parametrize("place", [0.1, 0.5, 0.8])
def test_each_command_of_another_sender_is_one_difference(place: float, tmp_path: Path):
    """Its neighbours of the node stay equal: one too many is no change of what follows."""
    times_s = commanding_s()
    at_s = times_s[round(place * len(times_s))]
    report = judge_beside(tmp_path, [at_s + 0.001 * n for n in range(5)])
    assert report.exit_code == DIFFERS
    assert report.differences == 5
    assert report.first is not None
    assert report.first.time_s == pytest.approx(at_s, abs=0.01)
    assert report.first.field == "a message of another sender"
    assert "0.5, 0.0" in str(report.first.recorded)
    assert report.compared["commands"] == len(times_s)


def test_a_command_of_another_sender_while_the_robot_commands_nothing_differs_too(tmp_path: Path):
    times_s = commanding_s()
    gap, begin_s = max((after - before, before) for before, after in pairwise(times_s))
    assert gap > 0.4, "a pause"
    report = judge_beside(tmp_path, [begin_s + 0.5 * gap])
    assert (report.exit_code, report.differences) == (DIFFERS, 1)


def test_commands_that_the_journal_does_not_cover_are_counted_and_no_difference(tmp_path: Path):
    """Before the node began, or when its last entries are not in the bag, they may be the node's own."""
    report = judge_beside(tmp_path, [run_s() + 0.1, run_s() + 0.2])
    assert (report.exit_code, report.unreplayed["commands"]) == (EQUAL, 2)


def run_s() -> float:
    return (run_messages()[-1][0] - run_messages()[0][0]) * 1e-9


@pytest.fixture(params=["velocity", "trajectory"])
def stopped(request: pytest.FixtureRequest) -> WatchedRun:
    """A run whose watchdog sent zeros, or a trajectory that holds where the arm is."""
    is_velocity = request.param == "velocity"
    return WatchedRun(make_contract("velocity") if is_velocity else make_contract(command=JOINT_TRAJECTORY))


def test_the_stops_of_the_command_watchdog_are_counted_and_no_difference(stopped: WatchedRun, tmp_path: Path):
    report = replay_decisions(stopped.write(tmp_path / "bag"), NS, {})
    assert (report.first, report.problems, report.exit_code) == (None, [], EQUAL)
    assert report.watchdog_stops == len(stopped.stops) == STOPS
    assert not any(report.unrecorded.values())


def test_more_than_its_watchdog_sends_comes_from_another_sender(stopped: WatchedRun, tmp_path: Path):
    last_ns, topic, message = stopped.stops[-1]
    others = [(last_ns + ns(0.001), topic, message)]
    report = replay_decisions(stopped.write(tmp_path / "bag", others=others), NS, {})
    assert (report.exit_code, report.differences, report.watchdog_stops) == (DIFFERS, 1, STOPS)


def test_a_stop_that_is_unlike_the_others_comes_from_another_sender(stopped: WatchedRun, tmp_path: Path):
    (at_ns, topic, message), stopped.stops = stopped.stops[4], [*stopped.stops[:4], *stopped.stops[5:]]
    numbers = message.points[0].positions if hasattr(message, "points") else message.data
    numbers[0] += 1e-12
    report = replay_decisions(stopped.write(tmp_path / "bag", others=[(at_ns, topic, message)]), NS, {})
    assert (report.exit_code, report.differences) == (DIFFERS, 1)
    assert report.first is not None
    assert report.first.field == "a message of another sender"


def test_without_its_word_the_watchdog_s_stops_are_another_sender_s(stopped: WatchedRun, tmp_path: Path):
    report = replay_decisions(stopped.write(tmp_path / "bag", with_reports=False), NS, {})
    assert (report.exit_code, report.differences, report.watchdog_stops) == (DIFFERS, STOPS, 0)


@pytest.mark.parametrize("place", [20, 28, 36, *range(60, 2000, 487)])
def test_a_changed_byte_of_the_journal_is_never_called_equal(place: int, tmp_path: Path):
    report = judge(tmp_path, flip("/decisions", 1, place))
    assert report.exit_code == UNJUDGED
    assert report.problems


def test_a_gap_in_the_journal_is_named_and_what_came_before_it_is_compared(tmp_path: Path):
    report = judge(tmp_path, lambda t, n, data: None if t.endswith("/decisions") and n == 5 else data)
    assert report.exit_code == UNJUDGED
    assert "entries 250 to 299 are missing" in report.problems[0]
    assert report.compared["ticks"] > 10


def test_a_journal_that_begins_late_cannot_be_replayed(tmp_path: Path):
    report = judge(tmp_path, lambda t, n, data: None if t.endswith("/decisions") and n < 3 else data)
    assert report.exit_code == UNJUDGED
    assert "begins with entry 150" in report.problems[0]


def test_a_bag_without_a_journal_cannot_be_judged(tmp_path: Path):
    bag = write(tmp_path / "bag", [m for m in run_messages() if not m[1].endswith("/decisions")])
    report = replay_decisions(bag, None, {})
    assert report.exit_code == UNJUDGED
    assert f"{OWN}/decisions is not in the bag" in report.problems[0]


def test_messages_that_the_recorder_lost_are_counted_and_no_difference(tmp_path: Path):
    lost = {"executed", "commands", "observation", "chunk"}
    report = judge(tmp_path, lambda t, n, data: None if t.rpartition("/")[2] in lost and n % 7 == 3 else data)
    assert report.exit_code == EQUAL
    assert all(report.unrecorded[kind] for kind in ("ticks", "commands", "requests", "chunks"))


def test_a_parameter_shows_what_it_would_have_changed(tmp_path: Path):
    bag = write(tmp_path / "bag", run_messages())
    report = replay_decisions(bag, None, dict([parse_change("max_action_age_s=0.3")]))
    assert report.change is not None
    assert report.exit_code == EQUAL
    assert report.change.ticks > 5
    assert report.change.first_tick is not None
    assert set(report.change.largest) <= {"shoulder", "elbow"}
    same = replay_decisions(bag, None, {"max_action_age_s": 1.0})
    assert same.change is not None
    assert same.change.ticks == 0


@pytest.mark.parametrize("text", ["max_action_age_s", "nonsense=1", "max_action_age_s=[", "=1"])
def test_a_parameter_that_is_none_is_refused(text: str):
    with pytest.raises(DocumentError, match="--set"):
        parse_change(text)


def test_a_value_that_no_parameter_has_is_refused(tmp_path: Path):
    bag = write(tmp_path / "bag", run_messages())
    report = replay_decisions(bag, None, {"max_action_age_s": "long"})
    assert report.exit_code == UNJUDGED
    assert "max_action_age_s" in report.problems[0]


def test_the_verb_says_so_and_exits_by_the_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bag = write(tmp_path / "bag", run_messages())
    assert main(["replay", "--decisions", str(bag)]) == EQUAL
    assert "equal: every recorded command" in capsys.readouterr().out
    assert main(["replay", "--decisions", str(bag), "--json"]) == EQUAL
    assert json.loads(capsys.readouterr().out)["differences"] == 0
    assert main(["replay", "--decisions", str(bag), "--set", "max_action_age_s=0.3"]) == EQUAL
    assert "ticks command something else" in capsys.readouterr().out
    changed = write(tmp_path / "changed", run_messages(), flip("/commands", 9, -3))
    assert main(["replay", "--decisions", str(changed), "--quiet"]) == DIFFERS
    assert "the first: " in capsys.readouterr().out
    assert main(["replay", "--decisions", str(tmp_path / "none")]) == UNJUDGED


def of_release_0_2(topic: str, number: int, data: bytes) -> bytes:
    """Make a journal's begin one of release 0.2.0 with `merge_mode: auto`; leave all else as it is."""
    if number or not topic.endswith("/decisions"):
        return data
    message = deserialize_message(data, Decisions)
    entries = BytesIO(bytes(message.data)[:-CHECKSUM_BYTES])
    first, *others = msgpack.Unpacker(entries, strict_map_key=False)
    (packed,) = first[2]
    begin = msgpack.unpackb(packed.data, strict_map_key=False)
    begin["config"]["merge_mode"] = "auto"
    for name in ("max_observation_skew_s", "preview"):
        del begin["config"][name]
    first[2] = [msgpack.ExtType(packed.code, msgpack.packb(begin))]
    message.data = bytes_field(DecisionEncoder.seal(b"".join(map(msgpack.packb, (first, *others)))))
    return bytes(serialize_message(message))


@pytest.mark.parametrize(
    ("did", "continuation", "outcome"),
    [("append", Continuation.NONE, DIFFERS), ("replace", Continuation.GUIDANCE, EQUAL)],
)
def test_a_bag_of_a_release_whose_merge_mode_auto_appended_says_why_it_differs(
    did: str, continuation: Continuation, outcome: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """did: what that release's `auto` did with the chunks of such a policy."""
    server = SimulatedServer("/server_a", make_spec(continuation=continuation))
    messages = messages_of(streaming(World(make_config(merge_mode=did), [server])).run(1))
    bag = write(tmp_path / "bag", messages, of_release_0_2)
    report = replay_decisions(bag, None, {})
    assert (report.exit_code, report.problems) == (outcome, [])
    assert "merge_mode auto appended chunks" in report.notes[-1]
    assert main(["replay", "--decisions", str(bag), "--quiet"]) == outcome
    assert ("note: recorded when merge_mode auto" in capsys.readouterr().out) == (outcome == DIFFERS)


def test_a_bag_of_today_s_merge_mode_auto_needs_no_such_note(tmp_path: Path):
    report = judge(tmp_path)
    assert not any("merge_mode" in note for note in report.notes)


@pytest.mark.parametrize("early_s", [0.0, 0.2])
def test_a_run_behind_one_whose_journal_is_incomplete_is_replayed(tmp_path: Path, early_s: float):
    """As when a recording begins after the node, which then starts again."""
    first, second = (streaming(World(make_config())).run(duration_s) for duration_s in (2, 3))
    before, after = in_turn(first, second)
    begin = next(message for message in before if message[1] == f"{OWN}/decisions")
    after = [
        (at_ns - (ns(early_s) if topic == f"{OWN}/decisions" else 0), topic, message)
        for at_ns, topic, message in after
    ]
    messages = [message for message in before if message is not begin] + sorted(after, key=lambda m: m[0])
    report = replay_decisions(write(tmp_path / "bag", messages), NS, {})
    assert report.exit_code == UNJUDGED
    assert (report.runs, report.differences) == (1, 0)
    assert report.compared["ticks"] == len(second.ticks)
    assert len(report.problems) == 1


def forged(topic: str, number: int, after_ns: int = 1, **changes: Any) -> list[Message]:
    """Return the run with one more message, of another sender."""
    messages = list(run_messages())
    at_ns, _, message = [found for found in messages if found[1] == f"{OWN}/{topic}"][number]
    other = deepcopy(message)
    for name, value in changes.items():
        setattr(other, name, value)
    return sorted([*messages, (at_ns + after_ns, f"{OWN}/{topic}", other)], key=lambda found: found[0])


@pytest.mark.parametrize(
    ("topic", "number", "changes"),
    [
        ("executed", 60, {"tick": 4000}),
        ("executed", 60, {"action": [9.0, 9.0]}),
        ("executed", 60, {"tick": 100_000, "action": [9.0, 9.0]}),
        ("observation", 3, {"seq_id": 5000, "task": "forged"}),
    ],
)
def test_a_message_of_another_sender_among_the_run_s_is_found(
    tmp_path: Path, topic: str, number: int, changes: dict[str, Any]
):
    whole = replay_decisions(write(tmp_path / "whole", run_messages()), None, {})
    report = replay_decisions(write(tmp_path / "bag", forged(topic, number, **changes)), None, {})
    assert report.exit_code in {DIFFERS, UNJUDGED}
    assert report.differences == 1
    assert "another sender" in str(report.first)
    assert report.compared == whole.compared, "the rest of the run is compared"


def test_actions_under_other_names_differ(tmp_path: Path):
    messages = [(at_ns, topic, deepcopy(message)) for at_ns, topic, message in run_messages()]
    for _, topic, message in messages:
        if topic == f"{OWN}/executed":
            message.joint_names = list(reversed(message.joint_names))
    report = replay_decisions(write(tmp_path / "bag", messages), None, {})
    assert report.exit_code == DIFFERS
    assert "joint_names" in str(report.first)
