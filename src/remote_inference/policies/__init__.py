# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policy back ends; each implements `core.policy.Policy`."""

from __future__ import annotations

from typing import Any

from remote_inference.core.policy import Policy, PolicyError, PolicySpec
from remote_inference.core.server.backends import BACK_ENDS
from remote_inference.core.server.manifest import ModelSource

__all__ = ["load_policy"]


def load_policy(model: ModelSource) -> Policy:
    """Load what a manifest names. A back end's libraries are imported only when it is asked for.

    Raises PolicyError or DocumentError naming the file and the key; DeviceError, a PolicyError, when this
    machine cannot use the device.
    """
    back_end = _import_back_end(model.backend)
    policy: Policy = back_end(model)
    if not isinstance(getattr(policy, "spec", None), PolicySpec):
        found = f"{type(policy).__name__} without a PolicySpec as `spec`"
        raise PolicyError(f"model.backend: {BACK_ENDS.describe(model.backend)} returned {found}")
    if model.revision and policy.spec.revision != model.revision:
        found = policy.spec.revision
        policy.close()
        raise PolicyError(f"{model.path}: revision: found {found!r}, expected {model.revision!r}")
    return policy


def _import_back_end(name: str) -> Any:
    try:
        back_end = BACK_ENDS.get(name)
    except Exception as error:  # a module may raise anything while it is imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PolicyError(
            f"model.backend: {BACK_ENDS.describe(name)} cannot be imported: {reason}"
        ) from error
    if not callable(back_end):
        found = type(back_end).__name__
        raise PolicyError(
            f"model.backend: {BACK_ENDS.describe(name)}: found {found}, expected a callable that takes the "
            "manifest's section `model`"
        )
    return back_end
