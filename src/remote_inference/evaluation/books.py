# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Keeps what a run brings: a line for each finished episode, and errors by kind. For any thread."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remote_inference.core.environment import EnvError
from remote_inference.evaluation.document import EpisodeKey
from remote_inference.evaluation.episode_result import EpisodeResult, LostEpisode
from remote_inference.evaluation.film import Film, save_strip
from remote_inference.evaluation.results import FILMS, ResultsError, ResultsFolder
from remote_inference.evaluation.troubles import Trouble, describe, find_trouble

if TYPE_CHECKING:
    from remote_inference.evaluation.play import PlayedTick
    from remote_inference.evaluation.saving import SavedEpisodes  # imports pyarrow

FILMS_PER_CONDITION = 3  # strips of failed episodes
Tell = Callable[[EpisodeKey, EpisodeResult | None, str], None]  # key, result or None, why there is none


@dataclass
class Tally:
    """What a run has done. unplayed: why episodes have no line. warnings: what will not work well."""

    played: int = 0
    troubles: Counter[str] = field(default_factory=Counter)
    unplayed: dict[EpisodeKey, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Played:
    """An episode that has ended. ticks: for a data set. film: its pictures."""

    result: EpisodeResult
    ticks: Sequence[PlayedTick] = ()
    film: Film | None = None


class Books:
    """The results folder and the tally of one run."""

    def __init__(self, folder: ResultsFolder, tell: Tell | None = None) -> None:
        """tell: takes each episode's end."""
        self.folder = folder
        self.tally = Tally()
        self.saved: SavedEpisodes | None = None  # the data set that is written, if one is
        self._tell: Tell = tell or (lambda *_: None)
        self._lock = threading.Lock()

    def play(
        self, key: EpisodeKey, attempt: Callable[[Counter[str]], Played], is_ending: Callable[[], bool]
    ) -> None:
        """Play an episode until it has a line, or its attempts are over.

        attempt: takes the errors met so far, by kind. is_ending: whether the run ends; an error is no longer
        counted then. Raises ResultsError when a result cannot be kept.
        """
        met: Counter[str] = Counter()
        while not is_ending():
            try:
                played = attempt(met)
            except ResultsError:  # of the whole folder, such as results of another policy
                raise
            except Exception as error:
                if is_ending():  # what it needs was ended on purpose
                    return
                trouble = self.count(error, met)
                if met[trouble.kind] >= trouble.attempts:
                    self.give_up(LostEpisode.of(key, trouble.kind, met), describe(error))
                    return
                continue
            if self.saved is not None:
                self.saved.add(played.result, list(played.ticks))
            met.update(self.folder.troubles_of(key))
            self._keep(played.result.model_copy(update={"troubles": dict(met)}), played.film)
            return

    def count(self, error: Exception, met: Counter[str]) -> Trouble:
        """Count an error, of the episode and of the run."""
        trouble = find_trouble(error)
        met[trouble.kind] += 1
        with self._lock:
            self.tally.troubles[trouble.kind] += 1
        return trouble

    def give_up(self, lost: LostEpisode, why: str) -> None:
        """Leave an episode to the next run. Raises ResultsError when that cannot be kept."""
        self.folder.note_lost(lost)
        reason = f"{lost.kind}: {why}"
        with self._lock:
            self.tally.unplayed[lost.key] = reason
        self._tell(lost.key, None, reason)

    def _keep(self, result: EpisodeResult, film: Film | None) -> None:
        if film is not None and not result.success and self._wants_film(result):
            result = result.model_copy(update={"film": self._save_film(result, film)})
        self.folder.append(result)
        with self._lock:
            self.tally.played += 1
        self._tell(result.key, result, "")

    def _wants_film(self, result: EpisodeResult) -> bool:
        condition = result.key.condition
        with self._lock:
            kept = list(self.folder.results.values())
        return sum(bool(one.film) for one in kept if one.key.condition == condition) < FILMS_PER_CONDITION

    def _save_film(self, result: EpisodeResult, film: Film) -> str:
        """Write a film strip and return its name; an empty string when the last picture cannot be taken.

        The name is the episode's own, and does not tell the policy.
        """
        digest = hashlib.sha256(str(result.key).encode()).hexdigest()[:12]
        name = f"{FILMS}/{result.mode}-seed_{result.seed}-{digest}.png"
        path = self.folder.folder / name
        with suppress(EnvError):
            frames = film.finish()
            try:
                save_strip(frames, path)
            except OSError as error:
                raise ResultsError(f"{path}: cannot be written: {error.strerror}") from error
            return name
        return ""
