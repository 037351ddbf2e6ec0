# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Registries of things found by name: an addition is one file, and one line that adds it.

Other distributions add to a registry that has an entry-point group, without a line here.
"""

from __future__ import annotations

import os
import pkgutil
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

Entry = TypeVar("Entry")

PLACE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*$"  # of "module:attribute"
DECLARED_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$"  # of an entry point's name, which may be a message type


class Registry(Generic[Entry]):
    """Entries of one kind by name, in the order in which they were added.

    An entry is the thing itself, or "module:attribute" as an entry point names it: the module and its
    libraries are imported only when the entry is asked for. A name is looked up among the entries that were
    added (built in), then as a place, then among the entry points.
    """

    def __init__(self, kind: str, *, takes_places: bool = False, group: str = "") -> None:
        """kind: word for an entry in errors. takes_places: whether "module:attribute" is a name, too.

        group: of the entry points that are entries, too; empty: none.
        """
        self.kind = kind
        self.takes_places = takes_places
        self.group = group
        self._entries: dict[str, Entry | str] = {}
        self._needs: dict[str, tuple[str, ...]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are built in."""
        return tuple(self._entries)

    @property
    def every_name(self) -> tuple[str, ...]:
        """The names that are built in, then those of entry points."""
        return tuple(dict.fromkeys([*self._entries, *(found.name for found in self.declared())]))

    def add(self, name: str, entry: Entry | str, *, needs: Sequence[str] = ()) -> None:
        """Add an entry, or its "module:attribute". needs: the optional packages that it imports.

        Raises ValueError for a name that is taken.
        """
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is there already, expected another name")
        self._entries[name] = entry
        self._needs[name] = tuple(needs)

    def needs(self, name: str) -> tuple[str, ...]:
        """Return the optional packages that a built-in entry imports."""
        return self._needs[name]

    def declared(self) -> tuple[EntryPoint, ...]:
        """Return the entry points of the installed distributions, by name; nothing is imported."""
        if not self.group:
            return ()
        return _find_declared(self.group, tuple((folder, _changed_ns(folder)) for folder in sys.path))

    def find_conflict(self, name: str) -> str:
        """Return why a name stands for more than one entry, or an empty string."""
        declared = self._declared_as(name)
        distributions = " and ".join(map(distribution_of, declared))
        if declared and name in self._entries:
            return f"which is built in and declared by {distributions}, too; expected another name there"
        if len(declared) > 1:
            return f"which is declared by {distributions}; expected one of them installed"
        return ""

    def check(self, name: object) -> str:
        """Return the name if exactly one entry has it. Raises ValueError with found and expected if not."""
        if isinstance(name, str) and (self._is_own(name) or self._declared_as(name)):
            if conflict := self.find_conflict(name):
                raise ValueError(f"found {name!r}, {conflict}")
            return name
        names = self.every_name
        hint = get_close_matches(name, names, n=1) if isinstance(name, str) else []
        choices = [repr(choice) for choice in (*names, *(["module:attribute"] if self.takes_places else []))]
        *others, last = choices or ["nothing"]
        expected = f"{', '.join(others)} or {last}" if others else last
        suggestion = f"; did you mean {hint[0]!r}?" if hint else ""
        from remote_inference.base.documents.problems import show_value  # noqa: PLC0415  imports pydantic

        raise ValueError(f"found {show_value(name)}, expected {expected}{suggestion}")

    def describe(self, name: str) -> str:
        """Return a name for errors, with the distribution that declares it."""
        if self._is_own(name):
            return repr(name)
        return " of ".join([repr(name), *map(distribution_of, self._declared_as(name))])

    def get(self, name: str) -> Entry:
        """Return an entry; only its module is imported.

        Raises ValueError for an unknown name and for one that several entries have; ImportError or
        AttributeError when the entry cannot be imported, for example because a library is not installed, and
        what else its module raises.
        """
        name = self.check(name)
        if self._is_own(name):
            entry = self._entries.get(name, name)
            return cast("Entry", pkgutil.resolve_name(entry)) if isinstance(entry, str) else entry
        (declared,) = self._declared_as(name)
        return cast("Entry", declared.load())

    def _is_own(self, name: str) -> bool:
        """Return whether a name is built in, or a place."""
        return name in self._entries or (self.takes_places and bool(re.fullmatch(PLACE_PATTERN, name)))

    def _declared_as(self, name: str) -> list[EntryPoint]:
        return [found for found in self.declared() if found.name == name]


def distribution_of(declared: EntryPoint) -> str:
    """Return name and version of the distribution that declares an entry point."""
    distribution = declared.dist
    return f"{distribution.name} {distribution.version}" if distribution else "an unnamed distribution"


@lru_cache(maxsize=32)  # each call reads a file of every installed distribution
def _find_declared(group: str, folders: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:  # noqa: ARG001
    return tuple(sorted(entry_points(group=group), key=lambda found: found.name))


def _changed_ns(folder: str) -> int:
    """Return when a folder of the path got or lost an entry; 0 for one that is not there."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0
