# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How a server reads serialized observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rclpy.serialization import deserialize_message

from remote_inference.core.exchange import Request, SessionOffer
from remote_inference.core.policy import PolicyObservation
from remote_inference.core.server.manifest import Manifest
from remote_inference.msg import Observation
from remote_inference.wire import WireError, observation_from_message, request_from_message


class RequestDecoder:
    """The worker's view of the wire. A request without a task has the manifest's."""

    def __init__(self, manifest: Manifest) -> None:
        self._default_task = manifest.default_task
        self._pin_task = manifest.pin_task

    def request(self, data: bytes) -> tuple[Request, Observation]:
        message = deserialize_message(data, Observation)
        return request_from_message(message), message

    def observation(self, message: Any, offer: SessionOffer) -> PolicyObservation:
        observation = observation_from_message(message, offer)
        task = observation.task or self._default_task
        if self._pin_task and task != self._default_task:  # an operator may have changed it since admission
            raise WireError(f"task: found {task!r}, expected {self._default_task!r}, which is pinned")
        return replace(observation, task=task)
