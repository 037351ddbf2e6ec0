# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy of this process, loaded from a server's manifest and called on a thread of its own.

Each request is computed alone: in a batch a network may round by the batch's size, and then an episode would
depend on which others are played beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from typing import TypeVar

from remote_inference.base.calls import Calls
from remote_inference.base.policy import (
    Policy,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    Processors,
    ServingMode,
    find_chunk_problem,
    find_task_problem,
    predict_all,
)
from remote_inference.learn.environment import EnvironmentSpec
from remote_inference.learn.evaluation.policies import EpisodePolicy, PolicyAnswer, PolicyPlace
from remote_inference.server.manifest.manifest import Manifest, load_manifest
from remote_inference.server.policies import load_policy

Result = TypeVar("Result")

LOAD_S = 1800.0  # until a policy that is not loaded is an error
ANSWER_S = 60.0  # until a policy that does not answer is an error


def open_manifest(place: PolicyPlace, environment: EnvironmentSpec, num_envs: int) -> ManifestPolicy:
    """Load a manifest's policy. Raises PolicyError or DocumentError, without a path, too."""
    del environment
    place.check("path", "a policy server's manifest")
    assert place.path is not None, "it was checked"
    return ManifestPolicy(place.path.name, load_manifest(place.path), num_envs)


class ManifestPolicy:
    """A loaded policy. See EvaluatedPolicy."""

    def __init__(self, name: str, manifest: Manifest, num_envs: int, answer_s: float = ANSWER_S) -> None:
        """name: for errors. answer_s: how long one chunk may take. Raises PolicyError or DocumentError."""
        self._name, self._manifest, self._answer_s = name, manifest, answer_s
        self._calls = Calls()
        self._moved_s = time.monotonic()  # when a call last began or ended
        self._calls.start(f"policy_{name}")
        try:
            self._policy: Policy = self.call(partial(load_policy, manifest.model), LOAD_S)
        except BaseException:
            self._calls.close()
            raise
        self.spec: PolicySpec = self._policy.spec
        if self.spec.serving_mode is ServingMode.EXCLUSIVE and num_envs > 1:
            self.close()
            raise PolicyError(
                f"{name}: it serves one episode at a time; num_envs: found {num_envs}, expected 1"
            )

    def begin(self, seed: int) -> EpisodePolicy:
        del seed  # each request has its own, made of the episode's
        if self.spec.serving_mode is ServingMode.EXCLUSIVE:
            self.call(self._policy.reset, self._answer_s)
        processors = self._policy.make_processors()
        return EpisodePolicy(
            lambda observation, _: self.call(partial(self._answer, processors, observation), self._answer_s)
        )

    def abort(self) -> None:
        """Do nothing: a policy that computes cannot be stopped."""

    def close(self) -> None:
        """Free the device, unless the policy hangs, and end the thread."""
        try:
            self.call(self._policy.close, self._answer_s)
        finally:
            self._calls.close()

    def call(self, call: Callable[[], Result], timeout_s: float) -> Result:
        """Return what a call on the policy's thread returns.

        timeout_s: of a call since its begin; those of other threads before it have their own. Raises
        PolicyError when one takes too long.
        """

        def run() -> Result:
            self._moved_s = time.monotonic()
            try:
                return call()
            finally:
                self._moved_s = time.monotonic()

        asked_s = time.monotonic()
        future = self._calls.submit(run)
        while not future.done():
            left_s = max(asked_s, self._moved_s) + timeout_s - time.monotonic()
            if left_s <= 0:
                raise PolicyError(f"{self._name}: it has not answered for {timeout_s:g} s")
            wait([future], left_s)
        return future.result()

    def _answer(self, processors: Processors, observation: PolicyObservation) -> PolicyAnswer:
        begin_s = time.monotonic()
        if problem := find_task_problem(self._policy.spec, observation.task or self._manifest.default_task):
            raise PolicyError(f"{self._name}: {problem}")
        asked = replace(observation, task=self._manifest.instruct(observation.task))
        (chunk_model,) = predict_all(self._policy, [processors.pre(asked)])
        chunk_robot = processors.post(chunk_model)
        if problem := find_chunk_problem(self._policy.spec, chunk_model, chunk_robot):
            raise PolicyError(f"{self._name}: {problem}")
        version = self._policy.spec.fingerprint
        return PolicyAnswer(chunk_model, chunk_robot, version, time.monotonic() - begin_s)
