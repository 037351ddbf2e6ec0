# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The manifest: the YAML that says which policy one server process serves, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from remote_inference.core.document import Document, load_document


class ModelSource(Document):
    """Which weights, and where they run."""

    backend: Literal["chunk_network", "hold"]
    path: Annotated[str, Field(min_length=1)]  # folder; relative to the manifest's own
    device: Annotated[str, Field(min_length=1)] = "cpu"  # as torch names it
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"


class Manifest(Document):
    """One server process: one policy on one device."""

    model: ModelSource
    default_task: str = ""
    pin_task: bool = False  # refuse robots with another task than default_task
    serving_mode: Literal["auto", "exclusive"] = "auto"  # auto: as the policy allows
    max_sessions: Annotated[int, Field(ge=1, le=10_000)] = 1
    scheduler: Literal["round_robin"] = "round_robin"
    warmup_inferences: Annotated[int, Field(ge=1, le=1_000)] = 2
    strict_fps: bool = False  # refuse robots whose control rate differs from training, instead of warning
    inject_latency_ms: Annotated[float, Field(ge=0.0, le=60_000.0)] = (
        0.0  # delay of each chunk; tests and demo
    )


def load_manifest(path: str | Path) -> Manifest:
    """Read a manifest and make `model.path` absolute.

    Raises DocumentError naming file, key, what was found and expected.
    """
    manifest = load_document(path, Manifest)
    folder = Path(path).resolve().parent / manifest.model.path
    return manifest.model_copy(update={"model": manifest.model.model_copy(update={"path": str(folder)})})
