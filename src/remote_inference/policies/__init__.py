# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policy back ends; each implements `core.policy.Policy`."""

from __future__ import annotations

from remote_inference.core.policy import Policy, PolicyError
from remote_inference.core.server.backends import BACK_ENDS
from remote_inference.core.server.manifest import ModelSource

__all__ = ["load_policy"]


def load_policy(model: ModelSource) -> Policy:
    """Load what a manifest names. A back end's libraries are imported only when it is asked for.

    Raises PolicyError or DocumentError naming the file and the key; DeviceError, a PolicyError, when this
    machine cannot use the device.
    """
    try:
        back_end = BACK_ENDS.get(model.backend)
    except (ImportError, AttributeError) as error:
        raise PolicyError(f"model.backend: {model.backend!r} cannot be imported: {error}") from error
    policy = back_end(model)
    if model.revision and policy.spec.revision != model.revision:
        found = policy.spec.revision
        policy.close()
        raise PolicyError(f"{model.path}: revision: found {found!r}, expected {model.revision!r}")
    return policy
