# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`replay --policy` compares a policy's answers with what was answered and executed, and says by how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from sensor_msgs.msg import CompressedImage

from remote_inference.bags.storage.message_decoder import message_definition
from remote_inference.base.contract.contract import parse_contract
from remote_inference.base.wire.arrays import float32_field
from remote_inference.learn.open_loop.alignment import Alignment
from remote_inference.learn.open_loop.evaluation import ErrorSums
from remote_inference.msg import ExecutedAction
from remote_inference.robot.command import CommandSource
from remote_inference.tools.cli import main
from support.builders import CHUNK_SIZE, JOINTS, contract_document
from support.recording.asked_run import (
    DELAY,
    EXECUTED_OFF,
    REQUESTS,
    TICKS_APART,
    contract_text,
    write_asked_run,
    write_policy,
)

WITHIN, EXCEEDED, UNJUDGED = range(3)
Capture = pytest.CaptureFixture[str]
TOP = {"topic": "top/image_raw", "type": "sensor_msgs/msg/Image"}
TWO_CAMERAS = {**contract_document(), "images": {**contract_document()["images"], "top": TOP}}


def add_image(topic: str, _: int, message: Any) -> Any:
    if topic == "observation":
        message.images = [CompressedImage(format="jpeg")]
    return message


def replay(capsys: Capture, *words: Any) -> tuple[int, str, str]:
    """Return exit code, output and errors of `replay`."""
    capsys.readouterr()
    code = main(["replay", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def report(capsys: Capture, *words: Any) -> dict[str, Any]:
    code, out, err = replay(capsys, *words, "--json")
    assert out, err
    found: dict[str, Any] = json.loads(out)
    assert found["exit_code"] == code
    return found


# -- the comparison ------------------------------------------------------------------------------------------


def test_the_same_answers_are_identical_and_their_errors_from_the_executed_actions_known(
    tmp_path: Path, capsys: Capture
):
    bag, policy = write_asked_run(tmp_path / "bag"), write_policy(tmp_path)
    (found,) = report(capsys, "--policy", policy, bag)["policies"]
    assert (found["requests"], found["failed"]) == (REQUESTS, 0)
    assert found["compared_chunks"] == found["identical_chunks"] == REQUESTS
    assert found["same_policy_chunks"] == 0
    assert [joint["max"] for joint in found["recorded"]["joints"]] == [0.0, 0.0]
    shoulder, elbow = found["executed"]["joints"]
    for joint, off in ((shoulder, EXECUTED_OFF[0]), (elbow, EXECUTED_OFF[1])):
        rows = joint["mean_abs_by_row"]
        assert rows[DELAY:TICKS_APART] == pytest.approx([abs(off)] * (TICKS_APART - DELAY), abs=1e-6)
        assert joint["unit"] == "rad"
    # The first rows of a chunk lie where the chunk before was executed, whose state was another.
    assert shoulder["mean_abs_by_row"][0] == pytest.approx(abs(EXECUTED_OFF[0] - 0.1), abs=1e-6)
    last = TICKS_APART + DELAY
    assert shoulder["mean_abs_by_row"][last] == pytest.approx(EXECUTED_OFF[0] + 0.1, abs=1e-6)


def test_a_policy_that_speaks_other_units_is_compared_in_the_robots(tmp_path: Path, capsys: Capture):
    scale = [
        {"unit": "degrees", "names": [JOINTS[0]]},
        {"unit": "percent", "names": [JOINTS[1]], "range": [1.0, -1.0]},
    ]
    plain = contract_document()
    contract = contract_text(
        state=[{**plain["state"][0], "scale": scale}], actions={**plain["actions"], "scale": scale}
    )
    units = parse_contract(contract, "test").action_units

    def change(topic: str, _: int, message: Any) -> Any:
        if topic == "observation":
            message.state = float32_field(units.to_policy(message.state))
        if topic == "chunk":
            rows = np.reshape(message.chunk_robot, (-1, len(JOINTS)))
            message.chunk_robot = message.chunk_model = float32_field(units.to_policy(rows))
        return message

    bag = write_asked_run(tmp_path / "bag", change=change, contract=contract)
    plain_bag, policy = write_asked_run(tmp_path / "plain"), write_policy(tmp_path)
    (found,) = report(capsys, "--policy", policy, bag)["policies"]
    (expected,) = report(capsys, "--policy", policy, plain_bag)["policies"]
    assert found["identical_chunks"] == REQUESTS
    for joint, other in zip(found["executed"]["joints"], expected["executed"]["joints"], strict=True):
        assert joint["mean_abs_by_row"] == pytest.approx(other["mean_abs_by_row"], abs=1e-6)
        assert joint["unit"] == "rad"


def test_other_answers_differ_from_the_recorded_ones_by_what_they_differ(tmp_path: Path, capsys: Capture):
    bag = write_asked_run(tmp_path / "bag", answered_off=0.25)
    (found,) = report(capsys, "--policy", write_policy(tmp_path), bag)["policies"]
    assert found["identical_chunks"] == 0
    for joint in found["recorded"]["joints"]:
        for statistic in ("mean_abs", "rms", "max"):
            assert joint[statistic] == pytest.approx(0.25, rel=1e-5)
        assert joint["p95"] == pytest.approx(0.25, rel=0.01)


def test_policies_stand_side_by_side_in_at_most_80_columns(tmp_path: Path, capsys: Capture):
    bag = write_asked_run(tmp_path / "bag")
    short = write_policy(tmp_path, "short", chunk_size=6)
    code, out, _ = replay(capsys, "--policy", write_policy(tmp_path), "--policy", short, bag)
    assert code == WITHIN
    assert all(len(line) <= 80 for line in out.splitlines() if str(tmp_path) not in line)
    head, *_, table = out.split("\n\n")
    assert head.endswith(f"/arm: {REQUESTS} requests")
    assert table.splitlines()[0] == "mean absolute error of rows 0-5, against the executed actions"
    assert table.splitlines()[1].split() == ["joint", "unit", "A", "B"]
    name, unit, first, second = table.splitlines()[2].split()
    assert (name, unit, first) == ("shoulder", "rad", second)


@pytest.mark.parametrize(
    ("bounds", "code"),
    [
        (("all=0.2",), WITHIN),
        (("all=0.2", "elbow=0.001"), EXCEEDED),
        (("all=0", "--against", "recorded"), WITHIN),
        (("shoulder=0.01",), EXCEEDED),
    ],
)
def test_a_bound_decides_the_exit_code(bounds: tuple[str, ...], code: int, tmp_path: Path, capsys: Capture):
    bag, policy = write_asked_run(tmp_path / "bag"), write_policy(tmp_path)
    words = [word for bound in bounds for word in ((bound,) if "=" not in bound else ("--max-error", bound))]
    found, out, _ = replay(capsys, "--policy", policy, bag, "--quiet", *words)
    assert found == code
    assert ("exceeded: " in out) == (code == EXCEEDED)
    assert "mean abs " not in out


def test_the_picture_replaces_no_file_silently(tmp_path: Path, capsys: Capture):
    bag, policy, picture = write_asked_run(tmp_path / "bag"), write_policy(tmp_path), tmp_path / "errors.png"
    words = ("--policy", policy, bag, "--out", picture)
    assert replay(capsys, *words)[0] == WITHIN
    with Image.open(picture) as drawn:
        assert drawn.width > 1000
    code, _, err = replay(capsys, *words)
    assert code == UNJUDGED
    assert f"--out: {picture} exists" in err
    assert replay(capsys, *words, "--force")[0] == WITHIN


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("errors.xyz", "found errors.xyz, expected a name that ends in one of"),
        ("none/a.png", "none is no folder"),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_refused_before_the_policy_is_asked(
    name: str, expected: str, tmp_path: Path, capsys: Capture
):
    words = ("--policy", tmp_path / "no.manifest.yaml", tmp_path / "no_bag", "--out", tmp_path / name)
    code, _, err = replay(capsys, *words)
    assert code == UNJUDGED
    assert expected in err


def test_requests_of_which_nothing_was_recorded_are_compared_with_what_was_executed(
    tmp_path: Path, capsys: Capture
):
    bag = write_asked_run(tmp_path / "bag", leave_out="chunk")
    (found,) = report(capsys, "--policy", write_policy(tmp_path), bag)["policies"]
    assert found["compared_chunks"] == 0
    assert found["executed"]["rows"] > REQUESTS * DELAY


# -- what cannot be compared ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bag", "policy", "expected"),
    [
        (
            {"leave_out": "observation"},
            {},
            "found no /arm/remote_inference/observation, expected the recorded",
        ),
        ({"contract": ""}, {}, "found no contract in the bag, expected one there or by --contract"),
        (
            {},
            {"action_names": ["elbow", "shoulder"]},
            "(actions): action 0 is 'shoulder' on the robot, 'elbow'",
        ),
        ({}, {"state_names": ["elbow", "shoulder"]}, "(state): state 0 is 'shoulder' on the robot, 'elbow'"),
        ({}, {"image_features": {"top": [48, 64, 3]}}, "(cameras): policy needs top, robot sends no images"),
        ({}, {"manifest": {"pin_task": True, "default_task": "clap"}}, "(task): task is 'wave' on the robot"),
        (
            {"contract": json.dumps(TWO_CAMERAS), "change": add_image},
            {"image_features": {"observation.images.front": [48, 64, 3]}},
            "shows 1 images, the contract has 2 (observation.images.front, images.top): expected all of",
        ),
    ],
)
def test_a_bag_that_does_not_fit_is_refused_in_one_line(
    bag: dict[str, Any], policy: dict[str, Any], expected: str, tmp_path: Path, capsys: Capture
):
    path = write_asked_run(tmp_path / "bag", **bag)
    code, out, err = replay(capsys, "--policy", write_policy(tmp_path, **policy), path)
    assert (code, out, err.count("\n")) == (UNJUDGED, "", 1)
    assert expected in err


def test_requests_of_another_release_are_refused(tmp_path: Path, capsys: Capture):
    """The policy would read other fields than the robot wrote."""
    store = get_typestore(Stores.EMPTY)
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        for kind, name in (("observation", "Observation"), ("executed", "ExecutedAction")):
            msgtype = f"remote_inference/msg/{name}"
            text = message_definition(msgtype).replace("uint32 history_steps", "uint64 history_steps")
            store.register(get_types_from_msg(text, msgtype))
            bag.add_connection(f"/arm/remote_inference/{kind}", msgtype, typestore=store)
    contract = tmp_path / "contract.yaml"
    contract.write_text(contract_text())
    words = ("--policy", write_policy(tmp_path), tmp_path / "bag", "--contract", contract)
    code, _, err = replay(capsys, *words)
    assert code == UNJUDGED
    assert "Observation with history_steps as uint64 instead of uint32, expected the messages of" in err


def test_a_damaged_bag_is_refused_in_one_line(tmp_path: Path, capsys: Capture):
    bag = write_asked_run(tmp_path / "bag")
    (file,) = bag.glob("*.mcap")
    data = bytearray(file.read_bytes())
    data[len(data) // 4 : len(data) // 4 + 64] = bytes(64)
    file.write_bytes(data)
    code, out, err = replay(capsys, "--policy", write_policy(tmp_path), bag)
    assert (code, out, err.count("\n")) == (UNJUDGED, "", 1)
    assert str(bag) in err


def test_a_contract_of_other_joints_is_refused(tmp_path: Path, capsys: Capture):
    document = json.loads(contract_text().replace("elbow", "wrist"))
    other = tmp_path / "other.yaml"
    other.write_text(json.dumps(document))
    bag = write_asked_run(tmp_path / "bag")
    names = {"state_names": ["shoulder", "wrist"], "action_names": ["shoulder", "wrist"]}
    words = ("--policy", write_policy(tmp_path, **names), bag, "--contract", other)
    code, _, err = replay(capsys, *words)
    assert code == UNJUDGED
    assert "not the contract's: found shoulder, elbow, expected shoulder, wrist" in err


def test_requests_that_cannot_be_answered_are_counted_and_the_others_compared(
    tmp_path: Path, capsys: Capture
):
    def change(topic: str, number: int, message: Any) -> Any:
        if topic == "observation" and number in {4, 7}:
            message.state[1] = np.nan
        return message

    bag = write_asked_run(tmp_path / "bag", change=change)
    found = report(capsys, "--policy", write_policy(tmp_path), bag)
    assert found["exit_code"] == UNJUDGED
    assert found["policies"][0]["identical_chunks"] == REQUESTS - 2
    (problem,) = found["problems"]
    assert (
        "2 of 10 requests without an answer, the first: request 5: malformed observation: state: " in problem
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--max-error", "all"), "--max-error: found 'all', expected a joint or 'all' and a number"),
        (("--max-error", "all=-1"), "--max-error: found 'all=-1', expected"),
        (("--max-error", "wrist=1"), "--max-error: found joint 'wrist', expected 'all', shoulder, elbow"),
        (("--set", "max_action_age_s=1"), "--set: found with --policy, expected with --decisions"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    words: tuple[str, ...], expected: str, tmp_path: Path, capsys: Capture
):
    bag = write_asked_run(tmp_path / "bag")
    code, _, err = replay(capsys, "--policy", write_policy(tmp_path), bag, *words)
    assert code == UNJUDGED
    assert expected in err


# -- the errors ----------------------------------------------------------------------------------------------


def test_the_sums_are_those_of_all_errors_at_once():
    rng = np.random.default_rng(0)
    scale = np.array([1e-5, 1.0, 300.0])
    predicted, expected = (scale * rng.standard_normal((200, 10, 3)) for _ in range(2))
    sums = ErrorSums(("a", "b", "c"), ("m", "rad", "N"), 10)
    for one, other in zip(predicted, expected, strict=True):
        sums.add(range(2, 10), one[2:], other[2:])
    errors = np.abs(predicted - expected)[:, 2:]
    assert sums.rows == 200 * 8
    for joint, found in enumerate(sums.by_joint()):
        values = errors[..., joint]
        assert found.mean_abs == pytest.approx(values.mean())
        assert found.rms == pytest.approx(np.sqrt((values**2).mean()))
        assert found.max == values.max()
        assert found.p95 == pytest.approx(np.quantile(values, 0.95), rel=0.02)
        assert found.mean_abs_by_row[2:] == pytest.approx(values.mean(axis=0))
        assert np.isnan(found.mean_abs_by_row[:2]).all()


def test_values_that_are_not_finite_exceed_every_bound(tmp_path: Path, capsys: Capture):
    def change(topic: str, number: int, message: Any) -> Any:
        if topic == "executed" and number == 30:
            message.action[0] = np.nan
        return message

    bag = write_asked_run(tmp_path / "bag", change=change)
    code, out, err = replay(capsys, "--policy", write_policy(tmp_path), bag, "--max-error", "shoulder=9")
    assert (code, err) == (EXCEEDED, "")
    assert "exceeded: " in out


# -- where chunks lie ----------------------------------------------------------------------------------------


def tick_message(tick: int, seq_id: int = 1, row: int = 0, **changes: Any) -> ExecutedAction:
    fields: dict[str, Any] = {
        "source": ExecutedAction.CHUNK,
        "session_id": "s",
        "action": [float(tick)],
        "episode_id": 1,
    }
    message = ExecutedAction(tick=tick, seq_id=seq_id, step_index=row, **{**fields, **changes})
    message.header.stamp.sec = tick
    return message


def lay(
    messages: list[ExecutedAction], requests: dict[int, int], ticks_per_row: int = 1
) -> dict[int, list[tuple[int, float]]]:
    """Return by request the rows and their executed actions. requests: the second of each, of 4 rows."""
    alignment = Alignment(ticks_per_row)
    for seq_id, second in requests.items():
        alignment.add_request("s", seq_id, int(second * 1e9), 4, seq_id)
    found = [aligned for message in messages for aligned in alignment.add_tick(message)]
    found += alignment.finish()
    return {
        aligned.payload: list(zip(aligned.places, aligned.actions.ravel().tolist(), strict=True))
        for aligned in found
    }


def test_a_chunk_lies_around_the_row_that_was_executed():
    messages = [tick_message(n, seq_id=0) for n in (10, 11)] + [tick_message(n, 1, n - 10) for n in (12, 13)]
    assert lay(messages, {1: 9}) == {1: [(0, 10.0), (1, 11.0), (2, 12.0), (3, 13.0)]}


def test_a_row_that_lasts_several_ticks_is_what_its_first_tick_executed():
    messages = [tick_message(7 + n, 1, n // 3, row_fraction=n % 3 / 3) for n in range(9)]
    person = [tick_message(16 + n, 0, source=ExecutedAction.HUMAN, session_id="") for n in range(3)]
    found = lay([*messages, *person], {1: 6}, ticks_per_row=3)
    assert found == {1: [(0, 7.0), (1, 10.0), (2, 13.0), (3, 16.0)]}


def test_a_chunk_that_was_executed_late_lies_where_it_was_executed():
    waiting = [tick_message(n, 0, source=ExecutedAction.NONE, action=[]) for n in range(10, 15)]
    messages = waiting + [tick_message(n, 1, n - 15) for n in range(15, 19)]
    assert lay(messages, {1: 9}) == {1: [(0, 15.0), (1, 16.0), (2, 17.0), (3, 18.0)]}


def test_a_chunk_of_which_nothing_was_executed_begins_after_its_request():
    messages = [tick_message(n, 2, n - 10) for n in range(10, 16)]
    assert lay(messages, {1: 11, 2: 9})[1] == [(0, 12.0), (1, 13.0), (2, 14.0), (3, 15.0)]


@pytest.mark.parametrize(
    ("broken", "left"),
    [
        ({"source": ExecutedAction.NONE, "action": []}, [0, 1]),
        ({"source": ExecutedAction.HOMING}, [0, 1]),
        ({"shadow": True}, [0, 1]),
        ({"episode_id": 2}, [0, 1]),
        ({"source": ExecutedAction.HUMAN}, [0, 1, 2, 3]),
    ],
)
def test_a_chunk_ends_where_the_policy_or_a_person_no_longer_commands(
    broken: dict[str, Any], left: list[int]
):
    messages = [tick_message(n, 1, n - 10) for n in range(10, 14)]
    messages[2] = tick_message(12, 1, 2, **broken)
    assert [row for row, _ in lay(messages, {1: 9})[1]] == left


def test_a_lost_tick_is_left_out():
    messages = [tick_message(n, 1, n - 10) for n in (10, 11, 13)]
    assert lay(messages, {1: 9}) == {1: [(0, 10.0), (1, 11.0), (3, 13.0)]}


def test_a_node_that_begins_anew_ends_what_came_before():
    messages = [tick_message(n, 1, n - 500) for n in (500, 501)] + [tick_message(n, 7, n) for n in (0, 1)]
    assert lay(messages, {1: 499}) == {1: [(0, 500.0), (1, 501.0)]}


def test_a_node_that_is_seen_late_after_another_of_few_ticks_executed_nothing_of_its_chunks():
    """What the second one executed at the numbers that the first one did not reach is of other chunks."""
    messages = [tick_message(n, 1, n - 10) for n in (10, 11)] + [tick_message(n, 7, n) for n in range(8, 15)]
    for later_s, message in enumerate(messages[2:], 20):
        message.header.stamp.sec = later_s
    assert lay(messages, {1: 9}) == {1: [(0, 10.0), (1, 11.0)]}


def test_the_sources_are_those_of_the_message():
    assert {CommandSource.CHUNK, CommandSource.HUMAN} == {ExecutedAction.CHUNK, ExecutedAction.HUMAN}
    assert CHUNK_SIZE > TICKS_APART + DELAY
