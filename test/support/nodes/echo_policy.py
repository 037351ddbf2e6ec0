# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that answers with what it sees, of velocities too: a base that moves goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies.hold import HoldPolicy
from support.importable import python_path
from support.nodes.rig import Rig, write_manifest

ECHO = f"{__name__}:EchoPolicy"


class EchoPolicy(HoldPolicy):
    """Reads the files of `hold`."""

    def __init__(self, source: ModelSource) -> None:
        super().__init__(source.require_path())
        self.spec = replace(self.spec, kinds={})


def start_echo_server(rig: Rig, policy: dict[str, Any], name: str = "policy_server") -> None:
    """Start a server of a rig that serves this policy to robots of a description."""
    model = {"backend": ECHO, "path": "model"}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", python_path())
        rig.start_server(write_manifest(rig.folder, policy, model=model), name=name)
