# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Explains errors of a policy: where in its author's code it failed, and whether its GPU is lost."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import DeviceLostError, PolicyError

_DRIVER = "CUDA error:"  # how torch's errors of the driver and of its libraries begin
_FULL = ("out of memory", "ALLOC_FAILED")  # passes; torch's own "CUDA out of memory" begins otherwise


def is_device_lost(error: BaseException) -> bool:
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
def raise_device_loss() -> Iterator[None]:
    """Raise DeviceLostError for an error within that means a lost device."""
    try:
        yield
    except RuntimeError as error:
        if is_device_lost(error):
            raise explain_loss(error) from error
        raise


# Modules that call a policy. All other code is its author's, the policies of this package included.
_CALLERS = (
    "concurrent.",  # hands over what was raised while the policy was loaded
    "remote_inference.base.",
    "remote_inference.server.",
    "remote_inference.tools.deployment.",
)
_POLICIES = "remote_inference.server.policies."
_LOADERS = (
    "remote_inference.server.policies",
    "pkgutil",
    "importlib",
    "importlib._bootstrap",
    "importlib._bootstrap_external",
    "importlib.metadata",
)


def explain_policy_error(error: BaseException) -> str:
    """Return an error in one line, with file and line unless its author wrote it for users."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    place = "" if isinstance(root, (PolicyError, DocumentError)) else find_author_frame(root)
    text = " ".join(str(error).split())
    if not isinstance(error, (PolicyError, DocumentError)):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{text} ({place})" if place else text


def trace_policy_error(error: BaseException) -> str:
    """Return the whole traceback, for the debug level."""
    return "".join(traceback.format_exception(error)).rstrip()


def find_author_frame(error: BaseException) -> str:
    """Return the innermost frame of the author's code, as "my_policy.py:42, in predict"; empty if none."""
    frames = [
        (str(frame.f_globals.get("__name__", "")), line, frame.f_code)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    first = next((index for index, (name, _, _) in enumerate(frames) if _calls(name)), 0)
    frames = [frame for frame in frames[first:] if not _calls(frame[0])]
    if not frames:
        return ""
    package = frames[0][0].partition(".")[0]
    _, line, code = [frame for frame in frames if frame[0].partition(".")[0] == package][-1]
    return f"{Path(code.co_filename).name}:{line}, in {code.co_name}"


def _calls(module: str) -> bool:
    return module in _LOADERS or (module.startswith(_CALLERS) and not module.startswith(_POLICIES))
