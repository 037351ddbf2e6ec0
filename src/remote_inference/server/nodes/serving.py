# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs a policy: loads, serves and frees it on a thread of its own, and sends its chunks.

How a request is answered:

1. `RosLink` or a gateway gets a serialized observation and calls `Serving.enqueue`: it replaces an older one
   in its session's mailbox.
2. `Worker.step` has the scheduler choose sessions (`Intake`), and a pool prepare their requests: parse,
   check, decode, `processors.pre` (`Preparation`). The next batch is prepared while the policy computes.
3. The inference thread calls `policy.predict` for the batch.
4. A thread finishes it (`Finishing`: `processors.post`, check), and sends each chunk by `Serving._send` and
   its session's link; then the request log, the metrics and the captures get the request.
"""

from __future__ import annotations

import heapq
import itertools
import os
import queue
import random
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing
from functools import partial

from rclpy.logging import get_logger

from remote_inference.base.exchange import Chunk
from remote_inference.base.limits import MAX_QUOTE_LENGTH, shorten
from remote_inference.base.nodes.runtime import StartupError, is_stopping
from remote_inference.base.policy import Policy, PolicyError
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.observation import read_head
from remote_inference.server.captures.captures import CaptureWriter
from remote_inference.server.live_weights import LiveWeights, OnError
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.policies import PlacedPolicy, load_on_first_device
from remote_inference.server.policy_watch import PolicyWatch
from remote_inference.server.requests.job import Consumers, find_foreign
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_requests
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.requests.worker import Worker
from remote_inference.server.sessions import FOREIGN_REQUESTS_MAX, Session, SessionRegistry
from remote_inference.server.warmup import Rehearsal, make_ready, make_scheduler

# -- A simulated network path: runs each action after a latency drawn for it, or never, and blocks no sender

SEND_TIMEOUT_S = 1.0  # until a sending thread that does not end is left alone
SEED = 0  # the draws are the same after each start


class DelayLine:
    """Runs actions on a thread of its own, whichever is due first; at once where the path has no latency."""

    def __init__(
        self,
        delay_s: float,
        on_failure: Callable[[BaseException], None],
        *,
        jitter_s: float = 0.0,
        loss: float = 0.0,
    ) -> None:
        """on_failure: called on the line's thread with what an action raised; the line then ends.

        jitter_s: largest deviation from `delay_s`, either way; uniform, and no latency is below 0. loss:
        fraction of the actions that are lost.
        """
        self._delay_s = delay_s
        self._jitter_s = jitter_s
        self._loss = loss
        self._on_failure = on_failure
        self._random = random.Random(SEED)
        self._numbers = itertools.count()  # of two that are due at once, the first goes first
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []  # heap, by when they are due
        self._changed = threading.Condition()
        self._closed = False
        self._running = False
        self._thread: threading.Thread | None = None
        if delay_s > 0.0 or jitter_s > 0.0:
            self._thread = threading.Thread(target=self._run, name="delay_line", daemon=True)
            self._thread.start()

    def put(self, action: Callable[[], None]) -> None:
        """Run an action once it is due, or lose it."""
        with self._changed:
            if self._random.random() < self._loss:
                return
            delay_s = self._delay_s + self._random.uniform(-self._jitter_s, self._jitter_s)
            if self._thread is not None:
                due_s = time.monotonic() + max(0.0, delay_s)
                heapq.heappush(self._waiting, (due_s, next(self._numbers), action))
                self._changed.notify_all()
                return
        action()

    @property
    def empty(self) -> bool:
        """True when every action has run or is lost."""
        with self._changed:
            return not self._waiting and not self._running

    def close(self) -> None:
        """Drop the actions that have not run yet."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(SEND_TIMEOUT_S)

    def _run(self) -> None:
        while (action := self._take()) is not None:
            try:
                action()
            except Exception as error:
                self._on_failure(error)
                return
            with self._changed:
                self._running = False

    def _take(self) -> Callable[[], None] | None:
        """Wait until an action is due and return it, None once the line is closed."""
        with self._changed:
            while not self._closed:
                left_s = self._waiting[0][0] - time.monotonic() if self._waiting else None
                if left_s is not None and left_s <= 0.0:
                    self._running = True
                    return heapq.heappop(self._waiting)[2]
                self._changed.wait(left_s)
            return None


class TaskPool:
    """A number of threads that run tasks in the order of `submit`.

    Unlike those of `concurrent.futures` they are daemons: a processor that hangs must not keep the process
    from ending.
    """

    def __init__(self, threads: int, name: str, on_failure: Callable[[BaseException], None]) -> None:
        """on_failure: called on the pool's thread with what a task raised; that thread then ends."""
        self._on_failure = on_failure
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._name = name
        self._threads: list[threading.Thread] = []
        for _ in range(threads):
            self.add_thread()

    def add_thread(self) -> None:
        """Add a thread, in the place of one that is taken for long."""
        name = f"{self._name}_{len(self._threads)}"
        self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
        self._threads[-1].start()

    def submit(self, task: Callable[[], None]) -> None:
        self._tasks.put(task)

    def close(self, timeout_s: float) -> bool:
        """Run the tasks that wait, and end the threads; return whether they ended in time."""
        for _ in self._threads:
            self._tasks.put(None)
        end_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except BaseException as error:
                self._on_failure(error)
                return
            del task  # it holds a request while the thread waits for the next one


IDLE_WAIT_S = 0.1  # longest sleep of the worker if a wake-up is lost
JOIN_TIMEOUT_S = 6.0  # together with closing the captures below EXECUTOR_DEADLINE_S
POOL_TIMEOUT_S = 2.0  # of each pool, for what is being prepared or finished when the server ends

OpenWeights = Callable[[Manifest, Policy, Callable[[], object], OnError], LiveWeights | None]


class Serving:
    """One policy, loaded and warmed up, which serves the sessions of a registry until closed.

    One thread makes all calls of the policy, from loading to freeing it: libraries keep handles and settings
    per thread. A pool with a thread for each core prepares requests, and another thread sends chunks. Raises
    PolicyError or DocumentError when the policy cannot be loaded or does not answer; it is freed then.
    """

    def __init__(
        self,
        manifest: Manifest,
        registry: SessionRegistry,
        send: Callable[[Session, Chunk], None],
        log_request: Callable[[RequestRecord], None],
        on_failure: Callable[[BaseException], None],
        *,
        on_policy_error: Callable[[BaseException], None] = lambda _: None,
        open_weights: OpenWeights = lambda *_: None,
        while_loading: Callable[[], None] = lambda: None,
    ) -> None:
        """send: publishes a chunk. on_failure: called with what ended a thread. All run on our threads.

        on_policy_error: called with what the policy raised. open_weights: lets trainers change a policy, as
        `TrainerAccess.open` does. while_loading: called on the calling thread now and then, which waits until
        the policy is loaded.
        """
        self.manifest = manifest
        self._registry = registry
        self._send = send
        self._log_request = log_request
        self._on_failure = on_failure
        self._on_policy_error = on_policy_error
        self._open_weights = open_weights
        self.captures = None
        if manifest.capture_dir:
            log = get_logger("captures").warning
            self.captures = CaptureWriter(manifest.capture_dir, manifest.capture_max, log)
        self._delay_line = DelayLine(
            manifest.inject_latency_ms / 1e3,
            on_failure,
            jitter_s=manifest.inject_jitter_ms / 1e3,
            loss=manifest.inject_loss,
        )
        self._work = threading.Event()
        self._stop = threading.Event()
        self._loading: Future[None] = Future()
        # Set by the inference thread before the policy counts as loaded:
        self.policy: Policy
        self.device: str
        self.passed_over: tuple[str, ...]  # why devices before it in the manifest's list are not used
        self.worker: Worker
        self.watch: PolicyWatch
        self.weights: LiveWeights | None  # None when the manifest lets nobody change them
        self.request_s: float  # time of one request with its decoding
        self.warnings: tuple[str, ...]
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self._thread.start()
        try:
            self._wait_until_loaded(while_loading)
        except Exception:
            self._stop.set()  # a policy that is loaded meanwhile is closed
            self._work.set()
            self._close_outputs()
            raise

    def enqueue(self, session: Session, data: bytes) -> None:
        """Put a serialized observation into its session's mailbox.

        One that names another session waits in nobody's place, whoever sends it and however often.
        """
        session.note_size(len(data), self.manifest.max_request_bytes)
        now_ns = time.monotonic_ns()
        try:
            named, queue_s = read_head(data)
        except WireError:  # the worker says what is wrong with it
            named, queue_s = session.session_id, -1.0
        if session.note_request(named, now_ns):
            session.mailbox.put(data, now_ns, queue_s)
            self._notify_worker()
        elif session.foreign_requests <= FOREIGN_REQUESTS_MAX:
            problem = f"not answered: {find_foreign(session, named)}"
            self._log_request(RequestRecord.of(session.offer, shorten(named, MAX_QUOTE_LENGTH), problem))

    @property
    def alive(self) -> bool:
        """True while the inference thread lives."""
        return self._thread.is_alive()

    @property
    def idle(self) -> bool:
        """True while no request waits or is served, and no chunk is on its way out."""
        # In this order: a session is in service before its mailbox is empty and until its chunk is out.
        return (
            not any(session.mailbox.letter is not None for session in self._registry.all())
            and not any(session.in_service for session in self._registry.all())
            and not self.watch.busy.running_s(time.monotonic_ns())
            and self._delay_line.empty
        )

    @property
    def response_ms(self) -> float:
        """What a robot may expect from the arrival of its request to the departure of the chunk [ms]."""
        lately = tuple(self.worker.finishing.response_ms)
        typical_ms = statistics.median(lately) if lately else 1e3 * self.request_s
        return typical_ms + self.manifest.inject_latency_ms

    def close(self) -> bool:
        """End the worker and free the device; return False when an inference does not end in time.

        The device is then freed when the inference ends.
        """
        self._stop.set()
        self._work.set()
        self._thread.join(JOIN_TIMEOUT_S)
        self._close_outputs()
        return not self._thread.is_alive()

    def _wait_until_loaded(self, while_loading: Callable[[], None]) -> None:
        while self._thread.is_alive() and not wait([self._loading], IDLE_WAIT_S).done:
            if is_stopping():
                raise StartupError("stopped while the policy was being loaded")
            while_loading()
        self._loading.result(IDLE_WAIT_S)

    def _close_outputs(self) -> None:
        self._delay_line.close()
        if self.captures:
            self.captures.close()

    def _notify_worker(self) -> None:
        """Have the mailboxes read: by the inference thread if it waits, otherwise ahead by this one."""
        self._work.set()
        self.worker.intake.prepare(self._registry.all())

    # -- the inference thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            placed = load_on_first_device(self.manifest.model)
            # The pools end before the policy is freed: processors may use its device.
            with closing(placed.policy), ExitStack() as pools:
                self._prepare(placed, pools)
                self._loading.set_result(None)
                self._serve()
        except BaseException as error:
            if self._loading.done():  # a server without this thread would admit robots and never answer
                self._on_failure(error)
            elif isinstance(error, Exception):
                self._loading.set_exception(error)
            else:  # `sys.exit` or a panic in Rust would end the waiting thread, too
                wrapped = PolicyError(f"{type(error).__name__}: {error}")
                wrapped.__cause__ = error
                self._loading.set_exception(wrapped)

    def _prepare(self, placed: PlacedPolicy, pools: ExitStack) -> None:
        manifest, policy = self.manifest, placed.policy
        self.policy, self.device, self.passed_over = policy, placed.device, placed.passed_over
        decoder = RequestDecoder(manifest, policy.spec)
        samples = sample_requests(policy.spec, manifest)
        rehearsal, *others = [Rehearsal(policy, decoder, *sample) for sample in samples]
        readiness = make_ready(policy, rehearsal, manifest, time.monotonic_ns, others)
        self.request_s, self.warnings = readiness.request_s, readiness.warnings
        self.watch = PolicyWatch(
            rehearsal.run,
            max_consecutive_failures=manifest.max_consecutive_failures,
            inference_timeout_s=manifest.inference_timeout_s,
        )
        self.weights = self._open_weights(manifest, policy, rehearsal.run, self.watch.note_error)
        if self.weights:
            pools.callback(self.weights.close)
        preparing = self._open_pool(len(os.sched_getaffinity(0)), "prepare", pools)
        self.worker = Worker(
            policy,
            partial(make_scheduler, manifest, policy.spec.max_batch),
            decoder,
            Consumers(
                lambda session, chunk: self._delay_line.put(partial(self._send, session, chunk)),
                self._log_request,
                self.captures.put if self.captures else None,
                self._on_policy_error,
            ),
            clock_ns=time.monotonic_ns,
            watch=self.watch,
            prepare=preparing.submit,
            on_ready=self._work.set,
            on_slow=preparing.add_thread,
            finish=self._open_pool(1, "finish", pools).submit,
            on_free=self._notify_worker,
            update_weights=self.weights.apply if self.weights else lambda: 0,
        )

    def _open_pool(self, threads: int, name: str, pools: ExitStack) -> TaskPool:
        pool = TaskPool(threads, name, self._on_failure)
        pools.callback(pool.close, POOL_TIMEOUT_S)
        return pool

    def _serve(self) -> None:
        while not self._stop.is_set():
            self._work.wait(self.worker.intake.wait_ns / 1e9 or IDLE_WAIT_S)
            self._work.clear()
            while not self._stop.is_set() and self.worker.step(self._registry.all()):
                pass
