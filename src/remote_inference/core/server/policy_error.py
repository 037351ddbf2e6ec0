# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where in its author's code a policy failed, for the server's log; robots get the short reason."""

from __future__ import annotations

import traceback
from pathlib import Path

from remote_inference.core.documents.document import DocumentError
from remote_inference.core.policy import PolicyError

# Modules that call a policy. All other code is its author's, the policies of this package included.
_CALLERS = (
    "concurrent.",  # hands over what was raised while the policy was loaded
    "remote_inference.core.",
    "remote_inference.deployment.",
    "remote_inference.nodes.",
    "remote_inference.wire.",
)
_LOADERS = (
    "remote_inference.policies",
    "pkgutil",
    "importlib",
    "importlib._bootstrap",
    "importlib._bootstrap_external",
    "importlib.metadata",
)


def explain_policy_error(error: BaseException) -> str:
    """Return an error in one line, with file and line unless its author wrote it for users."""
    root = _root(error)
    place = "" if isinstance(root, (PolicyError, DocumentError)) else find_place(root)
    text = " ".join(str(error).split())
    if not isinstance(error, (PolicyError, DocumentError)):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{text} ({place})" if place else text


def trace_policy_error(error: BaseException) -> str:
    """Return the whole traceback, for the debug level."""
    return "".join(traceback.format_exception(error)).rstrip()


def find_place(error: BaseException) -> str:
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
    return module.startswith(_CALLERS) or module in _LOADERS


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
