# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds the files of a bag, whether it was finished or not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remote_inference.core.documents.document import DocumentError, read_yaml
from remote_inference.recording.bags.bag_error import BagError, UnsupportedBagError
from remote_inference.recording.bags.bag_metadata import METADATA_NAME, ROOT_KEY
from remote_inference.recording.bags.mcap_scan import file_number


def read_metadata(path: Path) -> Mapping[str, Any] | None:
    """Return what metadata.yaml of a bag says below its root; None for a bag without the file.

    Raises UnsupportedBagError when there is no bag or one of another kind, BagError when the file is damaged.
    """
    if path.is_file():
        raise UnsupportedBagError(f"{path}: found a file, expected the folder of a bag, with MCAP files")
    if not path.is_dir():
        raise UnsupportedBagError(f"{path}: no bag there")
    file = path / METADATA_NAME
    if not file.exists():
        return None
    try:
        content = read_yaml(file)
    except DocumentError as error:
        raise BagError(str(error)) from error
    metadata = content.get(ROOT_KEY) if isinstance(content, dict) else None
    if not isinstance(metadata, dict):
        raise BagError(f"{file}: found no {ROOT_KEY}, expected the metadata of a rosbag2 bag")
    storage = metadata.get("storage_identifier")
    if storage != "mcap":
        raise UnsupportedBagError(f"{path}: found a bag of {storage} files, expected MCAP files")
    if mode := metadata.get("compression_mode"):
        advice = "`ros2 bag convert` without compression makes them readable"
        raise UnsupportedBagError(
            f"{path}: found MCAP files that ros2 bag compressed by {str(mode).lower()}; {advice}"
        )
    names = metadata.get("relative_file_paths")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BagError(f"{file}: relative_file_paths: found {names}, expected a list of files")
    if not isinstance(metadata.get("message_count"), int):
        raise BagError(f"{file}: message_count: found {metadata.get('message_count')}, expected a number")
    return metadata


def find_files(path: Path, metadata: Mapping[str, Any] | None) -> list[Path]:
    """Return the MCAP files of a bag in the order in which they were written.

    They are those of metadata.yaml, and those that it does not name. Raises BagError when there is none.
    """
    present = sorted(path.glob("*.mcap"), key=file_number)
    if not present:
        raise BagError(f"{path}: no bag there: found no MCAP file")
    named = [path / Path(name).name for name in metadata["relative_file_paths"]] if metadata else []
    first = [file for file in named if file in present]
    return [*first, *(file for file in present if file not in first)]
