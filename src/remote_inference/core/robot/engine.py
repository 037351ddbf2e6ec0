# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's engine: events in, effects out; no thread, clock or socket of its own.

One thread calls everything here. The control thread calls `Playback.tick` only; the two share the ActionQueue
and the control word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remote_inference.core.admission import NAME_REJECTION, FatalMismatch
from remote_inference.core.contract import Contract
from remote_inference.core.exchange import Chunk, ChunkStatus, SessionReply, StatusReply
from remote_inference.core.robot.action_queue import ActionQueue, DelayPolicy
from remote_inference.core.robot.blend_in import BlendIn
from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.robot.effects import (
    Effect,
    Inform,
    Report,
    SendRequest,
    Stop,
    StopLatched,
    Warn,
)
from remote_inference.core.robot.episodes import Episodes
from remote_inference.core.robot.flow_watch import FlowWatch
from remote_inference.core.robot.guard import SHAPE, Float64Array, Guard
from remote_inference.core.robot.handshake import Handshake
from remote_inference.core.robot.human_commands import HumanCommands
from remote_inference.core.robot.intervention_latch import InterventionLatch
from remote_inference.core.robot.outage import Outage
from remote_inference.core.robot.playback import Playback
from remote_inference.core.robot.request_cycle import Rejection, RequestCycle
from remote_inference.core.robot.shadow import ShadowComparison
from remote_inference.core.robot.state_machine import Event, State, StateMachine
from remote_inference.core.robot.stop_inputs import StopInputs

LATENCY_KNOWN_AFTER = 20  # chunks


@dataclass
class Counters:
    """Counts since start-up, published in ClientState."""

    requests: int = 0
    chunks_merged: int = 0
    chunks_dropped: int = 0
    chunks_rejected: int = 0
    request_timeouts: int = 0
    reconnects: int = 0


class Engine:
    """One robot's request cycle, session and safety state."""

    def __init__(
        self,
        contract: Contract,
        config: RobotConfig,
        client: str,
        robot_namespace: str,
        seed: int | None = None,
    ) -> None:
        """Build the engine of the node `client`. `seed` fixes the backoff's jitter."""
        self._contract = contract
        self._config = config
        self.queue = ActionQueue(DelayPolicy(config.delay_policy))
        self.guard = Guard(contract.actions, contract.period_s)
        self.stops = StopInputs(contract.stops)
        self.human = HumanCommands(contract.takeover.silent_s) if contract.takeover else None
        self.shadow = ShadowComparison(contract.action_dim) if config.command_mode == "shadow" else None
        self.playback = Playback(
            self.queue,
            self.guard,
            contract,
            fallback=config.fallback,
            max_action_age_ns=_ns(config.max_action_age_s),
            stops=self.stops,
            human=self.human,
            shadow=self.shadow,
            blend_in=BlendIn(config.resume_velocity_scale, _ns(config.resume_ramp_s)),
            latch=InterventionLatch(config.max_clamped_ratio, config.clamped_window),
        )
        self.control = self.playback.control
        self._starts_when_safe = config.autostart and bool(contract.stops)
        self.control.change(paused=not config.autostart or self._starts_when_safe)
        self.cycle = RequestCycle(contract, config, self.queue, self.guard)
        self.machine = StateMachine()
        self.counters = Counters()
        self.episode = Episodes(contract.task, _ns(config.reset_timeout_s))
        self.handshake = Handshake(contract, config, client, robot_namespace, seed)
        self._stopped_by = ""  # the latched stop that has been carried out
        self._measured: Float64Array | None = None
        self._measured_ns = 0
        self._flow = FlowWatch(config.degraded_after_s)
        self._outage = Outage(config.max_timeouts, _ns(config.max_offline_s))

    # -- what the node tells -------------------------------------------------------------------------------

    def take_sensors(
        self, arrivals: Mapping[str, int], measured: Float64Array | None, now_ns: int
    ) -> list[Effect]:
        """Take the monotonic arrival times [ns] of the newest content of each topic received so far.

        measured: joint positions `[action_dim]` in the order of the actions, None when they are unknown.
        """
        self.cycle.see(arrivals)
        self._measured = measured
        self._measured_ns = min(
            (arrivals.get(topic, 0) for topic in self._contract.measured_topics), default=0
        )
        return self.tick(now_ns)

    def take_status_reply(self, server: str, reply: StatusReply | None, now_ns: int) -> list[Effect]:
        """Take the answer to GetStatus; None when the server is silent."""
        return [] if self.dead else self.handshake.take_status_reply(server, reply, self.episode.task, now_ns)

    def take_session_reply(
        self, server: str, epoch: int, reply: SessionReply | None, now_ns: int
    ) -> list[Effect]:
        """Take a server's answer to the OpenSession of an epoch; None when the server is silent."""
        if self.dead:
            return self.handshake.close_unused(server, reply)
        try:
            effects = self.handshake.take_session_reply(server, epoch, reply, now_ns)
        except FatalMismatch as mismatch:
            close = self.handshake.close_unused(server, reply)
            replaced = reply is not None and reply.rejection == NAME_REJECTION
            died = self._die(Event.CONTRACT_VIOLATED, f"{server}: {mismatch}", homing=not replaced)
            return [*close, *died]
        if self.handshake.session is not None:
            self.cycle.use(self.image_features)
        return effects

    def take_presence(self, matched: bool, now_ns: int) -> list[Effect]:
        """Take whether the server in use is matched with our endpoints both ways."""
        if self.dead:
            return []
        cause = self.handshake.take_presence(matched)
        return self._lose_session(cause, now_ns) if cause else self.tick(now_ns)

    def take_server_status(
        self, server: str, instance_id: str, sessions: tuple[str, ...], now_ns: int, *, accepting: bool = True
    ) -> list[Effect]:
        """Take a ServerStatus: the session is lost when the server has restarted or no longer lists it.

        accepting: the server accepts sessions; one that does so again is asked at once.
        """
        if self.dead:
            return []
        self.handshake.take_invitation(server, instance_id, accepting, now_ns)
        warnings = self.handshake.look_for_namesakes(server, instance_id, now_ns)
        cause = self.handshake.take_server_status(server, instance_id, sessions)
        return [*warnings, *(self._lose_session(cause, now_ns) if cause else [])]

    def take_rival(self, present: bool, now_ns: int) -> list[Effect]:
        """Take whether another node of this name is alive."""
        return [] if self.dead else self.handshake.take_rival(present, now_ns)

    def take_reset_reply(self, episode_id: int, acknowledged: bool, message: str) -> list[Effect]:
        """Take the server's answer to ResetSession."""
        return self.episode.take_reset_reply(episode_id, acknowledged, message, self.handshake.server)

    def take_chunk(self, chunk: Chunk, now_ns: int) -> list[Effect]:
        """Take a chunk; only the answer to the outstanding request counts."""
        session = self.handshake.session
        if self.dead or session is None or not self.cycle.is_answered_by(chunk):
            self.counters.chunks_dropped += 1
            self.cycle.take_late(chunk, now_ns)
            return []
        self.episode.announced = True
        rejection = self.cycle.finish(chunk, session, now_ns)
        effects = self._reject(chunk, rejection) if rejection else self._note_merge(chunk)
        if chunk.status is ChunkStatus.DRAINING:
            effects += self._lose_session("server is draining", now_ns, move_on=True)
        elif rejection and self._outage.loses_session:
            cause = f"{self._outage.failures} requests in a row without a chunk in time"
            effects += self._lose_session(f"{cause}: {rejection.problem}", now_ns, move_on=True)
        return effects + self.tick(now_ns)

    def _note_merge(self, chunk: Chunk) -> list[Effect]:
        self.counters.chunks_merged += 1
        self.handshake.take_delivery()
        self._outage.end()
        self._flow.note_merge()
        self.playback.starved = ""
        effects: list[Effect] = []
        if self.machine.state is State.RECONNECTING:
            self.control.change(blend_in=True)
        # A chunk leads an arm nowhere that does not follow.
        if not (self.playback.astray and self.machine.state is State.STALLED):
            effects += self._apply(Event.CHUNK_MERGED, f"chunk {chunk.seq_id} merged")
        latency_s = self.cycle.latency.quantile_s(0.95)
        if self.counters.chunks_merged == LATENCY_KNOWN_AFTER and latency_s is not None:
            effects += self.handshake.take_latency(latency_s)
        return effects

    def _reject(self, chunk: Chunk, rejection: Rejection) -> list[Effect]:
        self._outage.failures = self._outage.failures + 1 if rejection.is_failure else 0
        self.counters.chunks_rejected += 1
        return [Warn(f"chunk {chunk.seq_id} rejected: {rejection.problem}")]

    def take_back_request(self) -> None:
        """Take back the request last emitted: its sensors could not be read."""
        self.cycle.abandon()
        self.counters.requests -= 1

    def take_malformed_chunk(self, problem: str) -> list[Effect]:
        """Take a chunk message that cannot be read; its request runs into its timeout."""
        self.counters.chunks_rejected += 1
        self.guard.refuse(SHAPE)
        return [Warn(f"malformed chunk dropped: {problem}")]

    # -- the operator's handles ----------------------------------------------------------------------------

    def pause(self) -> list[Effect]:
        """Stop requests and commands, keep the queue."""
        self._starts_when_safe = False
        self.control.change(paused=True)
        self.cycle.abandon()
        self._flow.want_nothing()
        return []

    def resume(self, now_ns: int) -> list[Effect]:
        """Request and command again; the next tick drops actions that have aged out meanwhile.

        Refused with a warning while `stops.find_obstacle` finds one.
        """
        if problem := self.stops.find_obstacle(now_ns):
            return [Warn(f"not resumed: {problem}")]
        self._starts_when_safe = False
        self.control.change(forget=True, blend_in=True, paused=False)
        self._outage.failures = 0
        return self.tick(now_ns)

    def reset(self, task: str, now_ns: int) -> list[Effect]:
        """Begin a new episode: empty queue, next episode_id, latency kept. An empty task keeps the old."""
        self._drop_plan(now_ns)
        return self.episode.begin(task, self.handshake, now_ns)

    def clear_stop(self, now_ns: int) -> tuple[str, list[Effect]]:
        """Release a latched stop; the robot stays paused. Return why it is not released, or ''."""
        effects = self._look_at_stops(now_ns)  # paused before it may be released
        if problem := self.stops.clear(now_ns):
            return problem, effects
        cleared, self._stopped_by = self._stopped_by, ""
        return "", [*effects, Inform(f"stop cleared: {cleared}")]

    def take_over(self, now_ns: int) -> tuple[str, list[Effect]]:
        """Let a person command instead of the policy, which is asked nothing. Return why not, or ''."""
        if self.human is None:
            return "the contract names no takeover topic", []
        if self.shadow is not None:
            return "command_mode is shadow: this node commands nothing", []
        self.control.change(taken_over=True)
        self._drop_plan(now_ns)
        return "", [Inform("taken over by a person")]

    def release(self, now_ns: int) -> tuple[str, list[Effect]]:
        """Let the policy go on from where the arm is, in the same episode. Return why not, or ''."""
        if not self.taken_over:
            return "not taken over", []
        self._drop_plan(now_ns)
        self.control.change(taken_over=False, forget=True, blend_in=True)
        return "", [Inform("released to the policy"), *self.tick(now_ns)]

    def _drop_plan(self, now_ns: int) -> None:
        """Empty the queue, and use no observation from before now: the next chunk begins a plan anew."""
        self.queue.clear()
        self.control.change(forget=True)
        self.cycle.abandon()
        self.cycle.forget_seen(now_ns)
        self._flow.begin_plan()

    def _look_at_stops(self, now_ns: int) -> list[Effect]:
        """Pause for a latched stop, once. The control thread has stopped commanding by itself."""
        stop = self.stops.look(now_ns)
        if self._starts_when_safe and not self.stops.find_obstacle(now_ns):
            return self.resume(now_ns)
        if not stop or stop == self._stopped_by:
            return []
        self._stopped_by = stop
        effects = self.pause()
        self._drop_plan(now_ns)
        return [*effects, StopLatched(stop)]

    # -- time ----------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> list[Effect]:
        """Return the effects that are due. Called at every event and at least every 20 ms."""
        effects = self._look_at_stops(now_ns)
        if self.dead:
            return effects
        effects += self._look_at_sources(now_ns)
        effects += self._advance_handshake(now_ns)
        effects += self._check_deadlines(now_ns)
        effects += self._check_flow(now_ns)
        if not self.dead:
            effects += self._request(now_ns)
        return effects

    @property
    def image_features(self) -> tuple[str, ...]:
        """The policy's camera features that the session's observations hold, in the contract's order."""
        return tuple(image.name for image in self.handshake.offer.images)

    def awaits_observation(self, now_ns: int) -> bool:
        """Return whether the next complete observation will be requested."""
        may_request = self.handshake.open and not self._idle and not self.dead
        return may_request and self.cycle.awaits_observation(now_ns)

    @property
    def paused(self) -> bool:
        """True while the robot requests and commands nothing."""
        return self.control.word.paused

    @property
    def taken_over(self) -> bool:
        """True while a person commands."""
        return self.control.word.taken_over

    @property
    def _idle(self) -> bool:
        """True while the robot needs no chunk."""
        word = self.control.word
        return word.paused or word.taken_over

    @property
    def dead(self) -> bool:
        """True after the engine has given up: it emits nothing any more."""
        return self.machine.state is State.DEAD

    def close(self) -> list[Effect]:
        """End the session, if one is open."""
        return self.handshake.close()

    # -- handshake -----------------------------------------------------------------------------------------

    def _advance_handshake(self, now_ns: int) -> list[Effect]:
        was_open = self.handshake.open
        effects = self.handshake.advance(now_ns)
        if self.handshake.open and not was_open:
            self._outage.failures = 0
            self.cycle.skip_next_latency()
        return effects

    def _lose_session(self, cause: str, now_ns: int, *, move_on: bool = False) -> list[Effect]:
        effects = self.handshake.lose(now_ns, move_on=move_on)
        self.counters.reconnects += 1
        self.cycle.abandon()
        self._outage.begin(now_ns)
        return effects + self._apply(Event.SESSION_LOST, cause)

    # -- watchdogs -----------------------------------------------------------------------------------------

    def _look_at_sources(self, now_ns: int) -> list[Effect]:
        silent = self.cycle.look_for_stale_sources(now_ns)
        stale = set(self.cycle.stale_sources)
        fresh = not stale & set(self._contract.measured_topics)
        self.control.change(measured=self._measured if fresh else None, measured_ns=self._measured_ns)
        return [
            Warn(f"{topic}: nothing new for {self._config.max_sensor_age_s:g} s, requests wait for it")
            for topic in silent
        ]

    def _check_deadlines(self, now_ns: int) -> list[Effect]:
        effects = self.episode.check_deadline(now_ns)
        if request := self.cycle.timed_out(now_ns):
            self.counters.request_timeouts += 1
            self._outage.failures += 1
            effects.append(Warn(f"request {request.seq_id} was not answered"))
            if self._outage.loses_session:
                effects += self._lose_session(f"{self._outage.failures} request timeouts in a row", now_ns)
        # With a session, a robot that is paused or lacks a sensor asks for no chunk that could end this time.
        asks = not (self._idle or self.cycle.stale_sources)
        # A person drives without a server, too.
        if self.taken_over or (self.handshake.open and not asks):
            self._outage.hold(now_ns)
        if self._outage.is_too_long(now_ns):
            effects += self._die(Event.OFFLINE_TOO_LONG, f"no server for {self._config.max_offline_s:g} s")
        return effects

    def _check_flow(self, now_ns: int) -> list[Effect]:
        """Check whether chunks and actions come as they should, and whether the joints follow them."""
        findings = self._flow.look(
            now_ns,
            wants_chunk=not self._idle and self.cycle.wants_chunk(now_ns),
            starved="" if self.taken_over else self.playback.starved,
            queue_empty=not len(self.queue),
            may_be_empty=self._config.request_mode == "blocking",
        )
        effects = [effect for event, cause in findings for effect in self._apply(event, cause)]
        cause, is_news = self._flow.look_at_joints(self.playback.astray)
        if is_news:
            effects.append(Warn(cause))
        return effects + (self._apply(Event.STARVED, cause) if cause else [])

    def _apply(self, event: Event, cause: str) -> list[Effect]:
        transition = self.machine.apply(event, cause)
        return [Report(transition)] if transition else []

    def _die(self, event: Event, cause: str, *, homing: bool = True) -> list[Effect]:
        self.control.change(halted=True, wants_home=homing and not self.taken_over)
        self.cycle.abandon()
        return [*self.episode.end_reset(f"stopped: {cause}"), *self._apply(event, cause), Stop(cause)]

    # -- requests ------------------------------------------------------------------------------------------

    def _request(self, now_ns: int) -> list[Effect]:
        if not self.handshake.open or self.handshake.session is None or self._idle:
            return []
        if not self.cycle.is_ready(now_ns):
            return []
        request = self.cycle.begin(
            self.handshake.session,
            now_ns,
            epoch=self.handshake.epoch,
            episode_id=self.episode.id,
            episode_start=not self.episode.announced,
            task=self.episode.task,
        )
        self.counters.requests += 1
        return [SendRequest(request)]


def _ns(duration_s: float) -> int:
    return int(duration_s * 1e9)
