# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path


def write_file(path: Path, content: bytes, mode: int) -> None:
    """Write a file beside its place, then move it there. Raises OSError; what was there then stays."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600 from the start
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_folder(folder: Path, files: Mapping[str, tuple[bytes, int]]) -> None:
    """Make a folder of files (content and mode by name). Raises FileExistsError and other OSErrors."""
    if folder.exists():
        raise FileExistsError(f"{folder} exists already")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        for name, (content, mode) in files.items():
            write_file(temporary / name, content, mode)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary)
        raise


def replace_folder(folder: Path, files: Mapping[str, tuple[bytes, int]]) -> None:
    """Change files of a folder all at once; its other files stay. Raises OSError, having changed nothing."""
    kept = {path.name: (path.read_bytes(), path.stat().st_mode & 0o777) for path in folder.iterdir()}
    new, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    for leftover in (new, old):
        if leftover.exists():
            shutil.rmtree(leftover)
    write_folder(new, {**kept, **files})
    folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old)
