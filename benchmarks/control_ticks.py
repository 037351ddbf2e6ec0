# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures which share of its period a control tick takes, by rate, controller and bounds.

Run `python benchmarks/control_ticks.py [--seconds 10] [--rates 100 250 500 1000] [--policy-rates 10 50]`. One
process without middleware decides the ticks of seven joints, or of a pose's seven actions. Chunks of one
second come every 0.3 s and disagree a little with the one before. `control_jitter.py` has the real node.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.motion.playback import Playback
from remote_inference.robot.motion.rules import MotionRules
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.queue.plan import ChunkSource
from remote_inference.robot.safety.guard import Guard
from remote_inference.tools.tables import Table, print_table

CHUNK_S, REPLAN_S = 1.0, 0.3
JOINTS = tuple(f"joint_{number}" for number in range(7))
POSE = ("x", "y", "z", "qx", "qy", "qz", "qw")
VELOCITY, ACCELERATION, JERK = 2.0, 10.0, 500.0
FORWARD, TRAJECTORY = "std_msgs/msg/Float64MultiArray", "trajectory_msgs/msg/JointTrajectory"
QUANTILES = (0.5, 0.999)


def joints(kind: str, message: str, **bounds: float) -> dict[str, Any]:
    """Return the parts of a contract that a kind of controller changes."""
    limit = {"min": -3.0, "max": 3.0, "max_velocity": VELOCITY, **bounds}
    return {
        "actions": {"kind": kind, "names": list(JOINTS), "limits": {name: dict(limit) for name in JOINTS}},
        "commands": [{"topic": "commands", "type": message, "names": list(JOINTS)}],
    }


def pose(**bounds: float) -> dict[str, Any]:
    section = {
        "position": list(POSE[:3]),
        "quaternion": list(POSE[3:]),
        "min": [-3.0] * 3,
        "max": [3.0] * 3,
        "max_velocity": VELOCITY,
        "max_angular_velocity": VELOCITY,
        **bounds,
    }
    fields = {f"pose.position.{axis}": axis for axis in "xyz"}
    fields |= {f"pose.orientation.{axis}": f"q{axis}" for axis in "xyzw"}
    return {
        "actions": {"kind": "position", "names": list(POSE), "poses": {"tool": section}},
        "commands": [{"topic": "target", "type": "geometry_msgs/msg/PoseStamped", "fields": fields}],
        "measured": {
            "topic": "tool",
            "type": "geometry_msgs/msg/PoseStamped",
            "fields": list(fields),
            "names": list(POSE),
        },
    }


BOUNDS = {"max_acceleration": ACCELERATION}
CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "forward": lambda: joints("position", FORWARD),
    "forward, acceleration": lambda: joints("position", FORWARD, **BOUNDS),
    "forward, jerk": lambda: joints("position", FORWARD, **BOUNDS, max_jerk=JERK),
    "trajectory": lambda: joints("position", TRAJECTORY),
    "trajectory, acceleration": lambda: joints("position", TRAJECTORY, **BOUNDS),
    "trajectory, jerk": lambda: joints("position", TRAJECTORY, **BOUNDS, max_jerk=JERK),
    "velocity": lambda: joints("velocity", FORWARD),
    "velocity, acceleration": lambda: joints("velocity", FORWARD, **BOUNDS),
    "pose": pose,
    "pose, acceleration": lambda: pose(**BOUNDS, max_angular_acceleration=ACCELERATION),
}


def make_contract(case: str, rate_hz: float, policy_hz: float) -> Contract:
    document = {
        "robot_type": "seven_joints",
        "fps": rate_hz,
        "policy_fps": policy_hz,
        "interpolation": "linear",
        "task": "wave",
        "state": [
            {
                "topic": "joint_states",
                "type": "sensor_msgs/msg/JointState",
                "field": "position",
                "names": list(JOINTS),
            }
        ],
        **CASES[case](),
    }
    return parse_document(document, Contract, case)


def chunk_at(begin_s: float, policy_hz: float, contract: Contract, rng: np.random.Generator) -> np.ndarray:
    """Return a chunk `[rows, 7]` of a wave, a little off."""
    times_s = begin_s + np.arange(round(CHUNK_S * policy_hz)) / policy_hz
    rows = 0.3 * np.sin(2.0 * times_s[:, np.newaxis] + np.arange(7)) + rng.normal(0.0, 0.01, 7)
    if contract.actions.poses:
        rows[:, 3:] = [0.0, 0.0, 0.0, 1.0] + 0.3 * rows[:, 3:]
    return rows.astype(np.float32)


def measure(case: str, rate_hz: float, policy_hz: float, seconds: float) -> np.ndarray:
    """Return how long each tick took [s]."""
    contract = make_contract(case, rate_hz, policy_hz)
    config = RobotConfig(autostart=True, fallback="zero" if case.startswith("velocity") else "hold")
    rules = MotionRules.of(contract, Guard(contract.actions, contract.period_s), config)
    queue = ActionQueue(to_robot=contract.action_units.to_robot)
    playback, rng = Playback(rules, queue), np.random.default_rng(0)
    playback.control.change(paused=False)
    period_ns, took_s = round(1e9 / rate_hz), []
    measured = chunk_at(0.0, policy_hz, contract, rng)[0].astype(np.float64)
    for tick in range(round(seconds * rate_hz)):
        now_ns = tick * period_ns
        if tick % round(REPLAN_S * rate_hz) == 0:
            rows = chunk_at(now_ns / 1e9, policy_hz, contract, rng)
            source = ChunkSource(now_ns, "session", tick + 1, 0, "f1", "wave")
            queue.merge(
                source, rows, rows, MergeMode.REPLACE, latency_steps=0, executed_before=queue.executed
            )
        playback.control.change(measured=measured, measured_ns=now_ns)
        begin_s = time.perf_counter()
        found = playback.tick(now_ns)
        took_s.append(time.perf_counter() - begin_s)
        assert found.command is not None, f"{case}: tick {tick} commands nothing"
        measured = found.command
    return np.array(took_s)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of control, per row (default 10)")
    parser.add_argument("--rates", type=float, nargs="+", default=(100.0, 250.0, 500.0, 1000.0), help="[Hz]")
    parser.add_argument("--policy-rates", type=float, nargs="+", default=(10.0, 50.0), help="[Hz]")
    arguments = parser.parse_args()
    rows = []
    gc.freeze()  # as the robot's node does
    for case in track(CASES, "measuring"):
        for policy_hz in arguments.policy_rates:
            cells = []
            for rate_hz in arguments.rates:
                took_s = measure(case, rate_hz, policy_hz, arguments.seconds)
                shares = 100.0 * np.quantile(took_s, QUANTILES) * rate_hz
                cells.append(f"{shares[0]:.1f} / {shares[1]:.1f}")
            rows.append((case, f"{policy_hz:g}", *cells))
    Console().print(
        "Share of the period that a tick takes, in %: median / 99.9th percentile.", highlight=False
    )
    rates = tuple(f"{rate_hz:g} Hz" for rate_hz in arguments.rates)
    print_table(Table("Control ticks", ("controller", "policy\n[Hz]", *rates), rows, rates))


if __name__ == "__main__":
    main()
