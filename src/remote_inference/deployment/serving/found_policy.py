# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which policy a folder or file holds: recognised by its names and small JSON files, and not loaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from remote_inference.core.documents.document import parse_json
from remote_inference.core.documents.problems import show_value
from remote_inference.errors import UserError

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
SHOWN_NAMES = 8  # of a folder in which nothing was recognised


@dataclass(frozen=True)
class FoundPolicy:
    """A policy on this machine. what: words for people. path: as `model.path` of a manifest takes it."""

    what: str
    backend: str
    path: Path
    computes: bool = True  # on a device that somebody may choose


@dataclass(frozen=True)
class Kind:
    """Files of one kind. pattern: of the file that tells. words: what is expected, for errors.

    read: returns the policy of such a file; None when its content says that it is another's.
    """

    pattern: str
    words: str
    read: Callable[[Path], FoundPolicy | None]
    is_sought: bool = True  # in a folder; otherwise the file itself must be named


def find_policy(path: Path) -> FoundPolicy:
    """Return the one policy that a folder holds, or a file is. Raises UserError with found and expected."""
    if not path.exists():
        raise UserError(_explain_absence(path))
    found = _policies_of(path)
    if len(found) == 1:
        return found[0]
    if found:
        several = " and ".join(f"{one.what} ({one.path})" for one in found)
        raise UserError(f"{path}: found {several}, expected one policy: name its file")
    expected = ", ".join([*(kind.words for kind in KINDS), "or a manifest by its name (*.yaml)"])
    raise UserError(f"{path}: found {_describe(path)}, expected {expected}{_find_below(path)}")


def _policies_of(path: Path) -> list[FoundPolicy]:
    if path.is_file():
        kinds = [kind for kind in KINDS if path.match(kind.pattern)]
        return [found for kind in kinds if (found := kind.read(path))]
    files = [file for file in sorted(path.iterdir()) if file.is_file()]
    pairs = [(kind, file) for kind in KINDS if kind.is_sought for file in files if file.match(kind.pattern)]
    return [found for kind, file in pairs if (found := kind.read(file))]


def _read_checkpoint(file: Path) -> FoundPolicy | None:
    content = parse_json(file.read_bytes(), str(file))
    kind = content.get("type") if isinstance(content, dict) else None
    if not isinstance(kind, str):
        return None
    return FoundPolicy(f"a LeRobot checkpoint of type {show_value(kind)}", "lerobot", file.parent)


def _read_package_policy(file: Path) -> FoundPolicy | None:
    content = parse_json(file.read_bytes(), str(file))
    if not isinstance(content, dict):
        return None
    if "architecture" in content:
        what = f"a chunk policy with the architecture {show_value(content['architecture'])}"
        return FoundPolicy(what, "chunk_network", file.parent)
    return FoundPolicy("a policy that holds every joint where it is", "hold", file.parent, computes=False)


def _read_onnx(file: Path) -> FoundPolicy:
    return FoundPolicy("a policy as an ONNX file", "onnx", file)


def _read_weights(file: Path) -> FoundPolicy | None:
    """Return the policy of a weights file; the folder of a chunk policy may have several."""
    config = file.with_name("policy.json")
    found = _read_package_policy(config) if config.is_file() else None
    if found is None or found.backend != "chunk_network":
        return None
    return FoundPolicy(found.what, found.backend, file)


KINDS = (
    Kind("config.json", "a LeRobot checkpoint (config.json with a `type`)", _read_checkpoint),
    Kind("policy.json", "a policy of this package (policy.json)", _read_package_policy),
    Kind("*.onnx", "an ONNX file (*.onnx)", _read_onnx),
    Kind("*.safetensors", "weights by their name, beside a policy.json", _read_weights, is_sought=False),
)


def _explain_absence(path: Path) -> str:
    text = str(path)
    if HUB_NAME.fullmatch(text) and not path.parent.exists():
        return (
            f"{text}: found no such folder or file, and nothing is fetched from a hub. If it is a name "
            f"there: hf download {text} --local-dir {path.name}, then remote-inference serve {path.name}"
        )
    return f"{text}: found no such folder or file, expected a policy on this machine"


def _describe(path: Path) -> str:
    """Return what a path holds in which nothing was recognised."""
    if not path.is_dir():
        return f"a file {path.suffix}" if path.suffix else "a file without a suffix"
    names = sorted(entry.name for entry in path.iterdir())
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more if names else "an empty folder"


def _find_below(path: Path) -> str:
    """Return in words which folders of this one hold a policy: a training writes it one level deeper."""
    folders = [entry for entry in sorted(path.iterdir()) if entry.is_dir()] if path.is_dir() else []
    holding = [str(folder) for folder in folders if _policies_of(folder)]
    return f"; there is one in {' and in '.join(holding)}" if holding else ""
