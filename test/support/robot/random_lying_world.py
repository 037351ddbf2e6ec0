# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One random world for each seed in which sensors lie: about any joint or pose, in each state of the robot.

In a part of them they say the truth, late, in bursts and at any rate: there nothing that is said of a led
joint is refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from remote_inference.base.exchange import Request
from remote_inference.base.policy import Float32Array
from remote_inference.robot.safety.state_machine import State
from support.builders import make_config, make_spec, ns
from support.robot import random_poses
from support.robot.lying_sensors import (
    TURN,
    Drifting,
    Frozen,
    Late,
    Lie,
    Restarted,
    Second,
    Shifted,
    Wild,
    Wrapping,
    Wrong,
)
from support.robot.lying_world import LyingWorld, Timing
from support.robot.random_watched_world import Wandering, make_contract, resume
from support.robot.random_world import Outcome, outcome_of

HONEST = 0.25  # of the worlds
TWO = 0.25  # of the lies are told of what another says
FARTHEST = 7.0  # rad, both ways: a joint that wraps at pi goes beyond it, and one that lost a turn is within
KINDS = (
    *3 * [("position", "position")],
    ("position", "velocity"),
    ("effort", "position"),
    ("position", "switch"),
    ("pose", "position"),
    ("pose", "velocity"),
)
INTERVALS_S = (0.005, 0.01, 0.02, 0.02, 0.04, 0.1, 0.2)
RATIOS = ((1, 1), (1, 2), (1, 5), (2, 1), (9, 1))
LONGEST_S = 20.0  # until the robot streams


def play(seed: int) -> Outcome:
    """Play the world of a seed. Raises AssertionError for a command that must not be."""
    world = play_world(seed)
    return outcome_of(world, is_honest=world.is_honest)


def play_world(seed: int) -> LyingWorld:
    """Return the world of a seed at its end."""
    rng = random.Random(f"lies {seed}")
    world = make_world(rng, seed)
    world.is_honest = is_honest = rng.random() < HONEST
    for _ in range(rng.randint(2, 5)):
        begin(world)
        world.run(rng.random())
        rng.choice(STATES)(world, rng)
        if not is_honest:
            world.lies += make_lies(world, rng)
        world.run(rng.uniform(0.1, 1.5))
        if rng.random() < 0.7:
            go_on(world)
        world.run(rng.uniform(0.1, 1.5))
    return world


def make_world(rng: random.Random, seed: int) -> LyingWorld:
    """Return a robot with random controllers, sensors and parameters."""
    fps = rng.choice([5.0, 20.0, 20.0, 50.0])
    kinds = rng.choice(KINDS)
    limit = rng.choice([1.0, FARTHEST])
    server = Wide("/server_a", make_spec(chunk_size=rng.choice([20, 60]), trained_fps=fps), rng)
    max_sensor_age_s = rng.choice([0.2, 0.5])
    config = make_config(
        fallback=rng.choice(["hold", "repeat_last"]),
        merge_mode=rng.choice(["auto", "replace", "append"]),
        max_action_age_s=rng.choice([1.0, 3.0]),
        max_sensor_age_s=max_sensor_age_s,
        max_offline_s=60.0,
        watchdog_timeout_s=rng.choice([0.1, 0.2]),
    )
    contract = make_contract(rng, kinds, fps, random_poses.choose_form(rng), limit=limit)
    server.learn(contract)
    places = range(-1, 0) if kinds[0] == "pose" else range(-2, 0)
    server.wide = {place: limit for place in places if kinds[place] == "position"}
    interval_s = rng.choice([one for one in INTERVALS_S if 2 * one <= max_sensor_age_s])
    world = LyingWorld(
        config,
        [server],
        seed=seed,
        contract=contract,
        watched=rng.random() < 0.8,
        sensor_ns=ns(interval_s),
        timing=make_timing(rng, interval_s),
        timing_seed=seed,
    )
    world.inference_ns = ns(rng.choice([0.01, 0.06, 0.3]))
    world.engine.hear_stop("button", False, world.now_ns)
    return world


class Wide(Wandering):
    """Its policy leads some joints farther."""

    wide: dict[int, float]  # how many times as far, by the column from the end

    def rows(self, request: Request) -> Float32Array:
        rows = super().rows(request)
        for column, times in self.wide.items():
            rows[:, column] *= times
        return rows


def make_timing(rng: random.Random, interval_s: float) -> Timing:
    """Return how the messages of a sensor come."""
    return Timing(
        jitter_ns=ns(rng.choice([0.0, 0.0, 0.005, 0.3 * interval_s])),
        burst=rng.choice([0.0, 0.0, 0.02]),
        burst_ns=ns(rng.choice([0.03, 0.1, 0.25])),
        is_stamped=rng.random() < 0.7,
    )


# -- lies ----------------------------------------------------------------------------------------------------


def make_lies(world: LyingWorld, rng: random.Random) -> list[Lie]:
    """Return one lie that begins soon, or two of which the second tells of what the first says."""
    about = rng.choice(subjects(world))
    return [rng.choice(LIES)(world, rng, about) for _ in range(1 + (rng.random() < TWO))]


def subjects(world: LyingWorld) -> list[tuple[int, ...]]:
    """Return the columns of each joint and pose that positions are commanded of."""
    joints = [(int(column),) for column in np.flatnonzero(world.is_position)]
    return [*joints, *(tuple(place.tolist()) for place in world.poses.columns)]


About = tuple[int, ...]
Maker = Callable[[LyingWorld, random.Random, About], Lie]


def elsewhere(world: LyingWorld, rng: random.Random, about: About) -> tuple[float, ...]:
    """Return where a joint or pose is said to be: at zero, near by, or anywhere."""
    if len(about) > 1:
        upright = np.array([*3 * [0.0], *3 * [0.0], 1.0])
        return tuple(rng.choice([upright, random_poses.somewhere(rng, 1.0)[:7]]).tolist())
    limit = world.contract.actions.limit_of(world.contract.actions.names[about[0]])
    near = float(world.position[about[0]]) + rng.uniform(-0.5, 0.5)
    return (
        rng.choice([0.0, near, rng.uniform(limit.min, limit.max), rng.uniform(2 * limit.min, 2 * limit.max)]),
    )


def lasting(world: LyingWorld, rng: random.Random, longest_s: float = 1.0) -> tuple[int, int]:
    """Return when a stream begins and ends."""
    begin_ns = next_message_ns(world)
    return begin_ns, begin_ns + ns(rng.choice([0.05, 0.1, 0.2, 0.3, rng.uniform(0.05, longest_s)]))


def next_message_ns(world: LyingWorld) -> int:
    passed = (world.now_ns - world.start_ns) // world.sensor_ns
    return world.start_ns + (passed + 1) * world.sensor_ns


def _single(world: LyingWorld, rng: random.Random, about: About) -> Lie:
    begin_ns = next_message_ns(world)
    return Wrong(about, begin_ns, begin_ns + world.sensor_ns, elsewhere(world, rng, about))


def _stream(world: LyingWorld, rng: random.Random, about: About) -> Lie:
    return Wrong(about, *lasting(world, rng), elsewhere(world, rng, about))


def _wild(world: LyingWorld, rng: random.Random, about: About) -> Lie:
    if len(about) > 1:
        return Wild(about[:3], *lasting(world, rng), 3 * (rng.uniform(0.05, 1.0),))
    return Wild(about, *lasting(world, rng), (rng.uniform(0.1, 3.0),))


def _restarted(world: LyingWorld, rng: random.Random, about: About) -> Lie:
    silent_ns = ns(rng.uniform(0.05, 0.6))
    begin_ns = next_message_ns(world)
    end_ns = begin_ns + silent_ns + ns(rng.uniform(0.1, 0.45))
    zero = (0.0,) if len(about) == 1 else (*6 * [0.0], 1.0)
    return Restarted(about, begin_ns, end_ns, zero, silent_ns)


def _second(world: LyingWorld, rng: random.Random, about: About) -> Lie:
    wrong, right = rng.choice(RATIOS)
    begin_ns, end_ns = lasting(world, rng, 5.0)
    value = elsewhere(world, rng, about)
    return Second(about, begin_ns, end_ns, value, world.sensor_ns, wrong, right)


def _shifted(world: LyingWorld, rng: random.Random, about: About) -> Lie:
    by = rng.choice([TURN, -TURN, rng.uniform(-1.5, 1.5)])
    if len(about) > 1:
        about, by = about[:3], rng.uniform(-0.5, 0.5)
    return Shifted(about, *lasting(world, rng, 5.0), by)


def _drifting(world: LyingWorld, rng: random.Random, about: About) -> Lie:
    return Drifting(about[:3], *lasting(world, rng, 5.0), rng.choice([0.1, -0.3, 0.8, -1.5, 3.0]))


def _wrapping(world: LyingWorld, rng: random.Random, about: About) -> Lie:
    if len(about) > 1:
        return _frozen(world, rng, about)
    begin_ns, end_ns = lasting(world, rng, 5.0)
    return Wrapping(about, begin_ns, end_ns)


def _frozen(world: LyingWorld, rng: random.Random, about: About) -> Lie:
    return Frozen(about, *lasting(world, rng, 5.0))


def _late(world: LyingWorld, rng: random.Random, about: About) -> Lie:
    begin_ns, end_ns = lasting(world, rng)
    end_ns = rng.choice([begin_ns + world.sensor_ns, end_ns])
    return Late(about, begin_ns, end_ns, ns(rng.uniform(0.1, 0.8)))


LIES: tuple[Maker, ...] = (
    *3 * [_single],
    *3 * [_stream],
    _wild,
    *2 * [_restarted],
    *2 * [_second],
    _shifted,
    _drifting,
    _wrapping,
    _frozen,
    *2 * [_late],
)

# -- states of the robot in which they are told ------------------------------------------------------------


def begin(world: LyingWorld) -> None:
    """Let the robot stream, as far as it still can."""
    for _ in range(round(LONGEST_S / 0.5)):
        if world.engine.dead or world.state is State.STREAMING:
            return
        go_on(world)
        world.run(0.5)


def go_on(world: LyingWorld) -> None:
    """Let the operator have the policy go on."""
    if world.engine.dead or world.hung:
        return
    world.target = None
    if world.engine.taken_over:
        world.release()
    world.clear_stop()
    resume(world)


def _stream_on(_: LyingWorld, __: random.Random) -> None:
    """Let the policy command."""


def _pause(world: LyingWorld, rng: random.Random) -> None:
    world.engine.pause_at_once()
    world._by_worker(world.pause)
    world.run(rng.choice([0.0, 0.3, 1.0]))


def _take_over(world: LyingWorld, rng: random.Random) -> None:
    if world.engine.dead:
        return
    world.take_over()
    for _ in range(rng.randint(1, 3)):
        world.target = somewhere(world, rng)
        world.run(rng.random() * 0.5)


def somewhere(world: LyingWorld, rng: random.Random) -> np.ndarray:
    """Return where a person wants the robot."""
    if world.poses.exist:
        return random_poses.somewhere(rng, 1.2)
    limits = [world.contract.actions.limit_of(name) for name in world.contract.actions.names]
    return np.array([1.2 * rng.uniform(limit.min, limit.max) for limit in limits])


def _go_home(world: LyingWorld, rng: random.Random) -> None:
    """Let another policy come: the robot goes home, if it has one, and ends."""
    world.server.spec = replace(world.server.spec, fingerprint="another")
    world.server.restart()
    world.run(rng.uniform(0.5, 2.0))


def _stop_by_watchdog(world: LyingWorld, rng: random.Random) -> None:
    """Let the control thread hang; the lie comes while, or a moment before, the watchdog stops the arm."""
    world.stand_still(rng.choice([0.4, 1.0]), "stuck")
    world.run(rng.choice([0.0, 0.1, 0.3]))


State_ = Callable[[LyingWorld, random.Random], None]
STATES: tuple[State_, ...] = (
    *3 * [_stream_on],
    *2 * [_pause],
    *2 * [_take_over],
    _go_home,
    *2 * [_stop_by_watchdog],
)
