# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures the shipped policies, strategy by latency, and writes the results into their model cards.

Run: PYTHONPATH=examples python -m belt_arm.study [--episodes 100] [--models config/models]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

from belt_arm.model_card import (
    CONDITIONS,
    EVALUATION_EPISODES,
    measure,
    replace_results,
)
from remote_inference.server.policies.networks.torch_chunk import TorchChunkPolicy


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="study", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--policies",
        nargs="+",
        choices=tuple(CONDITIONS),
        default=tuple(CONDITIONS),
        help="policies to measure (default all)",
    )
    parser.add_argument(
        "--episodes",
        type=int,
        default=EVALUATION_EPISODES,
        help=f"episodes of each condition (default {EVALUATION_EPISODES})",
    )
    parser.add_argument(
        "--models",
        type=Path,
        default=Path("config/models"),
        help="folder of the policies with their model cards (default config/models)",
    )
    options = parser.parse_args(arguments)
    if options.episodes < 1:
        parser.error(f"--episodes: found {options.episodes}, expected at least 1")
    cards = {name: options.models / name / "README.md" for name in options.policies}
    if missing := [str(card) for card in cards.values() if not card.is_file()]:
        parser.error(f"--models: {', '.join(missing)} not found, expected a model card of each policy")
    # A fresh process for each policy: neither torch nor the renderer outlives a fork.
    with ProcessPoolExecutor(len(cards), get_context("spawn")) as pool:
        list(pool.map(study, cards.values(), repeat(options.episodes)))


def study(card: Path, episodes: int) -> None:
    """Measure the policy beside a model card and write the results into it."""
    results = measure(TorchChunkPolicy(card.parent), _log, episodes)
    card.write_text(replace_results(card.read_text(encoding="utf-8"), results), encoding="utf-8")
    _log(f"wrote {card}")


def _log(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
