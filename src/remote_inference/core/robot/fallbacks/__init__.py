# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The fallbacks that the parameter `fallback` may name: one file and one line each."""

from remote_inference.core.registry import Registry
from remote_inference.core.robot.fallback import Fallback

__all__ = ["FALLBACKS"]

FALLBACKS = Registry[type[Fallback]]("fallback")
FALLBACKS.add("hold", f"{__name__}.hold:Hold")
FALLBACKS.add("repeat_last", f"{__name__}.repeat_last:RepeatLast")
FALLBACKS.add("zero", f"{__name__}.zero:Zero")
