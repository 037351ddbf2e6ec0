# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `model.options` says of a policy on somebody else's server, which itself says little or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from remote_inference.core.documents.document import Document, DocumentError
from remote_inference.core.policy import PolicyError
from remote_inference.policies.trained_policy import UNITS, Unit

Names = Annotated[tuple[str, ...], Field(min_length=1)]
Side = Annotated[int, Field(ge=1, le=8192)]


class Entry(Document):
    """One entry of a state or of a chunk on another server."""

    key: Annotated[str, Field(min_length=1, description="what that server calls the entry")]
    names: Annotated[Names, Field(description="the contract's names of its numbers, in their order")]


class RemoteImage(Document):
    """One camera of a policy on another server."""

    key: Annotated[str, Field(min_length=1, description="what that server calls the camera")]
    size: Annotated[
        tuple[Side, Side],
        Field(
            description="height and width that it gets: robots' images are scaled to fit, with black borders "
            "[px]"
        ),
    ]


class RemoteOptions(Document):
    """Keys of `model.options` that all servers share."""

    name: Annotated[str, Field(min_length=1, description="name of the policy, for logs and status")]
    api_key_file: Annotated[
        str,
        Field(
            description="file whose text is the server's key, in the folder `model.path`; empty: no key "
            "is sent"
        ),
    ] = ""
    timeout_s: Annotated[
        float, Field(gt=0, le=600, description="an inference without an answer has failed after this [s]")
    ] = 5.0
    first_timeout_s: Annotated[
        float,
        Field(
            gt=0, le=3_600, description="the same for the first inference, in which servers may compile [s]"
        ),
    ] = 120.0
    state: Annotated[
        tuple[Entry, ...],
        Field(min_length=1, description="entries that make the state, in the order of the contract's names"),
    ]
    images: Annotated[
        Mapping[str, RemoteImage], Field(description="cameras, by the feature that the robots send")
    ] = {}
    chunk_size: Annotated[int, Field(ge=1, le=10_000, description="rows of a chunk, checked in each answer")]
    trained_fps: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="control rate of the training data [Hz]")
    ]
    units: Annotated[Mapping[str, Unit], UNITS] = {}

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the whole state, in the order of its entries."""
        return names_of(self.state)


def names_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the names of all numbers, in the order of the entries."""
    return tuple(name for entry in entries for name in entry.names)


def read_api_key(folder: str | Path, file: str) -> str:
    """Return the key in a file, without white space around it; without a file an empty string.

    Raises DocumentError when the file cannot be read or holds no key of one line.
    """
    if not file:
        return ""
    path = Path(folder) / file
    try:
        key = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise DocumentError(f"model.options: api_key_file: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"model.options: api_key_file: {path}: is not ASCII text") from error
    if not key or not key.isprintable():
        raise DocumentError(f"model.options: api_key_file: {path}: expected one line with the key")
    return key


def require_distinct(key: str, names: Iterable[str]) -> None:
    """Raise PolicyError when a name occurs twice."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise PolicyError(f"model.options: {key}: found {twice[0]!r} twice, expected each name once")
