# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The gRPC service of LeRobot's asynchronous inference, whose clients are sessions like all others.

A client says that it is ready, names its policy, and then sends observations while it waits for actions: the
newest one that LeRobot's server would serve is answered. A refusal ends the call, with its reason as the
status' details, which the client's log shows.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import grpc
import numpy as np
from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message

from remote_inference.base.contract.image_source import RAW
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.exchange import ImageFeature, SessionOffer
from remote_inference.base.limits import MAX_REMARK_LENGTH, shorten
from remote_inference.base.nodes.runtime import StartupError
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.server.frameworks.lerobot_async import (
    SERVICE,
    PolicyWish,
    TimedObservation,
    read_image,
    read_observation,
    read_part,
    read_policy_wish,
    read_state,
    write_actions,
)
from remote_inference.server.gateways.connection import ConnectionLink
from remote_inference.server.gateways.loop_thread import LoopThread
from remote_inference.server.manifest.sections import LerobotAsyncSection
from remote_inference.server.nodes.gateway_host import GatewayHost, Refused
from remote_inference.server.requests.job import BLANK_REQUEST
from remote_inference.server.sessions import Session

OBSERVATION_WAIT_S = 2.0  # LeRobot's: then a client that has sent nothing new is answered without actions
SIMILAR = 1.0  # LeRobot's: distance of two states below which the second is not answered unless it must be
UNKNOWN_WAIT_S = 0.5  # before a client is refused that asks again at once
SILENT_S = 5.0  # between two calls of a client that is still there: it asks again at once
CLOSE_S = 1.0  # for calls that run
MAX_PART_BYTES = 4 << 20  # LeRobot's
MAX_OTHER_CLIENTS = 32  # connections besides those of all sessions
CALLS_OF_A_CLIENT = 2  # one waits for actions while another brings an observation


class LerobotEndpoint:
    """Answers clients until closed. Raises StartupError for a policy that does not fit, or a port in use."""

    def __init__(self, section: LerobotAsyncSection, host: GatewayHost) -> None:
        try:
            section.require_servable(host.serving.policy.spec)
        except DocumentError as error:
            raise StartupError(str(error)) from error
        self._section = section
        self._host = host
        self._clients: dict[str, _Client] = {}  # by the peer's address, which each connection has for itself
        self._address = f"{section.host}:{section.port}"
        self._thread = LoopThread("lerobot_async", self._address, self._serve, host.on_failure)

    def close(self) -> bool:
        """End all calls and sessions, and free the port; return False when that takes too long."""
        return self._thread.close()

    async def _serve(self, until_closed: Callable[[], Awaitable[None]]) -> None:
        most = self._host.serving.manifest.max_sessions + MAX_OTHER_CLIENTS
        server = grpc.aio.server(
            options=[("grpc.max_receive_message_length", MAX_PART_BYTES), ("grpc.so_reuseport", 0)],
            maximum_concurrent_rpcs=CALLS_OF_A_CLIENT * most,
        )
        one_to_one, many_to_one = grpc.unary_unary_rpc_method_handler, grpc.stream_unary_rpc_method_handler
        methods = {
            "Ready": one_to_one(self._ready),
            "SendPolicyInstructions": one_to_one(self._send_policy_instructions),
            "SendObservations": many_to_one(self._send_observations),
            "GetActions": one_to_one(self._get_actions),
        }
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, methods)])
        try:
            server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise OSError("it cannot be opened") from error
        await server.start()
        try:
            await until_closed()
        finally:
            await server.stop(CLOSE_S)
            for peer in list(self._clients):
                self._forget(peer, "the gateway has ended")

    # -- the calls -----------------------------------------------------------------------------------------

    async def _ready(self, _: bytes, context: Any) -> bytes:
        self._forget(context.peer(), "its client begins anew")
        return b""

    async def _send_policy_instructions(self, data: bytes, context: Any) -> bytes:
        peer = context.peer()
        self._forget(peer, "its client asks for a policy anew")
        offer, link = self._offer(peer), _CallLink()
        try:
            wish = read_policy_wish(data)
            self._require_fit(wish)
            session = self._host.admit(offer, link)
        except WireError as problem:
            self._host.services.refusals.note(offer.robot_namespace, offer.client, "policy", str(problem))
            await _refuse(context, str(problem))
        except Refused as problem:  # the host has noted it
            await _refuse(context, str(problem))
        except Exception as error:  # the policy's processors may raise anything
            self._host.report(offer, error)
            await _refuse(context, f"{type(error).__name__}: {error}")
        self._clients[peer] = _Client(wish, session, link, self._host)
        return b""

    async def _send_observations(self, parts: AsyncIterator[bytes], context: Any) -> bytes:
        client = await self._find(context)
        client.link.note_call()
        most, content = self._host.serving.manifest.max_request_bytes, bytearray()
        try:
            async for part in parts:
                data, is_last = read_part(part)
                content += data
                if len(content) > most:
                    raise WireError(f"observation: found more than {most} bytes (max_request_bytes)")
                if is_last:
                    client.offer(read_observation(bytes(content)))
                    content.clear()
        except WireError as problem:
            client.record_refusal(str(problem))
            await _refuse(context, str(problem))
        return b""

    async def _get_actions(self, _: bytes, context: Any) -> bytes:
        client = await self._find(context)
        step_s = 1.0 / (self._section.fps or self._host.serving.policy.spec.trained_fps)
        try:
            with client.link.waiting():
                return await client.answer(step_s)
        except WireError as problem:
            client.record_refusal(str(problem))
            await _refuse(context, str(problem))
        except asyncio.CancelledError:  # its connection is gone, and with it the address that it had
            self._forget(context.peer(), "its client has gone")
            raise

    # -- clients -------------------------------------------------------------------------------------------

    async def _find(self, context: Any) -> _Client:
        client = self._clients.get(context.peer())
        if client is not None and not client.link.ended.done():
            return client
        reason = "found no policy asked for on this connection, expected SendPolicyInstructions first"
        if client is not None:
            reason = client.link.ended.result()
            self._forget(context.peer(), reason)
        await asyncio.sleep(UNKNOWN_WAIT_S)
        return await _refuse(context, reason)

    def _forget(self, peer: str, reason: str) -> None:
        if (client := self._clients.pop(peer, None)) is not None:
            client.link.is_open = False
            self._host.end(client.session, reason)

    def _require_fit(self, wish: PolicyWish) -> None:
        """Raise WireError unless this server has the policy that a client names, and its features fit."""
        manifest, spec = self._host.serving.manifest, self._host.serving.policy.spec
        known = [spec.name, manifest.model.path, *manifest.tags]
        if wish.policy not in known:
            expected = " or ".join(repr(name) for name in dict.fromkeys(known) if name)
            raise WireError(f"pretrained_name_or_path: found {wish.policy!r}, expected {expected}")
        if len(wish.state_names) != len(spec.state_names):
            found = f"found {len(wish.state_names)} joints, expected {len(spec.state_names)}"
            raise WireError(f"observation.state: {found}: {', '.join(spec.state_names)}")
        theirs, ours = (
            [name.removesuffix(".pos") for name in n] for n in (wish.state_names, spec.state_names)
        )
        if theirs != ours and sorted(theirs) == sorted(ours):
            raise WireError(
                f"observation.state: found the order {', '.join(theirs)}, expected {', '.join(ours)}"
            )
        if missing := [feature for feature in spec.image_shapes if feature not in wish.cameras]:
            found = ", ".join(wish.cameras) or "none"
            raise WireError(
                f"lerobot_features: found the cameras {found}, expected {', '.join(missing)}, too"
            )
        if wish.actions < 1:
            raise WireError(f"actions_per_chunk: found {wish.actions}, expected 1 or more")

    def _offer(self, peer: str) -> SessionOffer:
        """Return the offer of a robot that fits the policy, under a name that no ROS robot could have."""
        spec = self._host.serving.policy.spec
        taken = {client.session.offer.robot_namespace for client in self._clients.values()}
        return SessionOffer(
            action_names=spec.action_names,
            state_names=spec.state_names,
            images=tuple(ImageFeature(feature, RAW) for feature in spec.image_shapes),
            fps=self._section.fps or spec.trained_fps,
            task="",
            wants_rtc=False,
            robot_type="lerobot",
            robot_namespace=next(n for n in map("lerobot:{}".format, itertools.count(1)) if n not in taken),
            client=f"LeRobot client {peer}",
            tasks_in_requests=True,
        )


class _CallLink(ConnectionLink):
    """Its client is at the other end while it waits for actions, and for a moment after each of its calls.

    gRPC does not say when a connection ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting = 0
        self._called_s = time.monotonic()

    def note_call(self) -> None:
        self._called_s = time.monotonic()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            self.note_call()

    def is_present(self) -> bool:
        return self.is_open and (self._waiting > 0 or time.monotonic() - self._called_s < SILENT_S)


class _Client:
    """A client with its session. All methods run on the endpoint's loop."""

    def __init__(self, wish: PolicyWish, session: Session, link: _CallLink, host: GatewayHost) -> None:
        self.session, self.link = session, link
        self._wish, self._host = wish, host
        self._newest: TimedObservation | None = None
        self._has_newest = asyncio.Event()
        self._served: TimedObservation | None = None
        self._served_steps: set[int] = set()
        self._seq_id = 0
        self._turn = asyncio.Lock()

    def offer(self, observation: TimedObservation) -> None:
        """Keep an observation for the next answer, if LeRobot's server would. Raises WireError."""
        if not (observation.must_go or self._served is None or self._is_news(observation, self._served)):
            return
        self._newest = observation
        self._has_newest.set()

    def _is_news(self, observation: TimedObservation, served: TimedObservation) -> bool:
        if observation.timestep in self._served_steps:
            return False
        now, before = (read_state(one.values, self._wish.state_names) for one in (observation, served))
        return bool(np.linalg.norm(now - before) >= SIMILAR)

    async def answer(self, step_s: float) -> bytes:
        """Return the Actions message for the newest observation; empty when there is none in time.

        Raises WireError for an observation that cannot be read.
        """
        async with self._turn:
            try:
                await asyncio.wait_for(self._has_newest.wait(), OBSERVATION_WAIT_S)
            except asyncio.TimeoutError:
                return b""
            observation, self._newest = self._newest, None
            self._has_newest.clear()
            assert observation is not None
            self._seq_id += 1
            data = self._read(observation)
            self._served_steps.add(observation.timestep)
            self._served = observation
            answer = self.link.expect()
            self._host.serving.enqueue(self.session, data)
            ends: set[asyncio.Future[Any]] = {answer, self.link.ended}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() or not answer.result().robot.size:
                return b""  # LeRobot's answer to a fault, too; the server's log says it
            rows = answer.result().robot[: self._wish.actions]
            return write_actions(rows, observation, step_s, self._wish.module)

    def record_refusal(self, problem: str) -> None:
        self._host.record_refusal(self.session, self._seq_id, 0, problem)

    def _read(self, observation: TimedObservation) -> bytes:
        """Return an observation as a serialized request. Raises WireError."""
        values, shapes = observation.values, self._host.serving.policy.spec.image_shapes
        task = values.get("task", "")
        if not isinstance(task, str):
            raise WireError(f"task: found a value of type {type(task).__name__}, expected a text")
        images = [
            image_to_message(read_image(values, self._wish.cameras[feature], shape))
            for feature, shape in shapes.items()
        ]
        request = replace(BLANK_REQUEST, session_id=self.session.session_id, seq_id=self._seq_id, task=task)
        state = read_state(values, self._wish.state_names)
        return bytes(serialize_message(observation_to_message(request, state, images, Time())))


async def _refuse(context: Any, reason: str) -> NoReturn:
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, shorten(reason, MAX_REMARK_LENGTH))
    raise AssertionError  # abort raises
