# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Evaluates the policy of a running policy_server, through sessions like those of robots.

Each thread that plays episodes has a session of its own, in a namespace of its own. A session that is lost
costs its episode; the next one waits until the server is there again.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace

from remote_inference.base.admission import make_offer
from remote_inference.base.clients.operator_client import OperatorClient, OperatorError
from remote_inference.base.clients.server_session import ServerSession, SessionRefusedError
from remote_inference.base.contract.fields import find_topic_name_problem
from remote_inference.base.contract.image_source import RAW
from remote_inference.base.errors import UserError
from remote_inference.base.exchange import ChunkStatus, ImageFeature, Request
from remote_inference.base.policy import (
    Continuation,
    PastStep,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    ServingMode,
    find_chunk_problem,
    fingerprint_of,
    show_policy_version,
)
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.base.wire.observation import SensedStep, observation_to_message
from remote_inference.learn.environment import EnvironmentSpec
from remote_inference.learn.environments.robot_contract import make_robot_contract
from remote_inference.learn.evaluation.policies import (
    EpisodePolicy,
    PolicyAnswer,
    PolicyPlace,
    ServerLostError,
)
from remote_inference.msg import Observation, ServerStatus
from remote_inference.srv import GetStatus

# -- The policy of a server's status ---------------------------------------------------------------------


def find_status_problem(status: ServerStatus, num_envs: int, *, accepts_weight_updates: bool) -> str:
    """Return why a server cannot play `num_envs` episodes at once; empty when it can."""
    if not status.accepting:
        return f"it accepts no sessions; it is {status.lifecycle_state}"
    if status.weights_version >= 0 and not accepts_weight_updates:
        reason = "trainers may change its weights (weights.accept)"
        return f"robot.accept_weight_updates: found false, expected true: {reason}"
    if status.max_sessions < num_envs:
        found = f"found {num_envs}, expected {status.max_sessions} at most"
        return f"num_envs: {found}, the sessions that it admits"
    return ""


def read_spec(status: ServerStatus, environment: EnvironmentSpec) -> PolicySpec:
    """Return the policy of a server's status. Raises PolicyError.

    The fingerprint has the version of live weights behind it, as in chunks: it separates results. Images
    have the sizes that the environment shows: a status has none.
    """
    shown = {name: feature.shape for name, feature in environment.features.items()}
    return PolicySpec(
        name=status.policy_name,
        revision=status.policy_revision,
        fingerprint=show_policy_version(status.policy_fingerprint, max(0, status.weights_version)),
        state_names=tuple(status.state_names),
        action_names=tuple(status.action_names),
        image_shapes={name: _image_shape(shown.get(name, ())) for name in status.image_features},
        chunk_size=status.chunk_size,
        trained_fps=status.trained_fps,
        continuation=Continuation(status.continuation),
        observation_steps=max(1, status.observation_steps),
        serving_mode=ServingMode(status.serving_mode),
    )


def _image_shape(shape: tuple[int | None, ...]) -> tuple[int, int, int]:
    """Return `(height, width, channels)`; 0 for a length that nobody knows."""
    height, width, channels = [length or 0 for length in (*shape, 0, 0, 0)[:3]]
    return height, width, channels


FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0  # between two attempts to open a session


CALL_S, ANSWER_S = 10.0, 30.0  # until the answer to a service, and until a chunk
# Of a server that opens no session, silent or full, since the first attempt that failed; then each episode
# has one attempt.
RETURN_S = 120.0


def open_server(place: PolicyPlace, environment: EnvironmentSpec, num_envs: int) -> ServerPolicy:
    """Find a server. Raises PolicyError for one that is silent or cannot play the episodes."""
    place.check("server", "the full name of a policy_server's node, such as /policy_server")
    server = f"/{place.server.strip('/')}"
    if problem := find_topic_name_problem(server):
        raise PolicyError(f"server: {problem}")
    return ServerPolicy(server, environment, num_envs, accepts_weight_updates=place.accepts_weight_updates)


class ServerPolicy:
    """The policy of one server. See EvaluatedPolicy."""

    def __init__(
        self, server: str, environment: EnvironmentSpec, num_envs: int, *, accepts_weight_updates: bool = True
    ) -> None:
        """server: full name of its node. Raises PolicyError."""
        self.server, self.environment = server, environment
        self.accepts_weight_updates = accepts_weight_updates
        self.aborted = threading.Event()
        self.missed_s = math.inf  # when a session could first not be opened, since one last got an answer
        self._of_thread: dict[int, _Slot] = {}
        namespace = f"/evaluation_{secrets.token_hex(4)}"
        self._slots: list[_Slot] = []
        try:
            for number in range(num_envs):
                self._slots.append(_Slot(self, f"{namespace}/slot_{number}"))
            self.spec = self._slots[0].read_spec(num_envs)
        except OperatorError as error:
            self.close()
            raise PolicyError(f"server {server}: {error}") from error
        except BaseException:
            self.close()
            raise
        self._free = deque(self._slots)

    def begin(self, seed: int) -> EpisodePolicy:
        """Begin an episode in the calling thread's session. seed: the server draws by each request alone."""
        del seed
        thread = threading.get_ident()
        if thread not in self._of_thread:
            self._of_thread[thread] = self._free.popleft()
        return self._of_thread[thread].begin()

    def abort(self) -> None:
        self.aborted.set()

    def close(self) -> None:
        """End the sessions. Raises UserError for those that are still in use."""
        self.abort()
        in_use = [slot.namespace for slot in self._slots if not slot.close()]
        if in_use:
            raise UserError(f"server {self.server}: found sessions of {', '.join(in_use)} in use")


class _Slot:
    """A client of the server with one session at a time. One thread asks; any may close."""

    def __init__(self, policy: ServerPolicy, namespace: str) -> None:
        self.namespace = namespace
        self._policy = policy
        self._episode_id = 0
        self._is_begin = False  # of the episode: it was not asked yet
        self._client = OperatorClient("evaluator", namespace)
        self._session: ServerSession | None = None
        self._is_open = False
        self._in_use = threading.Lock()

    def read_spec(self, num_envs: int) -> PolicySpec:
        """Return the policy of the server. Raises PolicyError or OperatorError."""
        server = self._policy.server
        status: ServerStatus = self._client.call(
            GetStatus, f"{server}/get_status", GetStatus.Request(), CALL_S
        ).status
        accepts_weight_updates = self._policy.accepts_weight_updates
        if problem := find_status_problem(status, num_envs, accepts_weight_updates=accepts_weight_updates):
            raise PolicyError(f"server {server}: {problem}")
        return read_spec(status, self._policy.environment)

    def begin(self) -> EpisodePolicy:
        """Begin an episode; the one before is over."""
        self._episode_id, self._is_begin = self._episode_id + 1, True
        return self._answer

    def _answer(self, observation: PolicyObservation, _: int) -> PolicyAnswer:
        """Return the chunk. Raises PolicyError when the server has none, ServerLostError without one."""
        is_begin, self._is_begin = self._is_begin, False
        with self._in_use:
            wait_s = self._require_session(observation.task) if is_begin else 0.0
            return replace(self._ask(observation, is_begin), session_wait_s=wait_s)

    def close(self) -> bool:
        """End the session and the client; return False when the slot stays in use."""
        if not self._in_use.acquire(timeout=CALL_S):
            return False
        with self._client:
            if self._is_open and self._session is not None:
                with suppress(OperatorError):  # the server ends it when it sees that we are gone
                    self._session.close()
        return True

    # -- a request -----------------------------------------------------------------------------------------

    def _ask(self, observation: PolicyObservation, is_begin: bool) -> PolicyAnswer:
        policy, session = self._policy, self._session
        assert session is not None, "an episode begins with a session"
        begin_s = time.monotonic()
        try:
            message = self._write(observation, is_begin)
            chunk = session.ask(message, ANSWER_S, self._watch)
        except (OperatorError, WireError) as error:
            self._is_open = False
            place = f"server {policy.server}: " if isinstance(error, WireError) else ""  # else it names it
            raise ServerLostError(f"{place}{error}") from error
        answer_s = time.monotonic() - begin_s
        policy.missed_s = math.inf
        if chunk.status is ChunkStatus.DRAINING:
            self._is_open = False
            raise ServerLostError(f"server {policy.server}: it is draining: {chunk.message}")
        problem = chunk.message or "without a reason"
        if chunk.status is ChunkStatus.OK:
            problem = find_chunk_problem(policy.spec, chunk.model, chunk.robot)
        if problem:
            raise PolicyError(f"server {policy.server}: {problem}")
        return PolicyAnswer(chunk.model, chunk.robot, chunk.policy_version, answer_s)

    def _write(self, observation: PolicyObservation, is_begin: bool) -> Observation:
        request = Request(
            session_id="",  # these three are the session's
            session_epoch=0,
            seq_id=0,
            episode_id=self._episode_id,
            episode_start=is_begin,
            client_mono_ns=time.monotonic_ns(),
            task=observation.task,
            inference_delay_steps=observation.inference_delay_steps,
            prefix_model=observation.prefix_model,
            prefix_robot=observation.prefix_robot,
        )
        past = [_sense(step) for step in observation.past]
        present = _sense(PastStep(observation.state, observation.images))
        stamp = self._client.node.get_clock().now().to_msg()
        return observation_to_message(request, present.state, present.images, stamp, past)

    def _watch(self) -> None:
        if self._policy.aborted.is_set():
            raise ServerLostError(f"server {self._policy.server}: the evaluation has ended")

    # -- the session ---------------------------------------------------------------------------------------

    def _require_session(self, task: str) -> float:
        """Ensure a session for a task, if need be of a server that returns; return the wait [s]."""
        if self._has_session(task):
            return 0.0
        begin_s = time.monotonic()
        pause_s = FIRST_PAUSE_S
        while not self._has_session(task):
            try:
                self._open(task)
            except (OperatorError, SessionRefusedError) as error:  # noqa: PERF203  each attempt may fail
                self._give_up_in_time(error)
                self._policy.aborted.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return time.monotonic() - begin_s

    def _has_session(self, task: str) -> bool:
        return self._is_open and self._session is not None and self._session.offer.task == task

    def _give_up_in_time(self, error: UserError) -> None:
        """Raise ServerLostError unless the server may serve us before our patience ends."""
        policy = self._policy
        self._watch()
        is_final = isinstance(error, SessionRefusedError) and not error.is_passing
        now_s = time.monotonic()
        missed_s = policy.missed_s = min(policy.missed_s, now_s)
        if is_final or now_s - missed_s >= RETURN_S:
            raise ServerLostError(str(error)) from error

    def _open(self, task: str) -> None:
        """Open the session, or reopen it. Raises OperatorError, SessionRefusedError or ServerLostError."""
        policy = self._policy
        contract = make_robot_contract(policy.environment, policy.spec, task)
        images = [ImageFeature(name, RAW, *shape[:2]) for name, shape in policy.spec.image_shapes.items()]
        offer = make_offer(contract, accepts_weight_updates=policy.accepts_weight_updates)
        offer = replace(offer, images=images)  # as they are rendered
        if self._session is None:
            self._session = ServerSession(self._client, policy.server, offer, CALL_S)
        else:
            self._session.offer = replace(self._session.offer, task=task)
            self._session.reopen()
        found, expected = self._session.reply.policy_fingerprint, fingerprint_of(policy.spec.fingerprint)
        if found != expected:
            self._session.close()
            raise ServerLostError(
                f"server {policy.server}: found policy version {found}, expected {expected} as at the begin"
            )
        self._is_open = True
        policy.missed_s = math.inf


def _sense(step: PastStep) -> SensedStep:
    return SensedStep(step.state, [image_to_message(image) for image in step.images.values()])
