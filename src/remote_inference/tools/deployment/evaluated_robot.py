# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot in real time for an evaluation: policy server, simulator and the robot's node, each a process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import remote_inference.server.policies  # noqa: F401  names the back ends
from remote_inference.base.clients.operator_client import OperatorError
from remote_inference.base.documents.yaml_text import dump_yaml
from remote_inference.base.policy import PolicySpec
from remote_inference.base.wire import qos
from remote_inference.learn.environment import EnvError
from remote_inference.learn.environments.policy_view import PolicyView
from remote_inference.learn.environments.robot_contract import write_robot_contract
from remote_inference.learn.evaluation.document import EpisodeKey
from remote_inference.learn.evaluation.episode_ledger import RobotLostError
from remote_inference.learn.evaluation.real_time import RobotPlan
from remote_inference.learn.evaluation.results import EpisodeResult, Times, digest_actions
from remote_inference.learn.nodes.episode_operator import EpisodeOperator
from remote_inference.learn.nodes.evaluated_server import read_spec
from remote_inference.msg import ActionChunk, ExecutedAction, ServerStatus
from remote_inference.robot.command import CommandSource
from remote_inference.server.manifest.manifest import Manifest, load_manifest
from remote_inference.server.manifest.sections import GATEWAYS
from remote_inference.srv import GetOutcome, GetStatus
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessError, ProcessGroup

LOAD_S = 1800.0  # until a policy that is not loaded is an error
FIND_S = 30.0  # until a server that runs already and does not say that it accepts robots is one
START_S = 300.0  # until a simulator or a robot that does not come up is one
RESET_S = 60.0  # until a simulator that does not begin an episode is one
SESSION_S = 60.0  # until a robot that has lost its session, and finds no other, is one
CALL_S = 5.0
TOPICS_S = 30.0  # until a robot without topics is lost: a busy machine discovers them late
LATE_CHUNK_S = 1.0  # after an episode, until its server is one that has sent no chunk
OUTCOME_PERIOD_S = 0.1
SIMULATOR = "environment"  # the node's name
# Sections of a manifest that open ports, write files or take updates.
_NOT_SERVED = (*GATEWAYS, "weights", "health_port", "audit_file", "capture_dir")


def open_with_own_server(plan: RobotPlan) -> AbstractContextManager[EvaluatedRobot]:
    """Serve the policy of a manifest for this robot alone. See OpenRobot."""
    plan.place.check("path", "a policy server's manifest")
    assert plan.place.path is not None, "it was checked"
    return _running(plan, load_manifest(plan.place.path))


def open_with_running_server(plan: RobotPlan) -> AbstractContextManager[EvaluatedRobot]:
    """Use a server that runs already. See OpenRobot."""
    plan.place.check("server", "the full name of a policy_server's node, such as /policy_server")
    return _running(plan, None)


@contextmanager
def _running(plan: RobotPlan, manifest: Manifest | None) -> Iterator[EvaluatedRobot]:
    """Start what does not run yet: server, simulator, robot. Yield the robot when it has its session.

    manifest: of the server to start; None where the plan's runs already.
    """
    source = plan.evaluation.environment
    namespace = f"/evaluation_{secrets.token_hex(4)}"  # that no other evaluation has
    with (
        TemporaryDirectory(prefix="evaluated_robot_") as folder,
        _as_lost(),
        ProcessGroup(plan.logs) as group,
        EpisodeOperator(
            "evaluation_operator", namespace, SIMULATOR, partial(_watch, group, plan)
        ) as operator,
    ):
        server, patience_s = f"/{plan.place.server.strip('/')}", FIND_S
        if manifest is not None:
            path = Path(folder, "manifest.yaml")
            path.write_text(dump_yaml(_write_manifest(manifest, plan)), encoding="utf-8")
            process = bringup.server(path, namespace=namespace)
            group.start(process)
            server, patience_s = f"{namespace}/{process.name}", LOAD_S
        spec = _await_policy(operator, server, patience_s, plan)
        PolicyView(plan.environment, spec)  # raises EnvError for a policy that does not fit
        task = (plan.evaluation.tasks or plan.environment.tasks)[0]
        contract = Path(folder, "robot.contract.yaml")
        content = write_robot_contract(plan.environment, spec, task)
        contract.write_text(dump_yaml(content), encoding="utf-8")
        simulator = bringup.simulated_robot(
            source.name, contract, namespace=namespace, options=source.options
        )
        group.start(simulator)
        given = plan.evaluation.robot.model_dump(exclude_unset=True, exclude={"servers", "autostart"})
        parameters = {name: value for name, value in given.items() if value != ()} | {"autostart": True}
        group.start(bringup.robot(contract, namespace=namespace, servers=[server], parameters=parameters))
        robot = EvaluatedRobot(plan, spec, server, operator)
        operator.wait_for_robot(START_S)
        robot.wait_for_topics(TOPICS_S)
        yield robot


class EvaluatedRobot:
    """A robot that has its session. See RealTimeRobot."""

    def __init__(self, plan: RobotPlan, spec: PolicySpec, server: str, operator: EpisodeOperator) -> None:
        """server: full name of its policy server."""
        self.spec = spec
        self._plan, self._server, self._operator = plan, server, operator
        rate_hz = plan.environment.control_rate_hz
        self._limit_s = plan.evaluation.limit_steps(plan.environment) / rate_hz
        self._ticks: list[ExecutedAction] = []
        self._chunks: list[ActionChunk] = []
        operator.subscribe(ExecutedAction, qos.EXECUTED_TOPIC, self._ticks.append, qos.EXECUTED_QOS)
        operator.subscribe(ActionChunk, qos.CHUNK_TOPIC, self._chunks.append, qos.CHUNK_LISTENER_QOS)

    def wait_for_topics(self, timeout_s: float) -> None:
        """Wait until robot and server publish to this operator, too. Raises OperatorError."""
        operator = self._operator
        operator.wait_for(
            lambda: bool(self._ticks and operator.node.count_publishers(qos.CHUNK_TOPIC)),
            f"{qos.EXECUTED_TOPIC} and a publisher of {qos.CHUNK_TOPIC}",
            timeout_s,
            operator.watch,
        )

    def play(self, key: EpisodeKey) -> EpisodeResult:
        """Play an episode. Raises EnvError or RobotLostError."""
        with _as_lost():
            self._operator.wait_for_session(SESSION_S)
            session_id = self._operator.session_id
            self._ticks.clear()
            self._chunks.clear()
            episode_id = self._operator.begin_episode(key.seed, key.condition.task, RESET_S)
            outcome = self._await_end(session_id)
            if not outcome.success:
                self._require_server(session_id, episode_id)
            chunks = self._chunks_of(episode_id)
            ticks = [tick for tick in self._ticks if tick.episode_id == episode_id]
            return self._result(key, outcome, ticks, chunks)

    def _await_end(self, session_id: str) -> GetOutcome.Response:
        """Return the outcome when the environment or the limit has ended the episode.

        Raises EnvError, and OperatorError when the robot loses its session.
        """
        while True:
            self._operator.spin(OUTCOME_PERIOD_S)
            if self._operator.session_id != session_id:
                raise OperatorError(f"the robot has lost its session with server {self._server}")
            outcome = self._operator.outcome()
            if outcome.message:
                raise EnvError(outcome.message)
            if outcome.ended or outcome.elapsed_s >= self._limit_s:
                return outcome

    def _chunks_of(self, episode_id: int) -> list[ActionChunk]:
        return [chunk for chunk in self._chunks if chunk.episode_id == episode_id]

    def _require_server(self, session_id: str, episode_id: int) -> None:
        """Raise OperatorError when it was the server that failed: the robot notices only after a while."""
        status = self._operator.call(
            GetStatus, f"{self._server}/get_status", GetStatus.Request(), CALL_S
        ).status
        if session_id not in status.sessions:
            raise OperatorError(f"server {self._server} has ended the robot's session")
        if not self._operator.spin_until(lambda: bool(self._chunks_of(episode_id)), LATE_CHUNK_S):
            raise OperatorError(f"server {self._server} has sent no chunk")

    def _result(
        self,
        key: EpisodeKey,
        outcome: GetOutcome.Response,
        ticks: Sequence[ExecutedAction],
        chunks: Sequence[ActionChunk],
    ) -> EpisodeResult:
        """Return what came of an episode. Success counts until the limit, rewards until it was noticed."""
        condition, tick_s = key.condition, 1.0 / self._plan.environment.control_rate_hz
        steps = round(min(outcome.elapsed_s, self._limit_s) / tick_s)
        # The robot goes on until the end is noticed; a tick may be lost.
        ticks = [tick for tick in ticks if tick.tick < ticks[0].tick + steps]
        versions = dict.fromkeys(tick.policy_version for tick in ticks if tick.policy_version)
        served = [chunk for chunk in chunks if chunk.horizon]
        problems = [chunk.message for chunk in chunks if not chunk.horizon]
        error = problems[-1] if problems and not served else ""
        actions = [np.asarray(tick.action, np.float64) for tick in ticks]
        is_in_time = outcome.elapsed_s <= self._limit_s + tick_s / 2
        return EpisodeResult(
            task=condition.task,
            policy=condition.policy,
            mode=condition.mode,
            latency_ms=condition.latency_ms,
            seed=key.seed,
            policy_versions=tuple(versions),
            success=outcome.success and (is_in_time or not outcome.ended),
            steps=steps,
            total_reward=outcome.reward,
            is_terminated=outcome.ended and outcome.elapsed_s < self._plan.environment.episode_limit_s,
            metrics=dict(zip(outcome.metric_names, outcome.metric_values, strict=True)),
            held_steps=sum(tick.source != CommandSource.CHUNK for tick in ticks),
            digest=digest_actions(actions, [outcome.reward]),
            inference=Times.of([(chunk.queue_wait_ms + chunk.inference_ms) / 1e3 for chunk in served]),
            step=Times.of([]),
            error=error,
        )


@contextmanager
def _as_lost() -> Iterator[None]:
    """Raise RobotLostError for a process that has ended or does not answer."""
    try:
        yield
    except (ProcessError, OperatorError) as error:
        raise RobotLostError(str(error)) from error


def _watch(group: ProcessGroup, plan: RobotPlan) -> None:
    """Raise ProcessError when a process has ended, and what the plan's check raises."""
    group.check()
    plan.check()


def _await_policy(operator: EpisodeOperator, server: str, patience_s: float, plan: RobotPlan) -> PolicySpec:
    """Wait until a server accepts robots; return its policy. Raises OperatorError and PolicyError."""
    statuses: list[ServerStatus] = []
    subscription = operator.subscribe(ServerStatus, f"{server}/status", statuses.append, qos.LATCHED_QOS)
    try:
        accepts = f"server {server} accepts robots"
        operator.wait_for(
            lambda: bool(statuses) and statuses[-1].accepting, accepts, patience_s, operator.watch
        )
    finally:
        operator.node.destroy_subscription(subscription)
    return read_spec(statuses[-1], plan.environment)


def _write_manifest(manifest: Manifest, plan: RobotPlan) -> dict[str, Any]:
    """Return a manifest's content for a server that nobody else shall find, at the end of the plan's path."""
    content = manifest.model_dump(mode="json", exclude_unset=True, exclude=set(_NOT_SERVED))
    content |= manifest.scheduler_options.model_dump(mode="json", exclude_unset=True)
    if not manifest.model.replicas:
        content["model"]["device"] = [choice.device for choice in manifest.model.choices]
    evaluation = plan.evaluation
    path = {"latency_ms": plan.latency_ms, "jitter_ms": evaluation.jitter_ms, "loss": evaluation.loss}
    return {**content, **{f"inject_{key}": value for key, value in path.items()}}
