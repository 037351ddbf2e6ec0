# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The bases of errors: of those that quote what comes from outside, and that the user can mend."""

from remote_inference.base.limits import visible

MAX_LINE = 800  # characters of one line of an error: what it quotes from outside may be megabytes


class BoundedError(Exception):
    """An error whose text may quote what comes from outside.

    Each line is cut to MAX_LINE characters, and control characters are shown.
    """

    def __init__(self, text: str) -> None:
        shown = visible(text, in_lines=True)
        lines = (
            line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 3]}..." for line in shown.split("\n")
        )
        super().__init__("\n".join(lines))


class UserError(BoundedError):
    """What the user asked for cannot be done; the message says what, where, what was found and expected."""
