# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How much of its simulators' and its policy's speed a stepped evaluation has, with both measured alone.

make bench-evaluation ARGS="--step-ms 20 --policy-ms 10"

The simulator sleeps in each step, or computes on a processor. The policy sleeps for each call: in the
evaluator's process, a call for each request, or in a policy_server, a call for all requests that wait.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from rollout_group import CAMERA, CHUNK, STATE, STEPS, Sleeper, SleepyPolicy

from remote_inference.base.policy import Float32Array
from remote_inference.learn.environment import Step
from remote_inference.learn.evaluation.document import EpisodeKey, load_evaluation
from remote_inference.learn.evaluation.results import EpisodeResult, ResultsFolder
from remote_inference.learn.evaluation.run import Run
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessGroup

SERVER = "/policy_server"
MAX_SESSIONS = 16
ROUNDS = 4  # episodes of each simulator that are measured, after one that warms up
CALLS = 30  # of the policy alone


class Computer(Sleeper):
    """Keeps a processor busy in each step."""

    def __init__(self, step_s: float) -> None:
        super().__init__(0.0)
        self._busy_s = step_s

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        end_s = time.thread_time() + self._busy_s
        while time.thread_time() < end_s:
            pass
        return super().step(action)


SIMULATORS = {"sleeps": Sleeper, "computes": Computer}
PLACES = {"sleeps": "rollout_group:Sleeper", "computes": "evaluation_throughput:Computer"}


def load_policy(source: ModelSource) -> SleepyPolicy:
    """Load the policy, as the manifest names it."""
    return SleepyPolicy(float(source.options["call_s"]))


@dataclass(frozen=True)
class Case:
    """One row. policy: here, in the evaluator's process, or served."""

    simulator: str
    policy: str
    num_envs: int


CASES = (
    *(Case("sleeps", policy, count) for policy in ("here", "served") for count in (1, 4, 8)),
    *(Case("computes", "here", count) for count in (1, 2)),
)


@dataclass(frozen=True)
class Measured:
    """Control ticks per second: of the simulators alone, the policy alone, and the evaluation."""

    simulators: float
    policy: float
    evaluation: float

    @property
    def ratio(self) -> float:
        return self.evaluation / min(self.simulators, self.policy)


# -- alone ---------------------------------------------------------------------------------------------------


def step_alone(simulator: str, step_s: float) -> float:
    """Return the ticks per second of one simulator that nobody asks for anything else."""
    environment = SIMULATORS[simulator](step_s)
    action = np.zeros(1)
    for number in range(ROUNDS + 1):
        if number == 1:
            begin_s = time.monotonic()
        environment.reset(number, "sleep", (STATE, CAMERA))
        for _ in range(STEPS):
            environment.step(action)
    return ROUNDS * STEPS / (time.monotonic() - begin_s)


def measure_simulators(case: Case, step_s: float) -> float:
    """Return the ticks per second of all simulators, each in a process of its own."""
    with ProcessPoolExecutor(case.num_envs, get_context("spawn")) as pool:
        rates = [pool.submit(step_alone, case.simulator, step_s) for _ in range(case.num_envs)]
        return sum(rate.result() for rate in rates)


def measure_policy(case: Case, call_s: float) -> float:
    """Return the ticks per second that the policy's rows last for; a server asks it for all at once."""
    policy = SleepyPolicy(call_s)
    batch = [np.zeros(1, np.float32)] * (case.num_envs if case.policy == "served" else 1)
    times_s = [_time(policy, batch) for _ in range(CALLS)]
    return len(batch) * CHUNK / statistics.median(times_s)


def _time(policy: SleepyPolicy, batch: Sequence[Float32Array]) -> float:
    begin_s = time.monotonic()
    policy.predict(batch)
    return time.monotonic() - begin_s


# -- together ------------------------------------------------------------------------------------------------


@contextmanager
def serve(case: Case, manifest: Path) -> Iterator[None]:
    """Run a server if the case has one."""
    with ProcessGroup(manifest.parent / "logs") as group:
        if case.policy == "served":
            group.start(bringup.server(manifest))
        yield


def measure_evaluation(case: Case, step_s: float, call_s: float, folder: Path) -> float:
    """Return the ticks per second of an evaluation, from the end of each simulator's first episode."""
    model = {"backend": "evaluation_throughput:load_policy", "path": ".", "options": {"call_s": call_s}}
    manifest = folder / "sleepy.manifest.yaml"
    batching = {"scheduler": "micro_batch", "batch_window_ms": 0.0, "max_sessions": MAX_SESSIONS}
    manifest.write_text(yaml.safe_dump({"model": model, **batching}))
    served = {"kind": "server", "server": SERVER}
    document = folder / "sleepy.evaluation.yaml"
    content = {
        "environment": {"name": PLACES[case.simulator], "options": {"step_s": step_s}},
        "policies": {"sleepy": served if case.policy == "served" else {"path": manifest.name}},
        "episodes": case.num_envs * (ROUNDS + 1),
        "num_envs": case.num_envs,
    }
    document.write_text(yaml.safe_dump(content))
    evaluation = load_evaluation(document)
    ends_s: list[float] = []

    def tell(key: EpisodeKey, result: EpisodeResult | None, why: str) -> None:
        assert result is not None, f"{key}: {why}"
        ends_s.append(time.monotonic())

    with serve(case, manifest), ResultsFolder(folder / "out", evaluation) as results:
        Run(evaluation, folder, results, report=tell).run()
    return (len(ends_s) - case.num_envs) * STEPS / (ends_s[-1] - ends_s[case.num_envs - 1])


def measure(case: Case, step_s: float, call_s: float) -> Measured:
    """Measure the simulators before and after the evaluation: other work comes and goes."""
    with tempfile.TemporaryDirectory() as folder:
        policy, before = measure_policy(case, call_s), measure_simulators(case, step_s)
        evaluation = measure_evaluation(case, step_s, call_s, Path(folder))
        return Measured((before + measure_simulators(case, step_s)) / 2, policy, evaluation)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step-ms", type=float, default=20.0, help="of the simulator (default 20)")
    parser.add_argument("--policy-ms", type=float, default=10.0, help="of a call of the policy (default 10)")
    arguments = parser.parse_args()
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    step_s, call_s = arguments.step_ms / 1e3, arguments.policy_ms / 1e3
    say(f"{STEPS} steps of {step_s * 1e3:g} ms, chunks of {CHUNK} rows in {call_s * 1e3:g} ms; ticks/s")
    say("| simulator | policy | num_envs | simulators alone | policy alone | evaluation | ratio |")
    say("|---|---|---:|---:|---:|---:|---:|")
    for case in CASES:
        found = measure(case, step_s, call_s)
        rates = " | ".join(f"{each:.0f}" for each in (found.simulators, found.policy, found.evaluation))
        say(f"| {case.simulator} | {case.policy} | {case.num_envs} | {rates} | {found.ratio:.2f} |")


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
