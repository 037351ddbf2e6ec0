# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A real policy server whose hold policy a test can make fail; the module is also the server's program."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from remote_inference.base.policy import DeviceLostError, Float32Array
from remote_inference.server.policies.hold import HoldPolicy
from remote_inference.tools.deployment import bringup

FAULT_FILE = "FAULT_FILE"  # environment variable: path of the file that names the present fault
POLL_S = 0.02
SLOW_S = 0.02  # that an inference of a slow policy takes more


class FaultyServer(bringup.Process):
    """Runs this file in place of the policy server's executable."""

    def command(self) -> list[str]:
        return [sys.executable, __file__, *super().command()[4:]]


class PolicyFault:
    """The present fault of a server's policy, set by a test."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "fault"
        self.end()

    def begin(self, name: str) -> None:
        """Make every later inference hang, take longer, answer NaN, lose its device or make a mistake.

        name: `hang`, `slow`, `nan`, `device lost` or `mistake`.
        """
        self._path.write_text(name)

    def end(self) -> None:
        self._path.write_text("")

    def is_hanging(self) -> bool:
        """Return whether an inference hangs now or has hung before."""
        return _witness(self._path).exists()

    def server(self, manifest: Path, **parameters: Any) -> FaultyServer:
        """Return the process of a server with this fault."""
        process = bringup.server(manifest, **parameters)
        return replace(
            FaultyServer(**vars(process)),
            environment={**process.environment, FAULT_FILE: str(self._path)},
        )


def _witness(path: Path) -> Path:
    return path.with_suffix(".hung")


def spoil(path: Path) -> None:
    """Give the hold policy of this process the fault that the file names."""
    predict = HoldPolicy.predict

    def faulty(self: HoldPolicy, batch: Sequence[Float32Array]) -> list[Float32Array]:
        while path.read_text() == "hang":
            _witness(path).touch()
            time.sleep(POLL_S)
        if path.read_text() == "slow":
            time.sleep(SLOW_S)
        if path.read_text() == "device lost":
            raise DeviceLostError("CUDA error: an illegal memory access was encountered")
        if path.read_text() == "mistake":
            raise TypeError("unsupported operand")
        rows = predict(self, batch)
        return [np.full_like(row, np.nan) for row in rows] if path.read_text() == "nan" else rows

    HoldPolicy.predict = faulty  # type: ignore[method-assign]


if __name__ == "__main__":
    from remote_inference.server.nodes import policy_server

    spoil(Path(os.environ[FAULT_FILE]))
    sys.exit(policy_server.main(sys.argv))
