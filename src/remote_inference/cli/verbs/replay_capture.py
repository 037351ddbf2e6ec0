# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay-capture`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

EXAMPLES = ("remote-inference replay-capture captures/*.capture --manifest arm.manifest.yaml",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("captures", type=Path, nargs="+", help="files of a manifest's capture_dir")
    parser.add_argument("--manifest", type=Path, required=True, help="YAML that says which policy answers")


def run(arguments: argparse.Namespace) -> int:
    from remote_inference.core.server.manifest import load_manifest  # noqa: PLC0415
    from remote_inference.recording.replay import replay  # noqa: PLC0415  loads policies

    replays = replay(arguments.captures, load_manifest(arguments.manifest, os.environ))
    for one in replays:
        print(one)
    return 0 if all(one.agrees for one in replays) else 1
