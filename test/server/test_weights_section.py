# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The manifest's section `weights`: nobody may change a served policy unless the manifest says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_inference.base.documents.document import DocumentError
from remote_inference.server.manifest.manifest import load_manifest

MINIMAL = "model: {backend: hold, path: models/x}\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "test.manifest.yaml"
    path.write_text(MINIMAL + text, encoding="utf-8")
    return path


def test_no_update_is_accepted_unless_asked_for(tmp_path: Path):
    assert load_manifest(write(tmp_path, "")).weights is None
    section = load_manifest(write(tmp_path, "weights: {socket: w.socket}\n")).weights
    assert section is not None
    assert not section.accept


def test_the_socket_is_relative_to_the_manifest(tmp_path: Path):
    section = load_manifest(write(tmp_path, "weights: {accept: true, socket: w.socket}\n")).weights
    assert section is not None
    assert section.socket == str(tmp_path.resolve() / "w.socket")


def test_updates_without_a_socket_are_refused(tmp_path: Path):
    with pytest.raises(DocumentError, match="weights: socket: found nothing with accept: true"):
        load_manifest(write(tmp_path, "weights: {accept: true}\n"))
