# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs a policy: loads, serves and frees it on a thread of its own, and sends its chunks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass

from rclpy.logging import get_logger

from remote_inference.core.exchange import Chunk
from remote_inference.core.policy import Policy
from remote_inference.core.server.batching import make_scheduler
from remote_inference.core.server.manifest import Manifest
from remote_inference.core.server.policy_watch import PolicyWatch
from remote_inference.core.server.request_record import RequestRecord
from remote_inference.core.server.session import Session, SessionRegistry
from remote_inference.core.server.warmup import Readiness, Rehearsal, make_ready
from remote_inference.core.server.worker import Worker
from remote_inference.nodes.runtime import StartupError, is_stopping
from remote_inference.nodes.server.delay_line import DelayLine
from remote_inference.policies import load_policy
from remote_inference.recording.captures import CaptureWriter
from remote_inference.wire.request_decoder import RequestDecoder, sample_request

IDLE_WAIT_S = 0.1  # longest sleep of the worker if a wake-up is lost
JOIN_TIMEOUT_S = 6.0  # together with closing the captures below EXECUTOR_DEADLINE_S


@dataclass(frozen=True)
class _Loaded:
    """What the inference thread has made before robots are admitted."""

    policy: Policy
    worker: Worker
    watch: PolicyWatch
    readiness: Readiness


class Serving:
    """One policy, loaded and warmed up, which serves the sessions of a registry until closed.

    One thread makes all calls that touch the device, from loading to freeing the policy: libraries keep
    handles and settings per thread. Raises PolicyError or DocumentError when the policy cannot be loaded or
    does not answer; the policy is freed then.
    """

    def __init__(
        self,
        manifest: Manifest,
        registry: SessionRegistry,
        send: Callable[[Session, Chunk], None],
        log_request: Callable[[RequestRecord], None],
        on_failure: Callable[[Exception], None],
        *,
        on_policy_error: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """send: publishes a chunk. on_failure: told what ended a thread. All are called on our threads.

        on_policy_error: told what the policy raised.
        """
        self.manifest = manifest
        self._registry = registry
        self._send = send
        self._log_request = log_request
        self._on_failure = on_failure
        self._on_policy_error = on_policy_error
        self._captures = self._open_captures(manifest)
        self._delay_line = DelayLine(manifest.inject_latency_ms / 1e3, on_failure)
        self._work = threading.Event()
        self._stop = threading.Event()
        self._loading: Future[_Loaded] = Future()
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self._thread.start()
        try:
            loaded = self._wait_until_loaded()
        except Exception:
            self._close_ways_out()
            raise
        self.policy = loaded.policy
        self.worker = loaded.worker
        self.watch = loaded.watch
        self.request_s = loaded.readiness.request_s  # time of one request with its decoding
        self.warnings = loaded.readiness.warnings

    def deposit(self, session: Session, data: bytes) -> None:
        """Put a serialized observation into its session's mailbox."""
        session.mailbox.put(data, time.monotonic_ns())
        self._work.set()

    @property
    def alive(self) -> bool:
        """True while the inference thread lives."""
        return self._thread.is_alive()

    @property
    def idle(self) -> bool:
        """True while no request waits or is served, and no chunk is on its way out."""
        waiting = any(session.mailbox.arrival_ns is not None for session in self._registry.all())
        # In this order: a request leaves its mailbox within a step, and a step ends after its chunks are out.
        return not waiting and not self.watch.busy.running_s(time.monotonic_ns()) and self._delay_line.empty

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

    def _wait_until_loaded(self) -> _Loaded:
        while self._thread.is_alive() and not wait([self._loading], IDLE_WAIT_S).done:
            if is_stopping():
                raise StartupError("told to end while the policy was being loaded")
        return self._loading.result(IDLE_WAIT_S)

    def _close_ways_out(self) -> None:
        self._delay_line.close()
        if self._captures:
            self._captures.close()

    def _deliver(self, session: Session, chunk: Chunk) -> None:
        self._delay_line.put(lambda: self._send(session, chunk))

    # -- the inference thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with closing(load_policy(self.manifest.model)) as policy:
                loaded = self._prepare(policy)
                self._loading.set_result(loaded)
                self._serve(loaded.worker)
        except Exception as error:
            if self._loading.done():  # a server without this thread would admit robots and never answer
                self._on_failure(error)
            else:
                self._loading.set_exception(error)

    def _prepare(self, policy: Policy) -> _Loaded:
        manifest = self.manifest
        decoder = RequestDecoder(manifest, policy.spec)
        rehearsal = Rehearsal(policy, decoder, *sample_request(policy.spec, manifest.default_task))
        readiness = make_ready(policy, rehearsal, manifest, time.monotonic_ns)
        watch = PolicyWatch(
            rehearsal.run,
            max_consecutive_failures=manifest.max_consecutive_failures,
            inference_timeout_s=manifest.inference_timeout_s,
        )
        worker = Worker(
            policy,
            make_scheduler(manifest, policy.spec.max_batch),
            decoder,
            deliver=self._deliver,
            clock_ns=time.monotonic_ns,
            log_request=self._log_request,
            watch=watch,
            capture=self._captures.put if self._captures else None,
            on_policy_error=self._on_policy_error,
        )
        return _Loaded(policy, worker, watch, readiness)

    def _serve(self, worker: Worker) -> None:
        while not self._stop.is_set():
            self._work.wait(worker.wait_ns / 1e9 or IDLE_WAIT_S)
            self._work.clear()
            while not self._stop.is_set() and worker.step(self._registry.all()):
                pass
