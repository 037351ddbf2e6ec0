# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo's operator: resets the arm and the robot through their services and reads how they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import rclpy
from rclpy.client import Client
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from std_srvs.srv import Trigger
from typing_extensions import Self

from remote_inference.errors import UserError
from remote_inference.msg import ClientState
from remote_inference.srv import BeltArmOutcome, BeltArmReset, StartEpisode
from remote_inference.wire.qos import LATCHED_QOS, STATE_TOPIC

CALL_TIMEOUT_S = 5.0
POLL_S = 0.05


class OperatorError(UserError):
    """A service did not answer or refused, or a condition did not come true in time."""


class Operator:
    """An rclpy client with a context of its own; a context manager."""

    def __init__(self, namespace: str) -> None:
        self._context = Context()
        rclpy.init(context=self._context)
        self._node = rclpy.create_node("demo_operator", namespace=namespace, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self.state: ClientState | None = None  # newest
        self._node.create_subscription(ClientState, STATE_TOPIC, self._on_state, LATCHED_QOS)
        self._pause = self._node.create_client(Trigger, "remote_inference/pause")
        self._resume = self._node.create_client(Trigger, "remote_inference/resume")
        self._start_episode = self._node.create_client(StartEpisode, "remote_inference/start_episode")
        self._reset_arm = self._node.create_client(BeltArmReset, "belt_arm/reset_episode")
        self._read_outcome = self._node.create_client(BeltArmOutcome, "belt_arm/read_outcome")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(timeout_sec=1.0)
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)

    @property
    def connected(self) -> bool:
        """True while the robot holds a session."""
        return self.state is not None and bool(self.state.session_id)

    def wait_for(
        self, condition: Callable[[], bool], what: str, timeout_s: float, watch: Callable[[], None]
    ) -> None:
        """Spin until a condition holds. `watch` is called meanwhile and may raise.

        Raises OperatorError after the timeout.
        """
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            watch()
            self.spin(POLL_S)
            if time.monotonic() > deadline_s:
                raise OperatorError(f"{what}: did not happen within {timeout_s:g} s")

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
        """Put the arm into the start of an episode and let the robot go, never commanding it in between.

        Returns the robot's episode_id.
        """
        self._require(self._pause, Trigger.Request())
        self._require(self._reset_arm, BeltArmReset.Request(seed=seed))
        started = self._require(self._start_episode, StartEpisode.Request())
        self._require(self._resume, Trigger.Request())
        return int(started.episode_id)

    def outcome(self) -> BeltArmOutcome.Response:
        """Read how the episode stands."""
        return self._call(self._read_outcome, BeltArmOutcome.Request())

    def spin(self, duration_s: float) -> None:
        """Let messages come in."""
        deadline_s = time.monotonic() + duration_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            self._executor.spin_once(timeout_sec=left_s)

    def _on_state(self, state: ClientState) -> None:
        self.state = state

    def _require(self, client: Client, request: Any) -> Any:
        response = self._call(client, request)
        if not response.success:
            raise OperatorError(f"{client.srv_name}: {response.message}")
        return response

    def _call(self, client: Client, request: Any) -> Any:
        future = client.call_async(request)
        self._executor.spin_until_future_complete(future, timeout_sec=CALL_TIMEOUT_S)
        if not future.done():
            client.remove_pending_request(future)
            raise OperatorError(f"{client.srv_name}: no answer within {CALL_TIMEOUT_S:g} s")
        return future.result()
