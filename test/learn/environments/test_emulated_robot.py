# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot in virtual time behaves as its engine does, and its clock knows the given latency alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from remote_inference.base.exchange import Request
from remote_inference.base.policy import Continuation, Float32Array, PolicyObservation
from remote_inference.learn.environment import ActionSpec, EnvironmentObservation
from remote_inference.learn.environments.emulated_robot import (
    EmulatedRobot,
    EmulationError,
    NetworkPath,
    PolicyChunk,
)
from remote_inference.learn.environments.policy_view import PolicyView
from remote_inference.learn.environments.robot_contract import make_robot_contract
from remote_inference.robot.config import RobotConfig
from support.environments.drawer import CHUNK, FRONT, Drawer, PullPolicy

PERIOD_S = 0.1  # of the drawer
CONFIG = RobotConfig(merge_mode="replace", buffer_time_s=0.3)


class Speeds(Drawer):
    """A drawer whose actions are velocities."""

    def __init__(self) -> None:
        super().__init__()
        actions = ActionSpec("velocity", ("turn", "pull"), (-1.0, -1.0), (1.0, 1.0), (np.inf, np.inf))
        self.spec = replace(self.spec, actions=actions)


class Policy(PullPolicy):
    """Opens by a hundredth a tick, without noise. steps: control ticks that it sees."""

    def __init__(self, steps: int = 1) -> None:
        super().__init__(step=0.01, noise=0.0)
        self._steps = steps

    @property
    def spec(self) -> Any:
        return replace(super().spec, observation_steps=self._steps)


class Wavering(Policy):
    """Says something else at each question."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[np.ndarray] = []

    def predict(self, batch: Sequence[PolicyObservation]) -> list[Float32Array]:
        rng = np.random.default_rng(len(self.said))
        self.said.append(rng.uniform(-0.05, 0.05, (CHUNK, 2)).astype(np.float32))
        return [self.said[-1]]


class Continuing(Policy):
    """Continues its chunks."""

    @property
    def spec(self) -> Any:
        return replace(super().spec, continuation=Continuation.GUIDANCE)


@dataclass
class Played:
    commands: list[np.ndarray] = field(default_factory=list)  # by control tick
    requests: list[Request] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)  # control tick of each request
    shown: list[tuple[float, ...]] = field(default_factory=list)  # times of what each request shows [s]
    held: int = 0


def play(
    latency_s: float,
    ticks: int = 12,
    config: RobotConfig = CONFIG,
    drawer: Drawer | None = None,
    policy: Policy | None = None,
    **path: float,
) -> Played:
    """path: what NetworkPath takes besides the latency."""
    drawer, policy = drawer or Drawer(), policy or Policy()
    view = PolicyView(drawer.spec, policy.spec)
    observation = drawer.reset(0, "open", view.wanted)
    way = NetworkPath(latency_s, **path)
    robot = EmulatedRobot(view, config, "open", first=observation, path=way)
    played = Played()

    def ask(shown: Sequence[EnvironmentObservation], request: Request) -> PolicyChunk:
        played.requests.append(request)
        played.asked.append(len(played.commands))
        played.shown.append(tuple(round(one.time_s, 6) for one in shown))
        (rows,) = policy.predict([view.observe(shown, "open")])
        return PolicyChunk(rows, rows, "first")

    for _ in range(ticks):
        played.commands.append(robot.tick(observation, ask))
        observation = drawer.step(played.commands[-1]).observation
    played.held = robot.held_ticks
    return played


def test_a_chunk_moves_the_robot_its_latency_after_the_request() -> None:
    played = play(latency_s=0.3, ticks=8)
    assert played.asked[0] == 0
    pulls = [float(command[1]) for command in played.commands]
    assert pulls[:3] == [0.0, 0.0, 0.0]
    # It was held meanwhile, so no row of the chunk is past.
    assert pulls[3] == pytest.approx(0.01)
    assert played.held == 3


@given(st.sampled_from((7.0, 15.0, 30.0, 50.0, 60.0, 90.0)), st.integers(0, 8))
@settings(max_examples=20, deadline=None)
def test_a_latency_is_a_whole_number_of_control_ticks_at_every_rate(rate_hz: float, ticks: int) -> None:
    drawer = Drawer()
    drawer.spec = replace(drawer.spec, control_rate_hz=rate_hz)
    played = play(latency_s=ticks / rate_hz, ticks=ticks + 1, drawer=drawer)
    assert played.held == ticks
    assert played.requests[0].inference_delay_steps == ticks


def test_without_latency_a_chunk_moves_the_robot_in_the_tick_that_asks() -> None:
    played = play(latency_s=0.0)
    assert played.held == 0
    assert float(played.commands[0][1]) == pytest.approx(0.01)


def test_rows_for_ticks_in_which_the_robot_moved_are_dropped() -> None:
    """Each row says where the drawer shall be in its tick: a late chunk makes no step back."""
    pulls = [float(command[1]) for command in play(latency_s=0.2, ticks=20).commands]
    moved = np.diff(pulls[2:])
    assert moved == pytest.approx(np.full_like(moved, 0.01), abs=1e-6)
    config = CONFIG.model_copy(update={"delay_policy": "none"})
    late = [float(command[1]) for command in play(0.2, 20, config).commands]
    assert min(np.diff(late)) < 0, "the delay rule is what prevents it"


def test_one_request_is_in_flight_and_tells_the_latency_as_delay() -> None:
    played = play(latency_s=0.2, ticks=20)
    assert min(np.diff(played.asked)) >= 2
    assert {request.inference_delay_steps for request in played.requests} == {2}
    later = played.requests[-1]
    assert later.prefix_robot is not None
    assert len(later.prefix_robot) <= CHUNK


def test_jitter_lets_chunks_come_sooner_and_later_and_none_before_it_was_asked_for() -> None:
    """One question is in flight: the next one follows each answer at once."""
    config = CONFIG.model_copy(update={"buffer_time_s": 60.0})
    played = play(0.3, 300, config, jitter_s=0.5)
    waits = np.diff(played.asked)
    assert {*waits} >= {1, 3, 5, 7}
    assert max(waits) <= 8


def test_what_is_lost_is_asked_for_again() -> None:
    """A request that times out would be given up after 50 control ticks."""
    waits = np.diff(play(0.2, 400, loss=0.2).asked)
    assert min(waits) == 2
    assert 2 < max(waits) < 50


@pytest.mark.parametrize("path", [{"jitter_s": 0.2}, {"loss": 0.3}])
def test_what_is_drawn_on_the_way_depends_on_the_seed(path: dict[str, float]) -> None:
    one, again, other = (play(0.2, 200, **path, seed=seed).asked for seed in (1, 1, 2))
    assert one == again != other


def test_the_same_episode_comes_out_equal_bit_for_bit() -> None:
    one, other = (play(latency_s=0.25, ticks=20) for _ in range(2))
    assert np.array_equal(one.commands, other.commands)
    assert one.asked == other.asked


def test_a_policy_of_several_steps_is_shown_the_ticks_before() -> None:
    played = play(latency_s=0.2, policy=Policy(steps=3))
    assert played.shown[0] == (0.0, 0.0, 0.0)
    last = played.shown[-1]
    assert np.diff(last) == pytest.approx([PERIOD_S, PERIOD_S])


def test_commands_come_in_the_environments_order() -> None:
    """The policy's actions are pull and turn, the drawer's turn and pull."""
    assert float(play(latency_s=0.0).commands[-1][0]) == 0.0


def test_a_robot_of_velocities_stops_where_it_has_no_action() -> None:
    config = RobotConfig(merge_mode="replace", buffer_time_s=0.3, fallback="zero")
    played = play(latency_s=1.0, ticks=30, config=config, drawer=Speeds())
    held = [command for command in played.commands if not command.any()]
    assert len(held) >= played.held > 10


@pytest.mark.parametrize(
    ("latency_s", "changes", "drawer", "said"),
    [
        (3.5, {}, Drawer, "max_action_age_s: found 3, expected more than"),
        (0.0, {"max_action_age_s": 0.06}, Drawer, "expected more than an action lasts, 0.1 s"),
        (0.0, {}, Speeds, "robot.fallback: found 'hold' for velocity actions, expected 'zero'"),
    ],
)
def test_parameters_that_cannot_work_are_refused_in_words(
    latency_s: float, changes: dict[str, Any], drawer: type[Drawer], said: str
) -> None:
    config = CONFIG.model_copy(update=changes)
    with pytest.raises(EmulationError, match=said):
        play(latency_s, ticks=80, config=config, drawer=drawer())


def test_asked_in_every_tick_a_policy_is_played_by_means_of_its_chunks() -> None:
    config, policy = RobotConfig(merge_mode="ensemble", ensemble_coeff=0.1), Wavering()
    played = play(latency_s=0.0, config=config, policy=policy)
    assert played.asked == list(range(12))
    for tick, command in enumerate(played.commands):
        rows = [policy.said[asked][tick - asked] for asked in range(max(0, tick - CHUNK + 1), tick + 1)]
        weights = np.exp(-0.1 * np.arange(len(rows)))
        assert command[::-1] == pytest.approx(weights @ np.array(rows) / weights.sum(), abs=1e-6)


def test_a_policy_that_continues_its_chunks_is_played_by_no_means() -> None:
    with pytest.raises(EmulationError, match="merge_mode: found 'ensemble', expected another"):
        play(latency_s=0.0, config=RobotConfig(merge_mode="ensemble"), policy=Continuing())


class Measured(Policy):
    """Says its units, which an environment does not know."""

    @property
    def spec(self) -> Any:
        return replace(super().spec, units={"turn": "deg", "pull": "m"})


def test_a_policy_that_says_its_units_is_played() -> None:
    said, unsaid = play(0.2, policy=Measured()), play(0.2)
    assert np.array_equal(said.commands, unsaid.commands)
    assert said.requests


def test_the_contract_of_a_policy_s_robot_has_the_policy_s_units_but_for_degrees() -> None:
    contract = make_robot_contract(Drawer().spec, Measured().spec, "open")
    assert (contract.actions.unit("turn"), contract.actions.unit("pull")) == ("rad", "m")


def test_only_what_the_policy_wants_is_asked_of_the_environment() -> None:
    assert PolicyView(Drawer().spec, Policy().spec).wanted == ("observation.state", FRONT)
