# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The policy that opens the drawer, as a manifest names it."""

from __future__ import annotations

from typing import Any

from support.environments.drawer import PullPolicy


class ServedPullPolicy(PullPolicy):
    """A server notes in a policy's spec what it has found out."""

    spec = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.spec = PullPolicy().spec  # type: ignore[misc]


def load(source: Any) -> PullPolicy:
    return ServedPullPolicy()
