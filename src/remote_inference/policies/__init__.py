# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policy back ends; each implements `core.policy.Policy`."""

from __future__ import annotations

from remote_inference.core.policy import Policy, PolicyError
from remote_inference.core.server.manifest import ModelSource

__all__ = ["load_policy"]


def load_policy(model: ModelSource) -> Policy:
    """Load what a manifest names. A back end's libraries are imported only when it is asked for.

    Raises PolicyError or DocumentError naming the file and the key; DeviceError, a PolicyError, when this
    machine cannot use the device.
    """
    policy = _load(model)
    if model.revision and policy.spec.revision != model.revision:
        found = policy.spec.revision
        policy.close()
        raise PolicyError(f"{model.path}: revision: found {found!r}, expected {model.revision!r}")
    return policy


def _load(model: ModelSource) -> Policy:
    if model.backend == "hold":
        from remote_inference.policies.hold import HoldPolicy  # noqa: PLC0415

        return HoldPolicy(model.path)
    from remote_inference.policies.torch_chunk import TorchChunkPolicy  # noqa: PLC0415

    return TorchChunkPolicy(model.path, model.device, model.dtype)
