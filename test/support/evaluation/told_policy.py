# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy whose version says what it was told and by how many threads it was called, and one that hangs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from remote_inference.base.policy import Float32Array, PolicyObservation
from support.environments.drawer import PullPolicy

HANG_S = 60.0


class Told(PullPolicy):
    def __init__(self) -> None:
        super().__init__(noise=0.0)
        self._threads: set[int] = set()

    def predict(self, batch: Sequence[PolicyObservation]) -> list[Float32Array]:
        self._threads.add(threading.get_ident())
        self.version = f"{batch[0].task} on {len(self._threads)} thread"
        return super().predict(batch)


class Hanging(PullPolicy):
    def predict(self, batch: Sequence[PolicyObservation]) -> list[Float32Array]:
        threading.Event().wait(HANG_S)
        return super().predict(batch)


def load(source: Any) -> Told:
    return Told()


def hanging(source: Any) -> Hanging:
    return Hanging()
