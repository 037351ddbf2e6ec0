# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures what robots wait for beside evaluators, all of them processes that ask one real policy server.

python benchmarks/evaluators.py [--evaluators 3] [--num-envs 2] [--robots 4] [--blocks 5] [--seconds 10]

evaluations.py measures the server's worker alone. Here middleware, admission and decoding are in it, too:
robots are plain nodes that ask in their rhythm, an evaluator is `remote-inference evaluate` with simulators
that take no time. Blocks with evaluators and without take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import yaml
from capacity_rig import run_window
from capacity_robots import SERVER, Demand, Fleet, Record
from request_cycle_rig import JOINTS, START_TIMEOUT_S
from rich.console import Console
from rollout_group import CAMERA, IMAGE, STATE, STEPS, Sleeper, SleepyPolicy

from remote_inference.base.policy import Float32Array
from remote_inference.learn.environment import ActionSpec, EnvironmentObservation, Feature, FeatureKind
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessGroup
from remote_inference.tools.tables import Table, print_table

SCHEDULERS = ("round_robin", "micro_batch")
ROBOT_PERIOD_S = 0.2
END_S = 30.0  # for an evaluator that is told to end


class Arm(Sleeper):
    """Simulates an arm in no time."""

    def __init__(self) -> None:
        super().__init__(0.0)
        count = len(JOINTS)
        actions = ActionSpec("position", JOINTS, (-3.0,) * count, (3.0,) * count, (9.0,) * count)
        features = {STATE: Feature(FeatureKind.STATE, (count,)), CAMERA: self.spec.features[CAMERA]}
        self.spec = replace(self.spec, actions=actions, state_names=JOINTS, features=features)

    def _observe(self) -> EnvironmentObservation:
        values = {STATE: np.zeros(len(JOINTS), np.float32), CAMERA: np.zeros(IMAGE, np.uint8)}
        return EnvironmentObservation({name: values[name] for name in self._wanted}, self._steps / 30.0)


class StillPolicy(SleepyPolicy):
    """Keeps an arm where it is; a call sleeps, as a device computes."""

    def __init__(self, batch_s: float) -> None:
        super().__init__(batch_s)
        self.spec = replace(self.spec, state_names=JOINTS, action_names=JOINTS)

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        rows = super().predict(batch)
        return [np.tile(state, (len(chunk), 1)) for state, chunk in zip(batch, rows, strict=True)]


def load_policy(source: ModelSource) -> StillPolicy:
    """Load the policy, as the manifest names it."""
    return StillPolicy(float(source.options["call_s"]))


@dataclass
class Times:
    """What the blocks of one situation have measured."""

    round_trip_ms: list[float] = field(default_factory=list)  # from a robot's request to its chunk
    lost: int = 0  # robots' requests without a chunk
    others: int = 0  # evaluators' answers

    def take(self, records: Sequence[Record]) -> None:
        for record in records:
            self.round_trip_ms += record.round_trip_ms
            self.lost += record.lost + record.errors


class Evaluators:
    """Processes of `remote-inference evaluate` that ask until they are told to end."""

    def __init__(self, folder: Path, count: int, num_envs: int) -> None:
        """Start them, and wait until each has played an episode."""
        content = {
            "environment": {"name": "evaluators:Arm"},
            "policies": {"served": {"kind": "server", "server": SERVER}},
            "episodes": 1_000_000,
            "num_envs": num_envs,
        }
        document = folder / "arm.evaluation.yaml"
        document.write_text(yaml.safe_dump(content))
        self._outs = [folder / f"out_{number}" for number in range(count)]
        call = [
            sys.executable,
            "-m",
            "remote_inference.tools.cli",
            "evaluate",
            str(document),
            "--quiet",
            "--out",
        ]
        self._processes = [subprocess.Popen([*call, str(out)]) for out in self._outs]
        end_s = time.monotonic() + START_TIMEOUT_S
        while not all(map(self._count_answers, self._outs)):
            if time.monotonic() > end_s or any(one.poll() is not None for one in self._processes):
                self.end()
                raise SystemExit(f"an episode of each evaluator: not within {START_TIMEOUT_S:g} s")
            time.sleep(0.1)

    def count_answers(self) -> int:
        return sum(map(self._count_answers, self._outs))

    def end(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGINT)
        for process in self._processes:
            process.wait(END_S)

    @staticmethod
    def _count_answers(out: Path) -> int:
        file = out / "episodes.jsonl"
        whole = file.read_text().rpartition("\n")[0].splitlines() if file.exists() else []
        return sum(json.loads(line)["inference"]["count"] for line in whole)


@contextmanager
def evaluating(count: int, num_envs: int) -> Iterator[Evaluators]:
    with tempfile.TemporaryDirectory() as folder:
        evaluators = Evaluators(Path(folder), count, num_envs)
        try:
            yield evaluators
        finally:
            evaluators.end()


@contextmanager
def serving(scheduler: str, arguments: argparse.Namespace) -> Iterator[int]:
    """Run the server; yield its process id."""
    with tempfile.TemporaryDirectory() as folder, ProcessGroup(Path(folder) / "logs") as group:
        options = {"call_s": arguments.policy_ms / 1e3}
        model = {"backend": "evaluators:load_policy", "path": ".", "options": options}
        sessions = arguments.robots + arguments.evaluators * arguments.num_envs
        manifest = Path(folder) / "still.manifest.yaml"
        manifest.write_text(
            yaml.safe_dump({"model": model, "scheduler": scheduler, "max_sessions": max(2, sessions)})
        )
        yield group.start(bringup.server(manifest, name=SERVER[1:])).pid


def run_block(server: int, arguments: argparse.Namespace, times: Times, *, beside: bool) -> None:
    """Let robots ask for some seconds, alone or beside evaluators."""
    others = evaluating(arguments.evaluators, arguments.num_envs) if beside else nullcontext()
    demand = Demand(ROBOT_PERIOD_S, (CAMERA,))
    with ExitStack() as stack:
        fleet = stack.enter_context(Fleet(arguments.robots, demand))
        evaluators = stack.enter_context(others)
        before = evaluators.count_answers() if evaluators else 0
        records, *_ = run_window(fleet, server, arguments.seconds)
        times.take(records)
        times.others += (evaluators.count_answers() if evaluators else 0) - before


def measure(scheduler: str, arguments: argparse.Namespace) -> list[tuple[str, ...]]:
    """Return a row for each situation."""
    alone, beside = Times(), Times()
    with serving(scheduler, arguments) as server:
        for _ in range(arguments.blocks):
            run_block(server, arguments, alone, beside=False)
            run_block(server, arguments, beside, beside=True)
    first = np.quantile(alone.round_trip_ms, (0.5, 0.99))
    rows = []
    for name, times in (("robots alone", alone), ("beside evaluators", beside)):
        found = np.quantile(times.round_trip_ms, (0.5, 0.99))
        ratios = (f"{ratio:.2f}" for ratio in found / first)
        rate = times.others / (arguments.blocks * arguments.seconds)
        numbers = (*(f"{value:.1f}" for value in found), *ratios, str(times.lost), f"{rate:.0f}")
        rows.append((scheduler, name, *numbers))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evaluators", type=int, default=3, help="processes that evaluate (default 3)")
    parser.add_argument("--num-envs", type=int, default=2, help="simulators of each (default 2)")
    parser.add_argument("--robots", type=int, default=4, help="robots that ask meanwhile (default 4)")
    parser.add_argument("--policy-ms", type=float, default=20.0, help="of a call of the policy (default 20)")
    parser.add_argument("--blocks", type=int, default=5, help="of each situation (default 5)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a block (default 10)")
    arguments = parser.parse_args()
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    console = Console()
    console.print(
        f"{arguments.robots} robots ask every {ROBOT_PERIOD_S:g} s, {arguments.evaluators} evaluators with "
        f"{arguments.num_envs} simulators each as soon as they are answered. A call of the policy takes "
        f"{arguments.policy_ms:g} ms, a sleep; an episode is {STEPS} steps.",
        f"{os.cpu_count()} processors, load average before the run: {os.getloadavg()[0]:.1f}",
        sep="\n",
        highlight=False,
    )
    rows: list[tuple[str, ...]] = []
    for scheduler in SCHEDULERS:
        with console.status(f"measuring: {scheduler}"):
            rows += measure(scheduler, arguments)
    columns = (
        *("scheduler", "situation", "p50", "p99", "p50\nto alone", "p99\nto alone", "lost"),
        "evaluators'\nanswers/s",
    )
    print_table(Table("Robots' answers [ms]", columns, rows, columns[2:]))


if __name__ == "__main__":
    main()
