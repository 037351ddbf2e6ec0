# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether an error says that a GPU is lost to this process, wherever in the author's code it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from remote_inference.core.policy import DeviceLostError

_DRIVER = "CUDA error:"  # torch begins errors of the driver and of its libraries with this
_FULL = ("out of memory", "ALLOC_FAILED")  # passes; torch's own "CUDA out of memory" begins otherwise


def says_lost(error: BaseException) -> bool:
    """Return whether an error, or what it was raised from, says that no call of this process works any more.

    A driver's error stays: whatever touches the GPU later raises it again, processors and copies too. The
    error of another machine's policy is a PolicyError, and says nothing of a device of this one.
    """
    while True:
        if isinstance(error, DeviceLostError):
            return True
        if isinstance(error, RuntimeError) and str(error).startswith(_DRIVER):
            return not any(word in str(error) for word in _FULL)
        if error.__cause__ is None:
            return False
        error = error.__cause__


def explain_loss(error: BaseException) -> DeviceLostError:
    """Return the error in one line: torch adds advice on debugging."""
    return DeviceLostError(str(error).partition("\n")[0])


@contextmanager
def naming_loss() -> Iterator[None]:
    """Raise DeviceLostError for an error within that says so."""
    try:
        yield
    except RuntimeError as error:
        if says_lost(error):
            raise explain_loss(error) from error
        raise
