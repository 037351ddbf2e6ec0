# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy server as the network shows it: real admission, made-up chunks, and every way to fail."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import numpy as np

from remote_inference.base.exchange import Request, SessionOffer, SessionReply, StatusReply
from remote_inference.base.policy import Float32Array, PolicySpec
from remote_inference.server.sessions import Session, SessionRegistry
from support.builders import make_spec, make_terms


class Processors:
    """What a session holds and this server never uses."""

    def pre(self, observation: object) -> object:
        return observation

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def reset(self) -> None: ...


class SimulatedServer:
    """Admits robots by the real rules and answers each request with a wave; may be down, silent or full."""

    def __init__(self, name: str, spec: PolicySpec | None = None) -> None:
        self.name = name
        self.spec = spec or make_spec()
        self.up = True  # false: killed, nothing is answered
        self.hung = False  # true: the control plane answers, the worker does not
        self.accepting = True
        self.loading = False  # true: its policy is not there yet
        self.loads = 0  # how often it has begun to load
        self.tags: tuple[str, ...] = ()  # of its manifest
        self.max_sessions = 4
        self.updates_weights = False
        self.generation = 0
        self.acknowledges_resets = True
        self.response_s = 0.06  # what it says of itself
        self.closed: list[str] = []
        self.alter_reply: Callable[[SessionReply], SessionReply] = lambda reply: reply
        self._boot()

    def _boot(self) -> None:
        self.generation += 1
        self.instance_id = f"{self.name}#{self.generation}"
        self.registry = SessionRegistry(self.instance_id)

    def restart(self) -> None:
        """Come back with another instance id and no sessions."""
        self.up, self.loading = True, False
        self._boot()

    @property
    def admits(self) -> bool:
        return self.accepting and not self.loading

    def status(self) -> StatusReply:
        images = tuple(self.spec.image_shapes)
        return StatusReply(self.admits, images, self.response_s, self.loading, self.instance_id)

    def open(self, offer: SessionOffer) -> SessionReply:
        terms = make_terms(
            max_sessions=self.max_sessions,
            active_sessions=len(self.registry),
            accepting=self.admits,
            updates_weights=self.updates_weights,
        )
        reply = self.registry.reply(offer, self.spec, terms)
        if reply.accepted:
            session = Session(uuid.uuid4().hex[:12], offer, Processors())
            self.registry.add(session)
            granted = {"session_id": session.session_id, "session_token": session.token}
            reply = SessionReply(**{**vars(reply), **granted})
        return self.alter_reply(reply)

    def rows(self, request: Request) -> Float32Array:
        """Return a wave that starts anew with each request: the guard has steps to limit."""
        phase = 0.3 * np.arange(self.spec.chunk_size) + request.seq_id
        return np.stack([1.2 * np.sin(phase), np.cos(phase)], axis=1).astype(np.float32)
