# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The back end `lerobot` in a process where pi0 and pi05 are small, as a server's `small_pi:load`."""

from __future__ import annotations

from tiny_policies import shrink_pi

from remote_inference.core.policy import Policy
from remote_inference.core.server.manifest.manifest import ModelSource
from remote_inference.policies import lerobot


def load(source: ModelSource) -> Policy:
    shrink_pi()
    return lerobot.load(source)
