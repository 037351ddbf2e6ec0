# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference demo`."""

from __future__ import annotations

from remote_inference.learn.environments.belt_arm.strategies import STRATEGIES, TRAINED
from remote_inference.tools.cli.common import Arguments, VerbParser, bounded, print_json

EXAMPLES = {
    "demo": (
        "",
        "--latency-ms 300 --strategy no_trim",
        "--latency-ms 600 --policy belt_arm_flow --out runs/flow",
        "--latency-ms 500 --jitter-ms 500 --loss 0.05",
        "--sweep --episodes 50 --strategy trained",
        "--learn",
        "--quiet --json",
    ),
}
POLICIES = {
    "belt_arm": "regression, trained with latency",
    "belt_arm_flow": "flow matching, trained with latency",
    "belt_arm_beginner": "regression, with latency as input, trained as if there were none",
    "belt_arm_plain": "regression, trained without",
    "belt_arm_guidance": "flow matching, trained without, guided at inference",
}
"""What each folder of config/models holds."""


def add_demo(parser: VerbParser) -> None:
    add = parser.add
    episodes = bounded(int, lambda count: count >= 1, "at least 1")
    milliseconds = bounded(float, lambda value: 0.0 <= value <= 60_000.0, "0 to 60000")
    fraction = bounded(float, lambda value: 0.0 <= value < 1.0, "0 or more and less than 1")
    seed = bounded(int, lambda value: value >= 0, "at least 0")
    minutes = bounded(float, lambda value: 0.0 < value <= 600.0, "more than 0 and at most 600")
    add("--episodes", "cubes to try (default 10)", type=episodes, default=10)
    text = "latency injected in the server's network path [ms] (default 0, with --learn 600)"
    add("--latency-ms", text, type=milliseconds)
    text = "largest deviation of that latency, either way, drawn for each chunk [ms] (default 0)"
    add("--jitter-ms", text, type=milliseconds, default=0.0)
    add("--loss", "fraction of the chunks that are lost (default 0)", type=fraction, default=0.0)
    strategies = "; ".join(f"{name}: {strategy.help}" for name, strategy in STRATEGIES.items())
    text = f"{strategies} (default {TRAINED.name}, with --sweep all)"
    add("--strategy", text, choices=tuple(STRATEGIES))
    policies = "; ".join(f"{name}: {what}" for name, what in POLICIES.items())
    add("--policy", f"{policies} (default the strategy's)", choices=tuple(POLICIES))
    add("--seed", "chooses the episodes (default 0)", type=seed, default=0)
    add(
        "--sweep",
        "run every strategy with its policy at 0 to 1000 ms, or the one that --strategy names; the "
        "other choices are ignored, jitter and loss too",
    )
    add(
        "--learn",
        "begin with belt_arm_beginner, whose weights a trainer changes while the arm goes on; at 600 ms "
        "unless --latency-ms says otherwise; --episodes, --strategy and --policy are ignored",
    )
    add("--minutes", "how long --learn goes on (default 5)", type=minutes, default=5.0)
    add("--out OUT", "folder of the results (default runs/<stamp>)")
    shape = (
        "the content of summary.json, with --sweep of sweep.json, with --learn of learning.json; the rest "
        "goes to stderr"
    )
    parser.add_output(shape, quiet="show no progress, only the result")


def run_demo(arguments: Arguments) -> int:
    from remote_inference.tools.demo import command  # noqa: PLC0415  needs rich and matplotlib

    return command.run_demo(arguments, print_json if arguments.json else None)
