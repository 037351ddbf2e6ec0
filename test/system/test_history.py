# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot and a server with a policy of three observation steps: the policy says what it saw."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
import yaml
from sensor_msgs.msg import Image, JointState

from remote_inference.srv import GetStatus
from remote_inference.tools import cli
from support.importable import python_path
from support.json_lines import read_json_lines
from support.nodes.history_policy import OBSERVATION_STEPS, SEEN
from support.nodes.rig import JOINTS, Rig, write_contract

SERVER = "/policy_server"
TASK = "hold still"  # of the robot; the server's own rehearsals have another
UNIT = 1e-4  # of the first joint: so much for each publication
GREYS = 200


class CountingRig(Rig):
    """Shows in the first joint and in the picture how often it has published its sensors."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self.publishes = True
        super().__init__(folder)

    def _publish_sensors(self) -> None:
        if not self.publishes:
            return
        self.count += 1
        stamp = self.node.get_clock().now().to_msg()
        joints = JointState(name=list(JOINTS), position=[UNIT * self.count, 0.5])
        joints.header.stamp = stamp
        self._joints.publish(joints)
        pixels = array("B", bytes([self.count % GREYS]) * (48 * 192))
        image = Image(height=48, width=64, encoding="rgb8", step=192, data=pixels)
        image.header.stamp = stamp
        self._camera.publish(image)

    def seen(self) -> list[list[int]]:
        """Return the counts that each of the robot's requests showed in its steps, oldest first."""
        lines = read_json_lines(self.folder / "model" / SEEN)
        requests = [seen for seen in lines if seen["task"] == TASK]
        for request in requests:
            for state, grey in zip(request["states"], request["grey"], strict=True):
                apart = round(grey) - round(state[0] / UNIT) % GREYS
                assert min(apart % GREYS, -apart % GREYS) <= 3, "state and image of a step belong together"
        return [[round(state[0] / UNIT) for state in request["states"]] for request in requests]


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingRig]:
    monkeypatch.setenv("PYTHONPATH", python_path())
    made = CountingRig(tmp_path)
    yield made
    made.close()


@pytest.fixture
def manifest(rig: CountingRig) -> Path:
    """Write the manifest of the policy, and start its server."""
    (rig.folder / "model").mkdir()
    path = rig.folder / "manifest.yaml"
    model = {"backend": "support.nodes.history_policy:HistoryPolicy", "path": "model"}
    content = {"model": model, "default_task": "rehearse", "capture_dir": "captures", "capture_max": 3}
    path.write_text(yaml.safe_dump(content))
    rig.start_server(path)
    return path


def start_robot(rig: CountingRig, **parameters: object) -> None:
    rig.start_robot(write_contract(rig.folder), merge_mode="replace", **parameters)
    rig.wait_for_state("STREAMING")


@pytest.mark.parametrize("skew_s", [0.0, 0.03], ids=["newest", "fitting"])
def test_the_policy_sees_the_last_control_ticks(rig: CountingRig, manifest: Path, skew_s: float) -> None:
    start_robot(rig, max_observation_skew_s=skew_s)
    rig.wait_for(lambda: len(rig.seen()) > 20, "requests")
    seen = rig.seen()
    assert {len(steps) for steps in seen} == {OBSERVATION_STEPS}
    assert all(steps == sorted(steps) for steps in seen)
    # The sensors publish at the control rate: one publication for each tick, but for a busy machine.
    assert median(steps[2] - steps[1] for steps in seen) == 1
    assert median(steps[2] - steps[0] for steps in seen) == 2


def test_no_step_of_an_episode_before_shows_and_the_first_is_repeated(
    rig: CountingRig, manifest: Path
) -> None:
    start_robot(rig)
    rig.wait_for(lambda: len(rig.seen()) > 3, "requests")

    def first_of_a_new_episode() -> list[int]:
        rig.publishes = False
        assert rig.trigger("reset").success
        begin = rig.count = 1_000 * (rig.count // 1_000 + 1)
        rig.publishes = True
        rig.wait_for(lambda: any(steps[-1] > begin for steps in rig.seen()), "a request of the new episode")
        first = next(steps for steps in rig.seen() if steps[-1] > begin)
        assert min(first) > begin
        return first

    # On a busy machine the first request may come some ticks after the episode's first tick.
    assert any(len(set(first_of_a_new_episode())) == 1 for _ in range(10))


def test_a_request_with_its_history_is_replayed_to_the_byte(
    rig: CountingRig, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_robot(rig)
    folder = rig.folder / "captures"
    rig.wait_for(lambda: len(list(folder.glob("*.capture"))) == 3 and len(rig.seen()) > 5, "captures")
    rig.group.stop()
    files = [str(path) for path in sorted(folder.glob("*.capture"))]
    assert cli.main(["replay", "--capture", *files, "--manifest", str(manifest)]) == 0
    assert all(line.endswith(": equal") for line in capsys.readouterr().out.splitlines())


def test_a_robot_that_keeps_no_history_is_refused_in_words(rig: CountingRig, manifest: Path) -> None:
    rig.wait_for(lambda: rig.call(GetStatus, f"{SERVER}/get_status").status.accepting, "the server")
    status = rig.call(GetStatus, f"{SERVER}/get_status").status
    assert status.observation_steps == OBSERVATION_STEPS
    refused = rig.open_session(SERVER)
    assert (refused.accepted, refused.rejection) == (False, "history")
    assert refused.message == "policy needs observations of 3 control ticks, robot sends 1 at most"
    accepted = rig.open_session(SERVER, max_observation_steps=3)
    assert (accepted.accepted, accepted.observation_steps) == (True, 3)
