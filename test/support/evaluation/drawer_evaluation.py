# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Evaluations of the drawer, as files and as runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from remote_inference.learn.evaluation.document import Evaluation, load_evaluation
from remote_inference.learn.evaluation.episode_ledger import Tally
from remote_inference.learn.evaluation.results import EpisodeResult, ResultsFolder
from remote_inference.learn.evaluation.run import Run, Shard


def write_evaluation(
    folder: Path, policy: str = "support.environments.drawer_policy:load", **changes: Any
) -> Path:
    """Write a document and its manifest; return the document's path. policy: back end of the manifest."""
    (folder / "pull.manifest.yaml").write_text(yaml.safe_dump({"model": {"backend": policy, "path": "none"}}))
    content = {
        "environment": {"name": "support.evaluation.trying_drawer:TryingDrawer"},
        "policies": {"pull": {"path": "pull.manifest.yaml"}},
        "tasks": ["open"],
        "episodes": 6,
        **changes,
    }
    path = folder / "drawer.evaluation.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def play(
    path: Path, out: Path, shard: Shard | None = None, **options: Any
) -> tuple[Tally, list[EpisodeResult]]:
    """Run an evaluation; return what it did, and all results in order."""
    evaluation: Evaluation = load_evaluation(path)
    with ResultsFolder(out, evaluation) as folder:
        tally = Run(evaluation, path.parent, folder, shard=shard, **options).run()
        return tally, in_order(folder)


def in_order(folder: ResultsFolder) -> list[EpisodeResult]:
    return sorted(folder.results.values(), key=lambda one: one.key)


def outcomes(results: list[EpisodeResult]) -> list[dict[str, Any]]:
    return [one.outcome for one in results]


def make_result(seed: int = 0, **changes: Any) -> EpisodeResult:
    no_times = {"count": 0, "mean_ms": None, "p95_ms": None, "p99_ms": None}
    content = {
        "task": "open",
        "policy": "pull",
        "mode": "stepped",
        "latency_ms": 0.0,
        "seed": seed,
        "policy_versions": ("first",),
        "success": True,
        "steps": 3,
        "total_reward": 1.0,
        "is_terminated": True,
        "metrics": {},
        "held_steps": 0,
        "digest": "0" * 16,
        "inference": no_times,
        "step": no_times,
    }
    return EpisodeResult.model_validate({**content, **changes})
