# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Refuses checkpoints whose processors would not scale a feature as the policy was trained.

Without a step, a mode or statistics LeRobot passes a feature on as it is, and statistics of another length
are broadcast: the arm would get actions in no unit at all, and nothing would say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lerobot.configs import FeatureType, NormalizationMode

from remote_inference.core.policy import PolicyError
from remote_inference.policies.lerobot.checkpoint import CONFIG_FILE

STATISTICS = {
    NormalizationMode.MEAN_STD: ("mean", "std"),
    NormalizationMode.MIN_MAX: ("min", "max"),
    NormalizationMode.QUANTILES: ("q01", "q99"),
    NormalizationMode.QUANTILE10: ("q10", "q90"),
}
"""What LeRobot's normaliser looks up for each mode."""


def check_normalization(
    steps: Iterable[Any], name: str, features: Mapping[str, Any], modes: Mapping[str, Any], file: Path
) -> None:
    """Raise PolicyError unless one step scales the features as the checkpoint's configuration says.

    steps: those of LeRobot's class with the registry name `name`. features: LeRobot's PolicyFeature by key.
    modes: NormalizationMode by the name of a feature's type. file: of the pipeline, for the message.
    """
    found = list(steps)
    if len(found) > 1:
        raise PolicyError(f"{file}: steps: found {len(found)} of {name}, expected one")
    for key, feature in features.items():
        expected = modes.get(feature.type.value, NormalizationMode.IDENTITY)
        if found:
            _check_feature(found[0], f"{file}: {name}", key, feature, expected)
        elif expected is not NormalizationMode.IDENTITY:
            raise PolicyError(
                f"{file}: steps: found no {name}, expected one: {CONFIG_FILE} says {expected.value} for {key}"
            )


def _check_feature(step: Any, place: str, key: str, feature: Any, expected: Any) -> None:
    mode = _mode_of(step, key, feature)
    if mode is not expected:
        raise PolicyError(
            f"{place}: {key}: found the mode {mode.value}, expected {expected.value} as in {CONFIG_FILE}"
        )
    known = step.state_dict()
    for statistic in STATISTICS.get(expected, ()):
        values = known.get(f"{key}.{statistic}")
        if values is None:
            raise PolicyError(
                f"{place}: {key}: found no statistics {statistic!r}, expected those of the training data for "
                f"{expected.value}"
            )
        # One number per channel of an image, whichever way they are laid out.
        shape = (values.numel(),) if feature.type is FeatureType.VISUAL else tuple(values.shape)
        if shape != tuple(feature.shape[:1] if feature.type is FeatureType.VISUAL else feature.shape):
            raise PolicyError(
                f"{place}: {key}: found {statistic!r} of shape {list(values.shape)}, expected "
                f"{list(feature.shape)} as in {CONFIG_FILE}"
            )


def _mode_of(step: Any, key: str, feature: Any) -> Any:
    """Return what a step does to a feature: it scales observations that it lists, and all actions."""
    chosen = step.normalize_observation_keys
    is_listed = key in step.features and (chosen is None or key in chosen)
    if feature.type is not FeatureType.ACTION and not is_listed:
        return NormalizationMode.IDENTITY
    return step.norm_map.get(feature.type, NormalizationMode.IDENTITY)
