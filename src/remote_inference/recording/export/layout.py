# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where files lie in a LeRobot data set of version 3.0, and how large they grow."""

from __future__ import annotations

FILES_IN_FOLDER = 1000
MAX_DATA_FILE_MB, MAX_VIDEO_FILE_MB = 100, 200
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-000/file-000.parquet"


def file_place(number: int) -> tuple[int, int]:
    """Return the folder of the file with a number, and its number there."""
    return divmod(number, FILES_IN_FOLDER)
