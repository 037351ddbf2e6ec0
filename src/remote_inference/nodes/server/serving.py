# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs a policy: loads, serves and frees it on a thread of its own, and sends its chunks."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

from rclpy.logging import get_logger

from remote_inference.core.exchange import Chunk
from remote_inference.core.policy import Policy, PolicyError
from remote_inference.core.server.batching import make_scheduler
from remote_inference.core.server.manifest.manifest import Manifest
from remote_inference.core.server.policy_watch import PolicyWatch
from remote_inference.core.server.requests.finishing import Consumers
from remote_inference.core.server.requests.intake import Submit
from remote_inference.core.server.requests.request_record import RequestRecord
from remote_inference.core.server.requests.worker import Worker
from remote_inference.core.server.sessions.session import Session, SessionRegistry
from remote_inference.core.server.warmup import Readiness, Rehearsal, make_ready
from remote_inference.nodes.runtime import StartupError, is_stopping
from remote_inference.nodes.server.delay_line import DelayLine
from remote_inference.nodes.server.task_pool import TaskPool
from remote_inference.nodes.server.trainer_access import open_weights
from remote_inference.policies import PlacedPolicy, load_on_first_device
from remote_inference.recording.requests.captures import CaptureWriter
from remote_inference.weights.header import Applied, Refused
from remote_inference.weights.live import Listener, LiveWeights
from remote_inference.wire.request_decoder import RequestDecoder, sample_requests

IDLE_WAIT_S = 0.1  # longest sleep of the worker if a wake-up is lost
JOIN_TIMEOUT_S = 6.0  # together with closing the captures below EXECUTOR_DEADLINE_S
POOL_TIMEOUT_S = 2.0  # of each pool, for what is being prepared or finished when the server ends


@dataclass(frozen=True)
class _Loaded:
    """What the inference thread has made before robots are admitted."""

    policy: Policy
    device: str
    passed_over: tuple[str, ...]
    worker: Worker
    watch: PolicyWatch
    readiness: Readiness
    weights: LiveWeights | None


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
        on_weights: Callable[[Applied | Refused], None] = lambda _: None,
        trainers: Listener | None = None,
        while_loading: Callable[[], None] = lambda: None,
    ) -> None:
        """send: publishes a chunk. on_failure: told what ended a thread. All are called on our threads.

        on_policy_error: told what the policy raised. on_weights: told what an update has come to.

        trainers: where those on other machines connect. while_loading: called on the calling thread now and
        then, which waits until the policy is loaded.
        """
        self.manifest = manifest
        self._registry = registry
        self._send = send
        self._log_request = log_request
        self._on_failure = on_failure
        self._on_policy_error = on_policy_error
        self._on_weights = on_weights
        self._trainers = trainers
        self._captures = self._open_captures(manifest)
        self._delay_line = DelayLine(
            manifest.inject_latency_ms / 1e3,
            on_failure,
            jitter_s=manifest.inject_jitter_ms / 1e3,
            loss=manifest.inject_loss,
        )
        self._work = threading.Event()
        self._stop = threading.Event()
        self._loading: Future[_Loaded] = Future()
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self._thread.start()
        try:
            loaded = self._wait_until_loaded(while_loading)
        except Exception:
            self._stop.set()  # a policy that is loaded meanwhile is closed
            self._work.set()
            self._close_ways_out()
            raise
        self.policy = loaded.policy
        self.device = loaded.device
        self.passed_over = loaded.passed_over  # why devices before it in the manifest's list are not used
        self.worker = loaded.worker
        self.watch = loaded.watch
        self.weights = loaded.weights  # None when the manifest lets nobody change them
        self.request_s = loaded.readiness.request_s  # time of one request with its decoding
        self.warnings = loaded.readiness.warnings

    def deposit(self, session: Session, data: bytes) -> None:
        """Put a serialized observation into its session's mailbox."""
        session.note_size(len(data), self.manifest.max_request_bytes)
        session.mailbox.put(data, time.monotonic_ns())
        self._tell_worker()

    @property
    def alive(self) -> bool:
        """True while the inference thread lives."""
        return self._thread.is_alive()

    @property
    def idle(self) -> bool:
        """True while no request waits or is served, and no chunk is on its way out."""
        # In this order: a session is in service before its mailbox is empty and until its chunk is out.
        return (
            not any(session.mailbox.arrival_ns is not None for session in self._registry.all())
            and not any(session.in_service for session in self._registry.all())
            and not self.watch.busy.running_s(time.monotonic_ns())
            and self._delay_line.empty
        )

    @property
    def response_ms(self) -> float:
        """What a robot may expect from the arrival of its request to the departure of the chunk [ms]."""
        lately = tuple(self.worker.response_ms)
        typical_ms = statistics.median(lately) if lately else 1e3 * self.request_s
        return typical_ms + self.manifest.inject_latency_ms

    @property
    def captures_dropped(self) -> int:
        """Number of captures lost because the disk is slow, full or gone."""
        return self._captures.dropped if self._captures else 0

    def close(self) -> bool:
        """End the worker and free the device; return False when an inference does not end in time.

        The device is then freed when the inference ends.
        """
        self._stop.set()
        self._work.set()
        self._thread.join(JOIN_TIMEOUT_S)
        self._close_ways_out()
        return not self._thread.is_alive()

    @staticmethod
    def _open_captures(manifest: Manifest) -> CaptureWriter | None:
        if not manifest.capture_dir:
            return None
        return CaptureWriter(manifest.capture_dir, manifest.capture_max, get_logger("captures").warning)

    def _wait_until_loaded(self, while_loading: Callable[[], None]) -> _Loaded:
        while self._thread.is_alive() and not wait([self._loading], IDLE_WAIT_S).done:
            if is_stopping():
                raise StartupError("told to end while the policy was being loaded")
            while_loading()
        return self._loading.result(IDLE_WAIT_S)

    def _close_ways_out(self) -> None:
        self._delay_line.close()
        if self._captures:
            self._captures.close()

    def _tell_worker(self) -> None:
        """Let the worker look at the mailboxes: its own thread if it waits, otherwise this one."""
        self._work.set()
        self.worker.look_ahead(self._registry.all())

    def _deliver(self, session: Session, chunk: Chunk) -> None:
        self._delay_line.put(lambda: self._send(session, chunk))

    # -- the inference thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            placed = load_on_first_device(self.manifest.model)
            # The pools end before the policy is freed: processors may use its device.
            with closing(placed.policy), ExitStack() as pools:
                loaded = self._prepare(placed, pools)
                self._loading.set_result(loaded)
                self._serve(loaded.worker)
        except BaseException as error:
            if self._loading.done():  # a server without this thread would admit robots and never answer
                self._on_failure(error)
            else:
                self._loading.set_exception(_as_error(error))

    def _prepare(self, placed: PlacedPolicy, pools: ExitStack) -> _Loaded:
        manifest, policy = self.manifest, placed.policy
        decoder = RequestDecoder(manifest, policy.spec)
        samples = sample_requests(policy.spec, manifest)
        rehearsal, *others = [Rehearsal(policy, decoder, *sample) for sample in samples]
        readiness = make_ready(policy, rehearsal, manifest, time.monotonic_ns, others)
        watch = PolicyWatch(
            rehearsal.run,
            max_consecutive_failures=manifest.max_consecutive_failures,
            inference_timeout_s=manifest.inference_timeout_s,
        )
        weights = open_weights(
            manifest,
            policy,
            rehearsal.run,
            hear=watch.hear,
            tell=self._on_weights,
            network=self._trainers,
        )
        if weights:
            pools.callback(weights.close)
        worker = Worker(
            policy,
            partial(make_scheduler, manifest, policy.spec.max_batch),
            decoder,
            Consumers(
                self._deliver,
                self._log_request,
                self._captures.put if self._captures else None,
                self._on_policy_error,
            ),
            clock_ns=time.monotonic_ns,
            watch=watch,
            prepare=self._open_pool(len(os.sched_getaffinity(0)), "prepare", pools),
            finish=self._open_pool(1, "finish", pools),
            on_free=self._tell_worker,
            update_weights=weights.apply if weights else lambda: 0,
        )
        return _Loaded(policy, placed.device, placed.passed_over, worker, watch, readiness, weights)

    def _open_pool(self, threads: int, name: str, pools: ExitStack) -> Submit:
        pool = TaskPool(threads, name, self._on_failure)
        pools.callback(pool.close, POOL_TIMEOUT_S)
        return pool.submit

    def _serve(self, worker: Worker) -> None:
        while not self._stop.is_set():
            self._work.wait(worker.wait_ns / 1e9 or IDLE_WAIT_S)
            self._work.clear()
            while not self._stop.is_set() and worker.step(self._registry.all()):
                pass


def _as_error(error: BaseException) -> Exception:
    """Return what a thread may hand to another one, which `sys.exit` or a panic in Rust would end, too."""
    if isinstance(error, Exception):
        return error
    wrapped = PolicyError(f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
