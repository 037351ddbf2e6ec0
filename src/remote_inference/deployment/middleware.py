# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which middlewares this machine has, read from ament's index: rcl ends a process that asks for another."""

from __future__ import annotations

import os

from ament_index_python.resources import get_resources

from remote_inference.errors import UserError
from remote_inference.paths import share_path


def installed_middlewares() -> list[str]:
    """Return the middlewares that this machine has."""
    share_path()  # where the wheels lie, nobody has set AMENT_PREFIX_PATH
    return sorted(set(get_resources("rmw_typesupport")) - {"rmw_implementation"})


def require_middleware() -> None:
    """Raise UserError, in the words of `doctor`, when RMW_IMPLEMENTATION names one that is not installed."""
    wanted = os.environ.get("RMW_IMPLEMENTATION", "")
    installed = installed_middlewares()
    if wanted and wanted not in installed:
        from remote_inference.deployment.doctor import judge_middleware  # noqa: PLC0415  imports pydantic

        raise UserError("; ".join(finding.text for finding in judge_middleware(os.environ, installed)))
