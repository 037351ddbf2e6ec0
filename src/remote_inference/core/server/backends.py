# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The policy back ends that a manifest may name: one file in `policies` and one line each."""

from __future__ import annotations

from typing import Protocol

from remote_inference.core.policy import Policy
from remote_inference.core.registry import Registry


class BackEnd(Protocol):
    """Loads a policy. A back end is mostly the policy's own class."""

    def __call__(self, path: str, device: str, dtype: str) -> Policy:
        """Load the policy at `path`, a folder or a file, on a device as torch names it.

        Raises PolicyError or DocumentError naming the file and the key; DeviceError, a PolicyError, when this
        machine cannot use the device.
        """


# Your own policy needs no line here: `backend: my_package.my_module:load` names it.
BACK_ENDS = Registry[BackEnd]("policy back end", takes_places=True)
BACK_ENDS.add("chunk_network", "remote_inference.policies.torch_chunk:TorchChunkPolicy")
BACK_ENDS.add("hold", "remote_inference.policies.hold:HoldPolicy")
