# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A behaviour tree with two policies: one robot and two servers, with real nodes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rclpy.action import ActionClient
from std_msgs.msg import Bool

from remote_inference.action import RunPolicy
from remote_inference.server.sessions import FOREIGN_REQUESTS_MAX, OWN_REQUEST_NS
from remote_inference.srv import GetStatus, StartEpisode
from remote_inference.tools.deployment import bringup
from support.nodes.rig import DEADLINE_S, JOINTS, Rig, write_contract, write_manifest

PICKER, PLACER, STRANGER = "/picker", "/placer", "/stranger"
PICK, PLACE = "pick_cube", "place_cube"
DONE = "done"


class Cell:
    """A robot with a picker, a placer, and a policy for another robot."""

    def __init__(self, folder: Path) -> None:
        self.rig = rig = Rig(folder)
        self._serve(PICKER, name=PICK)
        self._serve(PLACER, name=PLACE, revision="2")
        rig.start_robot(write_contract(folder), autostart=False, servers=[PICKER, PLACER, STRANGER])
        rig.wait_for(lambda: rig.states and rig.states[-1].session_id, "a session")
        # Only now: a robot that no goal has told what it is to run accepts no server that does not fit.
        self._serve(STRANGER, name="stack", action_names=list(reversed(JOINTS)))
        rig.run_on_executor(self._connect)
        rig.wait_for(self._client.server_is_ready, "the action")

    def _serve(self, server: str, **policy: Any) -> None:
        name = server[1:]
        folder = self.rig.folder / name
        folder.mkdir()
        manifest = write_manifest(folder, policy, tags=[f"task={name}"])
        self.rig.group.start(bringup.server(manifest, name=name))
        self.rig.wait_for(lambda: self._status(server).accepting, name)

    def _connect(self) -> None:
        self._client = ActionClient(self.rig.node, RunPolicy, "remote_inference/run_policy")
        self._done = self.rig.node.create_publisher(Bool, DONE, 1)

    @property
    def state(self) -> Any:
        return self.rig.states[-1]

    @property
    def log(self) -> str:
        return (self.rig.folder / "logs" / "remote_inference.log").read_text()

    def send(self, policy: str) -> Any:
        """Send a goal; return its handle."""
        goal = RunPolicy.Goal(task="tidy up", policy=policy, success_topic=DONE)
        return self._await(lambda: self._client.send_goal_async(goal))

    def result(self, handle: Any) -> RunPolicy.Result:
        return self._await(handle.get_result_async).result

    def run(self, policy: str, chunks: int = 3) -> Any:
        """Run a policy until some chunks have come, as a leaf does; return the state of then."""
        handle = self.send(policy)
        assert handle.accepted
        before = self.state.chunks_merged
        self.rig.wait_for(lambda: self.state.chunks_merged >= before + chunks, f"chunks of {policy}")
        state = self.state
        self.rig.send_until(lambda: self._done.publish(Bool(data=True)), lambda: self.state.paused, "the end")
        assert self.result(handle).termination == RunPolicy.Result.SUCCEEDED
        return state

    def sessions(self, server: str) -> list[str]:
        return list(self._status(server).sessions)

    def _status(self, server: str) -> Any:
        return self.rig.call(GetStatus, f"{server}/get_status").status

    def _await(self, ask: Any) -> Any:
        future = self.rig.run_on_executor(ask)
        self.rig.wait_for(future.done, "an answer")
        return future.result()


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    cell = Cell(tmp_path_factory.mktemp("cell"))
    try:
        yield cell
    finally:
        cell.rig.close()


def test_a_tree_runs_two_policies_in_turns_and_opens_one_session_with_each(cell: Cell) -> None:
    first = cell.run(PICK)
    assert (first.server, first.policy) == (PICKER, PICK)
    # Longer than a server keeps a session whose robot asks another one.
    seconds = OWN_REQUEST_NS / 1e9 + 2.0
    second = cell.run("task=placer", chunks=int(max(FOREIGN_REQUESTS_MAX, 4 * seconds)))
    assert (second.server, second.policy) == (PLACER, PLACE)
    assert list(second.kept_sessions) == [first.session_id]
    assert cell.sessions(PICKER) == [first.session_id]
    again = cell.run(PICK)
    assert (again.server, again.session_id) == (PICKER, first.session_id)
    assert list(again.kept_sessions) == [second.session_id]
    assert again.reconnects == 0


def test_a_goal_whose_policy_no_server_has_is_rejected_in_words(cell: Cell) -> None:
    assert not cell.send("sweep").accepted
    assert "run_policy: goal rejected: policy: found 'sweep', expected pick_cube, task=picker of" in cell.log


def test_a_policy_that_does_not_fit_ends_its_run_before_anything_moves(cell: Cell) -> None:
    before = cell.run(PICK)
    moved = len(cell.rig.commands)
    result = cell.result(cell.send("stack"))
    assert result.termination == RunPolicy.Result.ERROR
    assert result.message.startswith("the policy stack is refused by /stranger: refuses (actions)")
    assert len(cell.rig.commands) == moved
    cell.rig.wait_for(lambda: cell.state.session_id == before.session_id, "the session of before")
    assert cell.run(PICK).session_id == before.session_id


def test_an_episode_may_name_its_policy(cell: Cell) -> None:
    began = cell.rig.call(StartEpisode, "remote_inference/start_episode", policy=PLACE)
    assert began.success, began.message
    cell.rig.wait_for(lambda: cell.state.server == PLACER, "the placer")
    unknown = cell.rig.call(StartEpisode, "remote_inference/start_episode", policy="sweep")
    assert not unknown.success
    assert unknown.message.startswith("policy: found 'sweep', expected pick_cube")


def test_the_verb_names_a_policy(cell: Cell) -> None:
    words = ["run-task", "rig", "tidy up", "--policy", PICK, "--limit", "1.5"]
    command = [sys.executable, "-m", "remote_inference.tools.cli", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert "TIME_OUT" in ended.stdout, ended.stderr
    assert (cell.state.server, cell.state.policy) == (PICKER, PICK)
