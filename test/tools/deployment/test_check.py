# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference check` explains files, judges robots by a server's rules, and exits accordingly."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.paths import share_path
from remote_inference.tools import cli
from remote_inference.tools.deployment.serving.check_contract import find_message_warnings
from support.builders import JOINTS, contract_document
from support.robot.pose_robot import pose_document

CONTRACT = share_path("config", "belt_arm.contract.yaml")
MANIFEST = share_path("config", "belt_arm.manifest.yaml")


def changed(folder: Path, **changes: object) -> Path:
    """Write the shipped contract with other values."""
    path = folder / "changed.contract.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(CONTRACT.read_text()) | changes))
    return path


def manifest_of(folder: Path, model: Path, **changes: str) -> Path:
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump({"model": {"backend": "chunk_network", "path": str(model), **changes}}))
    return path


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_each_problem_of_a_file_says_whose_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "arm.contract.yaml"
    path.write_text("robot_type: arm\nfps: fast\nactions: {kind: nothing}\n")
    assert cli.main(["check", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2
    assert [line for line in lines if not line.startswith(f"remote-inference check: {path}: ")] == []


def test_who_stops_commands_and_instructs_a_robot_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = yaml.safe_load(CONTRACT.read_text())["actions"]["names"]
    path = changed(
        tmp_path,
        stops={
            "button": {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True, "silent_s": 1.0},
            "fence": {"topic": "beat", "type": "std_msgs/msg/Empty", "stop_when": "silent", "silent_s": 0.5},
        },
        takeover={
            "topic": "leader/joint_states",
            "type": "sensor_msgs/msg/JointState",
            "also": [{"topic": "trigger", "type": "std_msgs/msg/Float64MultiArray", "names": names[-1:]}],
        },
        instruction={"topic": "say", "type": "std_msgs/msg/String"},
    )
    assert cli.main(["check", str(path)]) == 0
    said = capsys.readouterr().out
    for line in (
        "stops.button: estop (std_msgs/msg/Bool): at true or when silent for 1 s",
        "stops.fence: beat (std_msgs/msg/Empty): when silent for 0.5 s",
        "takeover: leader/joint_states (sensor_msgs/msg/JointState)",
        f"takeover.also.0: trigger (std_msgs/msg/Float64MultiArray): {names[-1]}",
        "instruction: say (std_msgs/msg/String)",
    ):
        assert f"  {line}\n" in said, said


def test_a_contract_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(CONTRACT)]) == 0
    said = capsys.readouterr().out
    assert "contract of belt_arm, 30 Hz" in said
    assert "camera wrist: wrist/image_raw, travels as jpeg" in said
    assert ["gripper", "position", "0", "0.035", "0.42", "m"] in cells(said)
    assert "goes home in 3 s" in said


def test_a_switch_is_explained_by_its_thresholds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contract = yaml.safe_load(CONTRACT.read_text())
    switch = {"kind": "switch", "min": 0.0, "max": 0.035, "closes_above": 0.02, "opens_below": 0.01}
    contract["actions"]["limits"]["gripper"] = switch | {"dwell_s": 0.5}
    home = {**contract["home"], "positions": contract["home"]["positions"][:-1]}
    arm = [name for name in contract["actions"]["names"] if name != "gripper"]
    array = "std_msgs/msg/Float64MultiArray"
    commands = [
        {"topic": "arm", "type": array, "names": arm},
        {"topic": "gripper", "type": array, "names": ["gripper"]},
    ]
    path = changed(tmp_path, actions=contract["actions"], home=home, commands=commands)
    assert cli.main(["check", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "switch gripper: 0.035 above 0.02, 0 below 0.01, at most one change in 0.5 s" in said
    assert "warning" not in said


def test_a_pose_is_explained_by_its_parts_and_speeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pose.contract.yaml"
    path.write_text(yaml.safe_dump(pose_document()))
    assert cli.main(["check", str(path)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "x pose -0.5 0.5 0.4 m" in lines
    assert "qw pose - - -" in lines
    speeds = "0.4 m/s and 2 rad/s along its way"
    assert f"pose tool: position x, y, z; quaternion qx, qy, qz, qw; {speeds}" in lines


def test_a_gripper_that_must_follow_its_commands_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", str(CONTRACT)]) == 0
    assert "warning" not in capsys.readouterr().out
    actions = yaml.safe_load(CONTRACT.read_text())["actions"]
    del actions["limits"]["gripper"]["max_following_error"]
    assert cli.main(["check", str(changed(tmp_path, actions=actions))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "warning: actions.limits.gripper: a gripper that closes on an object" in said
    assert said.count("warning") == 1


@pytest.mark.parametrize(
    ("kind", "field", "said"),
    [
        ("remote_inference/action/RunPolicy", "max_duration_s", "goals to gripper_cmd (remote_inference/"),
        (
            "remote_inference/action/RunPolicy",
            "position",
            "no 'position' in remote_inference/action/RunPolicy",
        ),
        ("no_msgs/action/Close", "position", "commands.1.type: no_msgs/action/Close is not installed here"),
    ],
)
def test_the_goals_of_a_gripper_are_explained_as_far_as_their_type_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, field: str, said: str
) -> None:
    arm = yaml.safe_load(CONTRACT.read_text())["commands"][0]
    *joints, gripper = arm["names"]
    commands = [
        {**arm, "names": joints},
        {"action": "gripper_cmd", "type": kind, "fields": {field: gripper}},
    ]
    code = cli.main(["check", str(changed(tmp_path, commands=commands))])
    captured = capsys.readouterr()
    assert said in " ".join((captured.out + captured.err).split())
    assert code == (2 if "no 'position'" in said else 0)


def test_a_joint_that_the_policy_knows_by_another_name_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = changed(tmp_path, rename={"joints.gripper": "gripper.pos"})
    assert cli.main(["check", str(contract)]) == 0
    assert ["gripper.pos", "gripper", "1", "0", "both"] in cells(capsys.readouterr().out)


def test_units_are_said_as_what_the_policy_s_number_is_of_the_robot_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = yaml.safe_load(CONTRACT.read_text())
    document["state"][0]["scale"] = [{"unit": "degrees", "names": ["elbow_flex"], "offset": -90.0}]
    quarters = {"unit": "quarters", "names": ["elbow_flex"], "factor": 0.636620, "offset": -1.0}
    document["actions"]["scale"] = [quarters]
    assert (
        cli.main(["check", str(changed(tmp_path, state=document["state"], actions=document["actions"]))]) == 0
    )
    said = capsys.readouterr().out
    assert ["elbow_flex", "elbow_flex", "57.2958", "-90", "degrees", "state"] in cells(said)
    assert ["elbow_flex", "elbow_flex", "0.63662", "-1", "quarters", "action"] in cells(said)
    assert max(map(len, said.splitlines()[1:])) <= 80


def write_hold(folder: Path, **units: str) -> Path:
    """Write a manifest of a policy for the shipped contract's joints that says their units."""
    names = yaml.safe_load(CONTRACT.read_text())["actions"]["names"]
    policy = {"name": "hold", "revision": "1", "state_names": names, "action_names": names}
    (folder / "policy.json").write_text(
        json.dumps(policy | {"chunk_size": 30, "trained_fps": 30, "units": units})
    )
    path = folder / "hold.manifest.yaml"
    path.write_text(yaml.safe_dump({"model": {"backend": "hold", "path": "."}}))
    return path


def test_units_are_said_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    percent = [{"unit": "percent", "names": ["gripper"], "range": [0.0, 0.035]}]
    shipped = yaml.safe_load(CONTRACT.read_text())
    state = [{**shipped["state"][0], "scale": percent}]
    contract = changed(tmp_path, state=state, actions={**shipped["actions"], "scale": percent})
    manifest = write_hold(tmp_path, gripper="percent")
    assert cli.main(["check", str(contract), str(manifest)]) == 0
    said = capsys.readouterr().out
    assert ["gripper", "gripper", "2857.14", "0", "percent", "both"] in cells(said)
    assert "  gripper: in percent" in said
    assert cli.main(["check", str(CONTRACT), str(manifest)]) == 1
    refused = "  refused (units): state 'gripper' is in m on the robot, in percent in the policy"
    assert refused in capsys.readouterr().out.splitlines()
    assert cli.main(["check", str(write_hold(tmp_path, griper="percent"))]) == 2
    assert "hold: units: found 'griper', expected names of the state" in capsys.readouterr().err


WRENCH = {"topic": "wrench", "type": "geometry_msgs/msg/WrenchStamped", "fields": ["wrench.force.z"]}
PAD = {"topic": "pad", "type": "std_msgs/msg/Float32MultiArray", "fields": ["data[0:2]"]}
ODOMETRY = {"topic": "odom", "type": "nav_msgs/msg/Odometry", "fields": ["twist.twist.linear.x"]}


def with_sensors(folder: Path, *sources: dict[str, object]) -> Path:
    state = yaml.safe_load(CONTRACT.read_text())["state"]
    return changed(folder, state=[*state, *sources])


def test_what_the_state_is_read_from_and_what_tells_its_age_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", str(with_sensors(tmp_path, WRENCH, PAD))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "state from joint_states: sensor_msgs/msg/JointState, age by the header's stamp" in said
    assert "state from wrench: geometry_msgs/msg/WrenchStamped, age by the header's stamp" in said
    assert "state from pad: std_msgs/msg/Float32MultiArray, age by arrival: without a header" in said
    assert "warning" not in said


def test_a_message_type_that_only_the_robot_has_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", str(with_sensors(tmp_path, WRENCH, ODOMETRY))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "state from odom: nav_msgs/msg/Odometry, age unknown here" in said
    assert "warning: state.2.type: nav_msgs/msg/Odometry is not installed here: not checked" in said


def test_a_field_that_its_message_does_not_have_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_sensors(tmp_path, {**WRENCH, "fields": ["wrench.force.z", "wrench.forse.x"]})
    assert cli.main(["check", str(path)]) == 2
    problem = f"{path}: state.1.fields.1: found 'wrench.forse.x': no 'forse' in geometry_msgs/msg/Wrench, "
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("type_name", "said"),
    [
        ("geometry_msgs/msg/Twist", "f: takeover.also.0.fields.0: found .*no 'q' in geometry_msgs"),
        ("gone_msgs/msg/Stick", "takeover.also.0.type: gone_msgs/msg/Stick is not installed here"),
    ],
)
def test_the_fields_of_a_person_s_device_are_looked_up(type_name: str, said: str) -> None:
    part = {"topic": "joystick", "type": type_name, "fields": {"linear.q": "elbow"}}
    takeover = {"topic": "leader", "type": "sensor_msgs/msg/JointState", "also": [part]}
    contract = parse_document(contract_document() | {"takeover": takeover}, Contract, "f")
    try:
        (found,) = find_message_warnings(Path("f"), contract)
    except DocumentError as error:
        found = str(error)
    assert re.search(said, found)


def test_a_manifest_is_explained_and_its_policy_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(MANIFEST)]) == 0
    said = capsys.readouterr().out
    assert "backend chunk_network on cpu, float32" in said
    assert "chunks of" in said
    assert "at most 4 sessions" in said


def test_keys_of_openpi_that_do_not_fit_the_policy_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = yaml.safe_load(MANIFEST.read_text()) | {"openpi": {"preset": "droid"}}
    content["model"]["path"] = str(share_path("config", "models", "belt_arm"))
    path = tmp_path / "manifest.yaml"
    path.write_text(yaml.safe_dump(content))
    assert cli.main(["check", str(path)]) == 2
    said = capsys.readouterr()
    assert f"{path}: openpi.images: found no entry for observation.images." in said.out + said.err


def test_a_robot_that_fits_is_said_to_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(CONTRACT), str(MANIFEST)]) == 0
    assert "belt_arm.contract.yaml on belt_arm.manifest.yaml:\n  fits" in capsys.readouterr().out


def test_a_robot_that_does_not_fit_is_refused_in_the_servers_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", str(changed(tmp_path, rename={})), str(MANIFEST)]) == 1
    assert "refused (cameras): policy needs observation.images" in capsys.readouterr().out


@pytest.mark.parametrize("warned", [True, False])
def test_a_policy_that_does_not_continue_prefixes_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], warned: bool
) -> None:
    name = "belt_arm_plain" if warned else "belt_arm"
    manifest = manifest_of(tmp_path, share_path("config", "models", name))
    assert cli.main(["check", str(CONTRACT), str(manifest)]) == 0
    said = capsys.readouterr().out
    merging = "  merge_mode is auto: each chunk replaces the queue, without its stale actions\n"
    assert f"  fits\n{merging}" in said
    assert (f"{merging}  warning: policy does not continue prefixes (no RTC)\n" in said) == warned
    assert f"  {'does not continue' if warned else 'continues'} prefixes (RTC)\n" in said


def test_a_device_that_this_machine_lacks_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = manifest_of(tmp_path, share_path("config", "models", "belt_arm"), device="cuda:99")
    assert cli.main(["check", str(CONTRACT), str(manifest)]) == 0
    said = capsys.readouterr().out
    assert "backend chunk_network on cuda:99" in said
    assert "  warning: model.device: found 'cuda:99', expected a device of this" in said
    assert "its files were checked on the cpu" in " ".join(said.split())
    assert "  fits\n" in said


def test_a_device_that_no_machine_has_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = manifest_of(tmp_path, share_path("config", "models", "belt_arm"), device="abacus")
    assert cli.main(["check", str(manifest)]) == 2
    assert "model.device: found 'abacus', expected a device of torch" in capsys.readouterr().err


def test_long_lists_of_names_are_folded_and_not_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", str(CONTRACT), str(MANIFEST)]) == 0
    said = capsys.readouterr().out
    described = [line for line in said.splitlines() if not line.startswith(str(CONTRACT.parent))]
    assert max(len(line) for line in described if len(line.split()) > 1) <= 80
    names = "shoulder_pan, shoulder_lift, elbow_flex, wrist_flex, wrist_roll, gripper"
    assert " ".join(said.split()).count(names) == 4  # twice the state, the commands and the actions
    assert "\n  actions: shoulder_pan, " in said
    assert "wrist_roll,\n    gripper\n" in said


def test_a_faster_control_rate_is_said_and_only_the_policy_s_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(tmp_path, fps=120.0, policy_fps=30.0)
    assert cli.main(["check", str(path), str(MANIFEST)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "control at 120 Hz, policy at 30 Hz: 4 commands for each row, linear between rows" in said
    assert "in training" not in said
    path = changed(tmp_path, fps=120.0, policy_fps=30.0, interpolation="none")
    assert cli.main(["check", str(path)]) == 0
    assert "each row repeated" in " ".join(capsys.readouterr().out.split())


def test_warnings_do_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(changed(tmp_path, fps=20.0)), str(MANIFEST)]) == 0
    assert "warning: the policy's rate is 20 Hz on the robot, 30 Hz in training" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fps: 30", "expected a contract, a manifest or"),
        ("- 1", "expected a contract, a manifest or"),
        ("actions: {}", "robot_type: missing"),
        ("model: {backend: hold, path: nowhere}", "model.path: found nothing at "),
        ("model: {backend: chunk_network, path: nowhere}", "nowhere, expected a folder or a file"),
    ],
)
def test_a_bad_file_is_named_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert cli.main(["check", str(path)]) == 2
    assert words in capsys.readouterr().err


POLICY = """
import numpy as np

from remote_inference.server.policies.hold import HoldPolicy

class Mine(HoldPolicy):
    def __init__(self, source):
        super().__init__(source.path)
        self.calls = 0
        {load}

    def predict(self, batch):
        self.calls += 1
        {predict}
        return super().predict(batch)
"""
LINE = {"load": 10, "predict": 14}


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Write a policy of an author's own, and its manifest: the line given runs when it loads or predicts."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(*, load: str = "pass", predict: str = "pass", **changes: object) -> Path:
        (tmp_path / "my_policy.py").write_text(POLICY.format(load=load, predict=predict))
        spec = {"name": "mine", "revision": "1", "state_names": ["a"], "action_names": ["a"]}
        spec |= {"image_features": {}, "chunk_size": 20, "trained_fps": 30.0}
        (tmp_path / "policy.json").write_text(json.dumps(spec))
        path = tmp_path / "my.manifest.yaml"
        model = {"backend": "my_policy:Mine", "path": "policy.json"}
        path.write_text(yaml.safe_dump({"model": model, **changes}))
        return path

    yield write
    sys.modules.pop("my_policy", None)


def test_every_file_is_judged_and_what_could_not_be_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = changed(tmp_path, fps=-1)
    missing = tmp_path / "missing.yaml"
    assert cli.main(["check", str(missing), str(bad), str(CONTRACT), str(MANIFEST)]) == 2
    said = capsys.readouterr()
    assert f"{missing}: cannot be read" in said.err
    assert f"{bad}: fps: found -1" in said.err
    assert f"not judged: {bad.name} on {MANIFEST.name}\n" in said.err
    assert f"{CONTRACT.name} on {MANIFEST.name}:\n  fits" in said.out


RANGES = "from dataclasses import replace; self.spec = replace(self.spec, {})"


def write_two_joints(folder: Path) -> Path:
    """Let the policy have the joints of the tests' contract; return that contract's file."""
    names = {"state_names": JOINTS, "action_names": JOINTS}
    policy = folder / "policy.json"
    policy.write_text(json.dumps(json.loads(policy.read_text()) | names))
    path = folder / "two.contract.yaml"
    path.write_text(yaml.safe_dump(contract_document(fps=30.0)))
    return path


@pytest.mark.parametrize("options", [[], ["--run"]])
def test_training_data_in_degrees_against_limits_in_radians_is_refused(
    tmp_path: Path, author: Callable[..., Path], capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    manifest = author(load=RANGES.format("action_ranges={'elbow': (20.0, 100.0)}"))
    assert cli.main(["check", *options, str(write_two_joints(tmp_path)), str(manifest)]) == 1
    said = capsys.readouterr().out
    refused = "refused (units): action 'elbow' was trained on 20 to 100, the robot's limits are -1 to 1 rad"
    assert f"  {refused}: that is degrees, or percent of a range: say it as `scale` in the contract\n" in said


def test_what_a_policy_does_not_say_or_does_unasked_is_said(
    tmp_path: Path, author: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = author(load=RANGES.format("notes=('a of the robot is b of the policy',)"))
    assert cli.main(["check", str(write_two_joints(tmp_path)), str(manifest)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "warning: a of the robot is b of the policy" in said
    assert "warning: the policy does not say units of shoulder, elbow: a robot's are taken" in said
    assert "warning: the policy does not say units; shoulder, elbow are taken as rad" in said


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
        ("raise RuntimeError", "RuntimeError"),
        ("{}['weights']", "KeyError: 'weights'"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("np.zeros(3).reshape(2, 2)", "ValueError: cannot reshape array of size 3 into shape (2,2)"),
        ("raise SystemExit(3)", "model.backend: 'my_policy:Mine' called sys.exit(3)"),
    ],
)
def test_whatever_a_policy_raises_at_load_is_one_line_with_its_authors_place(
    author: Callable[..., Path], capsys: pytest.CaptureFixture[str], raised: str, words: str
) -> None:
    manifest = author(load=raised)
    assert cli.main(["check", str(manifest)]) == 2
    place = f"my_policy.py:{LINE['load']}, in __init__"
    assert capsys.readouterr().err == f"remote-inference check: {manifest}: {words} ({place})\n"


def test_an_import_that_fails_in_a_policys_module_has_its_place(
    author: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = author()
    module = manifest.parent / "my_policy.py"
    module.write_text(f"import no_such_module\n{module.read_text()}")
    assert cli.main(["check", str(manifest)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "No module named 'no_such_module'" in line
    assert line.endswith("(my_policy.py:1, in <module>)")


def test_a_module_that_is_no_python_is_one_line_with_its_place(
    author: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = author(load="there is no such statement")
    assert cli.main(["check", str(manifest)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"remote-inference check: {manifest}: ")
    assert f"my_policy.py, line {LINE['load']}" in line


def test_run_shows_what_the_policy_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--run", str(MANIFEST), str(CONTRACT)]) == 0
    said = capsys.readouterr().out
    assert "ms with images as in training, shared" in said
    assert "fast enough for" in said
    assert "a chunk for a state of zeros, 70 rows:" in said
    table = said[said.index("    action ") : said.index(str(CONTRACT))].splitlines()
    assert [line.split()[0] for line in table] == [
        *("action", "shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
    ]
    assert max(map(len, table)) <= 80
    assert "  fits\n" in said


def test_run_refuses_a_policy_that_does_not_answer_and_names_its_authors_line(
    author: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = author(predict="raise ValueError('no weights')")
    assert cli.main(["check", str(manifest)]) == 0
    assert cli.main(["check", "--run", str(manifest)]) == 2
    place = f"my_policy.py:{LINE['predict']}, in predict"
    words = f"warm-up of mine failed: ValueError: no weights ({place})"
    assert capsys.readouterr().err == f"remote-inference check: {manifest}: {words}\n"


def test_run_warns_of_a_policy_that_reads_a_task_which_the_manifest_lacks(
    author: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    reads = "self.spec = type(self.spec)(**{**vars(self.spec), 'reads_task': True})"
    for changes, warned in (({}, True), ({"default_task": "wave"}, False)):
        assert cli.main(["check", "--run", str(author(load=reads, **changes))]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert ("warning: default_task: found none, but policy mine reads the task" in said) == warned


def test_run_finds_that_a_policy_remembers_and_what_its_manifest_promises(
    author: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = author(predict="batch = [row + self.calls for row in batch]", max_sessions=4)
    assert cli.main(["check", "--run", str(manifest)]) == 0
    said = capsys.readouterr().out
    assert "ms with images as in training, exclusive" in said
    assert "  warning: max_sessions is 4, but an exclusive policy serves one robot\n" in said


def test_run_does_not_do_without_the_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = manifest_of(tmp_path, share_path("config", "models", "belt_arm"), device="cuda:99")
    assert cli.main(["check", "--run", str(manifest)]) == 2
    assert "model.device: found 'cuda:99', expected a device of this machine" in capsys.readouterr().err


def test_json_is_the_same_report_whatever_a_policy_prints(
    author: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = author(load="print('loading')")
    assert cli.main(["check", "--run", "--json", str(manifest), str(CONTRACT)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [file["kind"] for file in report["files"]] == ["manifest", "contract"]
    assert report["files"][0]["trial"]["action_names"] == ["a"]
    assert len(report["files"][0]["trial"]["chunk"]) == 20
    (fit,) = report["fits"]
    assert (fit["contract"], fit["accepted"]) == (CONTRACT.name, False)
    assert report["exit_code"] == 1


def test_json_without_run_has_no_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("fps: 30")
    assert cli.main(["check", "--json", str(CONTRACT), str(MANIFEST), str(bad)]) == 2
    report = json.loads(capsys.readouterr().out)
    assert [file["trial"] for file in report["files"]] == [None] * 3
    assert report["fits"][0]["accepted"]
    assert "expected a contract, a manifest or" in report["files"][2]["problem"]


def test_quiet_prints_only_refusals_and_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--quiet", str(CONTRACT), str(MANIFEST)]) == 0
    assert capsys.readouterr() == ("", "")
    refused = changed(tmp_path, rename={})
    assert cli.main(["check", "--quiet", str(CONTRACT), str(refused), str(MANIFEST)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{refused.name} on {MANIFEST.name}:"
    assert lines[1].startswith("  refused (cameras): ")


def parameters_of(folder: Path, **values: object) -> Path:
    path = folder / "robot.params.yaml"
    path.write_text(yaml.safe_dump({"/**/remote_inference": {"ros__parameters": values}}))
    return path


def test_a_robot_s_parameters_are_judged_with_its_contract_and_the_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = share_path("config", "belt_arm.params.yaml")
    assert cli.main(["check", str(CONTRACT), str(shipped), str(MANIFEST)]) == 0
    assert "max_action_age_s" not in capsys.readouterr().out
    parameters = parameters_of(tmp_path, contract="arm.yaml", max_action_age_s=0.05, use_sim_time=False)
    slow = changed(tmp_path, fps=10.0)
    assert cli.main(["check", str(slow), str(parameters), str(MANIFEST)]) == 1
    said = capsys.readouterr().out
    assert "refused (timing): max_action_age_s: found 0.05, expected more than an action lasts" in said


def test_means_of_chunks_that_continue_each_other_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parameters = parameters_of(tmp_path, merge_mode="ensemble")
    assert cli.main(["check", str(CONTRACT), str(parameters), str(MANIFEST)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "refused (timing): merge_mode: found 'ensemble', expected another" in said
    assert "merge_mode is ensemble: each action is a mean" in said


def test_a_rate_that_this_computer_does_not_keep_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["check", str(CONTRACT), str(MANIFEST)])
    assert "a control tick takes" not in capsys.readouterr().out
    fast = changed(tmp_path, fps=9000.0, policy_fps=30.0)
    cli.main(["check", str(fast), str(MANIFEST)])
    assert "warning: fps: a control tick takes" in capsys.readouterr().out


def test_a_parameter_that_a_robot_does_not_have_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", str(parameters_of(tmp_path, max_action_age=1.0))]) == 2
    assert "did you mean 'max_action_age_s'" in capsys.readouterr().err


def write_parameters(folder: Path, content: object) -> Path:
    path = folder / "robots.params.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def section(**values: object) -> dict[str, object]:
    return {"ros__parameters": values}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"/r/remote_inference": {"ros__parameters": [1]}}, "ros__parameters: found [1], expected a mapping"),
        ({"/r/remote_inference": {"ros__parameters": "hold"}}, "ros__parameters: found 'hold', expected a"),
        ({1: section()}, "found the key 1, expected text: quote it"),
        ({"/r/remote_inference": section(executor="event")}, "executor: found 'event', expected 'events' or"),
        ({"/**/remote_inferense": section(fallback="hold")}, "the node remote_inferense, did you mean"),
        (
            {
                "/robot_2/remote_inference": section(fallback="nonsense"),
                "/robot_3/remote_inference": section(fallback="hold"),
            },
            "/robot_2/remote_inference: fallback: found 'nonsense'",
        ),
        ({"robot_1": {"remote_inference": section(buffer_time_s=-1.0)}}, "/robot_1/remote_inference: found"),
        (
            {"/**": section(buffer_time_s=-1.0), "/robot_3/remote_inference": section(fallback="hold")},
            "/robot_3/remote_inference: found buffer_time_s -1.0",
        ),
    ],
)
def test_a_file_of_parameters_that_does_not_say_what_is_meant_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object, problem: str
) -> None:
    assert cli.main(["check", str(write_parameters(tmp_path, content))]) == 2
    assert problem in capsys.readouterr().err


def test_parameters_of_rclpy_and_of_other_nodes_are_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"use_sim_time": True, "start_type_description_service": False, "qos_overrides./a.depth": 1}
    content = {"robot_1": {"remote_inference": section(buffer_time_s=0.5, **own)}}
    assert cli.main(["check", str(write_parameters(tmp_path, content))]) == 0
    assert "parameters of a robot" in capsys.readouterr().out
    others = {"/policy_server": section(nonsense=1), "/bag_recorder": section()}
    assert cli.main(["check", str(write_parameters(tmp_path, others))]) == 0
    assert (
        "parameters of /policy_server, /bag_recorder, not of a robot: not judged" in capsys.readouterr().out
    )


def test_each_robot_of_a_file_is_judged_with_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {
        "/**": section(fallback="hold"),
        "/robot_1/remote_inference": section(),
        "/robot_2/remote_inference": section(fallback="zero"),
    }
    path = write_parameters(tmp_path, content)
    assert cli.main(["check", str(CONTRACT), str(path), str(MANIFEST)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    problem = "parameter fallback: found 'zero' for position actions, expected"
    assert said.count(f"refused (parameters): {problem}") == 1
    assert said.count(f"{MANIFEST.name}: fits") == 1
    assert f"warning: {problem}" in said
    assert "the robot's node does not start" in said


def test_limits_that_may_not_be_meant_so_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    actions = yaml.safe_load(CONTRACT.read_text())["actions"]
    first = actions["names"][0]
    actions["limits"][first] |= {"min": -90.0, "max": 90.0, "max_following_error": "off"}
    assert cli.main(["check", str(changed(tmp_path, actions=actions))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"warning: actions.limits.{first}: found -90 to 90 rad, more than two turns" in said
    assert f"warning: actions.limits.{first}: found max_following_error: off for what is no gripper" in said


@pytest.mark.parametrize(("end", "warned"), [(40.0, True), (0.2, True), (0.1, False), (0.035, False)])
def test_a_range_that_has_little_in_common_with_the_limits_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], end: float, warned: bool
) -> None:
    actions = yaml.safe_load(CONTRACT.read_text())["actions"]
    actions["scale"] = [{"unit": "percent", "names": ["gripper"], "range": [0.0, end]}]
    assert cli.main(["check", str(changed(tmp_path, actions=actions))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    warning = f"found a range of 0 to {end:g} for gripper, whose limits are 0 to 0.035: they have little in"
    assert (warning in said) == warned


def test_which_joint_measures_which_action_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = yaml.safe_load(CONTRACT.read_text())
    names = [f"left_{name}" for name in document["actions"]["names"]]
    joints = {"topic": "encoders", "type": "sensor_msgs/msg/JointState", "field": "position"}
    path = changed(tmp_path, measured={**joints, "names": names, "prefix": "left_"})
    assert cli.main(["check", str(path)]) == 0
    first = document["actions"]["names"][0]
    assert f"measured by encoders: {first} as {first}," in " ".join(capsys.readouterr().out.split())


def test_a_manifest_that_spoils_its_chunks_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text(MANIFEST.read_text() + "inject_latency_ms: 300.0\ninject_loss: 0.1\n")
    content = yaml.safe_load(path.read_text())
    content["model"]["path"] = str(MANIFEST.parent / content["model"]["path"])
    path.write_text(yaml.safe_dump(content))
    assert cli.main(["check", str(path)]) == 0
    assert "warning: inject_latency_ms, inject_loss: chunks are delayed" in capsys.readouterr().out


DICE = """
import numpy as np

from remote_inference.server.policies.hold import HoldPolicy


class DicePolicy(HoldPolicy):
    def __init__(self, source):
        super().__init__(source.path)

    def predict(self, batch):
        return [chunk + np.random.normal() for chunk in super().predict(batch)]
"""


@pytest.mark.parametrize(
    ("asserted", "words"),
    [
        (
            "auto",
            "warning: dice is served to one robot at a time: answers to equal requests differ, by up to ",
        ),
        ("shared", "warning: serving_mode is shared, but answers to equal requests differ, by up to "),
    ],
)
def test_a_trial_says_by_how_much_a_policy_that_throws_dice_differs_and_how_to_mend_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    asserted: str,
    words: str,
) -> None:
    (tmp_path / "dice_policies.py").write_text(DICE)
    monkeypatch.syspath_prepend(tmp_path)
    names = {key: ["elbow"] for key in ("state_names", "action_names")}
    config = {"name": "dice", "revision": "1", **names, "chunk_size": 9, "trained_fps": 30.0}
    (tmp_path / "policy.json").write_text(json.dumps(config))
    manifest = tmp_path / "dice.manifest.yaml"
    model = {"backend": "dice_policies:DicePolicy", "path": "."}
    manifest.write_text(yaml.safe_dump({"model": model, "serving_mode": asserted}))
    assert cli.main(["check", "--run", str(manifest)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert words in said
    assert "in elbow; draw random numbers from the observation's seed" in said
