# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policies that fail, as manifests name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from remote_inference.base.policy import Float32Array, PolicyError, PolicyObservation, PolicySpec, ServingMode
from support.environments.drawer import CHUNK, PullPolicy


class Failing(PullPolicy):
    """Cannot answer for a drawer that was far open at the begin."""

    def predict(self, batch: Sequence[PolicyObservation]) -> list[Float32Array]:
        (observation,) = batch
        if 0.025 < observation.state[1] < 0.035:
            raise PolicyError("the gripper is out of sight")
        return super().predict(batch)


class Endless(PullPolicy):
    """Says nothing finite."""

    def predict(self, batch: Sequence[PolicyObservation]) -> list[Float32Array]:
        return [np.full((CHUNK, 2), np.nan, np.float32) for _ in batch]


class Selfish(PullPolicy):
    """Serves one episode at a time."""

    @property
    def spec(self) -> PolicySpec:
        return replace(super().spec, serving_mode=ServingMode.EXCLUSIVE)


def failing(source: Any) -> Failing:
    return Failing()


def endless(source: Any) -> Endless:
    return Endless()


def selfish(source: Any) -> Selfish:
    return Selfish()
