# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's engine: events in, effects out; no thread, clock or socket of its own.

One thread calls everything here, except for the control thread's `play` and the inputs of any thread. These
share state with it under one lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from remote_inference.base.admission import NAME_REJECTION, FatalMismatch
from remote_inference.base.contract.contract import Contract
from remote_inference.base.exchange import Chunk, ChunkStatus, SessionReply, StatusReply
from remote_inference.robot.command import Float64Array
from remote_inference.robot.config import RobotConfig, to_ns
from remote_inference.robot.operated_robot import OperatedRobot
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.requests.episodes import Counters, Episodes
from remote_inference.robot.requests.handshake import Handshake
from remote_inference.robot.requests.request_cycle import Rejection
from remote_inference.robot.requests.source_watch import SourceWatch
from remote_inference.robot.safety.effects import Effect, Inform, SendRequest, Stop, Warn
from remote_inference.robot.safety.guard import SHAPE
from remote_inference.robot.safety.state_machine import Event, State
from remote_inference.robot.step_lock import StepLock

LATENCY_KNOWN_AFTER = 20  # chunks


class Engine(OperatedRobot):
    """One robot's request cycle, session and safety state."""

    def __init__(
        self,
        contract: Contract,
        config: RobotConfig,
        client: str,
        robot_namespace: str,
        seed: int | None = None,
        *,
        lock: StepLock | None = None,
    ) -> None:
        """Build the engine of the node `client`. `seed` fixes the backoff's jitter.

        lock: of the threads; a replay brings its own, which interleaves them as recorded.
        """
        super().__init__(contract, config, lock)
        shadow = config.command_mode == "shadow"
        self._takeover_problem = "command_mode is shadow: this node commands nothing" if shadow else ""
        if contract.takeover is None:
            self._takeover_problem = "the contract names no takeover topic"
        self.counters = Counters()
        self.episode = Episodes(contract.task, to_ns(config.reset_timeout_s))
        self.handshake = Handshake(contract, config, client, robot_namespace, seed)
        self._sources = SourceWatch(config.max_sensor_age_s)
        self.policy_refused = ""  # why this episode's policy was refused by its server, in words
        self._died_ns: int | None = None  # when the engine first looked at the clock after it had given up

    # -- what the node reports ---------------------------------------------------------------------------

    def take_sensors(
        self,
        arrivals: Mapping[str, int],
        measured: Float64Array | None,
        now_ns: int,
        samples: Sequence[TickSample] = (),
        *,
        stamps: Mapping[str, int] | None = None,
    ) -> list[Effect]:
        """Store the monotonic arrival times [ns] of the newest content of each topic received so far.

        measured: joint positions `[action_dim]` in the order of the actions, None when they are unknown.
        samples: of the control ticks since the last call, for a policy of several observation steps; those
        without `tick_ns`, for sources that have to fit together, of what came between them.
        stamps: of the messages that measured the joints, by topic, 0 of a driver without [ns]. None, where a
        simulator says the truth, believes each measurement.
        """
        command = None if stamps is None else self.playback.command_in_force(now_ns)
        by_hand = self.commands_since_ns() is None  # a command from before may still be on its way
        for sample in samples:
            seen = sample if stamps is None else self.arm.believed(sample, command, by_hand=by_hand)
            if seen is not None:
                self.cycle.take_sample(seen)
        arrivals, news = self.arm.take(
            arrivals, measured, now_ns, stamps=stamps, command=command, by_hand=by_hand
        )
        if self.arm.leap:
            self.stops.latch(self.arm.leap)
        self.cycle.see(arrivals)
        return [*news, *self.tick(now_ns)]

    def take_status_reply(self, server: str, reply: StatusReply | None, now_ns: int) -> list[Effect]:
        """Handle the answer to GetStatus; None when the server is silent."""
        return [] if self.dead else self.handshake.take_status_reply(server, reply, self.episode.task, now_ns)

    def take_session_reply(
        self, server: str, epoch: int, reply: SessionReply | None, now_ns: int
    ) -> list[Effect]:
        """Handle a server's answer to the OpenSession of an epoch; None when the server is silent."""
        if self.dead:
            return self.handshake.close_unused(server, reply)
        before = self.handshake.session
        try:
            effects = self.handshake.take_session_reply(server, epoch, reply, now_ns)
        except FatalMismatch as mismatch:
            close = self.handshake.close_unused(server, reply)
            replaced = reply is not None and reply.rejection == NAME_REJECTION
            if self.handshake.policies.is_on_trial and not replaced:
                return [*close, *self._refuse_policy(f"{server}: {mismatch}", now_ns)]
            died = self._die(Event.CONTRACT_VIOLATED, f"{server}: {mismatch}", homing=not replaced)
            return [*close, *died]
        if (session := self.handshake.session) is not None and session is not before:
            self.cycle.use(self.image_features, session.observation_steps, now_ns)
        return effects

    def take_presence(self, matched: bool, now_ns: int) -> list[Effect]:
        """Note whether the server in use is matched with our endpoints both ways."""
        if self.dead:
            return []
        cause = self.handshake.take_presence(matched)
        return self._lose_session(cause, now_ns) if cause else self.tick(now_ns)

    def take_server_status(
        self,
        server: str,
        instance_id: str,
        sessions: tuple[str, ...],
        now_ns: int,
        *,
        accepting: bool = True,
        loading: bool = False,
        policy: tuple[str, ...] = (),
    ) -> list[Effect]:
        """Handle a ServerStatus: the session is lost when the server has restarted or no longer lists it.

        accepting: the server accepts sessions; one that does so again is asked at once. loading: its policy
        is being loaded, and the robot waits for it, unless it starts again and again. policy: its name, and
        the server's tags.
        """
        if self.dead:
            return []
        self.handshake.servers.note(server, now_ns, loading=loading, instance_id=instance_id)
        self.handshake.note_policy(server, policy)
        self.handshake.take_invitation(server, instance_id, accepting, now_ns, sessions)
        warnings = self.handshake.duplicate_servers.note_sender(server, instance_id, now_ns)
        cause = self.handshake.take_server_status(server, instance_id, sessions)
        return [*warnings, *(self._lose_session(cause, now_ns) if cause else [])]

    def take_duplicate_node(self, present: bool, now_ns: int) -> list[Effect]:
        """Note whether another node of this name is alive: the second one gives way, also in a takeover."""
        if self.dead:
            return []
        effects = self.handshake.note_duplicate(present, now_ns)
        if self.taken_over and (duplicate_node := self.handshake.duplicate_node):
            ends = Warn(f"the takeover ends: {duplicate_node}", repeats=False)
            effects += [ends, *self.release(now_ns)[1]]
        return effects

    def take_reset_reply(self, episode_id: int, acknowledged: bool, message: str) -> list[Effect]:
        """Handle the server's answer to ResetSession."""
        return self.episode.take_reset_reply(episode_id, acknowledged, message, self.handshake.server)

    def take_instruction(self, task: str) -> list[Effect]:
        """Set the task of the next request, in the same episode: not empty, at most MAX_TASK_LENGTH long."""
        return [Inform(f"instruction: {task!r}")] if not self.dead and self.episode.instruct(task) else []

    def take_chunk(self, chunk: Chunk, now_ns: int, *, arrival_ns: int | None = None) -> list[Effect]:
        """Merge a chunk; only the first answer to the open question counts.

        arrival_ns: when it came, which says how long the answer took and nothing else: the robot has gone on
        since. None: now.
        """
        session = self.handshake.session
        if self.dead or session is None or not self.cycle.is_answered_by(chunk):
            self.counters.chunks_dropped += 1
            return []
        self.episode.announced = True
        if self.cycle.keep_early(chunk, session, now_ns, arrival_ns):
            return self.tick(now_ns)
        return self._finish(chunk, session, now_ns, arrival_ns) + self.tick(now_ns)

    def _finish(
        self, chunk: Chunk, session: SessionReply, now_ns: int, arrival_ns: int | None = None
    ) -> list[Effect]:
        if self.machine.state is State.RECONNECTING:
            self.control.change(blend_in=True)  # before the merge: the control thread waits for nobody
        rejection = self.cycle.finish(chunk, session, now_ns, arrival_ns)
        effects = self._reject(chunk, rejection) if rejection else self._note_merge(chunk)
        if chunk.status is ChunkStatus.DRAINING:
            effects += self._lose_session("server is draining", now_ns, move_on=True)
        elif rejection and self._supervisor.loses_session:
            cause = f"{self._supervisor.failures} requests in a row without a chunk in time"
            effects += self._lose_session(f"{cause}: {rejection.problem}", now_ns, move_on=True)
        return effects

    def _note_merge(self, chunk: Chunk) -> list[Effect]:
        self.counters.chunks_merged += 1
        self.handshake.take_delivery()
        self.playback.note_merge()
        effects = self._supervisor.take_merge(chunk.seq_id, not_following=bool(self.playback.not_following))
        latency_s = self.cycle.latency.quantile_s(0.95)
        if self.counters.chunks_merged == LATENCY_KNOWN_AFTER and latency_s is not None:
            effects += self.handshake.take_latency(latency_s)
        return effects

    def _reject(self, chunk: Chunk, rejection: Rejection) -> list[Effect]:
        self.counters.chunks_rejected += 1
        if rejection.is_failure:
            self._supervisor.take_failure()
        else:
            self._supervisor.forgive()
        return [Warn(f"chunk {chunk.seq_id} rejected: {rejection.problem}")]

    def take_back_request(self) -> None:
        """Undo the request last emitted: its sensors could not be read."""
        self.cycle.take_back()
        self.counters.requests -= 1

    def take_dropped_chunks(self, count: int) -> list[Effect]:
        """Count chunks of other sessions, or dropped unread because too many waited."""
        self.counters.chunks_dropped += count
        return []

    def take_malformed_chunk(self, problem: str) -> list[Effect]:
        """Count a chunk message that cannot be read; its request runs into its timeout."""
        self.counters.chunks_rejected += 1
        self.guard.refuse(SHAPE)
        return [Warn(f"malformed chunk dropped: {problem}")]

    # -- the operator: more in OperatedRobot --------------------------------------------------------------

    def reset(self, task: str, now_ns: int, policy: str = "") -> list[Effect]:
        """Begin a new episode: empty queue, next episode_id, latency kept. An empty task keeps the old.

        policy: a name or tag of which `handshake.policies` finds no problem; empty keeps the old.
        """
        self.policy_refused, self._pauses_at_release, before = "", "", self.handshake.session
        effects = self.handshake.use_policy(policy, now_ns) if policy else []
        effects += self._change_session(before, f"changes to the policy {policy}", now_ns)
        self._drop_plan(now_ns)
        return [*effects, *self.episode.begin(task, self.handshake, now_ns)]

    def _refuse_policy(self, problem: str, now_ns: int) -> list[Effect]:
        """Pause, and go back to the policy of before: a server refuses this robot for a goal's policy."""
        self.policy_refused = f"the policy {self.handshake.policies.wanted} is refused by {problem}"
        effects = self.handshake.give_policy_back(now_ns)
        if self.taken_over:  # a person keeps the arm
            self._pauses_at_release = self.policy_refused
        else:
            effects += self.pause(self.policy_refused)
        effects += self._change_session(None, "goes back to the policy before", now_ns)
        return [*effects, Warn(self.policy_refused, repeats=False)]

    def _change_session(self, before: SessionReply | None, cause: str, now_ns: int) -> list[Effect]:
        """Go on with the session that the handshake has now, or without one."""
        session = self.handshake.session
        if session is before:
            return []
        self.cycle.abandon()
        self._supervisor.need_no_server(now_ns)  # the time without a server was another policy's
        if session is None:
            return self._supervisor.lose_session(cause, now_ns)
        self.cycle.use(self.image_features, session.observation_steps, now_ns)
        self._begin_session()
        return []

    def _begin_session(self) -> None:
        session = self.handshake.session
        self._supervisor.forgive()
        self.cycle.begin_session(self.handshake.expected_latency_s, session.policy_name if session else "")

    def take_over(self, now_ns: int) -> tuple[str, list[Effect]]:
        """Let a person command instead of the policy, which is asked nothing. Return why not, or ''."""
        if problem := self.takeover_refusal:
            return problem, []
        self.control.change(taken_over=True)
        self._drop_plan(now_ns)
        return "", [Inform("taken over by a person")]

    @property
    def takeover_refusal(self) -> str:
        """Why nobody can take over now, in words; empty when somebody can. Any thread may read it."""
        return self.refusal or self.handshake.duplicate_node or self._takeover_problem

    # -- time ----------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> list[Effect]:
        effects = self._check_stops(now_ns)
        silences = self._check_sources(now_ns)  # of a dead robot, too: it may be on its way home
        if self.dead:
            self._died_ns = self._died_ns or now_ns
            return effects
        effects += [*silences, *self._advance_handshake(now_ns)]
        session = self.handshake.session
        if session is not None and (due := self.cycle.find_due(now_ns)) is not None:
            effects += self._finish(due, session, now_ns)
        effects += self._check_deadlines(now_ns)
        effects += self._supervisor.update(
            now_ns,
            wants_chunk=not self._idle and self.cycle.wants_chunk(now_ns),
            starved="" if self.taken_over else self.playback.starved,
            queue_empty=not len(self.queue),
            not_following=self.playback.not_following,
        )
        if not self.dead:
            effects += self._request(now_ns)
        return effects

    @property
    def image_features(self) -> tuple[str, ...]:
        """The policy's camera features that the session's observations hold, in the contract's order."""
        return tuple(image.name for image in self.handshake.offer.images)

    def awaits_observation(self, now_ns: int) -> bool:
        """Return whether the next complete observation will be requested."""
        is_idle = self._idle or self.dead or not self.handshake.open
        return not is_idle and self.cycle.awaits_observation(now_ns)

    @property
    def session_id(self) -> str:
        """Id of the session that a server has granted, empty without one."""
        return session.session_id if (session := self.handshake.session) else ""

    def has_ended(self, now_ns: int) -> bool:
        """Return whether a dead robot has got its last commands, or the time for them is over."""
        if self._died_ns is None:
            return False
        return self.playback.finished or now_ns - self._died_ns > to_ns(self.playback.rules.longest_end_s)

    def close(self) -> list[Effect]:
        """End the sessions that are open."""
        return self.handshake.close_all()

    # -- handshake -----------------------------------------------------------------------------------------

    def _advance_handshake(self, now_ns: int) -> list[Effect]:
        was_open = self.handshake.open
        effects = self.handshake.advance(now_ns)
        if self.handshake.open and not was_open:
            self._begin_session()
        return effects

    def _lose_session(self, cause: str, now_ns: int, *, move_on: bool = False) -> list[Effect]:
        effects = self.handshake.lose(now_ns, move_on=move_on)
        self.counters.reconnects += 1
        self.cycle.abandon()
        return effects + self._supervisor.lose_session(cause, now_ns)

    # -- watchdogs -----------------------------------------------------------------------------------------

    def _check_sources(self, now_ns: int) -> list[Effect]:
        silent = self.cycle.update_stale_sources(now_ns)
        self._sources.note(silent, stale := set(self.cycle.stale_sources))
        measured = self.arm.measured
        self.control.change(
            measured=measured.position if stale.isdisjoint(self.arm.topics) else None,
            measured_ns=measured.time_ns,
            doubted=bool(self.arm.doubted),
            positions=measured.position,
            positions_ns=measured.times_ns,
        )
        return self._sources.check(self.cycle, now_ns, is_open=self.handshake.open)

    def _check_deadlines(self, now_ns: int) -> list[Effect]:
        effects = self.episode.check_deadline(now_ns)
        if request := self.cycle.timed_out(now_ns):
            self.counters.request_timeouts += 1
            self._supervisor.take_failure()
            effects.append(Warn(f"request {request.seq_id} was not answered"))
            if self._supervisor.loses_session:
                cause = f"{self._supervisor.failures} request timeouts in a row"
                effects += self._lose_session(cause, now_ns)
        # Nobody misses a server who is paused or drives by hand. With a session, a robot that lacks a sensor
        # asks for no chunk that could end this time.
        if self._idle or (self.handshake.open and (self.cycle.stale_sources or self._sources.apart)):
            self._supervisor.need_no_server(now_ns)
        loading = {} if self.handshake.open else self.handshake.servers.loading
        effects += self._supervisor.wait_for(loading, now_ns)
        if self._supervisor.is_offline_too_long(now_ns):
            effects += self._die(Event.OFFLINE_TOO_LONG, f"no server for {self._config.max_offline_s:g} s")
        return effects

    def _die(self, event: Event, cause: str, *, homing: bool = True) -> list[Effect]:
        self.control.halt(wants_home=homing and not self.taken_over)
        self.cycle.abandon()
        effects = self.episode.end_reset(f"stopped: {cause}")
        return [*effects, *self._supervisor.apply(event, cause), Stop(cause)]

    # -- requests ------------------------------------------------------------------------------------------

    def _request(self, now_ns: int) -> list[Effect]:
        if not self.handshake.open or self.handshake.session is None or self._idle:
            return []
        if self.arm.doubted or not self.cycle.is_ready(now_ns):  # no policy is shown what cannot be
            return []
        seen = steps[-1].measured if (steps := self.cycle.history.steps()) else None
        request = self.cycle.begin(
            self.handshake.session,
            now_ns,
            epoch=self.handshake.epoch,
            episode_id=self.episode.id,
            episode_start=not self.episode.announced,
            task=self.episode.task,
            # Relative actions count from what the policy sees last.
            measured=self.arm.measured.position if seen is None else seen,
        )
        self.counters.requests += 1
        return [SendRequest(request, steps)]
