# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay --policy`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from remote_inference.tools.cli.replay_kinds import open_loop

if TYPE_CHECKING:
    from remote_inference.base.exchange import SessionOffer
    from remote_inference.learn.open_loop.evaluation import Answerer

OPTION = (
    "--policy",
    {
        "action": "append",
        "type": Path,
        "metavar": "MANIFEST",
        "help": "ask a manifest's policy what the robot asked, and compare; once for each policy",
    },
)
EXAMPLES = (
    "remote-inference replay --policy arm.manifest.yaml run_1 --out report.png",
    "remote-inference replay --policy old.manifest.yaml --policy new.manifest.yaml run_1",
    "remote-inference replay --policy arm.manifest.yaml run_1 --max-error all=0.05 --max-error gripper=0.002",
)
TAKES = open_loop.TAKES
JSON_SHAPE = open_loop.JSON_SHAPE
add_arguments = open_loop.add_arguments


def run(arguments: argparse.Namespace) -> int:
    """Return 0 within the bounds, 1 when one is exceeded, 2 when it cannot be judged."""
    return open_loop.run(arguments, arguments.policy, _serve)


@contextmanager
def _serve(manifest: Path, offer: SessionOffer) -> Iterator[Answerer]:
    from remote_inference.learn.open_loop.served_policy import serve  # noqa: PLC0415  loads policies
    from remote_inference.server.manifest.manifest import load_manifest  # noqa: PLC0415

    with (
        redirect_stdout(sys.stderr),  # a policy may print
        serve(load_manifest(manifest, os.environ), str(manifest), offer) as policy,
    ):
        yield policy
