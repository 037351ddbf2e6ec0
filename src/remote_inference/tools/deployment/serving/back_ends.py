# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference backends`: what a manifest may name as `model.backend`, and what each lacks here.

Nothing is imported into this process: installed packages are looked up by their metadata, and back ends that
lack none are imported in processes of their own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint, PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from remote_inference import __version__
from remote_inference.server.manifest.sections import BACK_ENDS
from remote_inference.server.policies import import_back_end
from remote_inference.server.policy_error import explain_policy_error

# -- Imports one back end, and says in a file what is wrong with it: in a process of its own -------------
#
#     python -m remote_inference.tools.deployment.serving.back_ends NAME ANSWER_FILE
#
# A back end's module is somebody else's: it may take its time and memory, print, hang, or end the process.


def _try(report: BackEndReport, deadline_s: float) -> BackEndReport:
    """Import a back end that lacks nothing in a process of its own, which is killed after `deadline_s`.

    Returns the report with why it failed, and the first line that the module printed on stdout.
    """
    if not report.is_complete:
        return report
    with TemporaryDirectory() as folder:
        answer, printed = Path(folder) / "answer", Path(folder) / "printed"
        command = [sys.executable, "-m", __name__, report.name, str(answer)]
        with printed.open("wb") as output:
            try:
                ended = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    timeout=deadline_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                problem = f"it has not ended after {deadline_s:g} s"
                return replace(report, failure=f"cannot be imported: {problem}")
        if not answer.exists():
            problem = f"it ends the process, {_end_of(ended.returncode)}"
            return replace(report, failure=f"cannot be imported: {problem}")
        lines = map(str.strip, printed.read_text(errors="replace").split("\n"))
        return replace(report, failure=answer.read_text(), prints=next(filter(None, lines), ""))


def _end_of(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"signal {-code}"


def _find_failure(name: str) -> str:
    """Import a back end in this process; return why it cannot be used, in one line, or an empty string."""
    try:
        import_back_end(name)
    except Exception as error:
        place = f"model.backend: {BACK_ENDS.describe(name)}"
        return explain_policy_error(error).removeprefix(place).lstrip(": ")
    except BaseException as error:  # such as KeyboardInterrupt, which a module may raise, too
        return f"cannot be imported: {explain_policy_error(error)}"
    return ""


IMPORT_DEADLINE_S = 60.0  # importing torch takes seconds, on a busy machine tens of them


@dataclass(frozen=True)
class BackEndReport:
    """One back end that this installation knows."""

    name: str
    distribution: str
    version: str
    missing: tuple[str, ...] = ()  # packages, with the version that is found instead
    problem: str = ""  # why the name is refused
    failure: str = ""  # why it cannot be imported
    prints: str = ""  # first line that it prints when it is imported

    @property
    def is_complete(self) -> bool:
        """True when nothing speaks against importing it."""
        return not self.problem and not self.missing

    @property
    def state(self) -> str:
        if self.problem:
            return f"refused, {self.problem}"
        if self.missing:
            return f"needs {', '.join(self.missing)}"
        if self.failure:
            return self.failure
        return f"ready, but its import prints {self.prints!r}" if self.prints else "ready"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": self.state}


def list_back_ends() -> list[BackEndReport]:
    """Return the back ends that are built in, then those that installed distributions declare."""
    return [*map(_report_built_in, BACK_ENDS.names), *map(_report_declared, BACK_ENDS.declared())]


def try_back_ends(
    reports: Sequence[BackEndReport], deadline_s: float = IMPORT_DEADLINE_S
) -> list[BackEndReport]:
    """Return the reports with what came of importing each back end that lacks nothing.

    deadline_s: of each import.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(partial(_try, deadline_s=deadline_s), reports))


def _report_built_in(name: str) -> BackEndReport:
    missing = tuple(package for package in BACK_ENDS.needs(name) if not find_spec(package))
    return BackEndReport(name, "remote_inference", __version__, missing, BACK_ENDS.find_conflict(name))


def _report_declared(declared: EntryPoint) -> BackEndReport:
    distribution = declared.dist
    return BackEndReport(
        declared.name,
        distribution.name if distribution else "",
        distribution.version if distribution else "",
        tuple(_missing(declared)),
        BACK_ENDS.find_conflict(declared.name),
    )


def _missing(declared: EntryPoint) -> Iterator[str]:
    package = declared.module.partition(".")[0]
    if not find_spec(package):
        yield f"its own module {package}"
    extras = ("", *declared.extras)
    for text in (declared.dist.requires if declared.dist else None) or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            yield f"{text!r}, which is no requirement ({str(error).splitlines()[0]})"
            continue
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
            yield from _lacks(requirement)


def _lacks(requirement: Requirement) -> Iterator[str]:
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        yield f"{requirement.name}{requirement.specifier}"
        return
    if not requirement.specifier.contains(found, prereleases=True):
        yield f"{requirement.name}{requirement.specifier} (found {found})"


if __name__ == "__main__":
    said = _find_failure(sys.argv[1])
    with suppress(Exception):  # a module may have replaced or closed it
        sys.stdout.flush()
    Path(sys.argv[2]).write_text(said)
    os._exit(0)  # threads that the module has started would go on
