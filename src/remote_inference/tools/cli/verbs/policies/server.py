# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference server`."""

from __future__ import annotations

import argparse
from pathlib import Path

from remote_inference.tools.cli.output import add_quiet

EXAMPLES = ("remote-inference server --manifest arm.manifest.yaml --name gpu_1",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--manifest", type=Path, required=True, help="YAML that says what to serve")
    parser.add_argument("--name", default="policy_server", help="node name (default policy_server)")
    add_quiet(parser, "print nothing but errors and the log of the nodes")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.tools.deployment import bringup  # noqa: PLC0415
    from remote_inference.tools.deployment.process_group import run_in_foreground  # noqa: PLC0415

    process = bringup.server(arguments.manifest, name=arguments.name)
    return run_in_foreground([process], quiet=arguments.quiet)
