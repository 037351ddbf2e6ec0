# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot's engine, its control loop, sensors, servers and network, played as events on one fake clock.

The simulation only does what a node, a server and a network do; it checks the robot's safety in every tick
and the rules of the request cycle at every request, so each test that runs it checks them too.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TypeVar

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.base.exchange import Chunk, Request, SessionOffer, StatusReply
from remote_inference.base.wire.sensors.content_time import ContentClock
from remote_inference.robot.command import CommandSource
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.journal import Begin, JournalledEngine
from remote_inference.robot.motion.rules import LAG_S
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.pose_geometry import Poses
from remote_inference.robot.queue.latency import SHORTEST_WAIT_S
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.queue.plan import QueuedAction
from remote_inference.robot.queue.relative_rows import RelativeRows
from remote_inference.robot.requests.fitting_sets import find_bounds, find_misfit
from remote_inference.robot.safety.effects import (
    CloseSession,
    Effect,
    GetStatus,
    OpenSession,
    Report,
    ResetSession,
    SendRequest,
    Stop,
    Warn,
)
from remote_inference.robot.safety.guard import IMPLAUSIBLE
from remote_inference.robot.safety.state_machine import Event, State, Transition
from remote_inference.robot.safety.supervisor import MAX_STARTS
from remote_inference.robot.step_lock import StepLock
from support.builders import (
    LIMIT,
    answer,
    make_config,
    make_contract,
    ns,
)
from support.robot.simulated_server import SimulatedServer

E = TypeVar("E", bound=Effect)

HOP_NS = ns(0.01)  # one way through the network
TIMER_NS = ns(0.02)
FAR_NS = ns(1e9)
SENSOR_NS = ns(0.04)
LED_NS = ns(0.5)  # for so long after a command that moves it a robot counts as led
MOVES = {CommandSource.CHUNK, CommandSource.HUMAN, CommandSource.HOMING, CommandSource.REPEAT_LAST}


class World:
    """Everything around one engine. Times in nanoseconds since the start, on the robot's clock."""

    measurements_are_judged = False  # as those of a real robot are, which is not moved in no time

    def __init__(
        self,
        config: RobotConfig | None = None,
        servers: Sequence[SimulatedServer] = (),
        seed: int = 0,
        contract: Contract | None = None,
        lock: StepLock | None = None,
        *,
        sensor_ns: int | None = None,
    ) -> None:
        """sensor_ns: between two messages of each sensor; None: the arm is measured between two ticks."""
        self.config = config or make_config()
        self.servers = {server.name: server for server in servers} or {
            name: SimulatedServer(name) for name in self.config.servers
        }
        self.contract = contract or make_contract()
        self.measurements = self.contract.measurements  # found once: they take longer than a tick
        self.measured_topics = self.contract.measured_topics
        self.begin = Begin(self.contract, self.config, "/robot_1/client", "/robot_1", seed, "simulated")
        self.engine = JournalledEngine(self.begin, lock)
        self.period_ns = round(self.contract.period_s * 1e9)
        self._ticks_of_row: dict[tuple[str, int, int], int] = {}  # executed so far, by row of a chunk
        limits = [self.contract.actions.limit_of(name) for name in self.contract.actions.names]
        self.max_step = np.array([limit.max_velocity or 0.0 for limit in limits]) * self.contract.period_s
        self.now_ns = ns(100)
        self.start_ns = self.now_ns
        self.poses = Poses(self.contract.actions.poses, self.contract.actions.names)
        self.position = np.zeros(self.contract.action_dim)  # the arm follows its commands at once
        self.position[self.poses.turns[:, 3]] = 1.0
        self.seen = self.position  # as the sensors showed it last
        self.follows = True  # False: in shadow mode, nobody hears the commands
        self.sensors = dict.fromkeys(self.contract.topics, True)  # which of them deliver
        self.stamps: dict[str, Callable[[int], int]] = {}  # of a topic's messages by the robot's clock
        self._clocks = {topic: ContentClock() for topic in self.contract.topics}
        self.heard = True  # false: no controller takes the commands
        self.driven = True  # false: the drives are off, the arm stands still
        self.stuck = False  # true: the control thread stands still
        self.hung = False  # true: the worker's thread stands still
        self._inbox: deque[Callable[[], None]] = deque()  # of the worker
        self.presence = True
        self.inference_ns = ns(0.06)
        # What becomes of a chunk: (extra delay, chunk) for each copy that arrives.
        self.fate: Callable[[Chunk], list[tuple[int, Chunk]]] = lambda chunk: [(0, chunk)]
        limits = self.contract.actions.limits
        # Plus the way at full speed since the sensors were read.
        self.max_following_error = (LAG_S + 1e-9 * SENSOR_NS) * (limits["elbow"].max_velocity or 0.0)
        self._last_command = self.position
        self.effects: list[tuple[int, Effect]] = []
        self.ticks: list[tuple[int, Tick]] = []
        self.sent: list[Request] = []
        self.queue_at_request: list[int] = []  # actions queued when each of them left
        self.capture_ns: list[int] = []  # arrival of the oldest source of each
        self.arrivals: dict[str, int] = {}
        self.told: dict[str, int] = {}  # of them, those that the engine knows
        self.said_stamps = dict.fromkeys(self.measured_topics, 0)  # of the newest messages, 0 without [ns]
        self.refused = 0  # measurements that the engine did not believe while it led the arm
        self.shown: list[list[int]] = []  # when the control ticks were that each request shows
        self._samples: list[TickSample] = []
        self._history_since_ns = 0  # nothing from before may be shown
        self._sources: set[str] = set()  # what the session granted last was offered
        self._sent_arrivals: dict[str, int] = {}
        self._open_request: tuple[Request, int] | None = None
        self._requests: dict[int, Request] = {}  # by seq_id
        self._begins_ns: dict[int, int] = {}  # arrival of the source with which the rows of each begin
        self._kept: tuple[Chunk, Request] | None = None  # waits for its moment, and the newest request then
        self._counted = 0, 0  # chunks that were merged, and those that ended a question
        self._ended_seq_id = 0  # the newest request when a question was answered last
        self._timeouts = 0
        self._merged: set[int] = set()
        self._order = itertools.count()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self.sensor_ns = sensor_ns or min(SENSOR_NS, self.period_ns)
        self._every(self.sensor_ns, self._sense)
        self._every(TIMER_NS, self._work)
        self._every(self.period_ns, self._tick)
        self._every(ns(0.1), self._look_for_server)
        self._every(ns(1), lambda: self._by_worker(self._publish_status))

    # -- running -------------------------------------------------------------------------------------------

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ns + delay_ns, next(self._order), action))

    def _every(self, period_ns: int, action: Callable[[], None]) -> None:
        def again() -> None:
            action()
            self.after(period_ns, again)

        self.after(0, again)

    def run(self, seconds: float) -> World:
        end_ns = self.now_ns + ns(seconds)
        while self._events[0][0] <= end_ns:
            self.now_ns, _, action = heapq.heappop(self._events)
            action()
        self.now_ns = end_ns
        return self

    def run_until(self, reached: Callable[[], bool], limit_s: float = 20.0) -> World:
        for _ in range(round(limit_s / 0.01)):
            if reached():
                return self
            self.run(0.01)
        raise AssertionError(f"not reached within {limit_s} s; state {self.state.name}")

    def _by_worker(self, action: Callable[[], None]) -> None:
        """Let the worker do something, once it lives."""
        self._inbox.append(action)
        if not self.hung:
            self._empty_inbox()

    def _empty_inbox(self) -> None:
        while self._inbox:
            self._inbox.popleft()()

    def _work(self) -> None:
        if not self.hung:
            self._empty_inbox()
            effects = self.engine.tick(self.now_ns)
            self._look_for_answers()
            self.carry_out(effects)

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.engine.machine.state

    @property
    def server(self) -> SimulatedServer:
        return next(iter(self.servers.values()))

    def all(self, kind: type[E]) -> list[E]:
        return [effect for _, effect in self.effects if isinstance(effect, kind)]

    def states(self) -> list[State]:
        """Return the states entered, in order."""
        return [report.transition.after for report in self.all(Report)]

    def warnings(self) -> str:
        return "\n".join(warning.text for warning in self.all(Warn))

    def commands_since(self, since_ns: int) -> list[Tick]:
        return [tick for at_ns, tick in self.ticks if at_ns > since_ns and tick.command is not None]

    # -- the robot -----------------------------------------------------------------------------------------

    def _sense(self) -> None:
        self._receive_sensors()
        if not self.hung:
            self._look_at_sensors()

    def _receive_sensors(self) -> None:
        for topic, delivers in self.sensors.items():
            stamp_ns = self.stamps[topic](self.now_ns) if topic in self.stamps else 0
            content_ns = self._clocks[topic].content_ns(stamp_ns, self.now_ns) if delivers else None
            if content_ns is not None:
                self.arrivals[topic] = content_ns
                self._see(topic)

    def _see(self, topic: str) -> None:
        """Take what a topic measures."""
        if self.measured_topics == (topic,):
            self.seen = self.position.copy()
            return
        names = self.contract.actions.names
        for measurement in self.measurements:
            if measurement.source.topic == topic:
                columns = [names.index(name) for name in measurement.actions if name]
                self.seen = self.seen.copy()
                self.seen[columns] = self.position[columns]

    def _look_at_sensors(self) -> None:
        samples, self._samples = self._samples, []
        self.told = arrivals = dict(self.arrivals)
        position = self.seen.copy()
        if self.engine.cycle.sets.are_used:
            samples.append(TickSample(self.now_ns, arrivals, measured=position, stamps=self.said_stamps))
        self._tell_sensors(arrivals, position, samples)

    def _tell_sensors(
        self, arrivals: dict[str, int], position: np.ndarray | None, samples: Sequence[TickSample] = ()
    ) -> None:
        stamps = self.said_stamps if self.measurements_are_judged else None
        refused = self._implausible
        effects = self.engine.take_sensors(arrivals, position, self.now_ns, samples, stamps=stamps)
        if self._implausible > refused and self._is_led():
            self.refused += 1
        self.carry_out(effects)

    @property
    def _implausible(self) -> int:
        """How many messages contradicted what the engine believed."""
        return self.engine.guard.counts[IMPLAUSIBLE]

    def _is_led(self) -> bool:
        return any(tick.source in MOVES for tick in self.commands_since(self.now_ns - LED_NS))

    def push(self, position: np.ndarray) -> None:
        """Move the arm by hand; its sensors see it at once."""
        self.position = self.seen = position
        self.arrivals |= dict.fromkeys(self.measured_topics, self.now_ns)
        if not self.hung:
            self.told = dict(self.arrivals)
            self._tell_sensors(dict(self.arrivals), position.copy())

    def drive(self) -> None:
        """Switch the drives on: the arm goes to its controller's target."""
        if not self.driven and self.heard:
            self.push(self._last_command)
        self.driven = True

    def _tick(self) -> None:
        if self.stuck:
            return
        if self.engine.cycle.history.observation_steps > 1:
            arrivals, measured = dict(self.arrivals), self.seen.copy()
            sample = TickSample(self.now_ns, arrivals, tick_ns=self.now_ns, measured=measured)
            self._samples.append(sample)
        unheard = () if self.heard else tuple(sink.topic for sink in self.contract.commands)
        tick = self.engine.play(self.now_ns, unheard)
        self.ticks.append((self.now_ns, tick))
        if tick.command is None:
            return
        ends = tick.source is CommandSource.HOLD
        assert ends or not self.engine.dead or tick.source is CommandSource.HOMING, "nothing but the way home"
        assert ends or not self.engine.paused, "a paused robot is not commanded"
        assert (np.abs(tick.command) <= LIMIT).all()
        if self.follows:
            self._check_step(tick.command)
        if tick.source is CommandSource.CHUNK:
            assert tick.queued is not None
            assert self.now_ns - tick.queued.source.capture_ns <= ns(self.config.max_action_age_s)
            assert tick.queued.source.episode_id == self.engine.episode.id
            self._check_row(tick, tick.queued)
        if self.heard and self.driven and self.follows:
            self.position = tick.command
        self._last_command = tick.command

    def _check_row(self, tick: Tick, row: QueuedAction) -> None:
        """A row is begun once, and lasts a row's time at most."""
        key = row.source.session_id, row.source.seq_id, row.step_index
        passed = self._ticks_of_row.get(key, 0)
        assert tick.row_fraction == passed / self.contract.ticks_per_row < 1.0
        self._ticks_of_row[key] = passed + 1

    def _check_step(self, command: np.ndarray) -> None:
        """Each joint is sent at most a step from where it is, or was commanded while it seemed to follow."""
        near = np.abs(command - self.position) <= self.max_step + 1e-9
        if not self.driven:  # found out when the command is beyond the bound
            led = np.abs(self._last_command - self.position) <= self.max_following_error + 1e-9
            near |= led & (np.abs(command - self._last_command) <= self.max_step + 1e-9)
        is_nearer = np.abs(command - self.position) <= np.abs(self._last_command - self.position)
        near |= is_nearer & (np.abs(command - self._last_command) <= self.max_step + 1e-9)  # led back
        assert near.all()

    # -- the servers and the network -----------------------------------------------------------------------

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.effects.append((self.now_ns, effect))
            match effect:
                case GetStatus(name):
                    self._call(name, lambda s: lambda: self._status_answered(s.name, s.status()))
                case OpenSession(name, offer):
                    self._call(name, lambda s, o=offer: self._open(s, o))
                case CloseSession(name, session_id, token):
                    self._call(name, lambda s, i=session_id, t=token: self._close(s, i, t))
                case ResetSession(name, session_id, episode_id, token):
                    self._call(name, lambda s, i=session_id, e=episode_id, t=token: self._reset(s, i, e, t))
                case Report(Transition(event=Event.OFFLINE_TOO_LONG)):
                    self._check_end()
                case SendRequest(request, steps):
                    self._check_request(request, self._check_steps(steps))
                    self.after(HOP_NS, lambda r=request, n=self.engine.handshake.server: self._infer(n, r))

    def _check_end(self) -> None:
        """No robot gives up while nobody wants a server, or while one loads that does not crash."""
        assert not self.engine.paused
        assert not self.engine.taken_over
        servers = [server for server in self.servers.values() if server.loads <= MAX_STARTS]
        loading = [server.name for server in servers if server.up and server.loading]
        assert not loading or self.engine.handshake.open, f"given up, and {loading} loads"

    def _call(self, name: str, serve: Callable[[SimulatedServer], Callable[[], None] | None]) -> None:
        """Let a service run one hop from now and its answer arrive one hop later; the dead say nothing."""

        def arrive() -> None:
            server = self.servers[name]
            reply = serve(server) if server.up else None
            if reply is not None:
                self.after(HOP_NS, lambda: self._by_worker(reply))

        self.after(HOP_NS, arrive)

    def _status_answered(self, name: str, reply: StatusReply) -> None:
        self.carry_out(self.engine.take_status_reply(name, reply, self.now_ns))

    def _open(self, server: SimulatedServer, offer: SessionOffer) -> Callable[[], None]:
        reply = server.open(offer)
        if reply.accepted:
            self._sources = self._sources_of(offer)
        epoch = offer.session_epoch

        def answer_robot() -> None:
            if self.engine.handshake.session is None:
                self._history_since_ns = self.now_ns
            self.carry_out(self.engine.take_session_reply(server.name, epoch, reply, self.now_ns))

        return answer_robot

    def _sources_of(self, offer: SessionOffer) -> set[str]:
        offered = {image.name for image in offer.images}
        sources = zip(self.contract.images.values(), self.contract.image_features, strict=True)
        cameras = {source.topic for source, feature in sources if feature.name in offered}
        return {source.topic for source in self.contract.state_sources.values()} | cameras

    def _close(self, server: SimulatedServer, session_id: str, token: str) -> None:
        if session_id in {session.session_id for session in server.registry.all()}:
            assert server.registry.find_claim_problem(session_id, token) == ""
        server.closed.append(session_id)
        server.registry.remove(session_id)

    def _reset(
        self, server: SimulatedServer, session_id: str, episode_id: int, token: str
    ) -> Callable[[], None] | None:
        if not server.acknowledges_resets:
            return None
        if session_id in {session.session_id for session in server.registry.all()}:
            assert server.registry.find_claim_problem(session_id, token) == ""
        return lambda: self.carry_out(self.engine.take_reset_reply(episode_id, True, ""))

    def _infer(self, name: str, request: Request) -> None:
        server = self.servers[name]
        if server.up and not server.hung and server.registry.get(request.session_id):
            chunk = answer(request, server.rows(request))
            for extra_ns, copy in self.fate(chunk):
                self.after(
                    self.inference_ns + HOP_NS + extra_ns,
                    lambda c=copy: self._receive_chunk(c),
                )

    def _receive_chunk(self, chunk: Chunk) -> None:
        arrival_ns = self.now_ns
        self._by_worker(lambda: self.deliver(chunk, arrival_ns))

    def deliver(self, chunk: Chunk, arrival_ns: int | None = None) -> None:
        """Let the worker take a chunk that came at an instant, None: now.

        Checks that only the first answer to the open question is merged, once.
        """
        self._look_for_answers()
        latest = self.sent[-1]
        effects = self.engine.take_chunk(chunk, self.now_ns, arrival_ns=arrival_ns)
        self._look_for_answers(chunk, latest)
        if self._kept is None and (kept := self.engine.cycle.find_due(FAR_NS)) is not None:
            assert kept is chunk
            self._kept = chunk, latest
        self.carry_out(effects)

    def _look_for_answers(self, chunk: Chunk | None = None, latest: Request | None = None) -> None:
        """Check what has become an answer: a chunk that came now, or one that had waited for its moment."""
        counters, kept = self.engine.counters, self._kept
        merged, ended = counters.chunks_merged, counters.chunks_merged + counters.chunks_rejected
        if kept is not None and self.engine.cycle.find_due(FAR_NS) is None:
            chunk, latest = kept  # no other counts while it waits
            self._kept = None
            if merged != self._counted[0]:
                wait_ns = (
                    self._requests[chunk.seq_id].inference_delay_steps * self.contract.row_period_s * 1e9
                )
                assert self.now_ns >= self._begins_ns[chunk.seq_id] + round(wait_ns), "begun early"
        if ended != self._counted[1] and chunk is not None and latest is not None:
            assert (chunk.session_id, chunk.session_epoch) == (latest.session_id, latest.session_epoch)
            assert chunk.episode_id == self.engine.episode.id
            assert self._ended_seq_id < chunk.seq_id <= latest.seq_id
            self._ended_seq_id = latest.seq_id  # its question is answered, whoever it was asked with
            self._open_request = None
        if merged != self._counted[0]:
            assert merged == self._counted[0] + 1
            assert chunk is not None, "nothing is executed that did not come"
            assert chunk.seq_id not in self._merged
            self._merged.add(chunk.seq_id)
            self._check_trim(chunk)
        self._counted = merged, ended

    def _check_trim(self, chunk: Chunk) -> None:
        """Check that a chunk goes on where the robot is, not where it was at the capture."""
        head = self.engine.queue.plan.head
        if head is None or head.source.seq_id != chunk.seq_id or self.config.delay_policy != "consumed":
            return
        if self.config.appends or len(chunk.robot) <= 2 * self.engine.cycle.delay_steps:
            return  # one of which nothing would be left is appended
        since_ns = self._begins_ns.get(chunk.seq_id, self.now_ns)
        past = [tick for at_ns, tick in takewhile(lambda told: told[0] > since_ns, reversed(self.ticks))]
        begun = sum(tick.queued is not None and tick.row_fraction == 0.0 for tick in past)
        passed = int((self.now_ns - since_ns) / 1e9 / self.contract.row_period_s)
        assert head.step_index >= min(passed, begun), "rows are past that it executes"

    def _check_steps(self, steps: Sequence[TickSample]) -> dict[str, int]:
        """Check what a request shows, and return the arrivals of its present."""
        wanted = self.servers[self.engine.handshake.server].spec.observation_steps
        if self.engine.cycle.sets.are_used:
            assert len(steps) == wanted
            bounds = find_bounds(self.contract, self.config)
            for step in steps:
                shown = {topic: bound for topic, bound in bounds.items() if topic in step.arrivals}
                assert find_misfit(step.arrivals, shown) == ""
            return dict(steps[-1].arrivals)
        assert len(steps) == (wanted if wanted > 1 else 0)
        ticks = [step.content for step in steps]
        self.shown.append(ticks)
        for before, after in itertools.pairwise(ticks):
            assert after - before in {0, self.contract.ticks_per_row * self.period_ns}
            assert after > before or before == ticks[0], "only the first tick is repeated"
        for step in steps:
            assert min(step.arrivals[topic] for topic in self._sources) > self._history_since_ns
        return dict(steps[-1].arrivals) if steps else dict(self.told)

    def _check_request(self, request: Request, shown: dict[str, int]) -> None:
        self._look_for_answers()
        assert not self.sent or request.seq_id > self.sent[-1].seq_id
        timeouts, self._timeouts = self._timeouts, self.engine.counters.request_timeouts
        if self._open_request is not None and timeouts == self._timeouts:
            waiting, since_ns = self._open_request
            assert self.now_ns - since_ns >= ns(SHORTEST_WAIT_S) or (
                waiting.session_epoch,
                waiting.episode_id,
            ) != (request.session_epoch, request.episode_id), "one request in flight"
        arrivals = {topic: shown[topic] for topic in self._sources}
        assert all(arrival > self._sent_arrivals.get(topic, -1) for topic, arrival in arrivals.items())
        newest_ns = min(self.told[topic] for topic in self._sources)
        assert self.now_ns - newest_ns <= ns(self.config.max_sensor_age_s)
        assert not self.engine.paused
        assert not self.engine.dead
        assert request.inference_delay_steps > 0, "no robot moves on a hint of zero"
        self._check_prefix(request)
        self.sent.append(request)
        self._requests[request.seq_id] = request
        is_relative = RelativeRows(self.contract).exist
        begin = self.contract.measured_topics if is_relative else self._sources
        self._begins_ns[request.seq_id] = min(arrivals[topic] for topic in begin)
        self._sent_arrivals = shown
        self._open_request = (request, self.now_ns)
        self.queue_at_request.append(len(self.engine.queue))
        self.capture_ns.append(min(arrivals.values()))

    def _check_prefix(self, request: Request) -> None:
        """No policy goes on with what is too old to be executed."""
        rows = 0 if request.prefix_robot is None else len(request.prefix_robot)
        oldest_ns = self.now_ns - ns(self.config.max_action_age_s)
        fresh = [row for row in self.engine.queue.plan.ahead if row.source.capture_ns >= oldest_ns]
        assert not rows or fresh, "a prefix of rows that have aged out"

    def _look_for_server(self) -> None:
        session, server = self.engine.handshake.session, self.servers[self.engine.handshake.server]
        if session is not None and not self.hung:
            matched = self.presence and server.up and server.registry.get(session.session_id) is not None
            self.carry_out(self.engine.take_presence(matched, self.now_ns))

    def _publish_status(self) -> None:
        for server in self.servers.values():
            if server.up and not server.loading:  # its executor is busy then
                self._tell_status(server)

    def _tell_status(self, server: SimulatedServer) -> None:
        self.carry_out(
            self.engine.take_server_status(
                server.name,
                server.instance_id,
                tuple(session.session_id for session in server.registry.all()),
                self.now_ns,
                accepting=server.admits,
                loading=server.loading,
                policy=(server.spec.name, *server.tags),
            )
        )

    def load(self, server: SimulatedServer) -> None:
        """Let a server come back that loads its policy: it says so once, and then to whoever asks."""
        server.restart()
        server.loading = True
        server.loads += 1
        self._by_worker(lambda: self._tell_status(server))

    # -- the operator --------------------------------------------------------------------------------------

    def pause(self) -> None:
        self._open_request = None
        self.carry_out(self.engine.pause())

    def resume(self, pauses: int | None = None) -> str:
        """Resume as the worker does. pauses: called before `resume` was; None: it is carried out at once."""
        if self.engine.paused:  # by whatever: what was asked before is not waited for
            self._open_request = None
        problem, effects = self.engine.resume(self.now_ns, *(() if pauses is None else (pauses,)))
        if not problem:
            self._history_since_ns = self.now_ns
        self.carry_out(effects)
        return problem

    def clear_stop(self, stops: int | None = None) -> str:
        """Clear a stop as the worker does. stops: heard before it was called; None: it is called now."""
        problem, effects = self.engine.clear_stop(self.now_ns, *(() if stops is None else (stops,)))
        self.carry_out(effects)
        return problem

    def take_over(self) -> str:
        self._open_request = None
        if not self.engine.takeover_refusal:
            self.engine.take_over_at_once(self.now_ns)
        problem, effects = self.engine.take_over(self.now_ns)
        self.carry_out(effects)
        return problem

    def release(self) -> str:
        problem, effects = self.engine.release(self.now_ns)
        self.carry_out(effects)
        return problem

    def reset(self, task: str = "") -> None:
        self._history_since_ns = self.now_ns
        self.carry_out(self.engine.reset(task, self.now_ns))


def streaming(world: World) -> World:
    """Run a world until its robot streams and its latency window holds something."""
    world.run_until(lambda: world.state is State.STREAMING and world.engine.counters.chunks_merged >= 3)
    return world


def stopped(world: World) -> bool:
    return bool(world.all(Stop))


def idle_ticks(world: World) -> int:
    """Count the control ticks without a command since the first one with a command."""
    moving = [tick.command is not None for _, tick in world.ticks]
    return moving[moving.index(True) :].count(False)
