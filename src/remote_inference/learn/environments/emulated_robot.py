# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Drives an environment as a robot does, with a given latency of the policy, on a virtual clock.

The robot's own engine decides when to ask, which actions of a late chunk still count and what the guard lets
pass. The clock is virtual: an answer that takes 600 ms arrives 600 ms of control ticks later, however long
the policy has computed.

    robot = EmulatedRobot(view, config, task, first=observation, path=NetworkPath(0.6))
    while not ended:
        step = environment.step(robot.tick(observation, ask))
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from remote_inference.base.admission import ServerTerms
from remote_inference.base.contract.contract import Contract
from remote_inference.base.errors import UserError
from remote_inference.base.exchange import Chunk, Request, StatusReply
from remote_inference.base.policy import Float32Array
from remote_inference.learn.environment import EnvironmentObservation, FeatureKind
from remote_inference.learn.environments.policy_view import Actions, PolicyView
from remote_inference.learn.environments.robot_contract import make_robot_contract
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.engine import Engine
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.latency import steps
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.requests.timing import Timing, find_timing_problem, find_timing_warnings
from remote_inference.robot.safety.effects import Effect, GetStatus, OpenSession, SendRequest, Stop
from remote_inference.server.sessions import SessionRegistry

SERVER = "/policy_server"
SESSION_ID = "emulated"
_TERMS = ServerTerms("", False, False, max_sessions=1, active_sessions=0, load=0.0, accepting=True)


class EmulationError(UserError):
    """A robot with these parameters cannot be driven; the message has the reason."""


@dataclass(frozen=True)
class PolicyChunk:
    """A policy's answer, in both spaces `[H, A]`, in the policy's order."""

    model: Float32Array
    robot: Float32Array
    policy_version: str = ""


# Called with the newest observations, oldest first, and the request that the robot has made of them.
Ask = Callable[[Sequence[EnvironmentObservation], Request], PolicyChunk]


@dataclass(frozen=True)
class NetworkPath:
    """Latency and loss from a request to its chunk.

    jitter_s: largest deviation from `latency_s`, either way; uniform, and no latency is below 0. loss:
    fraction of the chunks that are lost. seed: of both.
    """

    latency_s: float
    jitter_s: float = 0.0
    loss: float = 0.0
    seed: int = 0


@dataclass(order=True)
class _Answer:
    """A chunk on its way."""

    due_tick: int
    chunk: Chunk = field(compare=False)


class EmulatedRobot:
    """One episode of a robot. For one thread."""

    def __init__(
        self,
        view: PolicyView,
        config: RobotConfig,
        task: str,
        *,
        first: EnvironmentObservation,
        path: NetworkPath,
        contract: Contract | None = None,
    ) -> None:
        """Open the session. first: what the reset has shown. contract: None: of the environment's bounds.

        Raises EmulationError for parameters that cannot work with the policy's chunks and the latency;
        DocumentError for an environment that cannot be a robot.
        """
        self._view = view
        # An environment has no units: its numbers are the policy's.
        policy = self._policy = replace(view.policy, units={})
        self._contract = contract or make_robot_contract(view.environment, policy, task)
        try:
            config.check_fallback(view.environment.actions.kind)
        except ValueError as error:
            raise EmulationError(f"robot.{error}") from None
        longest_s = path.latency_s + path.jitter_s
        timing = Timing(config, self._contract.row_fps, policy.chunk_size, longest_s)
        if problem := find_timing_problem(timing):
            raise EmulationError(f"robot: {problem}")
        # Everything is seen at one instant: no set has to be waited for.
        config = config.model_copy(
            update={"autostart": True, "servers": (SERVER,), "max_observation_skew_s": 0.0}
        )
        self._engine = Engine(self._contract, config, "/robot/remote_inference", "/robot", seed=0)
        self._path = path
        self._random = random.Random(path.seed)
        # Not rounded up: a latency of n ticks shall never look like more than n.
        self._period_ns = int(self._contract.period_s * 1e9)
        self._now_ns = self._period_ns
        self._answers: list[_Answer] = []
        self.last: Tick | None = None  # of the last control period
        self._observation = first
        self._ask: Ask | None = None
        self._command = view.hold(first)
        self.warnings = find_timing_warnings(timing)  # what will not work well, such as a wait at each seam
        self.ticks = 0
        self.held_ticks = 0  # without an action to execute
        self._carry_out(self._engine.tick(self._now_ns))
        self._carry_out(self._engine.take_presence(True, self._now_ns))
        assert self._engine.handshake.open, "everything that a session needs has been answered"

    def tick(self, observation: EnvironmentObservation, ask: Ask) -> Actions:
        """Return what is commanded in this control period `[A]`, in the environment's order.

        Where the robot commands nothing, its last command goes on: the fallback stops actions that are no
        positions.
        """
        self._now_ns += self._period_ns
        self._observation, self._ask = observation, ask
        now_ns = self._now_ns
        arrivals = dict.fromkeys(self._contract.topics, now_ns)
        samples: tuple[TickSample, ...] = ()
        if self._policy.observation_steps > 1:
            samples = (TickSample(observation, arrivals),)
        measured = self._measure(observation)
        self._carry_out(self._engine.take_sensors(arrivals, measured, now_ns, samples))
        while self._answers and self._answers[0].due_tick <= self.ticks:
            self._carry_out(self._engine.take_chunk(heapq.heappop(self._answers).chunk, now_ns))
        self.last = tick = self._engine.play(now_ns, ())
        self.ticks += 1
        self.held_ticks += tick.queued is None
        if tick.command is not None:
            self._command = self._view.actions(tick.command[np.newaxis])[0]
        return self._command

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        now_ns, engine = self._now_ns, self._engine
        for effect in effects:
            if isinstance(effect, GetStatus):
                # A robot that has run for a while knows what its answers hardly ever exceed.
                expected_s = self._path.latency_s + 0.9 * self._path.jitter_s
                status = StatusReply(True, tuple(self._policy.image_shapes), expected_s)
                self._carry_out(engine.take_status_reply(effect.server, status, now_ns))
            elif isinstance(effect, OpenSession):
                reply = SessionRegistry(SERVER).reply(effect.offer, self._policy, _TERMS)
                reply = replace(reply, session_id=SESSION_ID) if reply.accepted else reply
                epoch = effect.offer.session_epoch
                self._carry_out(engine.take_session_reply(effect.server, epoch, reply, now_ns))
            elif isinstance(effect, SendRequest):
                self._send(effect)
            elif isinstance(effect, Stop):
                raise EmulationError(f"{self._view.environment.name} as a robot: {effect.cause}")

    def _send(self, sent: SendRequest) -> None:
        assert self._ask is not None, "requests are made in a tick"
        request, path = sent.request, self._path
        shown = [sample.content for sample in sent.steps] or [self._observation]
        answer = self._ask(shown, request)
        chunk = Chunk(
            request.session_id,
            request.session_epoch,
            request.seq_id,
            request.episode_id,
            request.client_mono_ns,
            model=answer.model,
            robot=answer.robot,
            policy_version=answer.policy_version,
        )
        is_lost = self._random.random() < path.loss
        latency_s = max(0.0, path.latency_s + self._random.uniform(-path.jitter_s, path.jitter_s))
        if not is_lost:
            due_tick = self.ticks + steps(latency_s, self._contract.period_s)
            heapq.heappush(self._answers, _Answer(due_tick, chunk))

    def _measure(self, observation: EnvironmentObservation) -> Actions:
        """Return the joints' positions in the policy's order; of those not shown, the last command."""
        spec = self._view.environment
        values = observation.values[spec.feature_of(FeatureKind.STATE)]
        shown = dict(zip(spec.actions.names, self._command, strict=True))
        shown |= dict(zip(spec.state_names, map(float, values), strict=True))
        return np.array([shown[name] for name in self._policy.action_names])
