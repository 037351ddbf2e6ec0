# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Registries of things found by name: an addition is one file, and one line that adds it."""

from __future__ import annotations

import pkgutil
import re
from difflib import get_close_matches
from typing import Generic, TypeVar, cast

Entry = TypeVar("Entry")

PLACE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*$"  # of "module:attribute"


class Registry(Generic[Entry]):
    """Entries of one kind by name, in the order in which they were added.

    An entry is the thing itself, or "module:attribute" as an entry point names it: the module and its
    libraries are imported only when the entry is asked for.
    """

    def __init__(self, kind: str, *, takes_places: bool = False) -> None:
        """kind: word for an entry in errors. takes_places: whether "module:attribute" is a name, too."""
        self.kind = kind
        self.takes_places = takes_places
        self._entries: dict[str, Entry | str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def add(self, name: str, entry: Entry | str) -> None:
        """Add an entry, or its "module:attribute". Raises ValueError for a name that is taken."""
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is there already, expected another name")
        self._entries[name] = entry

    def check(self, name: object) -> str:
        """Return the name if an entry has it. Raises ValueError with found and expected otherwise."""
        if isinstance(name, str) and (
            name in self._entries or (self.takes_places and re.fullmatch(PLACE_PATTERN, name))
        ):
            return name
        hint = get_close_matches(name, self._entries, n=1) if isinstance(name, str) else []
        choices = [
            repr(choice) for choice in (*self._entries, *(["module:attribute"] if self.takes_places else []))
        ]
        *others, last = choices or ["nothing"]
        expected = f"{', '.join(others)} or {last}" if others else last
        suggestion = f"; did you mean {hint[0]!r}?" if hint else ""
        from remote_inference.core.document_problems import show_value  # noqa: PLC0415  imports pydantic

        raise ValueError(f"found {show_value(name)}, expected {expected}{suggestion}")

    def get(self, name: str) -> Entry:
        """Return an entry.

        Raises ValueError for an unknown name; ImportError or AttributeError when the entry cannot be
        imported, for example because a library is not installed.
        """
        name = self.check(name)
        entry = self._entries.get(name, name)
        return cast("Entry", pkgutil.resolve_name(entry)) if isinstance(entry, str) else entry
