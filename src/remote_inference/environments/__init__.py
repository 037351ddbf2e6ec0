# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulated robots and the tasks that they attempt: one folder and one line each."""

from typing import Any

from remote_inference.core.registry import Registry

__all__ = ["ENVIRONMENTS"]

# The class of each scene; its simulator is imported when the scene is asked for.
ENVIRONMENTS = Registry[type[Any]]("environment")
ENVIRONMENTS.add("belt_arm", f"{__name__}.belt_arm.scene:BeltArm")
