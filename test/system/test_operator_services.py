# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What an operator's services answer, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from std_srvs.srv import Trigger

from remote_inference.base.contract.contract import load_contract
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.engine import Engine
from remote_inference.robot.nodes.operator import OperatorServices
from remote_inference.robot.safety.effects import Effect, Inform
from remote_inference.robot.safety.state_machine import Event
from remote_inference.srv import StartEpisode
from support.nodes.rig import write_contract


class Services:
    """Stands for a node: keeps each service's callback, and carries out its work at once, or later."""

    def __init__(self, engine: Engine, *, at_once: bool = True) -> None:
        self.now_s = 0.0
        self.work: list[Callable[[], list[Effect]]] = []
        self.callbacks: dict[str, Callable[..., Any]] = {}
        self.schedule = TimerSchedule(lambda: self.now_s)
        submit = (lambda work: work()) if at_once else self.work.append
        self.services = OperatorServices(self, self.schedule, engine, submit, lambda: self.now_s)  # type: ignore[arg-type]

    def create_service(
        self, _kind: type, name: str, callback: Callable[..., Any], **_: Any
    ) -> SimpleNamespace:
        self.callbacks[name.removeprefix("~/")] = callback
        return SimpleNamespace(send_response=None)

    def call(self, name: str) -> Any:
        kind = StartEpisode if name == "start_episode" else Trigger
        (answer,) = self.ask(name, kind)
        return answer

    def ask(self, name: str, kind: Any = Trigger) -> list[Any]:
        """Call a service; return the list that takes its answer."""
        given: list[Any] = []
        self.callbacks[name](kind.Request(), kind.Response()).bind(given.append)
        return given


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    takeover = {"topic": "teleop", "type": "sensor_msgs/msg/JointState"}
    button = {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}
    contract = load_contract(write_contract(tmp_path, takeover=takeover, stops={"button": button}))
    engine = Engine(contract, RobotConfig(), "/rig/remote_inference", "/rig")
    engine.hear_stop("button", False, 0)
    return engine


@pytest.fixture
def dead(engine: Engine) -> Services:
    engine._die(Event.CONTRACT_VIOLATED, "another policy")
    return Services(engine)


@pytest.fixture
def busy(engine: Engine) -> Services:
    """A robot whose worker has no time yet."""
    return Services(engine, at_once=False)


def test_a_robot_that_gave_up_refuses_every_command_but_pause(dead: Services) -> None:
    answers = {name: dead.call(name) for name in dead.callbacks}
    accepted = {name for name, answer in answers.items() if answer.success}
    assert accepted == {"pause"}
    assert {answers[name].message for name in answers.keys() - accepted} == {"stopped: another policy"}
    assert len(answers) == 7


@pytest.mark.parametrize("name", ["pause", "resume", "clear_stop", "takeover", "reset"])
def test_no_call_waits_for_the_worker_on_the_thread_that_hears_stops(busy: Services, name: str) -> None:
    given = busy.ask(name)
    assert not given
    assert len(busy.work) == 1


def test_a_command_is_answered_when_the_worker_has_carried_it_out(busy: Services, engine: Engine) -> None:
    engine.resume(0)
    given = busy.ask("pause")
    busy.work.pop()()
    (answer,) = given
    assert (answer.success, answer.message) == (True, "paused, queue kept")


def test_a_command_that_waits_too_long_is_given_up_and_not_carried_out(
    busy: Services, engine: Engine
) -> None:
    given = busy.ask("resume")
    for busy.now_s in (0.5, 1.5, 2.5):
        busy.schedule.run_due()
        assert len(given) == (busy.now_s > 1.0)
    assert (given[0].success, given[0].message) == (False, "not done within 1 s")
    assert busy.work.pop()() == []
    assert engine.paused


def test_a_pause_that_waits_too_long_is_answered_and_carried_out_all_the_same(
    busy: Services, engine: Engine
) -> None:
    """Its first half has acted already, and who hears of no pause calls for no resume."""
    engine.resume(0)
    given = busy.ask("pause")
    busy.now_s = 1.5
    busy.schedule.run_due()
    assert [(answer.success, answer.message) for answer in given] == [(False, "not done within 1 s")]
    engine.resume(0)  # whatever undid the first half
    assert busy.work.pop()() == []
    assert engine.paused
    assert len(given) == 1


def test_a_takeover_that_waits_has_stopped_the_policy_and_is_carried_out_however_late(
    busy: Services, engine: Engine
) -> None:
    """A policy that misbehaves must not go on because the node is busy."""
    engine.resume(0)
    forgets = engine.control.operator.forgets
    given = busy.ask("takeover")
    assert engine.taken_over
    assert engine.control.operator.forgets == forgets + 1
    assert engine.control.operator.person_since_ns > 0
    busy.now_s = 1.5
    busy.schedule.run_due()
    assert [(answer.success, answer.message) for answer in given] == [(False, "not done within 1 s")]
    assert [type(effect) for effect in busy.work.pop()()] == [Inform]
    assert engine.taken_over
    assert len(given) == 1


def test_a_takeover_that_is_refused_leaves_the_policy_alone(busy: Services, engine: Engine) -> None:
    engine.take_duplicate_node(True, 0)
    given = busy.ask("takeover")
    assert not engine.taken_over
    busy.work.pop()()
    assert "another node is called" in given[0].message
    assert not engine.taken_over


def test_a_resume_is_refused_when_a_pause_was_called_while_it_waited(busy: Services, engine: Engine) -> None:
    resumed, paused = busy.ask("resume"), busy.ask("pause")
    for work in busy.work:
        work()
    assert [(answer.success, answer.message) for answer in resumed] == [(False, "paused meanwhile")]
    assert [answer.success for answer in paused] == [True]
    assert engine.paused


def test_a_stop_is_not_cleared_by_a_call_from_before_it(busy: Services, engine: Engine) -> None:
    given = [busy.ask("clear_stop"), busy.ask("resume")]
    for stops in (True, False):
        engine.hear_stop("button", stops, 0)
    for work in busy.work:
        work()
    assert [answer.success for answers in given for answer in answers] == [False, False]
    assert given[0][0].message == "the robot was stopped meanwhile"
    assert engine.stops.latched


def test_a_resume_that_was_called_after_a_pause_is_carried_out(busy: Services, engine: Engine) -> None:
    given = [busy.ask("resume"), busy.ask("pause"), busy.ask("resume")]
    for work in busy.work:
        work()
    assert [answer.success for answers in given for answer in answers] == [False, True, True]
    assert not engine.paused


@pytest.mark.parametrize("name", ["resume", "clear_stop", "takeover", "release", "reset"])
def test_a_command_that_waited_while_the_robot_gave_up_is_refused(
    busy: Services, engine: Engine, name: str
) -> None:
    given = busy.ask(name)
    engine._die(Event.CONTRACT_VIOLATED, "another policy")
    assert busy.work.pop()() == []
    assert [(answer.success, answer.message) for answer in given] == [(False, "stopped: another policy")]


def test_a_command_in_progress_is_not_given_up(busy: Services, engine: Engine) -> None:
    def look(now_ns: int, pauses: int) -> tuple[str, list[Effect]]:  # the executor's thread looks right now
        busy.now_s = 5.0
        busy.schedule.run_due()
        return resume(now_ns, pauses)

    resume = engine.resume
    engine.resume = look  # type: ignore[method-assign]
    given = busy.ask("resume")
    busy.work.pop()()
    assert [answer.success for answer in given] == [True]


def test_the_end_of_the_node_answers_what_waits(busy: Services) -> None:
    given = [busy.ask("resume"), busy.ask("takeover")]
    busy.services.close()
    assert [[answer.message for answer in answers] for answers in given] == [["the node stops"]] * 2
