# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A loaded policy at work: the inference worker on a thread of its own, and the way its chunks take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from remote_inference.core.exchange import Chunk
from remote_inference.core.policy import Policy, PolicyError, ServingMode
from remote_inference.core.server.audit import AuditRecord
from remote_inference.core.server.manifest import Manifest
from remote_inference.core.server.scheduler import make_scheduler
from remote_inference.core.server.session import Session, SessionRegistry
from remote_inference.core.server.warmup import find_serving_mode, rehearse, warm_up
from remote_inference.core.server.watch import PolicyWatch
from remote_inference.core.server.worker import Worker
from remote_inference.nodes.capture_writer import CaptureWriter
from remote_inference.nodes.delay_line import DelayLine
from remote_inference.nodes.request_decoder import RequestDecoder
from remote_inference.policies import load_policy

IDLE_WAIT_S = 0.1  # longest sleep of the worker, should a wake-up get lost
JOIN_TIMEOUT_S = 10.0


class Serving:
    """One policy, loaded and warmed up, serving the sessions of a registry until closed.

    Raises PolicyError or DocumentError when the policy cannot be loaded or does not answer.
    """

    def __init__(
        self,
        manifest: Manifest,
        registry: SessionRegistry,
        send: Callable[[Session, Chunk], None],
        audit: Callable[[AuditRecord], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        """send: publishes a chunk. on_failure: told what ended a thread. All are called on our threads."""
        self.manifest = manifest
        self.policy: Policy = load_policy(manifest.model)
        self.inference_s = warm_up(
            self.policy, manifest.warmup_inferences, manifest.default_task, time.monotonic_ns
        )
        self._classify(manifest)
        self._captures = CaptureWriter(manifest) if manifest.capture_dir else None
        self._registry = registry
        self._send = send
        self._on_failure = on_failure
        self._delay_line = DelayLine(manifest.inject_latency_ms / 1e3, on_failure)
        self.watch = PolicyWatch(
            lambda: rehearse(self.policy, manifest.default_task),
            max_consecutive_failures=manifest.max_consecutive_failures,
            inference_timeout_s=manifest.inference_timeout_s,
        )
        self.worker = Worker(
            self.policy,
            make_scheduler(manifest, self.policy.spec.max_batch),
            RequestDecoder(manifest),
            deliver=self._deliver,
            clock_ns=time.monotonic_ns,
            audit=audit,
            watch=self.watch,
            capture=self._captures.put if self._captures else None,
        )
        self._work = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self._thread.start()

    def _classify(self, manifest: Manifest) -> None:
        """Set how many sessions may use the policy. Raises PolicyError when the scheduler cannot serve it."""
        spec = self.policy.spec
        if manifest.scheduler == "micro_batch" and spec.max_batch < 2:
            raise PolicyError(f"scheduler: found 'micro_batch', but {spec.name} takes one request at a time")
        mode = find_serving_mode(self.policy, manifest.default_task)
        if manifest.serving_mode == "exclusive" or spec.serving_mode is ServingMode.EXCLUSIVE:
            mode = ServingMode.EXCLUSIVE
        self.policy.spec = replace(spec, serving_mode=mode)

    def deposit(self, session: Session, data: bytes) -> None:
        """Put a serialized observation into its session's mailbox."""
        session.mailbox.put(data, time.monotonic_ns())
        self._work.set()

    @property
    def alive(self) -> bool:
        """True while the inference thread lives."""
        return self._thread.is_alive()

    def close(self) -> bool:
        """End the worker and free the device; return False when an inference does not end in time."""
        self._stop.set()
        self._work.set()
        self._thread.join(JOIN_TIMEOUT_S)
        self._delay_line.close()
        if self._captures:
            self._captures.close()
        if self._thread.is_alive():
            return False
        self.policy.close()
        return True

    def _deliver(self, session: Session, chunk: Chunk) -> None:
        self._delay_line.put(lambda: self._send(session, chunk))

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._work.wait(self.worker.wait_ns / 1e9 or IDLE_WAIT_S)
                self._work.clear()
                while not self._stop.is_set() and self.worker.step(self._registry.all()):
                    pass
        except Exception as error:  # a server that admits robots and answers nobody must not live on
            self._on_failure(error)
