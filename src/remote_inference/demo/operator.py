# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo's operator: resets the arm and the robot through their services and reads their states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.client import Client
from std_srvs.srv import Trigger

from remote_inference.msg import ClientState
from remote_inference.nodes.operator_client import OperatorClient, OperatorError
from remote_inference.srv import BeltArmOutcome, BeltArmReset, StartEpisode
from remote_inference.wire.qos import LATCHED_QOS, STATE_TOPIC

CALL_TIMEOUT_S = 5.0


class Operator(OperatorClient):
    """The arm's and the robot's services, and the robot's newest state."""

    def __init__(self, namespace: str) -> None:
        super().__init__("demo_operator", namespace)
        self.state: ClientState | None = None  # newest
        self.subscribe(ClientState, STATE_TOPIC, self._on_state, LATCHED_QOS)
        node = self.node
        self._pause = node.create_client(Trigger, "remote_inference/pause")
        self._resume = node.create_client(Trigger, "remote_inference/resume")
        self._start_episode = node.create_client(StartEpisode, "remote_inference/start_episode")
        self._reset_arm = node.create_client(BeltArmReset, "belt_arm/reset_episode")
        self._read_outcome = node.create_client(BeltArmOutcome, "belt_arm/read_outcome")

    @property
    def connected(self) -> bool:
        """True while the robot holds a session."""
        return self.state is not None and bool(self.state.session_id)

    def wait_for_services(self, timeout_s: float, watch: Callable[[], None]) -> None:
        """Wait until arm and robot offer everything an episode needs."""
        clients = (self._pause, self._resume, self._start_episode, self._reset_arm, self._read_outcome)
        self.wait_for(
            lambda: all(client.service_is_ready() for client in clients),
            "arm and robot ready",
            timeout_s,
            watch,
        )

    def begin_episode(self, seed: int) -> int:
        """Put the arm into the start of an episode and resume the robot, which is paused in between.

        Returns the robot's episode_id.
        """
        self._require(self._pause, Trigger.Request())
        self._require(self._reset_arm, BeltArmReset.Request(seed=seed))
        started = self._require(self._start_episode, StartEpisode.Request())
        self._require(self._resume, Trigger.Request())
        return int(started.episode_id)

    def outcome(self) -> BeltArmOutcome.Response:
        """Return the episode's outcome so far."""
        return self._call(self._read_outcome, BeltArmOutcome.Request())

    def _on_state(self, state: ClientState) -> None:
        self.state = state

    def _require(self, client: Client, request: Any) -> Any:
        response = self._call(client, request)
        if not response.success:
            raise OperatorError(f"{client.srv_name}: {response.message}")
        return response

    def _call(self, client: Client, request: Any) -> Any:
        return self.ask(client, request, CALL_TIMEOUT_S)
