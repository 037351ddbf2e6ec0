# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The processes of simulated robots, and of simulators for trainers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remote_inference.deployment.bringup import Process, environment
from remote_inference.environments.slot_pool import LEASE_S


def simulated_robot(
    name: str,
    contract: str | Path,
    *,
    namespace: str,
    options: Mapping[str, Any] | None = None,
    mode: str = "real_time",
    rmw: str = "",
    router: str = "",
) -> Process:
    """Describe the node `environment` with one environment. name, options: as make_environment takes them."""
    parameters = {
        "environment": name,
        "options": json.dumps(dict(options or {})),
        "contract": str(contract),
        "mode": mode,
    }
    return Process("environment", "environment", namespace, parameters, environment=environment(rmw, router))


def simulator_pool(
    environment_name: str,
    *,
    slots: int,
    options: Mapping[str, Any] | None = None,
    lease_s: float = LEASE_S,
    name: str = "environment_pool",
    rmw: str = "",
    router: str = "",
) -> Process:
    """Describe a pool of simulators. environment_name, options: as make_environment takes them."""
    parameters = {
        "environment": environment_name,
        "options": json.dumps(dict(options or {})),
        "slots": slots,
        "lease_s": lease_s,
    }
    return Process("environment_pool", name, parameters=parameters, environment=environment(rmw, router))
