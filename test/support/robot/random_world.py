# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One random world for each seed: a robot, its servers and its network, to which faults of every kind happen.

The simulated world is the judge of each tick, request and merge. Worlds that are cured at the end must stream
again, unless the robot has given up.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Chunk, ChunkStatus, Request
from remote_inference.base.policy import Continuation, Float32Array
from remote_inference.robot.safety.state_machine import State
from remote_inference.robot.step_lock import StepLock
from support.builders import JOINTS, TOPICS, contract_document, make_config, make_spec, ns
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World

TWO = ("/server_a", "/server_b")
CURED = 0.1  # of the worlds: they take longer
RECOVERY_S = 20.0


@dataclass(frozen=True)
class Outcome:
    """What happened in a world."""

    simulated_s: float
    ticks: int
    commands: int
    requests: int
    merges: int
    reconnects: int
    dead: bool


def play(seed: int) -> Outcome:
    """Play the world of a seed. Raises AssertionError for a command or request that must not be."""
    return outcome_of(play_world(seed))


def outcome_of(world: World, *, is_honest: bool = True) -> Outcome:
    """Return what happened in a world that has ended. is_honest: nothing but the truth was measured."""
    assert not (is_honest and world.refused), f"{world.refused} measurements of a led arm were not believed"
    counters = world.engine.counters
    return Outcome(
        simulated_s=(world.now_ns - world.start_ns) / 1e9,
        ticks=len(world.ticks),
        commands=sum(tick.command is not None for _, tick in world.ticks),
        requests=counters.requests,
        merges=counters.chunks_merged,
        reconnects=counters.reconnects,
        dead=world.engine.dead,
    )


def play_world(seed: int, lock: StepLock | None = None) -> World:
    """Return the world of a seed at its end. lock: of the robot's threads."""
    rng = random.Random(seed)
    world = make_world(rng, seed, lock)
    for _ in range(rng.randint(1, 10)):
        world.run(rng.random() * 1.2)
        happen(world, rng)
    if rng.random() < CURED and not world.engine.dead:
        cure(world)
        world.run_until(lambda: world.engine.dead or world.state is State.STREAMING, limit_s=RECOVERY_S)
    return world


def make_world(rng: random.Random, seed: int, lock: StepLock | None = None) -> World:
    """Return a robot and its servers with random parameters, as far as they can work together."""
    fps = rng.choice([20.0, 20.0, 10.0, 50.0])
    spec = make_spec(
        chunk_size=rng.choice([1, 2, 5, 20, 20, 60, 100]),
        continuation=_continuation(rng, seed),
        trained_fps=fps,
        observation_steps=random.Random(f"steps {seed}").choice(
            [1, 1, 3]
        ),  # not from the other choices' stream
    )
    # Not from the other choices' stream.
    ticks_per_row = random.Random(f"ticks {seed}").choice([1, 1, 2, 5] if fps <= 20.0 else [1, 1, 2])
    servers = TWO[: rng.choice([1, 2])]
    world = World(
        make_config(servers=servers, **random_parameters(rng)),
        [RandomServer(name, spec, rng) for name in servers],
        seed=seed,
        contract=_contract(fps, ticks_per_row, seed, may_be_relative=spec.observation_steps == 1),
        lock=lock,
    )
    network = RandomNetwork(world, rng)
    world.fate = network.fate
    world.inference_ns = ns(rng.choice([0.01, 0.02, 0.06, 0.06, 0.3, 0.9]))
    return world


def _contract(fps: float, ticks_per_row: int, seed: int, *, may_be_relative: bool) -> Contract:
    document = contract_document(fps=fps, ticks_per_row=ticks_per_row)
    choice = random.Random(f"relative {seed}")  # not from the other choices' stream
    if may_be_relative and choice.random() < 0.2:
        names = choice.choice([JOINTS, JOINTS[1:]])
        document["actions"]["relative"] = {
            "to": choice.choice(["chunk_start", "previous"]),
            "names": list(names),
        }
    return parse_document(document, Contract, "random.contract.yaml")


def _continuation(rng: random.Random, seed: int) -> Continuation:
    if rng.random() >= 0.7:
        return Continuation.NONE
    is_trained = random.Random(f"trained {seed}").random() < 0.5  # not from the other choices' stream
    return Continuation.TRAINED if is_trained else Continuation.GUIDANCE


def random_parameters(rng: random.Random) -> dict[str, Any]:
    return {
        "autostart": rng.random() < 0.95,
        "merge_mode": rng.choice(["auto", "replace", "append"]),
        "delay_policy": rng.choice(["consumed", "latency", "none"]),
        "request_mode": rng.choice(["overlap", "overlap", "blocking"]),
        "fallback": rng.choice(["hold", "repeat_last"]),
        "execution_horizon": rng.choice([0, 0, 1, 3, 30]),
        "buffer_time_s": rng.choice([0.0, 0.2, 0.5, 0.5, "auto"]),
        "max_action_age_s": rng.choice([0.4, 1.0, 3.0, 3.0]),
        "max_sensor_age_s": rng.choice([0.1, 0.5, 0.5]),
        "request_timeout_s": rng.choice([0.2, 1.0, 5.0]),
        "max_timeouts": rng.choice([1, 2]),
        "service_timeout_s": rng.choice([0.3, 2.0]),
        "max_offline_s": rng.choice([2.0, 60.0]),
    }


class RandomServer(SimulatedServer):
    """Answers with a wave, and now and then with rows that no robot may execute."""

    def __init__(self, name: str, spec: Any, rng: random.Random) -> None:
        super().__init__(name, spec)
        self._rng = rng

    def rows(self, request: Request) -> Float32Array:
        """Return rows `[chunk_size, 2]`, sometimes with a value or a shape that is wrong."""
        rows = super().rows(request)
        if self._rng.random() < 0.03:
            rows[self._rng.randrange(len(rows)), 0] = self._rng.choice([np.nan, np.inf, 1e30])
        return rows[:-1] if self._rng.random() < 0.02 else rows


class RandomNetwork:
    """Loses, delays, repeats, reorders and mixes up answers; its losses change while the world goes on."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._loss = rng.choice([0.0, 0.0, 0.02, 0.1, 0.3])

    def fate(self, chunk: Chunk) -> list[tuple[int, Chunk]]:
        """Return the extra delay [ns] and the content of each copy of an answer that arrives."""
        rng = self._rng
        if rng.random() < self._loss:
            return []
        copies = [(ns(rng.choice([0.0, 0.0, 0.0, 0.0, 0.0, 0.05, 0.05, 0.3, 1.2, 3.5])), self._spoil(chunk))]
        if rng.random() < 0.1:
            copies.append((rng.randrange(ns(2)), chunk))
        if rng.random() < 0.05:
            copies.append((0, replace(chunk, session_epoch=chunk.session_epoch - 1)))
            copies.append((0, replace(chunk, seq_id=max(0, chunk.seq_id - 1))))
        return copies

    def _spoil(self, chunk: Chunk) -> Chunk:
        draw = self._rng.random()
        if draw < 0.02:
            return replace(chunk, status=ChunkStatus.ERROR, message="no")
        if draw < 0.03:
            return replace(chunk, status=ChunkStatus.DRAINING)
        return replace(chunk, model=chunk.model[:0], robot=chunk.robot[:0]) if draw < 0.04 else chunk


# -- what happens --------------------------------------------------------------------------------------------


def happen(world: World, rng: random.Random) -> None:
    """Let one random event happen."""
    rng.choice(EVENTS)(world, rng)


def cure(world: World) -> None:
    """End every fault and resume the robot."""
    world.fate = lambda chunk: [(0, chunk)]
    world.inference_ns = ns(0.02)
    world.presence = world.heard = True
    world.sensors = dict.fromkeys(TOPICS, True)
    world.stamps.clear()
    for server in world.servers.values():
        server.hung, server.accepting, server.max_sessions = False, True, 4
        server.restart()
    world.resume()


def _pause_and_move(world: World, rng: random.Random) -> None:
    world.pause()
    world.run(rng.random())
    world.push(np.array([rng.uniform(-1, 1), rng.uniform(-1, 1)]))
    world.resume()


def _take_the_controller_away(world: World, rng: random.Random) -> None:
    world.heard = False
    world.run(rng.choice([0.02, 0.3, 1.5, 4.0]))
    world.heard = True


def _lose_the_way(world: World, _: random.Random) -> None:
    world.presence = not world.presence


def _run_stamps_slowly(world: World, rng: random.Random) -> None:
    speed, back_ns = rng.choice([0.1, 0.5, 0.9, 1.0]), rng.randrange(ns(3))
    world.stamps[rng.choice(TOPICS)] = lambda now_ns: int(now_ns * speed) - back_ns


def _kill(world: World, rng: random.Random) -> None:
    server = world.servers[world.engine.handshake.server]
    server.up = False
    if rng.random() < 0.7:
        world.run(rng.random() * 2.0)
        server.restart()
        # Not from the other choices' stream.
        loads = random.Random(f"loads {world.begin.seed} {world.now_ns}")
        if loads.random() < 0.3:
            world.load(server)
            world.after(ns(loads.choice([1.0, 5.0, 90.0])), lambda: setattr(server, "loading", False))


def _restart(world: World, rng: random.Random) -> None:
    rng.choice(list(world.servers.values())).restart()


def _hang(world: World, _: random.Random) -> None:
    world.server.hung = not world.server.hung


def _refuse(world: World, rng: random.Random) -> None:
    server = rng.choice(list(world.servers.values()))
    server.max_sessions, server.accepting = rng.choice([0, 4, 4]), rng.random() < 0.7


def _silence(world: World, rng: random.Random) -> None:
    topic = rng.choice(TOPICS)
    world.sensors[topic] = not world.sensors[topic]


def _slow_down(world: World, rng: random.Random) -> None:
    world.inference_ns = ns(rng.choice([0.01, 0.02, 0.06, 0.3, 4.0]))


def _reset(world: World, rng: random.Random) -> None:
    world.reset(rng.choice(["", "fold"]))


def _reset_paused(world: World, _: random.Random) -> None:
    world.pause()
    world.reset()
    world.resume()


def _wait(world: World, rng: random.Random) -> None:
    world.run(rng.random() * 3.0)


Occurrence = Callable[[World, random.Random], None]
EVENTS: tuple[Occurrence, ...] = (
    _pause_and_move,
    _take_the_controller_away,
    _lose_the_way,
    _run_stamps_slowly,
    _kill,
    _restart,
    _restart,
    _hang,
    _refuse,
    _silence,
    _slow_down,
    _reset,
    _reset_paused,
    _wait,
)
