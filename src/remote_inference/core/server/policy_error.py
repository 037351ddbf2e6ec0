# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where in its author's code a policy failed, for the server's log; robots get the short reason."""

from __future__ import annotations

import traceback
from pathlib import Path

from remote_inference.core.document import DocumentError
from remote_inference.core.policy import PolicyError

# What calls a policy. Whatever it calls is the author's, the policies of this package included.
_CALLERS = ("remote_inference.core.", "remote_inference.nodes.", "remote_inference.wire.")


def explain_policy_error(error: BaseException) -> str:
    """Return an error in one line, with file and line when it is not one that its author worded for users."""
    root = _root(error)
    place = "" if isinstance(root, (PolicyError, DocumentError)) else find_place(root)
    text = (
        str(error) if isinstance(error, (PolicyError, DocumentError)) else f"{type(error).__name__}: {error}"
    )
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
    first = next((index for index, (name, _, _) in enumerate(frames) if name.startswith(_CALLERS)), 0)
    author = next((name for name, _, _ in frames[first:] if not name.startswith(_CALLERS)), "")
    package = author.partition(".")[0]
    own = [
        f"{Path(code.co_filename).name}:{line}, in {code.co_name}"
        for name, line, code in frames[first:]
        if name.partition(".")[0] == package and not name.startswith(_CALLERS)
    ]
    return own[-1] if own else ""


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
