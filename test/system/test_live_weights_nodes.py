# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A trainer changes the weights that many robots use: every chunk is of exactly one version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from safetensors.numpy import save_file
from std_srvs.srv import Trigger

from remote_inference.learn.nodes import weights_link
from remote_inference.learn.weights import SenderConfig, WeightSender, shared_memory
from remote_inference.learn.weights.frames import Link
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.msg import ActionChunk, ExecutedAction
from remote_inference.srv import GetStatus
from remote_inference.tools import cli
from support.importable import python_path
from support.nodes.fleet import SERVER, FleetRobot
from support.nodes.health_port import answers, ask
from support.nodes.rig import Rig, write_contract, write_manifest
from support.nodes.version_policy import CHUNK_SIZE, FATAL, FPS, LIMIT, WEIGHTS
from support.waiting import wait_until

DEADLINE_S = 60.0
ROBOTS, UPDATES = 8, 30
PERIOD_S = 0.05  # between two requests of a robot
STEP = 0.01  # by which an update changes what the policy commands [rad]


class Trainer:
    """Sends weights that are all one number, the version."""

    def __init__(self, connect: Callable[[], Link]) -> None:
        self.weights = np.zeros(WEIGHTS, np.float32)
        self.sender = WeightSender(lambda: {"weights": self.weights}, SenderConfig(answer_s=DEADLINE_S))
        self.sender.init_sender({"server": connect})
        self.sender.wait(DEADLINE_S)

    def send(self, value: float | None = None) -> Reason | None:
        """Send the next version; return why it was refused, or None."""
        version = self.sender.version + 1
        self.weights[:] = version if value is None else value
        self.sender.sync(version)
        return self.sender.wait(DEADLINE_S)["server"].reason


def start_server(rig: Rig, folder: Path, monkeypatch: pytest.MonkeyPatch, **sections: object) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path())
    content = {
        "model": {"backend": "support.nodes.version_policy:VersionPolicy", "path": "."},
        "max_sessions": ROBOTS,
        **sections,
    }
    manifest = folder / "version.manifest.yaml"
    manifest.write_text(yaml.safe_dump(content))
    rig.start_server(manifest)
    rig.wait_for(lambda: version_of(rig) is not None, "the server")


def version_of(rig: Rig) -> int | None:
    status = rig.call(GetStatus, f"{SERVER}/get_status").status
    return int(status.weights_version) if status.policy_fingerprint else None


@pytest.fixture
def trainer(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> Iterator[Trainer]:
    section = {"accept": True, "socket": "weights.socket"}
    start_server(rig, tmp_path, monkeypatch, weights=section, health_port=port)
    made = Trainer(lambda: shared_memory.connect(tmp_path / "weights.socket", DEADLINE_S))
    yield made
    made.sender.close()


def samples(port: int) -> dict[tuple[str, str], float]:
    """Return the metrics by name and result."""
    families = text_string_to_metric_families(ask(port, "/metrics")[1])
    return {(s.name, s.labels.get("result", "")): s.value for family in families for s in family.samples}


def versions_in(chunk: ActionChunk) -> set[float]:
    return set(chunk.chunk_robot)


def test_robots_are_served_on_while_updates_come_and_every_chunk_is_of_one_version(
    rig: Rig, trainer: Trainer, port: int
) -> None:
    fleet = [FleetRobot(rig, f"/robot_{index}", PERIOD_S) for index in range(ROBOTS)]
    rig.wait_for(lambda: all(robot.chunks for robot in fleet), "an answer for each")
    for _ in range(UPDATES):
        before = [len(robot.chunks) for robot in fleet]
        assert trainer.send() is None
        rig.wait_for(
            lambda before=before: all(
                len(robot.chunks) > count for robot, count in zip(fleet, before, strict=True)
            ),
            "an answer for each between two updates",
        )
    assert version_of(rig) == trainer.sender.version == UPDATES + 1
    newest = f"version-1@{trainer.sender.version}"
    rig.wait_for(lambda: all(robot.chunks[-1].policy_version == newest for robot in fleet), newest)
    for robot in fleet:
        robot.rest()
    chunks = [chunk for robot in fleet for chunk in tuple(robot.chunks)]
    assert {chunk.status for chunk in chunks} == {ActionChunk.OK}
    for chunk in chunks:
        assert len(chunk.chunk_robot) == 2 * CHUNK_SIZE
        (version,) = versions_in(chunk)
        # Version 1 has the weights that were loaded.
        known = {f"version-1@{int(version)}"} if version else {"version-1", "version-1@1"}
        assert chunk.policy_version in known
    for robot in fleet:
        shown = [next(iter(versions_in(chunk))) for chunk in robot.chunks]
        assert shown == sorted(shown), "versions only rise"
    rig.wait_for(
        lambda: samples(port)["policy_server_weights_version", ""] == UPDATES + 1,
        "the version in the metrics",
    )
    found = samples(port)
    assert found["policy_server_weights_updates_total", "applied"] == UPDATES + 1
    assert found["policy_server_weights_received_bytes_total", ""] > UPDATES * 4 * WEIGHTS


@pytest.fixture
def other_rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "other", "/other")
    yield made
    made.close()


def test_no_control_tick_is_held_while_updates_come(
    rig: Rig, other_rig: Rig, tmp_path: Path, trainer: Trainer
) -> None:
    """Robots' nodes that have two seconds of playback left, whatever the machine does beside.

    `make bench-weights-pause ARGS="--control"` has eight, with the buffer of their default parameters.
    """
    contract, robots = write_contract(tmp_path), (rig, other_rig)
    for robot in robots:
        robot.follows = True
        robot.start_robot(contract, merge_mode="replace", buffer_time_s=CHUNK_SIZE / FPS - 2 * PERIOD_S)
    for robot in robots:
        robot.wait_for(lambda robot=robot: source_of_last(robot) == ExecutedAction.CHUNK, "the first action")
    first = [len(robot.executed) for robot in robots]
    for number in range(1, 11):
        assert trainer.send(number * STEP) is None
        newest = f"version-1@{trainer.sender.version}"
        for robot in robots:
            robot.wait_for(
                lambda robot=robot, newest=newest: robot.executed[-1].policy_version == newest, newest
            )
    for robot, begin in zip(robots, first, strict=True):
        assert {tick.source for tick in robot.executed[begin:]} == {ExecutedAction.CHUNK}


def source_of_last(robot: Rig) -> int | None:
    return robot.executed[-1].source if robot.executed else None


def test_spoiled_updates_are_refused_and_the_robots_see_nothing_of_them(rig: Rig, trainer: Trainer) -> None:
    robot = FleetRobot(rig, "/robot", PERIOD_S)
    assert trainer.send() is None
    assert trainer.send(float("nan")) is Reason.VALUES
    assert trainer.send(LIMIT + 1) is Reason.PROBE
    count = len(robot.chunks)
    rig.wait_for(lambda: len(robot.chunks) > count + 2, "answers")
    assert robot.chunks[-1].policy_version == "version-1@2"
    assert {value for chunk in robot.chunks for value in versions_in(chunk)} <= {0.0, 2.0}
    log = (rig.folder / "logs" / "policy_server.log").read_text()
    assert "weights: version 2 is served, exchanged in" in log
    assert "weights: refused (values): update 3" in log
    assert "weights: refused (probe): update 4: weights: found 1001, expected at most 1000" in log
    assert trainer.send() is None


def test_a_device_that_is_lost_while_an_update_is_probed_makes_the_server_unhealthy(
    trainer: Trainer, port: int
) -> None:
    """No robot's request has failed yet."""
    assert trainer.send(FATAL + 1) is Reason.PROBE
    wait_until(answers(port, "/healthz", 503, "the device is lost"), "the server unhealthy", DEADLINE_S)


def test_an_operator_takes_an_update_back(
    rig: Rig, tmp_path: Path, trainer: Trainer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer.send() is None
    trainer.weights[:5] = 7.0
    trainer.sender.sync(3)
    assert trainer.sender.wait(DEADLINE_S)["server"].is_current
    assert cli.main(["weights", "rollback", "policy_server"]) == 0
    assert capsys.readouterr().out == "/policy_server: version 2 is served again\n"
    assert cli.main(["weights", "rollback", "policy_server"]) == 1
    assert "version 2 has none before it here" in capsys.readouterr().err
    rig.wait_for(lambda: version_of(rig) == 2, "the version before")
    assert cli.main(["weights", "status"]) == 0
    assert capsys.readouterr().out == "/policy_server: version (version-1), version 2\n"

    trainer.sender.close()
    pushed = tmp_path / "pushed.safetensors"
    save_file({"weights": np.full(WEIGHTS, 5.0, np.float32)}, pushed)
    socket = str(tmp_path / "weights.socket")
    assert cli.main(["weights", "push", str(pushed), "--socket", socket]) == 0
    assert "served as version 4" in capsys.readouterr().out, "version 3 was served, and taken back"
    save_file({"other": np.zeros(3, np.float32)}, pushed)
    assert cli.main(["weights", "push", str(pushed), "--socket", socket]) == 2
    assert "weights" in capsys.readouterr().err
    assert version_of(rig) == 4


def test_a_server_that_was_killed_and_starts_again_is_brought_to_the_newest_version(
    rig: Rig, tmp_path: Path, trainer: Trainer
) -> None:
    assert trainer.send() is None
    rig.server.kill()
    rig.server.wait(DEADLINE_S)
    assert trainer.send() is Reason.TRANSPORT
    rig.start_server(tmp_path / "version.manifest.yaml")
    rig.wait_for(lambda: version_of(rig) == 0, "the server, as its manifest says")
    assert trainer.send() is None
    robot = FleetRobot(rig, "/robot", PERIOD_S)
    rig.wait_for(lambda: robot.chunks, "a chunk")
    assert robot.chunks[0].policy_version == f"version-1@{trainer.sender.version}"
    assert versions_in(robot.chunks[0]) == {float(trainer.sender.version)}


def test_a_robot_that_wants_no_updates_is_refused(rig: Rig, trainer: Trainer) -> None:
    refused = rig.open_session(SERVER, refuses_weight_updates=True)
    assert (refused.accepted, refused.rejection) == (False, "weights")
    assert rig.open_session(SERVER).accepted


def test_a_trainer_on_another_machine_changes_the_policy_over_ros(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = {"accept": True, "ros": True, "socket": "weights.socket"}
    start_server(rig, tmp_path, monkeypatch, weights=section)
    robot = FleetRobot(rig, "/robot", PERIOD_S)
    over_ros = Trainer(lambda: weights_link.connect(SERVER, DEADLINE_S))
    assert over_ros.send() is None
    with pytest.raises(WeightsError, match="which updates this server"):
        Trainer(lambda: shared_memory.connect(tmp_path / "weights.socket", DEADLINE_S))
    over_ros.sender.close()
    rig.wait_for(lambda: robot.chunks and robot.chunks[-1].policy_version == "version-1@2", "version 2")
    assert versions_in(robot.chunks[-1]) == {2.0}

    pushed = tmp_path / "pushed.safetensors"
    save_file({"weights": np.full(WEIGHTS, 3.0, np.float32)}, pushed)
    push = ["weights", "push", str(pushed), "--server", "policy_server", "--timeout", "60"]
    wait_until(lambda: cli.main(push) == 0, "the first trainer's place", DEADLINE_S)
    assert "served as version 3" in capsys.readouterr().out
    rig.wait_for(lambda: robot.chunks[-1].policy_version == "version-1@3", "version 3")


def test_a_server_that_accepts_no_updates_says_so(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_server(rig, tmp_path, monkeypatch)
    assert version_of(rig) == -1
    answer = rig.call(Trigger, f"{SERVER}/rollback_weights")
    assert not answer.success
    assert "no updates are accepted here, expected weights: {accept: true}" in answer.message


def test_a_policy_that_does_not_show_its_weights_cannot_accept_updates(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path, weights={"accept": True, "socket": "w.socket"}))
    assert rig.server.wait(DEADLINE_S) != 0
    log = (rig.folder / "logs" / "policy_server.log").read_text()
    assert "weights.accept: found true, but hold does not show its weights" in log
    assert "Traceback" not in log
