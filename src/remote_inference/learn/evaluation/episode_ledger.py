# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The ledger of a run: a line for each finished episode, and how each kind of error is handled.

An error never costs more than its own episode. For any thread.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.errors import UserError
from remote_inference.base.policy import PolicyError
from remote_inference.learn.environment import EnvError, NotFiniteError
from remote_inference.learn.environments.emulated_robot import EmulationError
from remote_inference.learn.evaluation.document import EpisodeKey
from remote_inference.learn.evaluation.policies import ServerLostError
from remote_inference.learn.evaluation.results import (
    FILMS,
    EpisodeResult,
    LostEpisode,
    ResultsError,
    ResultsFolder,
    write_whole,
)
from remote_inference.learn.rollouts.film_strip import Film, to_png

if TYPE_CHECKING:
    from remote_inference.learn.evaluation.play import PlayedTick
    from remote_inference.learn.evaluation.saving import SavedEpisodes  # imports pyarrow


class RobotLostError(UserError):
    """A robot that drives an environment in real time has not come up, has died or does not answer."""


@dataclass(frozen=True)
class Failure:
    """How an error is handled. attempts: of an episode in a run. is_result: the episode counts as failed."""

    kind: str
    meaning: str
    attempts: int
    is_result: bool = False


# By the error's class, the most special first. A policy that cannot go on has failed, and so has one whose
# actions lead a simulator to NaN; for what others did to an episode no policy is to blame.
FAILURES: Mapping[type[Exception], Failure] = {
    ServerLostError: Failure("network", "a policy that runs elsewhere cannot be reached", attempts=1),
    RobotLostError: Failure("robot", "a node of an episode in real time dies or does not answer", attempts=3),
    PolicyError: Failure("policy", "the policy cannot answer", attempts=1, is_result=True),
    NotFiniteError: Failure("not_finite", "NaN or infinity from the simulator", attempts=1, is_result=True),
    EnvError: Failure("environment", "the simulator raises, hangs or dies", attempts=3),
    Exception: Failure("other", "any other", attempts=1),
}


def find_failure(error: Exception) -> Failure:
    """Return the entry of FAILURES for an error."""
    return next(failure for kind, failure in FAILURES.items() if isinstance(error, kind))


def describe(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Prefix a policy's errors with a name."""
    try:
        yield
    except (PolicyError, DocumentError, EmulationError) as error:
        raise type(error)(f"{what}: {error}") from error


FILMS_PER_CONDITION = 3  # strips of failed episodes
Found = TypeVar("Found")
Report = Callable[[EpisodeKey, EpisodeResult | None, str], None]  # key, result or None, why there is none


@dataclass
class Tally:
    """The counts of a run. unplayed: why episodes have no line. warnings: what will not work well."""

    played: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    unplayed: dict[EpisodeKey, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Played:
    """An episode that has ended. ticks: for a data set. film: its pictures."""

    result: EpisodeResult
    ticks: Sequence[PlayedTick] = ()
    film: Film | None = None


class EpisodeLedger:
    """The results folder and the tally of one run."""

    def __init__(self, folder: ResultsFolder, report: Report | None = None) -> None:
        """report: called at each episode's end."""
        self.folder = folder
        self.tally = Tally()
        self.stop = threading.Event()  # set when the run ends: what errors need was ended on purpose then
        self.saved: SavedEpisodes | None = None  # the data set that is written, if one is
        self._report: Report = report or (lambda *_: None)
        self._lock = threading.Lock()

    def play(self, key: EpisodeKey, attempt: Callable[[Counter[str]], Played]) -> None:
        """Play an episode until it has a line, or its attempts are over.

        attempt: takes the errors met so far, by kind. Raises ResultsError when a result cannot be kept.
        """
        met: Counter[str] = Counter()
        try:
            played = self.retry(partial(attempt, met), Exception, met)
        except ResultsError:  # of the whole folder, such as results of another policy
            raise
        except Exception as error:
            if not self.stop.is_set():
                self.give_up(LostEpisode.of(key, find_failure(error).kind, met), describe(error))
            return
        if self.saved is not None:
            self.saved.add(played.result, list(played.ticks))
        met.update(self.folder.failures_of(key))
        self._keep(played.result.model_copy(update={"troubles": dict(met)}), played.film)

    def retry(self, call: Callable[[], Found], lost: type[Exception], met: Counter[str]) -> Found:
        """Return a call's result, repeated after errors of the class `lost`. met: counts them, by kind.

        Raises the last of them when there are as many as an episode may cost, or the run ends: an error is no
        longer counted then.
        """
        while True:
            try:
                return call()
            except lost as error:  # noqa: PERF203  each may be lost
                if isinstance(error, ResultsError) or self.stop.is_set():
                    raise
                failure = self.count(error, met)
                if met[failure.kind] >= failure.attempts:
                    raise

    def count(self, error: Exception, met: Counter[str]) -> Failure:
        """Count an error, of the episode and of the run."""
        failure = find_failure(error)
        met[failure.kind] += 1
        with self._lock:
            self.tally.failures[failure.kind] += 1
        return failure

    def give_up(self, lost: LostEpisode, why: str) -> None:
        """Leave an episode to the next run. Raises ResultsError when that cannot be kept."""
        self.folder.note_lost(lost)
        reason = f"{lost.kind}: {why}"
        with self._lock:
            self.tally.unplayed[lost.key] = reason
        self._report(lost.key, None, reason)

    def _keep(self, result: EpisodeResult, film: Film | None) -> None:
        if film is not None and not result.success and self._wants_film(result):
            result = result.model_copy(update={"film": self._save_film(result, film)})
        self.folder.append(result)
        with self._lock:
            self.tally.played += 1
        self._report(result.key, result, "")

    def _wants_film(self, result: EpisodeResult) -> bool:
        condition = result.key.condition
        with self._lock:
            kept = list(self.folder.results.values())
        return sum(bool(one.film) for one in kept if one.key.condition == condition) < FILMS_PER_CONDITION

    def _save_film(self, result: EpisodeResult, film: Film) -> str:
        """Write a film strip and return its name; an empty string without a picture, or the last one.

        The name is the episode's own, and does not reveal the policy. Raises ResultsError.
        """
        digest = hashlib.sha256(str(result.key).encode()).hexdigest()[:12]
        name = f"{FILMS}/{result.mode}-seed_{result.seed}-{digest}.png"
        with suppress(EnvError):
            if frames := film.finish():
                write_whole(self.folder.folder / name, to_png(frames))
                return name
        return ""
