# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Installed distributions, as far as importlib.metadata sees them: metadata and entry points."""

from __future__ import annotations

from pathlib import Path


def install(
    folder: Path,
    distribution: str,
    declared: str,
    *,
    version: str = "1.0",
    requires: tuple[str, ...] = (),
    group: str = "remote_inference.policies",
) -> None:
    """Lay the metadata of a distribution into a folder of the path. declared: "NAME = MODULE:ATTRIBUTE"."""
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {distribution}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{declared}\n")
