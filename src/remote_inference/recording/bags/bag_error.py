# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The error of everything that reads or writes bags."""

from __future__ import annotations

from remote_inference.errors import UserError


class BagError(UserError):
    """A bag cannot be written or read; names the bag and what is wrong with it."""


class StrangeMessageError(BagError):
    """A topic's messages lack fields of this release, or have other ones; those of other topics may not."""


class UnsupportedBagError(BagError):
    """A bag is of a kind that cannot be read here, whole as it may be."""
