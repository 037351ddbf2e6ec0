# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A fleet in virtual time: robots' engines, servers' workers and a network, played as events on one clock.

Robots and servers are the package's own; only time is made up, drawn from what a real run measured. The links
have no bandwidth and the machines any number of cores: what is left is the protocol, admission and queues.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from fleet_robot import JOINTS, FleetRobot, servers_of
from fleet_server import Serving, Sessions, TimedPolicy

import remote_inference.server.policies  # noqa: F401  names the back ends
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Chunk, Request, SessionOffer, StatusReply
from remote_inference.base.policy import PolicyObservation
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.policy_watch import PolicyWatch
from remote_inference.server.requests.job import Consumers
from remote_inference.server.requests.worker import Worker
from remote_inference.server.sessions import Session
from remote_inference.server.warmup import make_scheduler

SECOND_NS = 1_000_000_000
START_NS = 1000 * SECOND_NS


@dataclass(frozen=True)
class Times:
    """Durations [s] as measured, of which each event draws one."""

    prepare_s: Sequence[float] = (
        0.002,
    )  # a request's decoding, preprocessing and share of the worker's own time
    send_s: Sequence[float] = (0.0003,)  # of a chunk
    hop_s: Sequence[float] = (0.002,)  # a message's way from robot to server, or back
    call_s: Sequence[float] = (0.0005,)  # a service call's in the server
    relink_s: Sequence[float] = (1.0,)  # from a router's death to a link with another


class _Decoder:
    """Requests travel as they are; decoding takes its time."""

    def __init__(self, spend: Callable[[], None]) -> None:
        self._spend = spend

    def request(self, data: Any) -> tuple[Request, None]:
        return data, None

    def observation(self, _message: Any, _offer: SessionOffer) -> PolicyObservation:
        self._spend()
        return PolicyObservation(state=np.zeros(len(JOINTS), np.float32), images={}, task="")


class VirtualServer:
    """One server: sessions by the package's rules, and its worker on the world's clock."""

    def __init__(self, world: World, name: str, serving: Serving) -> None:
        self.up_at_ns = 0  # when its link is there
        self.alive = True
        self._world = world
        self._elapsed_ns = 0  # of the worker's step in progress
        self._free_ns = 0  # end of the worker's last step
        self._called_ns = 0  # end of the last service call
        self._due_ns: int | None = None  # of the worker's next step
        manifest = parse_document(serving.document(), Manifest, name)
        self.policy = policy = TimedPolicy(serving.device, self._spend)
        self.sessions = Sessions(manifest, lambda: world.now_ns)
        self.worker = Worker(
            policy,
            partial(make_scheduler, manifest, policy.spec.max_batch),
            _Decoder(lambda: self._spend(world.draw(world.times.prepare_s))),
            Consumers(self._deliver, log_request=lambda _: None),
            clock_ns=lambda: world.now_ns + self._elapsed_ns,
            watch=PolicyWatch(lambda: None, max_consecutive_failures=10, inference_timeout_s=30.0),
        )

    def deposit(self, session_id: str, request: Any) -> None:
        session = self.sessions.registry.get(session_id)
        if session is not None:
            session.mailbox.put(request, self._world.now_ns, request.queue_s)
            self._wake(self._free_ns)

    def answer_call(self, call: Callable[[], Callable[[], None]]) -> None:
        """Let the executor, one call after the other, make a reply; it travels when it is made."""
        now_ns = self._world.now_ns
        self._called_ns = max(now_ns, self._called_ns) + int(
            self._world.draw(self._world.times.call_s) * SECOND_NS
        )
        self._world.after(self._called_ns - now_ns, lambda: self._reply(call))

    def _reply(self, call: Callable[[], Callable[[], None]]) -> None:
        if self.alive:
            self._world.travel(call(), self)

    def _spend(self, seconds: float) -> None:
        self._elapsed_ns += int(seconds * SECOND_NS)

    def _wake(self, due_ns: int) -> None:
        due_ns = max(due_ns, self._world.now_ns)
        if self._due_ns is None or due_ns < self._due_ns:
            self._due_ns = due_ns
            self._world.after(due_ns - self._world.now_ns, lambda: self._step(due_ns))

    def _step(self, due_ns: int) -> None:
        if due_ns != self._due_ns or not self.alive:
            return
        self._due_ns = None
        served = self.worker.step(self.sessions.registry.all())
        self._free_ns, self._elapsed_ns = self._world.now_ns + self._elapsed_ns, 0
        if served:
            self._wake(self._free_ns)
        elif self.worker.intake.wait_ns:
            self._wake(self._world.now_ns + self.worker.intake.wait_ns)

    def _deliver(self, session: Session, chunk: Chunk) -> None:
        self._spend(self._world.draw(self._world.times.send_s))
        robot = self._world.by_namespace[session.offer.robot_namespace]
        world = self._world
        world.after(
            self._elapsed_ns,
            lambda: world.travel(lambda: robot.take_chunk(chunk, world.now_ns), self, robot),
        )


class World:
    """Robots, servers and two routers. Robots and servers are linked to the routers in turn."""

    def __init__(
        self,
        robots: int,
        servers: int,
        serving: Serving,
        times: Times | None = None,
        *,
        seed: int = 0,
        parameters: Callable[[int], dict[str, Any]] = lambda _: {},
    ) -> None:
        """parameters: of each robot, by its number."""
        self.times = times or Times()
        self.now_ns = START_NS
        self._rng = random.Random(seed)
        self._order = itertools.count()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        names = [f"/server_{index}" for index in range(servers)]
        self.servers = {name: VirtualServer(self, name, serving) for name in names}
        self.robots = [
            FleetRobot(index, servers_of(index, names), self, **parameters(index)) for index in range(robots)
        ]
        self.by_namespace = {robot.namespace: robot for robot in self.robots}
        self._up_at_ns = dict.fromkeys(range(robots), 0)  # when each robot's link is there
        self._listeners: dict[str, list[FleetRobot]] = {name: [] for name in names}
        for robot in self.robots:
            for name in servers_of(robot.index, names):
                self._listeners[name].append(robot)
            # Robots are switched on within two seconds, so their requests are spread.
            self.after(self._rng.randrange(2 * SECOND_NS), lambda r=robot: self._step(r))
        for name in names:
            self.after(self._rng.randrange(SECOND_NS), lambda n=name: self._look_around(n))

    # -- time ----------------------------------------------------------------------------------------------

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ns + delay_ns, next(self._order), action))

    def run(self, seconds: float) -> None:
        end_ns = self.now_ns + int(seconds * SECOND_NS)
        while self._events[0][0] <= end_ns:
            self.now_ns, _, action = heapq.heappop(self._events)
            action()
        self.now_ns = end_ns

    def draw(self, samples: Sequence[float]) -> float:
        return self._rng.choice(samples)

    # -- what fails ----------------------------------------------------------------------------------------

    def kill_server(self, name: str) -> None:
        self.servers[name].alive = False
        self._tell_presence()

    def kill_router(self, router: int) -> None:
        """Let every second robot and server lose its link; each finds the other router after a while."""
        for index in self._up_at_ns:
            if index % 2 == router:
                self._up_at_ns[index] = self._relinked_ns()
        for index, server in enumerate(self.servers.values()):
            if index % 2 == router:
                server.up_at_ns = self._relinked_ns()
        self._tell_presence()

    def _relinked_ns(self) -> int:
        return self.now_ns + int(self.draw(self.times.relink_s) * SECOND_NS)

    def _tell_presence(self) -> None:
        for robot in self.robots:
            if robot.matched and not self._is_matched(robot):
                self.after(self._hop_ns(), lambda r=robot: r.take_presence(self._is_matched(r), self.now_ns))

    # -- the network ---------------------------------------------------------------------------------------

    def travel(self, arrive: Callable[[], None], *ends: VirtualServer | FleetRobot) -> None:
        """Let a message arrive one hop later, unless a link at its ends is missing."""
        if all(self._is_linked(end) for end in ends):
            self.after(self._hop_ns(), arrive)

    def get_status(self, robot: FleetRobot, server: str) -> None:
        def call() -> Callable[[], None]:
            reply = StatusReply(True, tuple(self.servers[server].policy.spec.image_shapes))
            return lambda: robot.take_status_reply(server, reply, self.now_ns)

        self._call(robot, server, call, lambda: robot.take_status_reply(server, None, self.now_ns))

    def open_session(self, robot: FleetRobot, server: str, offer: SessionOffer) -> None:
        def call() -> Callable[[], None]:
            reply, _ = self.servers[server].sessions.open(offer, self.servers[server].policy)
            return lambda: robot.take_session_reply(server, offer.session_epoch, reply, self.now_ns)

        def nobody() -> None:
            robot.take_session_reply(server, offer.session_epoch, None, self.now_ns)

        self._call(robot, server, call, nobody)

    def close_session(self, robot: FleetRobot, server: str, session_id: str, token: str) -> None:
        def call() -> Callable[[], None]:
            self.servers[server].sessions.close(session_id, token)
            return lambda: None

        self._call(robot, server, call, lambda: None)

    def publish(self, robot: FleetRobot, server: str, request: Request) -> None:
        there = self.servers[server]
        if there.alive:
            self.travel(lambda: there.deposit(request.session_id, request), robot, there)

    def _call(
        self,
        robot: FleetRobot,
        server: str,
        call: Callable[[], Callable[[], None]],
        nobody: Callable[[], None],
    ) -> None:
        """Call a service. The network says at once when nobody serves it; a reply can be lost later."""
        there = self.servers[server]
        if there.alive and self._is_linked(there) and self._is_linked(robot):
            self.travel(lambda: there.answer_call(call), robot, there)
        else:
            self.after(self._hop_ns(), nobody)

    def _hop_ns(self) -> int:
        return int(self.draw(self.times.hop_s) * SECOND_NS)

    def _is_linked(self, end: VirtualServer | FleetRobot) -> bool:
        up_at_ns = self._up_at_ns[end.index] if isinstance(end, FleetRobot) else end.up_at_ns
        return self.now_ns >= up_at_ns

    def _is_matched(self, robot: FleetRobot) -> bool:
        session, server = robot.engine.handshake.session, self.servers[robot.server]
        return (
            session is not None
            and server.alive
            and self._is_linked(server)
            and self._is_linked(robot)
            and server.sessions.registry.get(session.session_id) is not None
        )

    # -- what happens by itself ----------------------------------------------------------------------------

    def _step(self, robot: FleetRobot) -> None:
        if robot.matched != (matched := self._is_matched(robot)):
            robot.take_presence(matched, self.now_ns)
        self.after(robot.step(self.now_ns), lambda: self._step(robot))

    def _look_around(self, name: str) -> None:
        """Publish a server's status and end abandoned sessions, once a second."""
        server = self.servers[name]
        if not server.alive:
            return
        robots = self.by_namespace
        server.sessions.expire(lambda session: self._is_linked(robots[session.offer.robot_namespace]))
        if self._is_linked(server):
            ids, instance_id = server.sessions.ids(), server.sessions.instance_id
            for robot in self._listeners[name]:
                if self._is_linked(robot):
                    robot.take_server_status(name, instance_id, ids, True, self.now_ns)
        self.after(SECOND_NS, lambda: self._look_around(name))
