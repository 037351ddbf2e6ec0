# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One random world for each seed: controllers of every kind, a watchdog, a person, threads that stand still.

Where `random_world` disturbs servers and network, this one disturbs the robot. What happens may overlap.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Request
from remote_inference.base.policy import Float32Array
from remote_inference.robot.safety.fault_injection import Fault, Kind, Target
from remote_inference.robot.safety.state_machine import State
from support.builders import (
    FLOAT64_MULTI_ARRAY,
    JOINT_TRAJECTORY,
    JOINTS,
    LIMIT,
    contract_document,
    make_config,
    make_spec,
    ns,
)
from support.robot import random_poses
from support.robot.controllers import Controlled, Trajectory
from support.robot.random_world import CURED, RECOVERY_S, Outcome, outcome_of
from support.robot.simulated_server import SimulatedServer
from support.robot.watched_world import WatchedWorld

SPEED = 2.0  # bound on the change of a command [unit/s]
KINDS = (  # of the two joints' actions
    *4 * [("position", "position")],
    *2 * [("position", "velocity")],
    *[("velocity", "position"), ("position", "effort"), ("velocity", "effort")],
    *[("velocity", "velocity"), ("effort", "effort")],
)
POSED = 0.25  # of the worlds: a pose beside an action of another kind
BOUNDED = 0.4  # of the worlds: accelerations are bounded
SWITCHED = 0.3  # of the worlds: one of the two is a switch
SWITCHES = (
    *2 * [("position", "switch")],
    ("switch", "position"),
    ("velocity", "switch"),
    ("switch", "effort"),
)
DEACTIVATED = 0.1  # of the events: a controller's manager deactivates it, too
FROM_MEASURED = 0.25  # of the trajectory controllers: each command begins where the arm is measured
NOTICES_S = (0.0, 0.02, 0.1)  # until the node hears of it
STALLS_S = (0.05, 0.1, 0.2, 0.3, 1.0, 3.5)
OVERLOADS_S = (0.5, 2.0, 5.0)
SLOW_SENSORS_NS = (ns(0.1), ns(0.2))
COMMANDS = (  # types of the two joints' controllers; None: the first takes both
    (JOINT_TRAJECTORY, JOINT_TRAJECTORY),
    (JOINT_TRAJECTORY, None),
    (JOINT_TRAJECTORY, FLOAT64_MULTI_ARRAY),
    (FLOAT64_MULTI_ARRAY, JOINT_STATE),
)


def play(seed: int) -> Outcome:
    """Play the world of a seed. Raises AssertionError for a command or silence that must not be."""
    return outcome_of(play_world(seed))


def play_world(seed: int) -> WatchedWorld:
    """Return the world of a seed at its end."""
    rng = random.Random(f"watched {seed}")
    world = make_world(rng, seed)
    managers = random.Random(f"managers {seed}")  # not from the other choices' stream
    for arm in world.arms:
        if isinstance(arm.controller, Trajectory):
            arm.controller.from_measured = managers.random() < FROM_MEASURED
    for _ in range(rng.randint(3, 12)):
        world.run(rng.random() * 1.2)
        if managers.random() < DEACTIVATED:
            _deactivate_a_controller(world, managers)
        rng.choice(EVENTS)(world, rng)
        if rng.random() < 0.5:
            resume(world)
    finish(world, rng)
    return world


def make_world(rng: random.Random, seed: int) -> WatchedWorld:
    """Return a robot with random controllers and parameters."""
    fps = rng.choice([5.0, 8.0, 20.0, 20.0, 50.0])
    kinds = rng.choice(KINDS)
    switched = random.Random(f"switch {seed}")  # nor this
    if switched.random() < SWITCHED:
        kinds = switched.choice(SWITCHES)
    posed = random.Random(f"pose {seed}")  # nor this
    if posed.random() < POSED:
        kinds = ("pose", posed.choice(["position", "position", "velocity", "effort", "switch"]))
    fallbacks = ["zero"] if {"position", "pose"}.isdisjoint(kinds) else ["hold", "repeat_last"]
    spec = make_spec(chunk_size=rng.choice([20, 60]), trained_fps=fps)
    server = Wandering("/server_a", spec, rng)
    config = make_config(
        fallback=rng.choice(fallbacks),
        merge_mode=rng.choice(["auto", "replace", "append"]),
        max_action_age_s=rng.choice([1.0, 3.0]),
        max_sensor_age_s=rng.choice([0.2, 0.5]),
        max_offline_s=rng.choice([2.0, 60.0]),
        resume_ramp_s=rng.choice([0.0, 1.0]),
        watchdog_timeout_s=rng.choice([0.1, 0.2, 0.2, 0.5]),
    )
    bounds = random.Random(f"accelerations {seed}")  # nor this
    contract = make_contract(rng, kinds, fps, random_poses.choose_form(posed), bounds=bounds)
    server.learn(contract)
    slow = [one for one in SLOW_SENSORS_NS if 2 * one <= ns(config.max_sensor_age_s)]
    sensor_ns = random.Random(f"sensors {seed}").choice([None, None, *slow])  # nor this
    watched = rng.random() < 0.7
    world = WatchedWorld(config, [server], seed=seed, contract=contract, watched=watched, sensor_ns=sensor_ns)
    world.inference_ns = ns(rng.choice([0.01, 0.06, 0.3]))
    world.engine.hear_stop("button", False, world.now_ns)
    return world


def make_contract(
    rng: random.Random,
    kinds: tuple[str, str],
    fps: float,
    form: Mapping[str, Any] | None = None,
    *,
    limit: float = LIMIT,
    bounds: random.Random | None = None,
) -> Contract:
    """Return a random contract of two actions. form: how its policy says a pose. limit: of positions.

    bounds: chooses those of accelerations, None: there are none.
    """
    ticks_per_row = rng.choice([1, 1, 2]) if fps < 50.0 else 1
    moving = next((kind for kind in kinds if kind not in ("switch", "pose")), "position")
    document = contract_document(moving, fps=fps, ticks_per_row=ticks_per_row)
    for name, kind in zip(JOINTS, kinds, strict=True):
        if kind == "pose":
            continue
        document["actions"]["limits"][name] |= {"max_velocity": SPEED, "kind": kind}
        if kind == "position":
            document["actions"]["limits"][name] |= {"min": -limit, "max": limit}
        if kind == "switch":
            document["actions"]["limits"][name] = {
                "kind": "switch",
                "min": -LIMIT,
                "max": LIMIT,
                "opens_below": -0.2,
                "closes_above": 0.2,
                "dwell_s": rng.choice([0.0, 0.3, 1.0]),
            }
    first, second = FLOAT64_MULTI_ARRAY, None
    if kinds == ("position", "position"):
        first, second = rng.choice(COMMANDS)
    elif kinds[0] != kinds[1]:
        simple = [FLOAT64_MULTI_ARRAY, JOINT_STATE]
        only = [FLOAT64_MULTI_ARRAY]
        carry = {"position": [*simple, JOINT_TRAJECTORY], "switch": only, "pose": only}
        types = [rng.choice(carry.get(kind, simple)) for kind in kinds]
        first, second = types
    sinks = [(first, JOINTS)] if second is None else [(first, JOINTS[:1]), (second, JOINTS[1:])]
    document["commands"] = [
        {"topic": f"controller_{index}", "type": of, "names": list(names)}
        for index, (of, names) in enumerate(sinks)
    ]
    document["stops"] = {"button": {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}}
    document["takeover"] = {"topic": "teleop", "type": JOINT_STATE, "silent_s": 0.5}
    if "pose" in kinds:
        random_poses.put_pose(document, form or {})
        if rng.random() < 0.4:
            document["home"] = random_poses.make_home(rng, with_joint="position" in kinds)
    elif "position" in kinds and rng.random() < 0.4:
        home = [limit * rng.uniform(-0.9, 0.9) for kind in kinds if kind == "position"]
        document["home"] = {"positions": home, "duration_s": 1.0}
    if bounds is not None and bounds.random() < BOUNDED:
        _bound_accelerations(document, bounds, fps * ticks_per_row)
    return parse_document(document, Contract, "random.contract.yaml")


def _bound_accelerations(document: dict[str, Any], rng: random.Random, rate_hz: float) -> None:
    """Bound accelerations: a joint needs from one to twenty ticks to its full speed; some jerks, too."""
    jerky, slow = rng.random() < 0.4, rng.random() < 0.3
    actions = document["actions"]
    sections = [(limit, "") for limit in actions["limits"].values()]
    sections += [(pose, prefix) for pose in actions.get("poses", {}).values() for prefix in ("", "angular_")]
    for section, prefix in sections:
        if section.get("kind", "position") not in ("position", "velocity"):
            continue
        most = section[f"max_{prefix}velocity"] * rate_hz / rng.choice([1.0, 3.0, 20.0])
        section[f"max_{prefix}acceleration"] = most
        if jerky:
            section[f"max_{prefix}jerk"] = most * rate_hz / rng.choice([1.0, 5.0])
        if slow and not prefix and "position" not in section:
            section["max_deceleration"] = most * rng.choice([0.5, 1.0, 3.0])


class Wandering(SimulatedServer):
    """Its policy goes on along a wave at changing speed, and now and then elsewhere."""

    def __init__(self, name: str, spec: Any, rng: random.Random) -> None:
        super().__init__(name, spec)
        self._rng = rng
        self._phase = 0.0
        self._poses: Contract | None = None

    def learn(self, contract: Contract) -> None:
        """Have the names of a robot, and the form of its pose if it has one."""
        self.spec = replace(
            self.spec,
            state_names=contract.policy_state_names,
            action_names=contract.policy_action_names,
        )
        self._poses = contract if contract.actions.poses else None

    def rows(self, request: Request) -> Float32Array:
        rng, count = self._rng, self.spec.chunk_size
        phase = self._phase + np.arange(count) * rng.choice([0.2, 0.5, 1.0, 4.0]) / self.spec.trained_fps
        self._phase += rng.uniform(0.0, 3.0)
        if self._poses is not None:
            return random_poses.said(self._poses, random_poses.wave(phase, rng))
        return (0.9 * np.stack([np.sin(phase), np.cos(phase)], axis=1)).astype(np.float32)


def somewhere(world: WatchedWorld, rng: random.Random, most: float) -> np.ndarray:
    """Return a position `[action_dim]`, each number at most `most` times its bound."""
    if world.poses.exist:
        return random_poses.somewhere(rng, most)
    return np.array([rng.uniform(-most, most) for _ in JOINTS])


def resume(world: WatchedWorld) -> None:
    if not (world.engine.dead or world.hung or world.pressed):
        world.resume()


def finish(world: WatchedWorld, rng: random.Random) -> None:
    """Let a dead robot end in time, and some of the others recover."""
    if not world.engine.dead and rng.random() < CURED:
        cure(world)
        world.run_until(lambda: world.engine.dead or world.state is State.STREAMING, limit_s=RECOVERY_S)
    if world.engine.dead:
        limit_s = world.engine.playback.rules.longest_end_s + 2 * max(STALLS_S)
        world.run_until(lambda: world.engine.has_ended(world.now_ns), limit_s=limit_s)


def cure(world: WatchedWorld) -> None:
    """End every fault and resume the robot."""
    world.freezes_in_tick_s = 0.0  # one that waits for the end of another would begin only now
    world.run(max(STALLS_S) + max(OVERLOADS_S))  # longer than any thread stands still, or comes late
    world.presence, world.beats_are_lost, world.target = True, False, None
    world.sensors = dict.fromkeys(world.sensors, True)
    for arm in world.arms:
        arm.controller.activate()
        arm.is_heard, arm.is_withdrawn = True, False
    if not world.driven:
        world.drive_on(held=True)
    world.server.restart()
    world.run(1.0)
    if world.engine.dead:
        return
    world.engine.hear_stop("button", False, world.now_ns)
    world.clear_stop()
    world.pressed = False
    if world.engine.taken_over:
        world.release()
    world.resume()


def _stick(world: WatchedWorld, rng: random.Random) -> None:
    world.stand_still(rng.choice(STALLS_S), "stuck")


def _hang(world: WatchedWorld, rng: random.Random) -> None:
    world.stand_still(rng.choice(STALLS_S), "hung")


def _freeze(world: WatchedWorld, rng: random.Random) -> None:
    world.stand_still(rng.choice(STALLS_S), "stuck", "hung", "deaf")


def _freeze_in_a_tick(world: WatchedWorld, rng: random.Random) -> None:
    world.freezes_in_tick_s = rng.choice(STALLS_S)


def _overload(world: WatchedWorld, rng: random.Random) -> None:
    world.overload(rng.choice(OVERLOADS_S))


def _lose_beats(world: WatchedWorld, rng: random.Random) -> None:
    world.beats_are_lost = True
    world.after(ns(rng.choice(STALLS_S)), lambda: setattr(world, "beats_are_lost", False))


def _take_over(world: WatchedWorld, rng: random.Random) -> None:
    if world.hung or world.engine.dead:
        return
    world.take_over()
    for _ in range(rng.randint(0, 4)):
        world.target = somewhere(world, rng, 1.2)
        world.run(rng.random() * 0.5)
    if rng.random() < 0.7:
        world.target = None


def _release(world: WatchedWorld, _: random.Random) -> None:
    if not (world.hung or world.engine.dead):
        world.release()


def _press(world: WatchedWorld, rng: random.Random) -> None:
    def hear(*, stops: bool) -> None:
        world.engine.hear_stop("button", stops, world.now_ns)
        world.pressed |= stops

    world.by_executor(lambda: hear(stops=True))
    world.run(rng.random())
    world.by_executor(lambda: hear(stops=False))
    world.run(rng.random() * 0.3)
    if not (world.hung or world.deaf or world.engine.dead) and not world.clear_stop():
        world.pressed = False


def _pause(world: WatchedWorld, rng: random.Random) -> None:
    world.engine.pause_at_once()
    world._by_worker(world.pause)
    world.run(rng.random() * 2.0)


def _switch_drives(world: WatchedWorld, rng: random.Random) -> None:
    if not world.driven:
        return
    world.drive_off()
    held = rng.random() < 0.5
    world.after(ns(rng.random() * 3.0), lambda: world.drive_on(held=held))


def _take_a_controller_away(world: WatchedWorld, rng: random.Random) -> None:
    arms = world.arms if rng.random() < 0.5 else [rng.choice(world.arms)]
    for arm in arms:
        world.take_away(arm)
        duration_ns = world.period_ns + ns(rng.choice([0.01, 0.3, 1.5, 4.0]))
        world.after(duration_ns, partial(_bring_back, world, arm, world.now_ns))


def _cut_a_link(world: WatchedWorld, rng: random.Random) -> None:
    """Let a controller live on that nobody reaches, and stop or pause the robot meanwhile."""
    arm = rng.choice(world.arms)
    world.unlink(arm)
    world.after(
        world.period_ns + ns(rng.choice([0.1, 0.6, 1.5])), partial(_bring_back, world, arm, world.now_ns)
    )
    rng.choice([_press, _pause, _wait])(world, rng)


def _pause_without_a_controller(world: WatchedWorld, rng: random.Random) -> None:
    """Pause for long, and move the arms by hand, while one of the controllers is away."""
    world.engine.pause_at_once()
    world._by_worker(world.pause)
    arm = rng.choice(world.arms)
    world.take_away(arm)
    world.after(ns(5.0), partial(_bring_back, world, arm, world.now_ns))
    world.run(2.0)
    _move_by_hand(world, rng)
    world.run(1.0)


def _deactivate_a_controller(world: WatchedWorld, rng: random.Random) -> None:
    """Let the node hear a moment later that a controller is inactive, and that it is active again."""
    arm, notice_ns = rng.choice(world.arms), ns(rng.choice(NOTICES_S))
    world.deactivate(arm)

    def hear() -> None:
        arm.is_withdrawn = not arm.controller.is_active
        if arm.is_withdrawn:
            duration_ns = world.period_ns + ns(rng.choice([0.01, 0.3, 1.5, 4.0]))
            world.after(duration_ns, partial(activate, world.now_ns))

    def activate(heard_ns: int) -> None:
        if world.ticked[-1] < heard_ns:  # a control tick finds it inactive: nobody notices less
            world.after(world.period_ns, partial(activate, heard_ns))
            return
        world.move()
        arm.controller.activate()
        world.after(notice_ns, partial(world.by_executor, hear))

    world.after(notice_ns, partial(world.by_executor, hear))


def _bring_back(world: WatchedWorld, arm: Controlled, taken_ns: int) -> None:
    """Let a controller be heard again, once a control tick has found it away: nobody notices less."""
    if world.ticked[-1] < taken_ns:
        world.after(world.period_ns, partial(_bring_back, world, arm, taken_ns))
    else:
        arm.is_heard = True


def _lose_the_way(world: WatchedWorld, _: random.Random) -> None:
    world.presence = not world.presence


def _kill(world: WatchedWorld, rng: random.Random) -> None:
    world.server.up = False
    if rng.random() < 0.6:
        world.after(ns(rng.random() * 3.0), world.server.restart)


def _give_up(world: WatchedWorld, rng: random.Random) -> None:
    """Let another policy come: the robot goes home and ends, while more may happen."""
    if rng.random() < 0.5:
        world.server.spec = replace(world.server.spec, fingerprint="another")
        world.server.restart()


def _silence(world: WatchedWorld, rng: random.Random) -> None:
    topic = rng.choice(list(world.sensors))
    world.sensors[topic] = not world.sensors[topic]


def _move_by_hand(world: WatchedWorld, rng: random.Random) -> None:
    if world.engine.paused and not world.stuck:
        world.run(0.6)
        world.shove(somewhere(world, rng, 1.0))
        world.run(0.1)


def _reset(world: WatchedWorld, _: random.Random) -> None:
    if not (world.hung or world.engine.dead):
        world.reset()


def _drill(world: WatchedWorld, rng: random.Random) -> None:
    duration_s = rng.choice([0.3, 1.0, 3.0])
    fault = rng.choice(
        [
            Fault(rng.choice([Target.CHUNKS, Target.SENSORS]), Kind.FREEZE, duration_s),
            Fault(rng.choice([Target.CHUNKS, Target.SENSORS]), Kind.DELAY, duration_s, delay_s=0.2),
            Fault(rng.choice([Target.CHUNKS, Target.SENSORS]), Kind.DROP, duration_s, probability=0.5),
        ]
    )
    world._by_worker(lambda: world.injection.begin(fault, world.now_ns))


def _wait(world: WatchedWorld, rng: random.Random) -> None:
    world.run(rng.random() * 3.0)


Occurrence = Callable[[WatchedWorld, random.Random], None]
EVENTS: tuple[Occurrence, ...] = (
    _stick,
    _stick,
    _hang,
    _freeze,
    _freeze,
    _freeze_in_a_tick,
    _overload,
    _lose_beats,
    _take_over,
    _take_over,
    _release,
    _press,
    _pause,
    _switch_drives,
    _switch_drives,
    _take_a_controller_away,
    _cut_a_link,
    _pause_without_a_controller,
    _lose_the_way,
    _kill,
    _give_up,
    _silence,
    _move_by_hand,
    _reset,
    _drill,
    _wait,
)
