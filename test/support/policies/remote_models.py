# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The section `model` of manifests that name the servers of `remote_peers` and `stock_openpi`."""

from __future__ import annotations

from typing import Any

from support.policies.remote_peers import CHUNK_SIZE, PeerProcess
from support.policies.stock_openpi import CHUNK_SIZE as STOCK_CHUNK_SIZE, WIRE as STOCK_WIRE

FEATURE = "observation.images.camera"
NAMES = ("shoulder", "elbow")


def entries(**names: str) -> list[dict[str, Any]]:
    """Return entries of one number each, by the server's key."""
    return [{"key": key, "names": [name]} for key, name in names.items()]


def model_of(peer: PeerProcess, **options: Any) -> dict[str, Any]:
    """Return the section for a server; its keys divide the joints. options: in place of the usual ones."""
    shared = {"name": "theirs", "chunk_size": CHUNK_SIZE, "trained_fps": 30.0, "timeout_s": 10.0}
    if peer.wire == "gr00t":
        own = {
            "host": "127.0.0.1",
            "port": peer.port,
            "state": entries(single_arm="shoulder", gripper="elbow"),
            "actions": entries(single_arm="shoulder", gripper="elbow"),
            "images": {FEATURE: {"key": "ego_view", "size": [24, 32]}},
        }
    else:
        own = {
            "url": f"ws://127.0.0.1:{peer.port}",
            "state": [
                {"key": "observation/joint_position", "names": ["shoulder"]},
                {"key": "observation/gripper_position", "names": ["elbow"]},
            ],
            "action_names": list(NAMES),
            "images": {FEATURE: {"key": "observation/image", "size": [24, 32]}},
        }
    if peer.wire == STOCK_WIRE:
        own["state"] = [{"key": "state", "names": list(NAMES)}]
        shared["chunk_size"] = STOCK_CHUNK_SIZE
    backend = peer.wire.removeprefix("stock ")
    return {"backend": backend, "path": ".", "options": {**shared, **own, **options}}
