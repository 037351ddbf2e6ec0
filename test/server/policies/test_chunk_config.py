# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`policy.json` of the chunk policies, as it is read and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_inference.base.paths import share_path
from remote_inference.server.policies.networks.torch_chunk import ChunkPolicyConfig

SHIPPED = sorted(share_path("config", "models").glob("*/policy.json"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.parent.name)
def test_a_shipped_configuration_is_written_as_it_was_read(file: Path) -> None:
    """Training again must give the same bytes, and so the fingerprint of the model card."""
    text = file.read_bytes()
    assert ChunkPolicyConfig.parse(text, file).to_json() == text
