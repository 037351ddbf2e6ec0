# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server of fleet.py without its network: admission and sessions, and a policy that only takes time.

A manifest names the policy as `backend: fleet_server:load`; its device time is `call_ms` for each call and
`request_ms` for each request in it. It sleeps, as a thread does that waits for a GPU.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from fleet_robot import CAMERAS, CHUNK_ROWS, CONTROL_HZ, JOINTS
from pydantic import Field

from remote_inference.base.documents.document import Document
from remote_inference.base.exchange import SessionOffer, SessionReply
from remote_inference.base.policy import Float32Array, Policy, PolicyObservation, PolicySpec
from remote_inference.server.admission import terms_of
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.sessions import Session, SessionExpiry, SessionRegistry

IMAGE_SHAPE = (224, 224, 3)  # as large policies are trained


class DeviceTime(Document):
    """Keys of `model.options`."""

    call_ms: Annotated[float, Field(ge=0.0)] = 0.0
    request_ms: Annotated[float, Field(ge=0.0)] = 0.0

    def of(self, batch: int) -> float:
        """Return the time of a call with so many requests [s]."""
        return (self.call_ms + batch * self.request_ms) / 1e3


@dataclass(frozen=True)
class Serving:
    """How each server serves."""

    max_sessions: int = 100
    scheduler: str = "micro_batch"
    max_batch: int = 8
    batch_window_ms: float = 5.0
    device: DeviceTime = field(default_factory=lambda: DeviceTime(call_ms=10.0, request_ms=1.0))

    def document(self) -> dict[str, Any]:
        """Return the manifest."""
        options = {"call_ms": self.device.call_ms, "request_ms": self.device.request_ms}
        return {
            "model": {"backend": "fleet_server:load", "path": "none", "options": options},
            "serving_mode": "shared",
            "scheduler": self.scheduler,
            "max_batch": self.max_batch,
            "batch_window_ms": self.batch_window_ms,
            "max_sessions": self.max_sessions,
        }


class StateProcessors:
    """Passes the state through."""

    def pre(self, observation: PolicyObservation) -> Float32Array:
        return np.asarray(observation.state, np.float32)

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def reset(self) -> None:
        """Do nothing: there is no state."""


class TimedPolicy:
    """Answers with the measured positions, after the device's time."""

    def __init__(self, device: DeviceTime, spend: Callable[[float], None], max_batch: int = 64) -> None:
        """spend: lets so many seconds pass."""
        self._device, self._spend = device, spend
        self.spec = PolicySpec(
            name="timed",
            revision="1",
            fingerprint="timed",
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={f"images.{name}": IMAGE_SHAPE for name in CAMERAS},
            chunk_size=CHUNK_ROWS,
            trained_fps=CONTROL_HZ,
            max_batch=max_batch,
        )

    def make_processors(self) -> StateProcessors:
        return StateProcessors()

    def predict(self, batch: Sequence[Any]) -> list[Float32Array]:
        self._spend(self._device.of(len(batch)))
        return [np.tile(state, (CHUNK_ROWS, 1)) for state in batch]

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Do nothing: there is no device."""


def load(source: ModelSource) -> TimedPolicy:
    return TimedPolicy(source.read_options(DeviceTime), time.sleep)


class Sessions:
    """Admission and sessions of one server, by the package's rules. One thread calls its methods."""

    def __init__(self, manifest: Manifest, clock_ns: Callable[[], int]) -> None:
        self.instance_id = uuid.uuid4().hex[:12]
        self.registry = SessionRegistry(self.instance_id)
        self._manifest, self._clock_ns = manifest, clock_ns
        self._expiry = SessionExpiry(manifest.session_grace_s, manifest.session_idle_timeout_s)

    def ids(self) -> tuple[str, ...]:
        return tuple(session.session_id for session in self.registry.all())

    def open(
        self, offer: SessionOffer, policy: Policy, begin: Callable[[Session], None] = lambda _: None
    ) -> tuple[SessionReply, Session | None]:
        """Return the reply to an offer, and the session of the robot that ends by it.

        begin: makes a new session's endpoints, before the worker knows of the session.
        """
        old = self.registry.of_robot(offer.robot_namespace)
        active = len(self.registry) - (old is not None)
        terms = replace(terms_of(self._manifest), active_sessions=active)
        reply = self.registry.reply(offer, policy.spec, terms)
        if not reply.accepted:
            return reply, None
        if old is not None:
            self.registry.remove(old.session_id)
        session = Session(uuid.uuid4().hex[:12], offer, policy.make_processors(), opened_ns=self._clock_ns())
        begin(session)
        self.registry.add(session)
        reply = replace(
            reply,
            session_id=session.session_id,
            session_token=session.token,
            active_sessions=len(self.registry),
        )
        return reply, old

    def close(self, session_id: str, token: str) -> Session | None:
        """End a session whose owner asks for it; return it."""
        if self.registry.find_claim_problem(session_id, token):
            return None
        return self.registry.remove(session_id)

    def expire(self, is_present: Callable[[Session], bool]) -> list[Session]:
        """End the sessions whose robot is gone or uses another server; return them."""
        gone = self._expiry.expired(self.registry.all(), is_present, self._clock_ns())
        for session, _ in gone:
            self.registry.remove(session.session_id)
        return [session for session, _ in gone]
