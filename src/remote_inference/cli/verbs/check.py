# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference check`."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = (
    "remote-inference check arm.contract.yaml",
    "remote-inference check arm.contract.yaml arm.manifest.yaml",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", type=Path, nargs="+", help="contracts and manifests")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.deployment.check import check  # noqa: PLC0415  loads policies

    lines, fits = check(arguments.files)
    print("\n".join(lines))
    return 0 if fits else 1
