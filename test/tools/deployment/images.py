# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the images hold: the Dockerfile's stages, the repository's files by their place, and commands."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from linters import ROOT

from remote_inference.tools.cli.parser import make_parser

DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
INSTALLED = "/opt/remote_inference/"
ROUTER = "/opt/ros/jazzy/lib/rmw_zenoh_cpp/rmw_zenohd"


def instructions() -> list[str]:
    """Return the Dockerfile's instructions, each on one line, without comments."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    return [line for line in re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines() if line]


def stage(name: str) -> list[str]:
    """Return the instructions of one stage, those of the stages below it first."""
    begun: dict[str, list[str]] = {}
    for line in instructions():
        if found := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            current = begun[found[2]] = [*begun.get(found[1], [])]
        current.append(line)
    return begun[name]


def local(path: str) -> Path:
    """Return the repository's file that the images have at a path."""
    for installed, here in (("share/remote_inference/", ""), ("lib/remote_inference/", "scripts/")):
        if path.startswith(INSTALLED + installed):
            return ROOT / here / path.removeprefix(INSTALLED + installed)
    raise AssertionError(f"{path} is not in the image")


def check_command(command: list[str]) -> argparse.Namespace | None:
    """Parse a container's command as the package does. Fails for what is neither of it nor the router."""
    program, *arguments = command
    if program == "remote-inference":
        try:
            return make_parser().parse_args(arguments)
        except SystemExit as error:
            raise AssertionError(f"{command} is refused") from error
    assert program == ROUTER or local(program).is_file(), command
    return None
