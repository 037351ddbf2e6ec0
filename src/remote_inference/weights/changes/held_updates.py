# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a receiver holds beside the served weights: an update that comes in, a prepared one, the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from remote_inference.weights.answers import Peer
from remote_inference.weights.changes.changes import Change, Stager
from remote_inference.weights.changes.compression import Compression
from remote_inference.weights.header import Header


@dataclass
class Staging:
    """An update whose payload comes in."""

    header: Header
    stager: Stager
    compression: Compression
    heard_s: float
    parts: int = 0


@dataclass(frozen=True)
class Prepared:
    """An update that is whole and checked.

    peer: from whom. base: version and digest that it changes; None: any.
    """

    peer: Peer
    version: int
    digest: int
    base: tuple[int, int] | None
    changes: Sequence[Change]


@dataclass(frozen=True)
class Inverse:
    """What leads back to the version before."""

    version: int
    digest: int
    changes: Sequence[Change]
