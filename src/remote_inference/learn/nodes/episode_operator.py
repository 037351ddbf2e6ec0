# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Begins episodes of a simulated robot in real time, and reads their outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from std_srvs.srv import Trigger

from remote_inference.base.clients.operator_client import ROBOT_NODE, OperatorClient, OperatorError
from remote_inference.base.wire.qos import LATCHED_QOS, STATE_TOPIC
from remote_inference.learn.environment import EnvError
from remote_inference.msg import ClientState
from remote_inference.srv import GetOutcome, ResetEnvironment, StartEpisode

CALL_TIMEOUT_S = 5.0


class EpisodeOperator(OperatorClient):
    """The services of a simulator's node and of a robot's, and the robot's newest state."""

    def __init__(
        self, name: str, namespace: str, simulator: str, watch: Callable[[], None] = lambda: None
    ) -> None:
        """name: of its own node. namespace: of the robot. simulator: name of the simulator's node there.

        watch: called while anything is waited for; may raise, such as when a process has ended.
        """
        super().__init__(name, namespace)
        self.watch = watch
        self._simulator = simulator
        self.state: ClientState | None = None  # newest
        self.subscribe(ClientState, STATE_TOPIC, self._on_state, LATCHED_QOS)
        node = self.node
        self._pause = node.create_client(Trigger, "remote_inference/pause")
        self._resume = node.create_client(Trigger, "remote_inference/resume")
        self._start_episode = node.create_client(StartEpisode, "remote_inference/start_episode")
        self._reset_environment = node.create_client(ResetEnvironment, f"{simulator}/reset_environment")
        self._read_outcome = node.create_client(GetOutcome, f"{simulator}/get_outcome")

    def wait_for_robot(self, timeout_s: float) -> None:
        """Wait until simulator and robot offer everything an episode needs, and the robot has a session."""
        clients = self._pause, self._resume, self._start_episode, self._reset_environment, self._read_outcome
        self.wait_for(
            lambda: all(client.service_is_ready() for client in clients),
            "simulator and robot ready",
            timeout_s,
            self.watch,
        )
        self.wait_for_session(timeout_s)
        for name in (ROBOT_NODE, self._simulator):
            self._wait_for_answer(name, timeout_s)

    def wait_for_session(self, timeout_s: float) -> None:
        """Wait until the robot has a session."""
        self.wait_for(lambda: bool(self.session_id), "session with a server", timeout_s, self.watch)

    @property
    def session_id(self) -> str:
        """Of the robot's newest state; empty without a session."""
        return self.state.session_id if self.state is not None else ""

    def begin_episode(self, seed: int, task: str = "", timeout_s: float = CALL_TIMEOUT_S) -> int:
        """Put the simulator into the start of an episode and resume the robot, which is paused in between.

        task: empty: the one that each has. timeout_s: of the simulator's reset, and of the policy's. Returns
        the robot's episode_id. Raises EnvError for a reset that the simulator refuses.
        """
        self._require(self._pause, Trigger.Request())
        request = ResetEnvironment.Request(seed=seed, task=task)
        reset = self.ask(self._reset_environment, request, timeout_s, watch=self.watch)
        if not reset.success:
            raise EnvError(reset.message)
        started = self._require(self._start_episode, StartEpisode.Request(task=task), timeout_s)
        self._require(self._resume, Trigger.Request())
        return int(started.episode_id)

    def outcome(self) -> GetOutcome.Response:
        """Return the episode's outcome so far."""
        return self.ask(self._read_outcome, GetOutcome.Request(), CALL_TIMEOUT_S, watch=self.watch)

    def _wait_for_answer(self, name: str, timeout_s: float) -> None:
        """Wait until a node answers a harmless call: before discovery ends, its answers are lost."""
        end_s = time.monotonic() + timeout_s
        while True:
            self.watch()
            try:
                self.call(GetParameters, f"{name}/get_parameters", GetParameters.Request(), CALL_TIMEOUT_S)
                return
            except OperatorError:
                if time.monotonic() >= end_s:
                    raise

    def _on_state(self, state: ClientState) -> None:
        self.state = state

    def _require(self, client: Client, request: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        response = self.ask(client, request, timeout_s, watch=self.watch)
        if not response.success:
            raise OperatorError(f"{client.srv_name}: {response.message}")
        return response
