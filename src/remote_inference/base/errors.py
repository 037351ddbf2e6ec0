# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The base of every error that the user can mend."""

MAX_LINE = 800  # characters of one line of an error: what it quotes from outside may be megabytes


def cut_lines(text: str) -> str:
    """Return a text of which each line is cut to MAX_LINE characters."""
    return "\n".join(
        line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 3]}..." for line in text.split("\n")
    )


class UserError(Exception):
    """What the user asked for cannot be done; the message says what, where, what was found and expected."""

    def __init__(self, text: str) -> None:
        super().__init__(cut_lines(text))
