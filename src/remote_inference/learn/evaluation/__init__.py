# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Evaluation: policies play the same episodes of the same tasks, and are compared in numbers."""

from __future__ import annotations

from remote_inference.learn.evaluation.document import Condition, EpisodeKey, Evaluation, load_evaluation
from remote_inference.learn.evaluation.episode_ledger import Tally
from remote_inference.learn.evaluation.policies import POLICIES, PolicyPlace, ServerLostError
from remote_inference.learn.evaluation.results import (
    EpisodeResult,
    ResultsError,
    ResultsFolder,
    merge_folders,
)
from remote_inference.learn.evaluation.run import Run, Shard

__all__ = [
    "POLICIES",
    "Condition",
    "EpisodeKey",
    "EpisodeResult",
    "Evaluation",
    "PolicyPlace",
    "ResultsError",
    "ResultsFolder",
    "Run",
    "ServerLostError",
    "Shard",
    "Tally",
    "load_evaluation",
    "merge_folders",
]
