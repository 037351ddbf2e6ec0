# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A planner says the task on a topic while a real robot's node runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from std_msgs.msg import String

from remote_inference.base.limits import MAX_TASK_LENGTH
from remote_inference.base.wire.qos import LATCHED_QOS, OBSERVATION_TOPIC
from remote_inference.msg import Observation
from support.nodes.rig import DEEP_QOS, Rig, write_contract, write_manifest

TOPIC = "instruction"


class Planner:
    """Publishes instructions and keeps its last one; hears what the robot asks for."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.tasks: list[str] = []  # of each request
        self._publisher: Any = rig.run_on_executor(self._listen)

    def _listen(self) -> Any:
        self.rig.subscribe(Observation, OBSERVATION_TOPIC, lambda o: self.tasks.append(o.task), DEEP_QOS)
        return self.rig.node.create_publisher(String, TOPIC, LATCHED_QOS)

    def say(self, text: str) -> None:
        self._publisher.publish(String(data=text))

    def log(self) -> str:
        return (self.rig.folder / "logs" / "remote_inference.log").read_text()


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    """A robot whose planner has said something before the robot came, and its server."""
    folder = tmp_path_factory.mktemp("instructed")
    rig = Rig(folder)
    try:
        planner = Planner(rig)
        planner.say("tidy the table")
        rig.start_server(write_manifest(folder))
        instruction = {"topic": TOPIC, "type": "std_msgs/msg/String"}
        rig.start_robot(write_contract(folder, instruction=instruction))
        rig.wait_for_state("STREAMING")
        yield planner
    finally:
        rig.close()


def test_what_was_said_before_the_robot_came_is_heard(planner: Planner) -> None:
    planner.rig.wait_for(lambda: planner.tasks[-1:] == ["tidy the table"], "a request with the task")


def test_a_new_instruction_comes_with_the_next_requests_in_the_same_episode(planner: Planner) -> None:
    episode = planner.rig.states[-1].episode_id
    planner.say("  stack the cubes ")
    planner.rig.wait_for(lambda: planner.tasks[-1:] == ["stack the cubes"], "a request with the task")
    planner.rig.wait_for(lambda: planner.rig.states[-1].task == "stack the cubes", "a state with the task")
    assert planner.rig.states[-1].episode_id == episode
    assert "instruction: 'stack the cubes'" in planner.log()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x" * (MAX_TASK_LENGTH + 1), f"instruction: found {MAX_TASK_LENGTH + 1} characters, expected"),
        ("   ", "instruction: empty; the task stays"),
    ],
)
def test_what_is_no_task_is_named_and_the_old_one_stays(planner: Planner, text: str, problem: str) -> None:
    planner.say("wave")
    planner.rig.wait_for(lambda: planner.tasks[-1:] == ["wave"], "a request with the task")
    asked = len(planner.tasks)
    planner.rig.send_until(lambda: planner.say(text), lambda: problem in planner.log(), "the refusal")
    planner.rig.wait_for(lambda: len(planner.tasks) > asked + 1, "later requests")
    assert set(planner.tasks[asked:]) == {"wave"}
