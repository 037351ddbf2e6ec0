# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The policy back ends that a manifest may name; `policies` adds those that are built in."""

from __future__ import annotations

from typing import Any, Protocol

from remote_inference.core.documents.registry import Registry
from remote_inference.core.policy import Policy


class BackEnd(Protocol):
    """Loads a policy."""

    def __call__(self, source: Any) -> Policy:
        """Load the policy that the manifest's section `model` describes.

        source: a `ModelSource`, untyped because the manifest imports the names of the back ends from here.
        `source.read_options` validates the section's options. Raises PolicyError or DocumentError naming the
        file and the key; DeviceError, a PolicyError, when this machine cannot use the device.
        """


GROUP = "remote_inference.policies"  # of the entry points by which other distributions add back ends

# A policy of your own needs no line here: `backend: my_package.my_module:load` names it, or an entry point.
BACK_ENDS = Registry[BackEnd]("policy back end", takes_places=True, group=GROUP)
