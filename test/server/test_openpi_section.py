# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The manifest's section `openpi`: cautious by default, and refused in words."""

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


def test_no_endpoint_is_open_unless_asked_for(tmp_path: Path):
    assert load_manifest(write(tmp_path, "")).openpi is None


def test_an_endpoint_is_open_to_this_machine_alone(tmp_path: Path):
    section = load_manifest(write(tmp_path, "openpi: {preset: droid}\n")).openpi
    assert section is not None
    assert (section.host, section.port, section.path, section.api_key_file) == ("127.0.0.1", 8000, "/", "")


def test_the_key_s_file_is_relative_to_the_manifest(tmp_path: Path):
    text = "openpi: {preset: droid, host: 0.0.0.0, api_key_file: endpoint.key}\n"
    section = load_manifest(write(tmp_path, text)).openpi
    assert section is not None
    assert section.api_key_file == str(tmp_path.resolve() / "endpoint.key")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("openpi: {}", ["openpi", "neither preset nor state", "droid, libero, aloha"]),
        ("openpi: {preset: drod}", ["openpi.preset", "'drod'", "'droid'"]),
        ("openpi: {preset: droid, host: 0.0.0.0}", ["host: found '0.0.0.0' without api_key_file"]),
        ("openpi: {preset: droid, host: example.org}", ["host: found 'example.org' without api_key_file"]),
        ("openpi: {preset: droid, port: 0}", ["openpi.port", "0"]),
        ("openpi: {preset: droid, path: v1}", ["openpi.path", "'v1'"]),
        ("openpi: {preset: droid, path: /healthz}", ["openpi.path", "'/healthz'"]),
        ("openpi: {preset: droid, layout: whc}", ["openpi.layout", "whc"]),
        ("openpi: {preset: droid, images: {a: ''}}", ["openpi.images"]),
        ("openpi: {preset: droid, key: x}", ["openpi.key"]),
    ],
)
def test_a_wrong_section_is_refused_in_words(tmp_path: Path, text: str, words: list[str]):
    with pytest.raises(DocumentError) as caught:
        load_manifest(write(tmp_path, text))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_needs_no_key(tmp_path: Path, host: str):
    load_manifest(write(tmp_path, f"openpi: {{preset: droid, host: '{host}'}}\n"))
