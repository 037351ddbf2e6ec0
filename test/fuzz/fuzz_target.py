# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A place where bytes come in from outside, and what it promises about any bytes."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from mutation import Mutator

CORPUS = Path(__file__).with_name("corpus")
MAX_CPU_S = 5.0  # of one input, far above what the slowest takes on a busy machine
MAX_GROWTH_KIB = 256 * 1024  # of the process's memory by one input: a picture of 12 megapixels fits, decoded
MAX_LINE = 1_000  # characters of one line of an error

Signature = tuple[tuple[str, int], ...]  # files and lines that an error came through
Place = tuple[str, Signature]  # kind of a broken promise, and the last line of its error's way

_folders: dict[int, tempfile.TemporaryDirectory[str]] = {}  # by process: forked ones must not share files


def scratch_folder() -> Path:
    """Return a folder that belongs to this process alone."""
    if os.getpid() not in _folders:
        _folders[os.getpid()] = tempfile.TemporaryDirectory(prefix="fuzz_")
    return Path(_folders[os.getpid()].name)


@dataclass(frozen=True)
class Target:
    """One decoder: what it is fed and which errors it documents.

    run: reads bytes, and raises nothing but `errors`. seeds: valid inputs. names_source: with which each line
    of an error begins, so that its reader finds the place.
    """

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    mutate: Mutator
    errors: tuple[type[Exception], ...]
    share: float = 1.0  # of the inputs of a run, relative to other targets
    names_source: str = ""

    @property
    def corpus_files(self) -> list[Path]:
        """Inputs that are kept: each once broke a promise, or took a way of its own through the code."""
        return sorted((CORPUS / self.name).glob("*"))

    def all_seeds(self) -> list[bytes]:
        return [*self.seeds(), *(path.read_bytes() for path in self.corpus_files)]


@dataclass(frozen=True)
class Outcome:
    """What one input did. problem: the promise that it broke, or an empty string."""

    problem: str
    signature: Signature

    @property
    def place(self) -> Place:
        """What two findings of one defect have in common."""
        return self.problem.partition(":")[0][:20], self.signature[-1:]


def try_input(target: Target, data: bytes) -> Outcome:
    """Feed one input to a target and judge what happens."""
    before_kib = _reset_peak_kib()
    begin_s = time.process_time()
    problem, signature = _call(target, data)
    if (cpu_s := time.process_time() - begin_s) > MAX_CPU_S:
        problem = problem or f"took {cpu_s:.1f} s of CPU, expected at most {MAX_CPU_S:g}"
    growth_kib = _peak_kib() - before_kib
    if growth_kib > MAX_GROWTH_KIB:
        problem = problem or f"took {growth_kib // 1024} MiB, expected at most {MAX_GROWTH_KIB // 1024}"
    return Outcome(problem, signature)


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _reset_peak_kib() -> int:
    """Forget how much memory the process once took, so that any growth shows (proc(5), clear_refs)."""
    Path("/proc/self/clear_refs").write_bytes(b"5")
    return _peak_kib()


def _call(target: Target, data: bytes) -> tuple[str, Signature]:
    try:
        target.run(data)
    except target.errors as error:
        return _judge_text(target, str(error)), _way_of(error.__traceback__)
    except Exception as error:
        expected = ", ".join(kind.__name__ for kind in target.errors) or "no error"
        text = f"raised {type(error).__name__}: {str(error)[:300]}, expected {expected}"
        return text, _way_of(error.__traceback__)
    return "", ()


def _judge_text(target: Target, text: str) -> str:
    if not text.strip():
        return "raised an error without a text"
    for line in text.splitlines():
        if len(line) > MAX_LINE:
            return f"a line of the error has {len(line)} characters, expected at most {MAX_LINE}"
    if not text.startswith(target.names_source):
        return f"the error says {text[:200]!r}, expected it to begin with {target.names_source!r}"
    return ""


def _way_of(trace: TracebackType | None) -> Signature:
    way = []
    while trace is not None:
        way.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return tuple(way[-12:])
