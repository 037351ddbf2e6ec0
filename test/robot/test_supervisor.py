# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When the supervisor calls chunks late, the robot starved or a joint not_following, and when it gives up."""

from __future__ import annotations

import json

import pytest

from remote_inference.robot.safety.effects import Effect, Inform, Report, Warn
from remote_inference.robot.safety.state_machine import Event, State, Transition
from remote_inference.robot.safety.supervisor import MAX_STARTS, Supervisor
from support.builders import make_config

S = 1_000_000_000
DEGRADED_S, OFFLINE_S, TIMEOUTS = 0.5, 3.0, 2
HUNGRY = {"wants_chunk": True, "starved": "queue empty", "queue_empty": True, "not_following": ()}
SATED = {"wants_chunk": False, "starved": "", "queue_empty": False, "not_following": ()}
WAITING = {**SATED, "wants_chunk": True}


def make_supervisor(**changes: object) -> Supervisor:
    limits = {"degraded_after_s": DEGRADED_S, "max_offline_s": OFFLINE_S, "max_timeouts": TIMEOUTS}
    return Supervisor(make_config(**{**limits, **changes}))


@pytest.fixture
def supervisor() -> Supervisor:
    """One whose robot is streaming."""
    made = make_supervisor()
    made.take_merge(1, not_following=False)
    assert made.machine.state is State.STREAMING
    return made


def events(effects: list[Effect]) -> list[Event]:
    return [effect.transition.event for effect in effects if isinstance(effect, Report)]


def state(supervisor: Supervisor) -> State:
    return supervisor.machine.state


# -- chunks that are late ------------------------------------------------------------------------------------


def test_a_chunk_is_late_when_it_has_been_wanted_for_the_whole_time(supervisor: Supervisor) -> None:
    assert supervisor.update(10 * S, **WAITING) == []
    assert supervisor.update(10 * S + S // 2 - 1, **WAITING) == []
    late = supervisor.update(10 * S + S // 2, **WAITING)
    assert events(late) == [Event.CHUNKS_LATE]
    assert supervisor.machine.cause == "no chunk for 0.5 s"


@pytest.mark.parametrize("end", ["merge", "want_nothing", "begin_plan", "sated"])
def test_what_ends_the_waiting_begins_its_time_anew(supervisor: Supervisor, end: str) -> None:
    supervisor.update(10 * S, **WAITING)
    if end == "merge":
        supervisor.take_merge(2, not_following=False)
    elif end == "want_nothing":
        supervisor.want_nothing()
    elif end == "begin_plan":
        supervisor.begin_plan()
    else:
        supervisor.update(10 * S, **SATED)
    assert supervisor.update(11 * S, **WAITING) == []
    assert events(supervisor.update(11 * S + S // 2, **WAITING)) == [Event.CHUNKS_LATE]


# -- a robot that has nothing to execute ---------------------------------------------------------------------


def test_an_empty_queue_is_told_at_once_when_it_had_been_filled(supervisor: Supervisor) -> None:
    assert events(supervisor.update(10 * S, **HUNGRY)) == [Event.STARVED]
    assert state(supervisor) is State.STALLED
    assert supervisor.machine.cause == "queue empty"


def test_an_empty_queue_is_no_news_while_the_first_chunk_of_a_plan_is_in_time(supervisor: Supervisor) -> None:
    supervisor.begin_plan()
    assert supervisor.update(10 * S, **HUNGRY) == []
    assert events(supervisor.update(10 * S + S // 2, **HUNGRY)) == [Event.CHUNKS_LATE, Event.STARVED]


def test_before_the_first_chunk_nothing_is_starved() -> None:
    supervisor = make_supervisor()
    assert supervisor.update(10 * S, **HUNGRY) == []
    assert state(supervisor) is State.CONNECTING


def test_blocking_requests_empty_the_queue_and_only_a_late_chunk_is_news() -> None:
    supervisor = make_supervisor(request_mode="blocking")
    supervisor.take_merge(1, not_following=False)
    assert supervisor.update(10 * S, **HUNGRY) == []
    assert events(supervisor.update(10 * S + S // 2, **HUNGRY)) == [Event.CHUNKS_LATE, Event.STARVED]


@pytest.mark.parametrize("changes", [{"starved": ""}, {"queue_empty": False}])
def test_a_robot_that_executes_or_could_is_not_starved(
    supervisor: Supervisor, changes: dict[str, object]
) -> None:
    assert supervisor.update(10 * S, **{**HUNGRY, **changes}) == []


# -- joints that do not follow -------------------------------------------------------------------------------


def test_joints_that_do_not_follow_stop_the_robot_and_are_told_once(supervisor: Supervisor) -> None:
    not_following = {**SATED, "not_following": ("elbow", "wrist")}
    told = supervisor.update(10 * S, **not_following)
    cause = "elbow, wrist: farther from the last command than max_following_error"
    assert Warn(cause) in told
    assert events(told) == [Event.STARVED]
    assert supervisor.machine.cause == cause
    assert supervisor.update(11 * S, **not_following) == []
    assert Warn("elbow: farther from the last command than max_following_error") in supervisor.update(
        12 * S, **{**SATED, "not_following": ("elbow",)}
    )


def test_joints_that_went_not_following_again_are_told_again(supervisor: Supervisor) -> None:
    not_following = {**SATED, "not_following": ("elbow",)}
    supervisor.update(10 * S, **not_following)
    assert supervisor.update(11 * S, **SATED) == []
    assert [type(effect) for effect in supervisor.update(12 * S, **not_following)] == [Warn]


def test_a_chunk_moves_no_robot_whose_joints_do_not_follow(supervisor: Supervisor) -> None:
    supervisor.update(10 * S, **HUNGRY)
    assert supervisor.take_merge(2, not_following=True) == []
    assert state(supervisor) is State.STALLED
    assert events(supervisor.take_merge(3, not_following=False)) == [Event.CHUNK_MERGED]
    assert supervisor.machine.cause == "chunk 3 merged"


def test_a_robot_that_is_late_and_not_following_streams_again_with_a_chunk(supervisor: Supervisor) -> None:
    supervisor.update(10 * S, **WAITING)
    supervisor.update(11 * S, **WAITING)
    assert state(supervisor) is State.DEGRADED
    supervisor.take_merge(2, not_following=True)
    assert state(supervisor) is State.STREAMING


# -- the server ----------------------------------------------------------------------------------------------


def test_so_many_failures_in_a_row_lose_the_session() -> None:
    supervisor = make_supervisor()
    assert (supervisor.failures, supervisor.loses_session) == (0, False)
    supervisor.take_failure()
    assert (supervisor.failures, supervisor.loses_session) == (1, False)
    supervisor.take_failure()
    assert (supervisor.failures, supervisor.loses_session) == (2, True)


@pytest.mark.parametrize("end", ["merge", "forgive"])
def test_a_chunk_in_time_or_forgiveness_counts_failures_anew(supervisor: Supervisor, end: str) -> None:
    supervisor.take_failure()
    if end == "merge":
        supervisor.take_merge(2, not_following=False)
    else:
        supervisor.forgive()
    assert supervisor.failures == 0


def test_the_robot_gives_up_when_it_has_been_offline_for_the_whole_time(supervisor: Supervisor) -> None:
    assert not supervisor.is_offline_too_long(100 * S)
    assert events(supervisor.lose_session("silent", 10 * S)) == [Event.SESSION_LOST]
    assert not supervisor.is_offline_too_long(13 * S - 1)
    assert supervisor.is_offline_too_long(13 * S)


def test_a_session_that_is_lost_again_before_a_chunk_came_begins_no_new_time(supervisor: Supervisor) -> None:
    """A server that admits and answers nothing must not keep a robot from giving up."""
    supervisor.lose_session("silent", 10 * S)
    supervisor.lose_session("silent again", 12 * S)
    assert supervisor.is_offline_too_long(13 * S)


def test_a_chunk_ends_the_time_offline(supervisor: Supervisor) -> None:
    supervisor.lose_session("silent", 10 * S)
    supervisor.take_merge(2, not_following=False)
    assert not supervisor.is_offline_too_long(20 * S)


def test_the_time_offline_runs_only_while_a_server_is_missed(supervisor: Supervisor) -> None:
    supervisor.need_no_server(9 * S)
    assert not supervisor.is_offline_too_long(20 * S), "the session was not lost"
    supervisor.lose_session("silent", 20 * S)
    supervisor.need_no_server(22 * S)
    assert not supervisor.is_offline_too_long(25 * S - 1)
    assert supervisor.is_offline_too_long(25 * S)


def test_servers_that_load_are_named_once_and_the_time_offline_begins_anew(supervisor: Supervisor) -> None:
    supervisor.lose_session("silent", 10 * S)
    told = "to load the policy: the clock of max_offline_s stands"
    assert supervisor.wait_for({"/a": ""}, 12 * S) == [Inform(f"waits for /a {told}")]
    assert supervisor.wait_for({"/a": ""}, 13 * S) == []
    assert supervisor.cause == "silent; waits for /a to load the policy"
    assert supervisor.wait_for({"/a": "", "/b": ""}, 14 * S) == [Inform(f"waits for /a and /b {told}")]
    assert supervisor.wait_for({}, 16 * S) == []
    assert supervisor.cause == "silent"
    assert not supervisor.is_offline_too_long(17 * S - 1)
    assert supervisor.is_offline_too_long(17 * S)
    supervisor.wait_for({"/a": ""}, 17 * S)
    supervisor.apply(Event.CONTRACT_VIOLATED, "another policy")
    assert supervisor.cause == "another policy", "the dead wait for nobody"


def load(supervisor: Supervisor, starts: int, at_ns: int) -> list[Effect]:
    """Let a server start so often, load and end; return what is said of it. at_ns: of its last end."""
    said: list[Effect] = []
    for start in range(starts):
        said += supervisor.wait_for({"/a": f"{start}"}, at_ns - starts + start)
        said += supervisor.wait_for({}, at_ns - starts + start)
    return said


def test_the_time_offline_runs_for_a_server_that_starts_too_often_while_it_loads(
    supervisor: Supervisor,
) -> None:
    supervisor.lose_session("silent", 10 * S)
    assert [type(said) for said in load(supervisor, MAX_STARTS, 20 * S)] == [Inform] * MAX_STARTS
    for at_s in (21, 22, 23):
        said = supervisor.wait_for({"/a": "another"}, at_s * S)
        told = f"/a started more than {MAX_STARTS} times and loads again"
        assert said == ([Warn(f"{told}: the clock of max_offline_s runs")] if at_s == 21 else [])
        assert supervisor.cause == f"silent; {told}"
    assert supervisor.is_offline_too_long(20 * S + round(OFFLINE_S * S))
    assert not supervisor.is_offline_too_long(20 * S + round(OFFLINE_S * S) - MAX_STARTS)
    supervisor.wait_for({"/a": "another", "/b": "first"}, 30 * S)
    assert not supervisor.is_offline_too_long(31 * S), "another server is waited for"


def test_a_chunk_ends_the_count_of_a_server_s_starts(supervisor: Supervisor) -> None:
    supervisor.lose_session("silent", 10 * S)
    load(supervisor, MAX_STARTS, 20 * S)
    supervisor.take_merge(2, not_following=False)
    supervisor.lose_session("silent", 21 * S)
    (said,) = supervisor.wait_for({"/a": "another"}, 22 * S)
    assert isinstance(said, Inform)


def test_the_starts_of_a_server_that_is_not_missed_do_not_count(supervisor: Supervisor) -> None:
    """While the robot is paused."""
    supervisor.lose_session("silent", 10 * S)
    for start in range(2 * MAX_STARTS):
        at_ns = 20 * S + start
        supervisor.need_no_server(at_ns)
        (said,) = supervisor.wait_for({"/a": f"{start}"}, at_ns)
        assert isinstance(said, Inform)
        supervisor.wait_for({}, at_ns)


def test_before_the_first_session_every_start_of_a_server_is_waited_for() -> None:
    supervisor = Supervisor(make_config())
    assert [type(said) for said in load(supervisor, 2 * MAX_STARTS, S)] == [Inform] * 2 * MAX_STARTS


# -- what the log says ---------------------------------------------------------------------------------------


def test_a_transition_is_one_line_with_the_robot_s_tags_if_it_has_some() -> None:
    transition = Transition(State.STREAMING, State.STALLED, Event.STARVED, "queue empty")
    fields = {
        "before": "STREAMING",
        "after": "STALLED",
        "event": "nothing to execute",
        "cause": "queue empty",
    }
    assert json.loads(transition.to_json({})) == fields
    assert json.loads(transition.to_json({"cell": "7"})) == {**fields, "tags": {"cell": "7"}}
