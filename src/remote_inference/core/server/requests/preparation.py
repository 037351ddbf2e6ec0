# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads a waiting request and makes the policy's input of it: parse, check, decode, preprocess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from remote_inference.core.exchange import Request, SessionOffer
from remote_inference.core.policy import PolicyObservation
from remote_inference.core.server.requests.job import Job, foreign, outdated, unreadable
from remote_inference.errors import UserError

TakeError = Callable[[str, BaseException], str]  # of what failed, and the error


class Decoder(Protocol):
    """Reads serialized requests, on several threads at once. The wire implements it: no ROS here."""

    def request(self, data: bytes) -> tuple[Request, Any]:
        """Return the request's identity and the parsed message for `observation`."""

    def observation(self, message: Any, offer: SessionOffer) -> PolicyObservation:
        """Return decoded state, images and prefixes. Raises ValueError that says what is malformed."""


class Preparation:
    """Prepares jobs, on any thread; two jobs of one session never at once."""

    def __init__(self, decoder: Decoder, clock_ns: Callable[[], int], take_error: TakeError) -> None:
        """take_error: takes what the author's code raised, and returns what to tell the robot."""
        self._decoder = decoder
        self._clock_ns = clock_ns
        self._take_error = take_error

    def prepare(self, job: Job) -> None:
        """Give a job its `model_input`, its `error`, or the record of a request that gets no answer."""
        begin_ns = self._clock_ns()
        self._open(job)
        if job.unanswered is None:
            self._preprocess(job)
        job.prepare_ns = self._clock_ns() - begin_ns

    def _open(self, job: Job) -> None:
        session, letter = job.session, job.letter
        try:
            request, job.message = self._decoder.request(letter.data)
        except Exception as error:
            session.last_request_ns = letter.arrival_ns  # the topic belongs to this session's robot
            job.unanswered = unreadable(session, letter, error)
            return
        job.request = request
        if not session.note_request(request.session_id, letter.arrival_ns):
            job.unanswered = foreign(session, letter, request)
        elif request.episode_id < session.oldest_episode_id:
            job.unanswered = outdated(session, letter, request)

    def _preprocess(self, job: Job) -> None:
        session, request = job.session, job.request
        try:
            if request.episode_id != session.episode_id or request.episode_start:
                # No id until both resets succeed: no request may see the old episode's state. A new id shows
                # a new episode, too: its first request may have been lost.
                session.episode_id = None
                session.processors.reset()
                job.begins_episode = True  # the device's thread resets the policy
            try:
                observation = self._decoder.observation(job.message, session.offer)
            except ValueError as error:
                job.error = f"malformed observation: {error}"
                return
            job.model_input = session.processors.pre(observation)
        except BaseException as error:
            job.error = self._take_error("preprocessing failed", error)
            # The words of a PolicyError are for the robot's user: it found something wrong with the request.
            job.blames_policy = not isinstance(error, UserError)
