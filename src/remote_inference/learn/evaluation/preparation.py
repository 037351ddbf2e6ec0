# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Prepares a run: opens the policies, and checks whether they can play at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.errors import UserError
from remote_inference.base.policy import PolicyError
from remote_inference.learn.environment import Environment, EnvironmentSpec
from remote_inference.learn.environments.emulated_robot import EmulatedRobot, EmulationError, NetworkPath
from remote_inference.learn.environments.policy_view import PolicyView
from remote_inference.learn.evaluation.document import Evaluation
from remote_inference.learn.evaluation.policies import POLICIES, EvaluatedPolicy, PolicyPlace
from remote_inference.learn.evaluation.results import ResultsError, ResultsFolder


@contextmanager
def open_policies(
    evaluation: Evaluation, home: Path, spec: EnvironmentSpec
) -> Iterator[dict[str, EvaluatedPolicy]]:
    """Yield the policies by name. home: folder of the document. Raises PolicyError with a policy's name."""
    policies: dict[str, EvaluatedPolicy] = {}
    with ExitStack() as stack:
        for name, source in evaluation.policies.items():
            place = PolicyPlace.of(
                source.path,
                source.server,
                home,
                accepts_weight_updates=evaluation.robot.accept_weight_updates,
            )
            with naming(f"policies.{name}"):
                policies[name] = POLICIES.get(source.kind)(place, spec, evaluation.num_envs)
            stack.callback(_close, policies[name])
        yield policies


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


def check_robots(
    evaluation: Evaluation, policies: Mapping[str, EvaluatedPolicy], environment: Environment
) -> list[str]:
    """Return what will not work well at a latency.

    Raises UserError when a policy does not fit the environment, or a robot cannot work at a latency.
    """
    warnings: list[str] = []
    task = (evaluation.tasks or environment.spec.tasks)[0]
    for name, policy in policies.items():
        view = PolicyView(environment.spec, policy.spec)
        first = environment.reset(evaluation.first_seed, task, view.wanted)
        for latency_ms in evaluation.latencies_ms:
            what = f"policies.{name} at {latency_ms:g} ms"
            with naming(what):
                path = NetworkPath(latency_ms / 1e3, evaluation.jitter_ms / 1e3)
                robot = EmulatedRobot(view, policy.spec, evaluation.robot, task, first=first, path=path)
            warnings += [f"{what}: {warning}" for warning in robot.warnings]
    return warnings


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Prefix a policy's errors with a name."""
    try:
        yield
    except (PolicyError, DocumentError, EmulationError) as error:
        raise type(error)(f"{what}: {error}") from error


def _close(policy: EvaluatedPolicy) -> None:
    with suppress(UserError):  # one that hangs was reported
        policy.close()
