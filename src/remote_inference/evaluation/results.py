# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The results on disk: a line for each finished episode, which nothing that is killed can tear or double.

An episode that a run could not play has a line in another file, which counts the errors that it has cost.

A folder belongs to one configuration and, while it is open, to one process.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

from typing_extensions import Self

from remote_inference.core.documents.document import DocumentError, parse_document, parse_json
from remote_inference.core.documents.problems import show_value
from remote_inference.errors import UserError
from remote_inference.evaluation.document import EpisodeKey, Evaluation
from remote_inference.evaluation.episode_result import EpisodeLine, EpisodeResult, LostEpisode

EPISODES, LOST, CONFIGURATION = "episodes.jsonl", "lost.jsonl", "evaluation.json"
LOCK, FILMS = ".lock", "films"
Line = TypeVar("Line", bound=EpisodeLine)
_FREE = frozenset({"num_envs", "episodes"})  # what may change between two runs of one folder


class ResultsError(UserError):
    """Results cannot be read, written or joined; the message names the file."""


def configuration_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return what decides about the episodes' results, as JSON values."""
    content: dict[str, Any] = json.loads(evaluation.model_dump_json(exclude=set(_FREE)))
    return content


class ResultsFolder:
    """The results of one evaluation. Any thread may append."""

    def __init__(self, folder: Path, evaluation: Evaluation) -> None:
        """Open a folder, made if need be. Raises ResultsError when it is another's, in use or damaged."""
        self.folder = folder
        self._lock = threading.Lock()
        with _told(folder):
            (folder / FILMS).mkdir(parents=True, exist_ok=True)
            self._lock_file = (folder / LOCK).open("a")
        try:
            self._take_lock()
            _check_configuration(folder, configuration_of(evaluation), writes=True)
            self.results = _by_key(folder / EPISODES, read_episodes(folder / EPISODES, mends=True))
            self.lost = read_lines(folder / LOST, LostEpisode, mends=True)
            self._file = self._open(EPISODES)
        except BaseException:
            self._lock_file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have the folder."""
        with self._lock:
            self._file.close()
            self._lock_file.close()

    def troubles_of(self, key: EpisodeKey) -> Counter[str]:
        """Return the errors of the runs that could not play an episode, by kind."""
        with self._lock:
            return sum((Counter(one.troubles) for one in self.lost if one.key == key), Counter())

    def note_lost(self, lost: LostEpisode) -> None:
        """Write that this run could not play an episode. Raises ResultsError when it cannot be written."""
        with self._lock, self._open(LOST) as file:
            _append(file, self.folder / LOST, lost)
            self.lost.append(lost)

    def append(self, result: EpisodeResult) -> None:
        """Write a line, on the disk when this returns. Raises ResultsError when it cannot be written."""
        with self._lock:
            if result.key in self.results:
                raise ResultsError(f"{self.folder / EPISODES}: {result.key}: found twice, expected once")
            _append(self._file, self.folder / EPISODES, result)
            self.results[result.key] = result

    def _open(self, name: str) -> IO[bytes]:
        with _told(self.folder / name):
            return (self.folder / name).open("ab", buffering=0)

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ResultsError(f"{self.folder}: another evaluation writes there, expected none") from error


def merge_folders(folders: Iterable[Path], into: ResultsFolder, evaluation: Evaluation) -> int:
    """Append the episodes of shards that are not there yet, and return how many; what shards lost, too.

    Raises ResultsError for a shard of another configuration, and for an episode that came out otherwise in
    two of them; then nothing has been appended.
    """
    found: dict[EpisodeKey, tuple[EpisodeResult, Path]] = {
        key: (result, into.folder) for key, result in into.results.items()
    }
    new: list[tuple[EpisodeResult, Path]] = []
    for folder in folders:
        _check_configuration(folder, configuration_of(evaluation), writes=False)
        for result in read_episodes(folder / EPISODES, mends=False):
            if result.key not in found:
                found[result.key] = (result, folder)
                new.append((result, folder))
            elif found[result.key][0].outcome != result.outcome:
                other = found[result.key][1]
                raise ResultsError(
                    f"{folder / EPISODES}: {result.key}: found another result than in {other / EPISODES}"
                )
    for result, folder in new:
        into.append(_with_film(result, folder, into.folder))
    known = {one.key for one in into.lost}
    for folder in folders:
        for one in read_lines(folder / LOST, LostEpisode, mends=False):
            if one.key not in known and one.key not in into.results:
                into.note_lost(one)
    return len(new)


def read_episodes(path: Path, *, mends: bool) -> list[EpisodeResult]:
    """Return the episodes of a file; mends: cut a torn last line off the file. Raises ResultsError."""
    return read_lines(path, EpisodeResult, mends=mends)


def read_lines(path: Path, kind: type[Line], *, mends: bool) -> list[Line]:
    """Return the lines of a file; none without one. mends: cut a torn last line off the file.

    A line is torn when its end is missing: who wrote it was killed. Raises ResultsError for any other damage.
    """
    with _told(path, "read"):
        content = path.read_bytes() if path.exists() else b""
    whole, _, torn = content.rpartition(b"\n")
    if torn and mends:
        with _told(path):
            os.truncate(path, len(content) - len(torn))
    lines = whole.split(b"\n") if whole else []
    try:
        return [_parse_line(line, kind, f"{path}: line {number}") for number, line in enumerate(lines, 1)]
    except DocumentError as error:
        raise ResultsError(str(error)) from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that is there whole or not at all; text as UTF-8. Raises ResultsError."""
    draft = path.with_name(f".{path.name}.draft")
    with _told(path):
        try:
            with draft.open("wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _append(file: IO[bytes], path: Path, content: EpisodeLine) -> None:
    """Write a line, on the disk when this returns. Raises ResultsError, and then has written nothing."""
    size = os.fstat(file.fileno()).st_size
    try:
        line = content.to_line()
        while line:
            line = line[file.write(line) or 0 :]
        os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):  # a torn line is mended by the next run, too
            os.ftruncate(file.fileno(), size)
        raise _cannot_write(path, error) from error


def _parse_line(line: bytes, kind: type[Line], source: str) -> Line:
    return parse_document(parse_json(line, source), kind, source)


def _check_configuration(folder: Path, expected: Mapping[str, Any], *, writes: bool) -> None:
    """Raise ResultsError when a folder has the results of another configuration, or none to read."""
    path = folder / CONFIGURATION
    if not path.exists():
        if (folder / EPISODES).exists() or not writes:
            raise ResultsError(f"{path}: not found, expected the configuration of the results beside it")
        write_whole(path, json.dumps(expected, indent=2) + "\n")
        return
    with _told(path, "read"):
        text = path.read_text(encoding="utf-8")
    try:
        found = parse_json(text, str(path))
    except DocumentError as error:
        raise ResultsError(str(error)) from error
    if difference := _find_difference(found, expected):
        raise ResultsError(
            f"{path}: {difference}: these are results of another configuration, "
            "expected a folder of their own"
        )


def _find_difference(found: Any, expected: Any) -> str:
    """Return the first key in which two documents differ, with both values; empty when they are equal."""
    path: list[str] = []
    while isinstance(found, dict) and isinstance(expected, dict):
        differing = (key for key in {**expected, **found} if found.get(key) != expected.get(key))
        key = next(differing, None)
        if key is None:
            return ""
        path.append(key)
        found, expected = found.get(key), expected.get(key)
    return f"{'.'.join(path)}: found {show_value(found)}, expected {show_value(expected)}"


def _by_key(path: Path, results: Iterable[EpisodeResult]) -> dict[EpisodeKey, EpisodeResult]:
    found: dict[EpisodeKey, EpisodeResult] = {}
    for result in results:
        if result.key in found:
            raise ResultsError(f"{path}: {result.key}: found twice, expected once")
        found[result.key] = result
    return found


def _with_film(result: EpisodeResult, folder: Path, into: Path) -> EpisodeResult:
    """Copy an episode's film strip, if it has one that can be read; return the result that names the copy."""
    source = folder / result.film
    if not result.film or not source.is_file():
        return result.model_copy(update={"film": ""})
    with _told(source, "read"):
        content = source.read_bytes()
    write_whole(into / result.film, content)
    return result


class _told:  # noqa: N801  a context like contextlib's
    """Turns an OSError about a file into a ResultsError that names it."""

    def __init__(self, path: Path, what: str = "written") -> None:
        self._path, self._what = path, what

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise ResultsError(f"{self._path}: cannot be {self._what}: {error.strerror}") from error


def _cannot_write(path: Path, error: OSError) -> ResultsError:
    return ResultsError(f"{path}: cannot be written: {error.strerror}; free the disk and run again")
