# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes files and folders atomically: each appears complete or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

NEW, OLD = ".new", ".old"  # suffixes of hidden folders beside the folder that is replaced


def write_file(path: Path, content: bytes, mode: int) -> None:
    """Write a temporary file, then move it to `path`. Raises OSError; the previous file then stays."""
    write_files({path: (content, mode)})


def write_files(files: Mapping[Path, tuple[bytes, int]]) -> None:
    """Write temporary files (content and mode), and move them into place once all are written.

    Raises OSError; if a file cannot be written, every previous file stays.
    """
    written: dict[Path, str] = {}
    try:
        for path, (content, mode) in files.items():
            handle, written[path] = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(written[path], mode)
        for path in files:
            os.replace(written[path], path)
            del written[path]
    except BaseException:
        for name in written.values():
            os.unlink(name)
        raise


def write_folder(folder: Path, files: Mapping[str, tuple[bytes, int]]) -> None:
    """Make a folder with files (content and mode by name). Raises FileExistsError and other OSErrors."""
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
    """Replace files of a folder all at once; the other files stay. Changes nothing if it raises OSError.

    `restore_folders` repairs the folder if the process was killed between the two moves.
    """
    kept = {path.name: (path.read_bytes(), path.stat().st_mode & 0o777) for path in folder.iterdir()}
    new, old = (folder.with_name(f".{folder.name}{suffix}") for suffix in (NEW, OLD))
    write_folder(new, {**kept, **files})
    folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old)


def restore_folders(parent: Path) -> None:
    """Restore folders whose replacement was interrupted, and remove the leftovers. Raises OSError."""
    for old in parent.glob(f".*{OLD}"):
        folder = old.with_name(old.name.removeprefix(".").removesuffix(OLD))
        if folder.exists():
            shutil.rmtree(old)
        else:
            old.rename(folder)
    for new in parent.glob(f".*{NEW}"):
        shutil.rmtree(new)
