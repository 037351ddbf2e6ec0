# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which tests reach which statements of a module, and a module that is imported changed: for `mutants.py`."""

from __future__ import annotations

import ast
import builtins
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

import pytest
from mutations import Mutant

OPTIONS = (
    "-q -x --disable-warnings -p no:cacheprovider -p no:xdist --hypothesis-seed=0 --ignore-glob=*/nodes/*"
)
FORK = multiprocessing.get_context("fork")
Modules = Mapping[str, Path]  # files by the modules' names


@dataclass
class Reach:
    """Which tests reach which statements, found by one run of all."""

    tests: dict[str, float] = field(default_factory=dict)  # seconds of processor time
    statements: dict[str, list[str]] = field(default_factory=dict)  # tests by `module:line`

    def of(self, module: str, mutant: Mutant) -> tuple[list[str], list[str]]:
        """Return the tests that reach a mutant: the module's own and others, quick ones first.

        Outside of functions those that reach the module, and all of its own and of files that import it: they
        may read a constant alone.
        """
        places = [f"{module}:{mutant.statement}"]
        found: set[str] = set()
        if not mutant.statement:
            places = [place for place in self.statements if place.startswith(f"{module}:")]
            found = {t for t in self.tests if is_own(t, module) or imports(file_of(t), module)}
        found.update(*(self.statements.get(place, []) for place in places))
        tests = sorted(found, key=self.tests.__getitem__)
        own = [test for test in tests if is_own(test, module)]
        return own, [test for test in tests if test not in own]


def is_own(test: str, module: str) -> bool:
    """Return whether a test stands in the file that has the module's name."""
    return Path(file_of(test)).stem.startswith(f"test_{module.rpartition('.')[2]}")


@cache
def imports(file: str, module: str) -> bool:
    """Return whether a test's file imports names from a module."""
    return f"from {module} import" in Path(file).read_text()


def file_of(test: str) -> str:
    return test.partition("::")[0]


class Changed(SourceFileLoader):
    """Imports a module as something else than its file says."""

    def __init__(self, name: str, path: Path, source: str | ast.Module) -> None:
        super().__init__(name, str(path))
        self._code = compile(source, path, "exec")

    def get_code(self, fullname: str) -> CodeType | None:
        return self._code if fullname == self.name else super().get_code(fullname)

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Stand in `sys.meta_path`."""
        return spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None


class Recorder:
    """Of pytest: which test reaches what, and what it costs."""

    def __init__(self) -> None:
        self.reach = Reach()
        self._test = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._test, begun_s = item.nodeid, time.process_time()
        yield
        self.reach.tests[item.nodeid], self._test = time.process_time() - begun_s, ""

    def mark(self, place: str) -> None:
        tests = self.reach.statements.setdefault(place, [])
        if self._test and self._test not in tests[-1:]:
            tests.append(self._test)


class Chosen:
    """Of pytest: runs these tests alone, in their order."""

    def __init__(self, tests: Iterable[str]) -> None:
        self._order = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )


def run_tests(tests: Sequence[str], plugin: object) -> int:
    room = Path(*Path(tests[0]).parts[:2])  # above it, the conftest sets up ROS
    return pytest.main([*OPTIONS.split(), f"--confcutdir={room}", *tests], plugins=[plugin])


def marked(source: str, module: str) -> ast.Module:
    """Return a module that calls `_mark` with the place of each statement of its classes and functions."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and not isinstance(node, ast.Module):
                marks = [ast.parse(f"_mark('{module}:{line.lineno}')").body[0] for line in block]
                setattr(node, name, [part for pair in zip(marks, block, strict=True) for part in pair])
    return ast.fix_missing_locations(tree)


def find_reach(modules: Modules, tests: Sequence[str]) -> Reach:
    """Run all tests once, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "reach.json")
        process = FORK.Process(target=_write_reach, args=(modules, tests, result))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit("the tests fail, or there are none: no mutant was tried")
        return Reach(**json.loads(result.read_text()))


def _write_reach(modules: Modules, tests: Sequence[str], result: Path) -> None:
    recorder = Recorder()
    builtins._mark = recorder.mark  # type: ignore[attr-defined]
    for module, path in modules.items():
        sys.meta_path.insert(0, Changed(module, path, marked(path.read_text(), module)))
    code = run_tests(tests, recorder)
    result.write_text(json.dumps(vars(recorder.reach)))
    sys.exit(code)
