# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures what bounds of acceleration and jerk cost and bring: success and smoothness of the belt arm.

Run `python benchmarks/motion_limits.py [--episodes 100] [--latencies 0 300 600]`, or with `--plot FILE`. Each
policy plays the same episodes with and without `max_acceleration` and `max_jerk`, with the robot's own engine
on a virtual clock.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Request
from remote_inference.base.paths import share_path
from remote_inference.base.policy import Policy, predict_all
from remote_inference.learn.environment import Environment, EnvironmentObservation
from remote_inference.learn.environments import make_environment
from remote_inference.learn.environments.belt_arm.strategies import STRATEGIES, TRAINED
from remote_inference.learn.environments.emulated_robot import EmulatedRobot, NetworkPath, PolicyChunk
from remote_inference.learn.environments.policy_view import PolicyView
from remote_inference.learn.environments.robot_contract import write_robot_contract
from remote_inference.robot.command import CommandSource
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.motion.state import Tick
from remote_inference.server.policies.networks.torch_chunk import TorchChunkPolicy
from remote_inference.tools.tables import Table, print_table

TASK = "pick up the red cube"
POLICIES = {
    "trim": STRATEGIES["trim"],
    "trim, ensemble": replace(
        STRATEGIES["trim"], parameters={"merge_mode": "ensemble", "execution_horizon": 1}
    ),
    "guidance": STRATEGIES["guidance"],
    "trained": TRAINED,
    "trained, flow": replace(TRAINED, name="trained, flow", policy="belt_arm_flow"),
}
BOUNDS = ("no", "acceleration", "and jerk")
LINES = {
    "no": ("no bounds", "#BBBBBB"),
    "acceleration": ("bounded acceleration", "#0072B2"),
    "and jerk": ("and bounded jerk", "#D55E00"),
}
# Each joint needs so long to its full velocity, and so long to that acceleration.
VELOCITY_S, ACCELERATION_S = 0.15, 0.05

METHOD = f"""\
Accelerations are bounded to [italic]max_velocity[/italic] / {VELOCITY_S:g} s, jerks to that / \
{ACCELERATION_S:g} s; beside it the largest acceleration, as a part of its bound. \
[italic]Jerk[/italic]: root mean square of the third difference of the commands, over all joints in radians. \
[italic]Step at seams[/italic]: 99th percentile of the largest change of a commanded velocity in the tick \
that enters a new chunk. [italic]Altered[/italic]: commands that a rule of the guard altered."""


@dataclass
class Found:
    """What the episodes of one row have shown."""

    successes: int = 0
    episodes: int = 0
    ticks: int = 0
    largest: float = 0.0  # acceleration, as a fraction of its bound
    jerks: list[float] = field(default_factory=list)  # squares
    seams: list[float] = field(default_factory=list)
    altered: Counter[str] = field(default_factory=Counter)

    def add(self, other: Found) -> None:
        for name in ("successes", "episodes", "ticks"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.largest = max(self.largest, other.largest)
        self.jerks += other.jerks
        self.seams += other.seams
        self.altered += other.altered


def bound(name: str, policy: Policy, environment: Environment, bounds: str) -> Contract:
    """Return the contract of a policy's robot, with some of the bounds of `BOUNDS`."""
    document = write_robot_contract(environment.spec, policy.spec, TASK)
    for limit in document["actions"]["limits"].values():
        if bounds != "no":
            limit["max_acceleration"] = limit["max_velocity"] / VELOCITY_S
        if bounds == "and jerk":
            limit["max_jerk"] = limit["max_acceleration"] / ACCELERATION_S
    return parse_document(document, Contract, name)


def play(name: str, latency_ms: float, bounds: str, seeds: range) -> Found:
    """Play the episodes of one row, on one core."""
    found = Found()
    for episode in play_episodes(name, latency_ms, bounds, seeds):
        episode.judge(found)
    return found


def play_episodes(name: str, latency_ms: float, bounds: str, seeds: Sequence[int]) -> Iterator[Played]:
    """Play one episode after the other."""
    torch.set_num_threads(1)
    strategy = POLICIES[name]
    policy = TorchChunkPolicy(share_path("config", "models", strategy.policy))
    environment = make_environment("belt_arm", {})
    contract = bound(name, policy, environment, bounds)
    config = RobotConfig.model_validate(dict(strategy.parameters))
    for seed in seeds:
        episode = Played(policy, environment, contract, seed)
        robot = EmulatedRobot(
            episode.view,
            config,
            TASK,
            first=episode.first,
            path=NetworkPath(latency_ms / 1e3),
            contract=contract,
        )
        observation, ended = episode.first, False
        while not ended:
            step = environment.step(robot.tick(observation, episode.ask))
            assert robot.last is not None
            episode.ticks.append(robot.last)
            observation, ended = step.observation, step.ended
        yield episode
    environment.close()


def draw(path: Path, name: str = "trim", latency_ms: float = 300.0, joint: str = "elbow_flex") -> None:
    """Draw the velocity and acceleration that one joint is commanded in the first episode."""
    figure = Figure(figsize=(9.5, 4.4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 1, sharex=True)
    for bounds, (label, colour) in LINES.items():
        (episode,) = play_episodes(name, latency_ms, bounds, [0])
        period_s, column = episode.contract.period_s, episode.contract.actions.names.index(joint)
        commands = np.array([tick.command[column] for tick in episode.ticks if tick.command is not None])
        times_s = period_s * np.arange(len(commands))
        for order, axis in enumerate(axes, start=1):
            changes = np.diff(commands, n=order) / period_s**order
            axis.plot(times_s[order:], changes, color=colour, label=label)
    for axis, unit in zip(axes, ("velocity [rad/s]", "acceleration [rad/s²]"), strict=True):
        axis.set_ylabel(unit)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_title(f"{joint}, as commanded: {name}, answers {latency_ms:g} ms late")
    axes[0].legend(fontsize="small", loc="upper right")
    axes[1].set_xlabel("time [s]")
    figure.savefig(path)


class Played:
    """One episode, and what its robot was commanded."""

    def __init__(self, policy: Policy, environment: Environment, contract: Contract, seed: int) -> None:
        self._policy, self._environment, self._seed = policy, environment, seed
        self.contract = contract
        self._processors = policy.make_processors()
        self.view = PolicyView(environment.spec, policy.spec)
        self.first = environment.reset(seed, TASK, self.view.wanted)
        self.ticks: list[Tick] = []

    def ask(self, shown: Sequence[EnvironmentObservation], request: Request) -> PolicyChunk:
        asked = replace(
            self.view.observe(shown, TASK, self._seed),
            inference_delay_steps=request.inference_delay_steps,
            prefix_model=request.prefix_model,
            prefix_robot=request.prefix_robot,
        )
        (chunk,) = predict_all(self._policy, [self._processors.pre(asked)])
        return PolicyChunk(chunk, self._processors.post(chunk))

    def judge(self, found: Found) -> None:
        """Add what happened to what was found."""
        period_s, actions = self.contract.period_s, self.contract.actions
        radians = [place for place, name in enumerate(actions.names) if actions.unit(name) == "rad"]
        most = np.array([actions.limit_of(name).max_acceleration or np.inf for name in actions.names])
        led = [tick for tick in self.ticks if tick.command is not None]
        commands = np.array([tick.command for tick in led])
        changes = np.diff(commands, n=2, axis=0) / period_s**2
        # Between them no tick without a command, in which the robot stopped.
        leads = [tick.source is CommandSource.CHUNK for tick in self.ticks]
        places = [place for place, tick in enumerate(self.ticks) if tick.command is not None]
        together = np.array(
            [
                last - place == 2 and all(leads[place : last + 1])
                for place, last in zip(places, places[2:], strict=False)
            ],
            dtype=bool,
        )
        found.largest = max(found.largest, float(np.abs(changes[together] / most).max(initial=0.0)))
        jerks = np.diff(changes[:, radians], axis=0) / period_s
        found.jerks += np.mean(np.square(jerks), axis=1).tolist()
        chunks = [tick.queued.source.seq_id if tick.queued else 0 for tick in led]
        seams = [place for place in range(2, len(led)) if chunks[place] != chunks[place - 1]]
        found.seams += [float(np.abs(changes[place - 2, radians]).max() * period_s) for place in seams]
        found.altered.update(rule for tick in led for rule in tick.interventions)
        found.ticks += len(led)
        found.successes += self._environment.metrics().success
        found.episodes += 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=100, help="of each row (default 100)")
    parser.add_argument("--latencies", type=float, nargs="+", default=(0.0, 300.0, 600.0), help="[ms]")
    parser.add_argument("--policies", nargs="+", default=tuple(POLICIES), choices=tuple(POLICIES))
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw one episode instead")
    arguments = parser.parse_args()
    if arguments.plot is not None:
        draw(arguments.plot)
        return
    rows = list(product(arguments.policies, arguments.latencies, BOUNDS))
    parts = os.cpu_count() or 1
    with ProcessPoolExecutor(parts, get_context("spawn")) as pool:
        futures = {
            row: [pool.submit(play, *row, range(part, arguments.episodes, parts)) for part in range(parts)]
            for row in rows
        }
        table = []
        for row in track(rows, "playing"):
            found = Found()
            for future in futures[row]:
                found.add(future.result())
            table.append((row, found))
    Console().print(METHOD, highlight=False)
    columns = (
        "policy",
        "latency",
        "bounds",
        "success",
        "jerk\n[rad/s3]",
        "step at seams\n[rad/s]",
        "altered",
    )
    cells = [
        (
            name,
            f"{latency_ms:g} ms",
            bounds if bounds == "no" else f"{bounds}, {100 * found.largest:.0f} %",
            f"{found.successes} of {found.episodes}",
            f"{np.sqrt(np.mean(found.jerks)):.0f}",
            f"{np.quantile(found.seams, 0.99):.2f}" if found.seams else "none",
            f"{100.0 * sum(found.altered.values()) / found.ticks:.1f} %",
        )
        for (name, latency_ms, bounds), found in table
    ]
    print_table(Table("The belt arm, with and without bounds", columns, cells, columns[3:]))


if __name__ == "__main__":
    main()
