# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Letters instead of policies' names in a blind evaluation, until they are revealed.

The letters are drawn once for a results folder, and a file there has their meaning. Lines of episodes.jsonl
have the real names: the next run needs them.
"""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

from remote_inference.base.documents.document import DocumentError, parse_json
from remote_inference.learn.evaluation.document import EpisodeKey, Evaluation
from remote_inference.learn.evaluation.results import NAMES, EpisodeResult, ResultsError, write_whole

HIDDEN = "why is shown by --reveal"  # an error may name a manifest or a server


def open_names(folder: Path, evaluation: Evaluation) -> dict[str, str]:
    """Return policies' shown names, drawn if the folder has none. Raises ResultsError for those of others."""
    path = folder / NAMES
    if not path.exists():
        policies = list(evaluation.policies)
        secrets.SystemRandom().shuffle(policies)
        write_whole(path, json.dumps(dict(zip(policies, ascii_uppercase, strict=False)), indent=2) + "\n")
    try:
        names = parse_json(path.read_text(encoding="utf-8"), str(path))
    except (OSError, DocumentError) as error:
        raise ResultsError(f"{path}: cannot be read: {error}") from error
    letters = [*ascii_uppercase[: len(evaluation.policies)]]
    if (
        not isinstance(names, dict)
        or {*names} != {*evaluation.policies}
        or sorted(map(str, names.values())) != letters
    ):
        raise ResultsError(f"{path}: found {names!r}, expected a letter for each of the policies")
    return names


def mix(keys: Iterable[EpisodeKey]) -> list[EpisodeKey]:
    """Return episodes in an order that hides the policies: which plays a seed first is drawn."""
    drawn = random.Random(secrets.randbits(64))
    return sorted(keys, key=lambda key: (show_key(key, {key.condition.policy: ""}), drawn.random()))


def show_key(key: EpisodeKey, names: Mapping[str, str]) -> EpisodeKey:
    """Return an episode with its policy's shown name; without names as it is."""
    policy = names.get(key.condition.policy, key.condition.policy)
    return replace(key, condition=replace(key.condition, policy=policy))


def show_reason(why: str, names: Mapping[str, str]) -> str:
    """Return why an episode was not played; with shown names the kind of error alone."""
    return f"{why.partition(':')[0]}: {HIDDEN}" if names else why


def blind(
    evaluation: Evaluation, results: Iterable[EpisodeResult], names: Mapping[str, str]
) -> tuple[Evaluation, list[EpisodeResult]]:
    """Return both with shown names, by which they are in order, and without versions."""
    by_name = sorted(evaluation.policies, key=lambda policy: names[policy])
    sources = {names[policy]: evaluation.policies[policy] for policy in by_name}
    shown = [
        one.model_copy(
            update={"policy": names[one.policy], "policy_versions": (), "error": HIDDEN if one.error else ""}
        )
        for one in results
        if one.policy in names
    ]
    return evaluation.model_copy(update={"policies": sources}), shown
