# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The results on disk: a line for each finished episode, which no killed process can tear or double.

An episode that a run could not play has a line in another file, which counts its errors. A folder belongs to
one configuration and, while it is open, to one process.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

import numpy as np
from pydantic import BeforeValidator, Field
from typing_extensions import Self

from remote_inference.bags.atomic_file import atomic_write
from remote_inference.base.documents.document import Document, DocumentError, parse_document, parse_json
from remote_inference.base.documents.problems import finite, show_value
from remote_inference.base.errors import UserError
from remote_inference.learn.environment import MetricValue
from remote_inference.learn.environments.policy_view import Actions
from remote_inference.learn.evaluation.document import Condition, EpisodeKey, Evaluation, Mode

Count = Annotated[int, Field(ge=0)]


class Times(Document):
    """How long something took, over `count` times that are known; None over none [ms]."""

    count: Count
    mean_ms: float | None
    p95_ms: float | None
    p99_ms: float | None

    @classmethod
    def of(cls, durations_s: Sequence[float]) -> Self:
        found_ms = np.asarray(durations_s) * 1e3
        found_ms = found_ms[np.isfinite(found_ms)]  # a server tells what it likes
        if not len(found_ms):
            return cls(count=0, mean_ms=None, p95_ms=None, p99_ms=None)
        p95_ms, p99_ms = np.quantile(found_ms, (0.95, 0.99))
        return cls(
            count=len(found_ms), mean_ms=float(found_ms.mean()), p95_ms=float(p95_ms), p99_ms=float(p99_ms)
        )


class EpisodeLine(Document):
    """A line about one episode, of episodes.jsonl or lost.jsonl."""

    task: str
    policy: str
    mode: Mode
    latency_ms: float
    seed: int

    @property
    def key(self) -> EpisodeKey:
        return EpisodeKey(Condition(self.task, self.policy, self.mode, self.latency_ms), self.seed)

    def to_line(self) -> bytes:
        """Return the line of the file, with its end."""
        return self.model_dump_json().encode() + b"\n"


class LostEpisode(EpisodeLine):
    """An episode that one run could not play. kind: of the last error. troubles: all errors, by kind."""

    kind: str
    troubles: Mapping[str, int]

    @classmethod
    def of(cls, key: EpisodeKey, kind: str, failures: Mapping[str, int]) -> Self:
        return cls(**vars(key.condition), seed=key.seed, kind=kind, troubles=dict(failures))


class EpisodeResult(EpisodeLine):
    """One finished episode.

    success, metrics: of the environment. total_reward, metrics: a number that is not finite is None.
    held_steps: in which a robot had no action to execute. digest: of executed actions and rewards, bit for
    bit. troubles: errors that it took to play the episode, by kind, those of earlier runs too. error: why
    the episode could not go on; empty otherwise. inference, step: durations of the policy's calls and the
    environment's steps. session_wait_ms: until a server had a session for the episode [ms]. film: file of
    the strip.
    """

    policy_versions: tuple[str, ...]
    success: bool
    steps: Count
    total_reward: Annotated[float | None, BeforeValidator(finite)]
    is_terminated: bool
    metrics: Annotated[Mapping[str, MetricValue | None], BeforeValidator(finite)]
    held_steps: Count
    digest: str
    inference: Times
    step: Times
    session_wait_ms: Annotated[float, Field(ge=0)] = 0.0
    troubles: Mapping[str, int] = {}
    error: str = ""
    film: str = ""

    @property
    def outcome(self) -> dict[str, Any]:
        """What a repeated episode must have in common: all but durations, errors and the film strip."""
        return self.model_dump(exclude={"inference", "step", "session_wait_ms", "troubles", "film"})


def digest_actions(actions: Sequence[Actions], rewards: Sequence[float]) -> str:
    """Return 16 hexadecimal digits of executed actions `[A]` and rewards, bit for bit."""
    found = hashlib.sha256(np.asarray(rewards, np.float64).tobytes())
    for action in actions:
        found.update(np.asarray(action, np.float64).tobytes())
    return found.hexdigest()[:16]


EPISODES, LOST, CONFIGURATION = "episodes.jsonl", "lost.jsonl", "evaluation.json"
LOCK, FILMS, NAMES = ".lock", "films", "blind.json"
Line = TypeVar("Line", bound=EpisodeLine)
_FREE = frozenset({"num_envs", "episodes"})  # what may change between two runs of one folder


class ResultsError(UserError):
    """Results cannot be read, written or joined; the message names the file."""


def configuration_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return what decides about the episodes' results, as JSON values."""
    return dict(json.loads(evaluation.model_dump_json(exclude=set(_FREE))))


class ResultsFolder(AbstractContextManager["ResultsFolder"]):
    """The results of one evaluation. Any thread may append.

    A context that ends with an error before any episode was tried leaves nothing: the evaluation was refused.
    """

    def __init__(self, folder: Path, evaluation: Evaluation) -> None:
        """Open a folder, made if need be. Raises ResultsError when it is another's, in use or damaged."""
        self.folder = folder
        self._lock = threading.Lock()
        made = (EPISODES, NAMES, CONFIGURATION, LOCK, FILMS, "")  # "": the folder itself
        self._made = [name for name in made if not (folder / name).exists()]
        with _file_errors(folder):
            (folder / FILMS).mkdir(parents=True, exist_ok=True)
            self._lock_file = (folder / LOCK).open("a")
        try:
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(self._lock_file.fileno()).st_ino != (folder / LOCK).stat().st_ino:
                    raise FileNotFoundError  # who held it has removed it meanwhile
            except OSError as error:
                raise ResultsError(f"{folder}: another evaluation writes there, expected none") from error
            self._is_new = not ((folder / CONFIGURATION).exists() or (folder / EPISODES).exists())
            if self._is_new:
                write_whole(folder / CONFIGURATION, json.dumps(configuration_of(evaluation), indent=2) + "\n")
            _check_configuration(folder, configuration_of(evaluation))
            self.results: dict[EpisodeKey, EpisodeResult] = {}
            for result in read_lines(folder / EPISODES, EpisodeResult, mends=True):
                self._require_new(result)
                self.results[result.key] = result
            self.lost = read_lines(folder / LOST, LostEpisode, mends=True)
            self._file = self._open(EPISODES)
        except BaseException:
            self._lock_file.close()
            raise

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None and self._is_new and not self.lost:
            self._remove()
        self.close()

    def close(self) -> None:
        """Close the files, and unlock the folder for other processes."""
        with self._lock:
            self._file.close()
            self._lock_file.close()

    def failures_of(self, key: EpisodeKey) -> Counter[str]:
        """Return the errors of the runs that could not play an episode, by kind."""
        with self._lock:
            return sum((Counter(one.troubles) for one in self.lost if one.key == key), Counter())

    def note_lost(self, lost: LostEpisode) -> None:
        """Append an episode that this run could not play. Raises ResultsError when it cannot be written."""
        with self._lock, self._open(LOST) as file:
            _append(file, self.folder / LOST, lost)
            self.lost.append(lost)

    def append(self, result: EpisodeResult) -> None:
        """Write a line, on the disk when this returns. Raises ResultsError when it cannot be written."""
        with self._lock:
            self._require_new(result)
            _append(self._file, self.folder / EPISODES, result)
            self.results[result.key] = result

    def _remove(self) -> None:
        """Remove what this run made where no episode was written; logs and the files of others stay."""
        with self._lock, suppress(OSError):  # the error that ends the context matters
            if os.fstat(self._file.fileno()).st_size:
                return
            for name in self._made:
                path = self.folder / name
                path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)

    def _require_new(self, result: EpisodeResult) -> None:
        if result.key in self.results:
            raise ResultsError(f"{self.folder / EPISODES}: {result.key}: found twice, expected once")

    def _open(self, name: str) -> IO[bytes]:
        with _file_errors(self.folder / name):
            return (self.folder / name).open("ab", buffering=0)


def check_versions(versions: Mapping[str, str], folder: ResultsFolder) -> None:
    """Raise ResultsError when a folder has results of other versions of the policies."""
    known: dict[str, set[str]] = defaultdict(set)
    for one in folder.results.values():
        known[one.policy].update(one.policy_versions)
    for name, version in versions.items():
        if known[name] and version not in known[name]:
            found = ", ".join(sorted(known[name]))
            raise ResultsError(
                f"{folder.folder}: policies.{name}: found results of version {found}, expected "
                f"{version}: this is another policy, expected a folder of its own"
            )


def merge_folders(folders: Iterable[Path], into: ResultsFolder, evaluation: Evaluation) -> int:
    """Append the new episodes of shards, and return how many; and the episodes that shards lost.

    Raises ResultsError for a shard of another configuration, and for an episode that came out otherwise in
    two of them; then nothing has been appended.
    """
    found: dict[EpisodeKey, tuple[EpisodeResult, Path]] = {
        key: (result, into.folder) for key, result in into.results.items()
    }
    new: list[tuple[EpisodeResult, Path]] = []
    for folder in folders:
        _check_configuration(folder, configuration_of(evaluation))
        for result in read_lines(folder / EPISODES, EpisodeResult, mends=False):
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


def read_lines(path: Path, kind: type[Line], *, mends: bool) -> list[Line]:
    """Return the lines of a file; none without one. mends: cut a torn last line off the file.

    A line is torn when its end is missing: who wrote it was killed. Raises ResultsError for any other damage.
    """
    with _file_errors(path, "read"):
        content = path.read_bytes() if path.exists() else b""
    whole, _, torn = content.rpartition(b"\n")
    if torn and mends:
        with _file_errors(path):
            os.truncate(path, len(content) - len(torn))
    lines = whole.split(b"\n") if whole else []
    try:
        sources = [f"{path}: line {number}" for number in range(1, len(lines) + 1)]
        pairs = zip(lines, sources, strict=True)
        return [parse_document(parse_json(line, source), kind, source) for line, source in pairs]
    except DocumentError as error:
        raise ResultsError(str(error)) from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that is there whole or not at all; text as UTF-8. Raises ResultsError."""
    with _file_errors(path), atomic_write(path) as draft, draft.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())


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
        why = f"{error.strerror}; free the disk and run again"
        raise ResultsError(f"{path}: cannot be written: {why}") from error


def _check_configuration(folder: Path, expected: Mapping[str, Any]) -> None:
    """Raise ResultsError when a folder has the results of another configuration, or none to read."""
    path = folder / CONFIGURATION
    if not path.exists():
        raise ResultsError(f"{path}: not found, expected the configuration of the results beside it")
    with _file_errors(path, "read"):
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


def _with_film(result: EpisodeResult, folder: Path, into: Path) -> EpisodeResult:
    """Copy an episode's film strip, if it has one that can be read; return the result that names the copy."""
    source = folder / result.film
    if not result.film or not source.is_file():
        return result.model_copy(update={"film": ""})
    with _file_errors(source, "read"):
        content = source.read_bytes()
    write_whole(into / result.film, content)
    return result


@contextmanager
def _file_errors(path: Path, what: str = "written") -> Iterator[None]:
    """Raise ResultsError with the file's name for an OSError about it."""
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{path}: cannot be {what}: {error.strerror}") from error
