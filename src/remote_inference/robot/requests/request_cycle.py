# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The request cycle: when to request a chunk, with what rows, and whether an answer may be executed.

One question is open at most. An answer is merged against the queue's snapshot of its request; a request of
another question would carry a conflicting one. A question whose answer is overdue is asked again with a newer
observation, and whichever answer comes first counts: between the two requests nothing was merged.

A policy that was trained with the delay plans from the moment on at which its chunk is expected. For a robot
that stands by then, a chunk that comes sooner waits for its moment: begun early, its motion meets nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.base.exchange import Chunk, ChunkStatus, Request, SessionReply
from remote_inference.base.policy import Continuation, Float32Array
from remote_inference.robot.command import Float64Array
from remote_inference.robot.config import RobotConfig, to_ns
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode, Prefixes
from remote_inference.robot.queue.latency import PATIENCE, LatencyWindow, patience_s, steps
from remote_inference.robot.queue.observation_history import ObservationHistory, TickSample
from remote_inference.robot.queue.plan import ChunkSource
from remote_inference.robot.queue.relative_rows import RelativeRows
from remote_inference.robot.requests.fitting_sets import FittingSets
from remote_inference.robot.requests.question import Arrivals, Asked, Question
from remote_inference.robot.safety.guard import AGE, SENSOR_AGE, Guard


@dataclass(frozen=True)
class Rejection:
    """Why a chunk must not be executed."""

    problem: str
    is_failure: bool = False  # true: the request counts as unanswered, the server could not move the robot


class RequestCycle:
    """One robot's requests. Arrival times are monotonic ns of the newest message by topic."""

    def __init__(self, contract: Contract, config: RobotConfig, queue: ActionQueue, guard: Guard) -> None:
        self._contract = contract
        self._config = config
        self._queue = queue
        self._guard = guard
        self._period_ns = round(contract.row_period_s * 1e9)
        self._timeout_ns = to_ns(config.request_timeout_s)
        self._max_action_age_ns = to_ns(config.max_action_age_s)
        self._arrivals = Arrivals()
        self.sets = FittingSets(contract, config)
        self.capture_skew_s = math.nan  # of the last request
        self.history = ObservationHistory(round(contract.period_s * 1e9), contract.ticks_per_row)
        self._question = Question()
        self._seq_id = 0
        self._pause_until_ns = 0
        self._late_s = 0.0  # latency of the last answer that took unusually long, until one did not
        self._first_wait_s = config.degraded_after_s  # for an answer, until one has come
        self.latency = LatencyWindow(config.latency_quantile)  # request to arrival
        self._delay = LatencyWindow(config.latency_quantile)  # capture to arrival
        self._policy = ""  # whose they are
        self._known: dict[str, tuple[LatencyWindow, LatencyWindow]] = {}  # of policies not used now
        self._relative = RelativeRows(contract)
        self.sources: tuple[str, ...] = contract.topics  # the observation's
        self.stale_sources: tuple[str, ...] = contract.topics

    @property
    def delay_steps(self) -> int:
        """Expected delay of the next cycle [rows]."""
        return self._delay.delay_steps(self._contract.row_period_s)

    def playback_left_s(self, now_ns: int) -> float:
        """Return the time for which the queued actions last [s]: until the last one, or the age bound."""
        return self._queue.playback_left_ns(now_ns, self._period_ns, self._max_action_age_ns) / 1e9

    def begin_session(self, expected_latency_s: float, policy: str = "") -> None:
        """Leave the next cycle out of the latencies: it pays for cold caches and connections.

        policy: its name; each has latencies of its own.
        expected_latency_s: the delay of a robot that has not measured any yet: it moves on no delay of zero.
        """
        if policy != self._policy and self._policy:
            quantile = self._config.latency_quantile
            self._known[self._policy] = self.latency, self._delay
            fresh = LatencyWindow(quantile), LatencyWindow(quantile)
            self.latency, self._delay = self._known.pop(policy, fresh)
            self._late_s = 0.0
        self._policy = policy
        self.latency.skip_next()
        self._delay.skip_next()
        self._delay.expect(expected_latency_s)
        self._first_wait_s = max(self._config.degraded_after_s, PATIENCE * expected_latency_s)

    def use(self, features: Collection[str], observation_steps: int, now_ns: int) -> None:
        """Set the policy's camera features and the number of steps that observations hold from now on."""
        self.sources = self._contract.topics_with(features)
        self.sets.use(self.sources)
        self.history.use(observation_steps, self.sources, now_ns)

    def see(self, arrivals: Mapping[str, int]) -> None:
        """Store the newest arrivals."""
        self._arrivals = replace(self._arrivals, newest=arrivals)
        if not self._shows_samples:
            self._show(arrivals)

    def take_sample(self, sample: TickSample) -> None:
        """Store what the sensors held at the next control tick, for observations of several steps.

        Where sources have to fit together, also what they hold now, without `tick_ns`.
        """
        if not self._shows_samples:
            return
        if self.sets.are_used:
            fitting = self.sets.add(sample)
            if fitting is None or (sample.tick_ns is None and self.history.observation_steps > 1):
                return
            sample = fitting
        self._show(sample.arrivals)
        self.history.add(sample)

    @property
    def _shows_samples(self) -> bool:
        """Whether observations show samples; else the newest content."""
        return self.history.observation_steps > 1 or self.sets.are_used

    def _show(self, arrivals: Mapping[str, int]) -> None:
        before = self._arrivals
        new = {topic: at_ns for topic, at_ns in arrivals.items() if at_ns != before.shown.get(topic)}
        executed = {**before.executed, **self._queue.executed_by(new)}
        self._arrivals = replace(before, shown=arrivals, executed=executed)

    def update_stale_sources(self, now_ns: int) -> tuple[str, ...]:
        """Find the sources older than max_sensor_age_s; return those that were not stale before."""
        oldest_ns = now_ns - to_ns(self._config.max_sensor_age_s)
        never_ns = oldest_ns - 1
        newest, before = self._arrivals.newest, self.stale_sources
        self.stale_sources = tuple(topic for topic in self.sources if newest.get(topic, never_ns) < oldest_ns)
        silent = tuple(topic for topic in self.stale_sources if topic not in before)
        self._guard.refuse(SENSOR_AGE, len(silent))
        return silent

    def drop_plan(self, now_ns: int) -> None:
        """Empty the queue and forget the request in flight; use no message that arrived before now."""
        self._queue.clear()
        self.abandon()
        self._arrivals = replace(self._arrivals, sent=dict.fromkeys(self._contract.topics, now_ns))
        self.history.begin(now_ns)

    def wants_chunk(self, now_ns: int) -> bool:
        """Return whether playback is low enough for a request; for means of chunks it always is."""
        if self._config.ensembles:
            return True
        if self._config.request_mode == "blocking":
            return len(self._queue) == 0
        buffer_s: float | str = self._config.buffer_time_s
        if isinstance(buffer_s, str):  # auto
            buffer_s = max(0.2, 2.0 * (self.latency.quantile_s(0.95) or 0.0))
        return self.playback_left_s(now_ns) <= buffer_s

    def awaits_observation(self, now_ns: int) -> bool:
        """Return whether a request lacks only new sensor data."""
        return self._may_ask(now_ns) and not self.stale_sources and self.wants_chunk(now_ns)

    def is_ready(self, now_ns: int) -> bool:
        """Return whether a request may be made: none in time, every source fresh, nothing sent twice."""
        return (
            self._may_ask(now_ns)
            and now_ns >= self._pause_until_ns
            and not self.stale_sources
            and self.sets.is_fresh(now_ns)
            and self._has_new_observation()
            and self.wants_chunk(now_ns)
        )

    def begin(
        self,
        session: SessionReply,
        now_ns: int,
        *,
        epoch: int,
        episode_id: int,
        episode_start: bool,
        task: str,
        measured: Float64Array | None = None,
    ) -> Request:
        """Return a request with the rows from the capture on: those executed since, then the unread ones.

        Without them when another policy than the session's said some of them, or means are executed. Rows
        that are too old to be executed are none.
        measured: the robot's position with the observation `[action_dim]`, None when it is not known.
        """
        shown = self._arrivals.shown
        begins_with = self._contract.measured_topics if self._relative.exist else self.sources
        first = min(begins_with, key=shown.__getitem__)
        times_ns = [shown[topic] for topic in self.sources]
        capture_ns = min(times_ns)
        self.capture_skew_s = (max(times_ns) - capture_ns) / 1e9
        executed = self._arrivals.executed[first]
        prefixes = Prefixes(None, None)
        if not (self._relative.exist or self._config.ensembles):
            # The control thread drops what is too old: after a pause, it has not yet.
            oldest_ns = now_ns - self._max_action_age_ns
            prefixes = self._queue.prefixes(executed, session.policy_fingerprint, oldest_ns)
        self._seq_id += 1
        request = Request(
            session_id=session.session_id,
            session_epoch=epoch,
            seq_id=self._seq_id,
            episode_id=episode_id,
            episode_start=episode_start,
            client_mono_ns=now_ns,
            task=task,
            inference_delay_steps=self.delay_steps,
            prefix_model=prefixes.model,
            prefix_robot=prefixes.robot,
            capture_skew_s=self.capture_skew_s,
            queue_s=self.playback_left_s(now_ns),
        )
        asked = (*self._question.asked, Asked(request, capture_ns, shown[first], executed, measured))
        self._question = replace(self._question, asked=asked)
        self._arrivals = replace(self._arrivals, sent=shown)
        return request

    @property
    def request_in_flight(self) -> Request | None:
        """The newest request whose answer is awaited, if there is one."""
        asked = self._question.asked
        return asked[-1].request if asked else None

    def abandon(self) -> None:
        """Forget the requests in flight; their answers will be dropped."""
        self._question = Question()

    def take_back(self) -> None:
        """Forget the newest request, which was not sent; the answers to those before are still awaited."""
        self._question = replace(self._question, asked=self._question.asked[:-1])

    def timed_out(self, now_ns: int) -> Request | None:
        """Return the newest request of a question that waited too long, once."""
        asked = self._question.asked
        is_open = asked and self._question.early is None
        if not is_open or now_ns - asked[0].request.client_mono_ns < self._timeout_ns:
            return None
        self.abandon()
        return asked[-1].request

    def is_answered_by(self, chunk: Chunk) -> bool:
        """Return whether a chunk answers a request in flight, in its session, epoch and episode."""
        return self._question.early is None and self._find_asked(chunk) is not None

    def keep_early(
        self, chunk: Chunk, session: SessionReply, now_ns: int, arrival_ns: int | None = None
    ) -> bool:
        """Return whether an answer has to wait for the moment for which it was planned; keep it then.

        The moment is the delay of its request after the capture. A robot with rows for all this time does not
        wait: these rows are the chunk's first ones, and lead up to the moment. arrival_ns: when the answer
        came; None: now.
        """
        asked = self._find_asked(chunk)
        assert asked is not None, "keep_early follows is_answered_by"
        if session.continuation != Continuation.TRAINED.value or chunk.status:
            return False
        request = asked.request
        prefix_steps = 0 if request.prefix_robot is None else len(request.prefix_robot)
        due_ns = asked.begin_ns + request.inference_delay_steps * self._period_ns
        waits = now_ns < due_ns <= asked.capture_ns + self._max_action_age_ns
        if prefix_steps >= request.inference_delay_steps or not waits:
            return False
        arrival_ns = now_ns if arrival_ns is None else arrival_ns
        self._question = replace(self._question, early=chunk, arrival_ns=arrival_ns, due_ns=due_ns)
        return True

    def find_due(self, now_ns: int) -> Chunk | None:
        """Return the early answer if its moment has come; `finish` follows."""
        question = self._question
        return question.early if question.early is not None and now_ns >= question.due_ns else None

    def _find_asked(self, chunk: Chunk) -> Asked | None:
        answered = (chunk.session_id, chunk.session_epoch, chunk.seq_id, chunk.episode_id)
        for asked in self._question.asked:
            request = asked.request
            if answered == (request.session_id, request.session_epoch, request.seq_id, request.episode_id):
                return asked
        return None

    def finish(
        self, chunk: Chunk, session: SessionReply, now_ns: int, arrival_ns: int | None = None
    ) -> Rejection | None:
        """End the cycle with its answer: merge the chunk, or return why it must not be executed.

        arrival_ns: when it came, unless `keep_early` has it; None: now.
        """
        asked = self._find_asked(chunk)
        assert asked is not None, "finish follows is_answered_by"
        if self._question.early is not None:
            arrival_ns = self._question.arrival_ns
        # The first request counts that reached the server: counted from the answered one, a server that
        # became slow would seem as quick as it is asked again, and be asked so for ever.
        numbers = [one.request.seq_id for one in self._question.asked]
        first_served = self._question.asked[max(0, numbers.index(chunk.seq_id) - chunk.superseded_seqs)]
        self.abandon()
        rejection = self._judge(chunk, session, now_ns - asked.capture_ns)
        absolute = rejection or self._make_absolute(chunk, asked, session.chunk_size)
        if isinstance(absolute, Rejection):
            self._pause_until_ns = now_ns + to_ns(self._config.error_pause_s)
            return absolute
        self._merge(chunk, absolute, asked, session, now_ns)
        arrival_ns = now_ns if arrival_ns is None else arrival_ns
        latency_s = (arrival_ns - first_served.request.client_mono_ns) / 1e9
        self._late_s = latency_s if latency_s > (self.latency.quantile_s(0.95) or 0.0) else 0.0
        self.latency.add(latency_s, chunk.queue_wait_ms, chunk.inference_ms)
        self._delay.add((arrival_ns - first_served.begin_ns) / 1e9)
        return None

    def _make_absolute(self, chunk: Chunk, asked: Asked, chunk_size: int) -> Float32Array | Rejection:
        if not self._relative.exist:
            return chunk.robot
        if not self._relative.can_resolve(asked.measured):
            return Rejection("its actions are relative to where the robot was, which is not known")
        absolute = self._relative.resolve(chunk.robot, asked.measured)
        # NaN is a row without an orientation, which is refused in its own ticks.
        numbers = np.where(np.isnan(absolute), np.float32(0.0), absolute)
        if problem := self._guard.check_chunk(chunk_size, chunk_robot=numbers):
            return Rejection(f"made absolute, {problem}")
        return absolute

    def _merge(
        self, chunk: Chunk, absolute: Float32Array, asked: Asked, session: SessionReply, now_ns: int
    ) -> None:
        source = ChunkSource(
            capture_ns=asked.capture_ns,
            session_id=chunk.session_id,
            seq_id=chunk.seq_id,
            episode_id=chunk.episode_id,
            policy_version=chunk.policy_version,
            task=asked.request.task,
            policy_fingerprint=session.policy_fingerprint,
        )
        self._queue.merge(
            source,
            chunk.model,
            absolute,
            MergeMode.APPEND if self._appends(session) else MergeMode.REPLACE,
            latency_steps=steps((now_ns - asked.begin_ns) / 1e9, self._contract.row_period_s),
            executed_before=asked.executed,
            horizon=self._config.execution_horizon or None,
            row_period_s=self._contract.row_period_s,
            oldest_ns=now_ns - self._max_action_age_ns,
        )

    def _appends(self, session: SessionReply) -> bool:
        """Return whether chunks are appended: as configured, or as all of each would be stale when it comes.

        One that continues a prefix, or is relative to a measurement, never is for that.
        """
        if self._config.merge_mode != "auto" or session.rtc or self._relative.exist:
            return self._config.appends
        return min(session.chunk_size, self._config.execution_horizon or math.inf) <= self.delay_steps

    def _judge(self, chunk: Chunk, session: SessionReply, age_ns: int) -> Rejection | None:
        """Return why a chunk of an age since capture must not be executed."""
        if chunk.status is ChunkStatus.ERROR or (chunk.status and not chunk.robot.size):
            return Rejection(f"server answered {chunk.status.name}: {chunk.message}")
        rows = {"chunk_model": chunk.model, "chunk_robot": chunk.robot}
        if problem := self._guard.check_chunk(session.chunk_size, **rows):
            return Rejection(problem, is_failure=not chunk.robot.size)
        if age_ns <= self._max_action_age_ns:
            return None
        self._guard.refuse(AGE, len(chunk.robot))
        bound = f"max_action_age_s is {self._config.max_action_age_s:g}"
        return Rejection(f"its observation is {age_ns / 1e9:.1f} s old, {bound}", is_failure=True)

    def _may_ask(self, now_ns: int) -> bool:
        """Return whether no question is open, or its answer is overdue and another may come in time.

        From the third request on each wait is twice as long as the one before: a slow server is not flooded.
        """
        asked = self._question.asked
        if not asked:
            return True
        if self._question.early is not None:
            return False
        expected_s = max(self.latency.quantile_s(0.95) or 0.0, self._late_s)
        typical_s = max(self.latency.typical_s() or 0.0, self._late_s)
        wait_s = patience_s(typical_s, expected_s, self.playback_left_s(now_ns))
        if not expected_s:
            expected_s = wait_s = self._first_wait_s
        first_ns, newest_ns = (one.request.client_mono_ns for one in (asked[0], asked[-1]))
        wait_ns = to_ns(wait_s) << max(0, len(asked) - 2)
        return newest_ns + wait_ns <= now_ns <= first_ns + self._timeout_ns - to_ns(expected_s)

    def _has_new_observation(self) -> bool:
        """Return whether every source has delivered since the last request: a frozen camera is not fresh."""
        if self._shows_samples and not self.history.steps():
            return False
        shown, sent, never_ns = self._arrivals.shown, self._arrivals.sent, -1
        return all(shown.get(topic, never_ns) > sent.get(topic, never_ns) for topic in self.sources)
