# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The action by which a behaviour tree runs the policy on a task, with real nodes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.task import Future
from std_msgs.msg import Bool, Float64

from remote_inference.action import RunPolicy
from remote_inference.base.clients.operator_client import OperatorClient, OperatorError
from remote_inference.tools.cli import task_client
from support.nodes.rig import DEADLINE_S, Rig, write_contract, write_manifest

CUBE = "pick up the cube"
SUCCESS = "cube_in_box"
SCORE, THRESHOLD = "score", "threshold"  # no topics of success: one is published, one is heard by somebody
STOPS = {"button": {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}}


class Tree:
    """A client of the action, as a behaviour tree's leaf is one; its node spins with the rig's."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.feedback: list[RunPolicy.Feedback] = []
        rig.run_on_executor(self._connect)

    def _connect(self) -> None:
        node = self.rig.node
        self._client = ActionClient(node, RunPolicy, "remote_inference/run_policy")
        self._success = node.create_publisher(Bool, SUCCESS, 1)
        self._button = node.create_publisher(Bool, "estop", 1)
        node.create_publisher(Float64, SCORE, 1)
        node.create_subscription(Float64, THRESHOLD, print, 1)

    def send(self, task: str = CUBE, max_duration_s: float = 60.0, success_topic: str = "") -> Any:
        """Send a goal; return its handle."""
        self.rig.wait_for(self._client.server_is_ready, "the action")
        goal = RunPolicy.Goal(task=task, max_duration_s=max_duration_s, success_topic=success_topic)
        return self._await(
            lambda: self._client.send_goal_async(
                goal, feedback_callback=lambda m: self.feedback.append(m.feedback)
            ),
            "the goal's answer",
        )

    def result(self, handle: Any) -> RunPolicy.Result:
        return self._await(handle.get_result_async, "the result").result

    def cancel(self, handle: Any) -> None:
        assert self._await(handle.cancel_goal_async, "the cancellation").goals_canceling

    def succeed(self) -> None:
        self._success.publish(Bool(data=True))

    def press(self, *, stops: bool) -> None:
        self._button.publish(Bool(data=stops))

    def wait_for_run(self, task: str = CUBE) -> None:
        self.rig.wait_for(
            lambda: self.rig.states and self.rig.states[-1].task == task and not self.rig.states[-1].paused,
            "a robot at work",
        )

    def _await(self, ask: Any, what: str) -> Any:
        future = self.rig.run_on_executor(ask)
        self.rig.wait_for(future.done, what)
        return future.result()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """A paused robot, its server and the tree, which all tests of this file share."""
    folder = tmp_path_factory.mktemp("tree")
    rig = Rig(folder)
    try:
        tree = Tree(rig)
        rig.start_server(write_manifest(folder))
        takeover = {"topic": "teleop", "type": "sensor_msgs/msg/JointState", "silent_s": 0.5}
        rig.start_robot(write_contract(folder, stops=STOPS, takeover=takeover), autostart=False)
        rig.wait_for(lambda: rig.states and rig.states[-1].session_id, "a session")
        rig.send_until(
            lambda: tree.press(stops=False), lambda: rig.trigger("resume").success, "a button that is heard"
        )
        rig.trigger("pause")
        yield tree
    finally:
        rig.close()


@pytest.fixture(autouse=True)
def _rests(tree: Tree) -> None:
    """Each test begins with a paused robot."""
    tree.rig.wait_for(lambda: tree.rig.states[-1].paused, "a paused robot")
    tree.feedback.clear()


def test_a_run_succeeds_by_its_topic_and_leaves_the_robot_paused(tree: Tree) -> None:
    episode = tree.rig.states[-1].episode_id
    handle = tree.send(success_topic=SUCCESS)
    assert handle.accepted
    tree.wait_for_run()
    tree.rig.wait_for(lambda: tree.feedback and tree.feedback[-1].chunks > 0, "feedback with chunks")
    assert tree.feedback[-1].state_name == "STREAMING"
    tree.rig.send_until(tree.succeed, lambda: tree.rig.states[-1].paused, "the end")
    result = tree.result(handle)
    assert (result.termination, result.message) == (RunPolicy.Result.SUCCEEDED, "the success topic said true")
    assert result.elapsed_s > 0.0
    assert tree.rig.states[-1].episode_id == episode + 1


def test_a_run_ends_when_its_time_is_over(tree: Tree) -> None:
    result = tree.result(tree.send(max_duration_s=0.5))
    assert (result.termination, result.message) == (RunPolicy.Result.TIME_OUT, "not done within 0.5 s")
    tree.rig.wait_for(lambda: tree.rig.states[-1].paused, "a paused robot")


def test_a_canceled_run_pauses_the_robot(tree: Tree) -> None:
    handle = tree.send()
    tree.wait_for_run()
    tree.cancel(handle)
    assert tree.result(handle).termination == RunPolicy.Result.CANCELED
    tree.rig.wait_for(lambda: tree.rig.states[-1].paused, "a paused robot")


def test_one_run_at_a_time_and_the_second_is_rejected_in_words(tree: Tree) -> None:
    handle = tree.send()
    assert not tree.send("another").accepted
    log = (tree.rig.folder / "logs" / "remote_inference.log").read_text()
    assert f"run_policy: goal rejected: found another goal, '{CUBE}', expected its end" in log
    tree.cancel(handle)
    tree.result(handle)


@pytest.mark.parametrize(
    ("goal", "problem"),
    [
        ({"max_duration_s": -1.0}, "max_duration_s: found -1, expected 0 (no limit) to 86400"),
        ({"task": "x" * 5000}, "task: found 5000 characters, expected 4096 at most"),
        ({"success_topic": "no topic"}, "success_topic: found ' ' in 'no topic'"),
    ],
)
def test_a_goal_that_is_none_is_rejected_in_words(tree: Tree, goal: dict[str, Any], problem: str) -> None:
    assert not tree.send(**goal).accepted
    log = (tree.rig.folder / "logs" / "remote_inference.log").read_text()
    assert f"run_policy: goal rejected: {problem}" in log


def test_a_stop_input_ends_a_run_and_the_next_one_is_refused_until_it_is_cleared(tree: Tree) -> None:
    handle = tree.send()
    tree.wait_for_run()
    tree.rig.send_until(lambda: tree.press(stops=True), lambda: tree.rig.states[-1].stop, "the stop")
    result = tree.result(handle)
    assert result.termination == RunPolicy.Result.STOPPED
    assert "button" in result.message
    refused = tree.result(tree.send())
    assert refused.termination == RunPolicy.Result.STOPPED
    tree.rig.send_until(
        lambda: tree.press(stops=False), lambda: tree.rig.trigger("clear_stop").success, "the stop is cleared"
    )


def test_a_person_who_takes_over_ends_a_run_and_keeps_the_robot(tree: Tree) -> None:
    handle = tree.send()
    tree.wait_for_run()
    assert tree.rig.trigger("takeover").success
    result = tree.result(handle)
    assert (result.termination, result.message) == (RunPolicy.Result.TAKEN_OVER, "a person took over")
    assert not tree.rig.states[-1].paused
    tree.rig.trigger("pause")
    tree.rig.wait_for(lambda: tree.rig.states[-1].paused, "a paused robot")
    assert not tree.send().accepted, "a goal resumes no robot that a person has paused"
    log = (tree.rig.folder / "logs" / "remote_inference.log").read_text()
    assert "run_policy: goal rejected: a person has the robot, expected its release" in log
    assert tree.rig.states[-1].paused
    tree.rig.trigger("release")


def test_somebody_s_pause_ends_a_run(tree: Tree) -> None:
    handle = tree.send()
    tree.wait_for_run()
    tree.rig.trigger("pause")
    result = tree.result(handle)
    assert (result.termination, result.message) == (RunPolicy.Result.STOPPED, "paused by somebody else")


def verb(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "remote_inference.tools.cli", "run-task", "rig", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_verb_tells_how_a_run_went(tree: Tree) -> None:
    ended = verb(CUBE, "--limit", "1.5")
    output, progress = ended.communicate(timeout=DEADLINE_S)
    assert output.startswith("/rig: TIME_OUT: not done within 1.5 s, after 1.")
    assert "STREAMING" in progress
    assert ended.returncode == 1


def test_the_verb_prints_success_as_json_and_exits_with_zero(tree: Tree) -> None:
    running = verb(CUBE, "--success-topic", SUCCESS, "--json")
    tree.wait_for_run()
    tree.rig.send_until(tree.succeed, lambda: tree.rig.states[-1].paused, "the end")
    output, _ = running.communicate(timeout=DEADLINE_S)
    answer = json.loads(output)
    assert (answer["robot"], answer["termination"]) == ("/rig", "SUCCEEDED")
    assert running.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_ends_the_verb_cancels_its_run(tree: Tree, number: signal.Signals) -> None:
    """Ctrl-C, `timeout 60 remote-inference run-task` and a terminal that is closed."""
    running = verb(CUBE)
    tree.wait_for_run()
    running.send_signal(number)
    said = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 130, said
    tree.rig.wait_for(lambda: tree.rig.states[-1].paused, f"a paused robot: {said}")


def test_a_verb_whose_reader_is_gone_cancels_its_run(tree: Tree) -> None:
    running = verb(CUBE)
    assert running.stderr is not None
    assert running.stdout is not None
    assert "STREAMING" in running.stderr.readline()
    running.stderr.close()
    running.stdout.close()
    tree.rig.wait_for(lambda: tree.rig.states[-1].paused, "a paused robot")
    assert running.wait(DEADLINE_S) != 0


def test_a_run_whose_acceptance_is_lost_is_canceled(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Lossy(ActionClient):
        def send_goal_async(self, *words: Any, **options: Any) -> Any:
            super().send_goal_async(*words, **options)
            return Future()

    monkeypatch.setattr(task_client, "ActionClient", Lossy)
    with OperatorClient("lossy") as ros:
        client = task_client.TaskClient(ros, "/rig")
        ros.wait_for(client._client.server_is_ready, "the action", DEADLINE_S)  # not within the second
        with pytest.raises(OperatorError, match=r"no answer within 1 s"):
            client.run(RunPolicy.Goal(task=CUBE), 1.0, print)
    assert "run_policy: CANCELED" in capsys.readouterr().err


def test_ctrl_c_while_the_goal_is_sent_cancels_the_run(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The robot may run before the goal's sender knows that it was sent."""

    class Interrupted(ActionClient):
        def send_goal_async(self, *words: Any, **options: Any) -> Any:
            sent = super().send_goal_async(*words, **options)
            signal.raise_signal(signal.SIGINT)
            return sent

    monkeypatch.setattr(task_client, "ActionClient", Interrupted)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with OperatorClient("interrupted") as ros, pytest.raises(KeyboardInterrupt):
            task_client.TaskClient(ros, "/rig").run(RunPolicy.Goal(task=CUBE), DEADLINE_S, print)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert "run_policy: CANCELED" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        ("joint_states", "found sensor_msgs/msg/JointState, expected std_msgs/msg/Bool"),
        (SCORE, "found std_msgs/msg/Float64, expected std_msgs/msg/Bool"),
        (THRESHOLD, "found std_msgs/msg/Float64, expected std_msgs/msg/Bool"),
        ("a" * 245, ""),
    ],
)
def test_a_success_topic_that_cannot_be_heard_is_rejected_and_ends_no_node(
    tree: Tree, topic: str, problem: str
) -> None:
    """Ones of another type that the node has, that others publish and hear, and one with too long a name."""
    assert not tree.send(success_topic=topic).accepted
    log = (tree.rig.folder / "logs" / "remote_inference.log").read_text()
    assert f"run_policy: goal rejected: success_topic: {topic}: {problem}" in log
    result = tree.result(tree.send(max_duration_s=0.2))
    assert result.termination == RunPolicy.Result.TIME_OUT


def test_a_node_that_ends_tells_its_client(tmp_path: Path) -> None:
    """Also one that asks only then, as its question may be late."""
    rig = Rig(tmp_path, namespace="/other")
    try:
        tree = Tree(rig)
        rig.start_server(write_manifest(tmp_path), name="other_server")
        rig.start_robot(write_contract(tmp_path), servers=["/other_server"])
        rig.wait_for_state("STREAMING")
        handle = tree.send()
        tree.wait_for_run()
        rig.robot.send_signal(signal.SIGINT)
        rig.wait_for(lambda: handle.status == GoalStatus.STATUS_ABORTED, "the run's end")
        assert tree.result(handle).message == "the robot's node ends"
        assert rig.robot.wait(DEADLINE_S) == 0
    finally:
        rig.close()
