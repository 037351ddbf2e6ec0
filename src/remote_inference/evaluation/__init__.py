# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Evaluation: policies play the same episodes of the same tasks, and what comes of it in numbers."""

from __future__ import annotations

from remote_inference.evaluation.books import Tally
from remote_inference.evaluation.document import Condition, EpisodeKey, Evaluation, load_evaluation
from remote_inference.evaluation.episode_result import EpisodeResult
from remote_inference.evaluation.policies import (
    POLICIES,
    EpisodePolicy,
    EvaluatedPolicy,
    PolicyAnswer,
    PolicyPlace,
    ServerLostError,
)
from remote_inference.evaluation.results import ResultsError, ResultsFolder, merge_folders
from remote_inference.evaluation.run import Run, Shard

__all__ = [
    "POLICIES",
    "Condition",
    "EpisodeKey",
    "EpisodePolicy",
    "EpisodeResult",
    "EvaluatedPolicy",
    "Evaluation",
    "PolicyAnswer",
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
