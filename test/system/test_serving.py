# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The inference thread loads, serves and frees the policy, whatever goes wrong in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message

from remote_inference.base.admission import ServerTerms, judge
from remote_inference.base.exchange import Chunk, Request, SessionOffer
from remote_inference.base.policy import (
    Continuation,
    Float32Array,
    PolicyError,
    PolicyObservation,
    PolicySpec,
)
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.server.captures import captures
from remote_inference.server.manifest.manifest import Manifest, ModelSource, load_manifest
from remote_inference.server.monitoring.snapshot import EXECUTOR_DEADLINE_S
from remote_inference.server.nodes import serving
from remote_inference.server.nodes.serving import Serving
from remote_inference.server.policies import PlacedPolicy
from remote_inference.server.policies.hold import HoldPolicy
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_batch
from remote_inference.server.sessions import Session, SessionRegistry
from support.nodes.rig import DEADLINE_S, JOINTS, write_manifest
from support.waiting import wait_until

OFFER = SessionOffer(
    client="/rig/test",
    client_instance_id="",
    robot_namespace="/rig",
    robot_type="rig",
    session_epoch=1,
    schema_version=1,
    action_names=JOINTS,
    state_names=JOINTS,
    images=(),
    fps=30.0,
    task="",
    wants_rtc=False,
)
TERMS = ServerTerms(
    default_task="wave",
    pin_task=True,
    strict_fps=True,
    max_sessions=1,
    active_sessions=0,
    load=0.0,
    accepting=True,
)
REQUEST = Request("s1", 1, 1, 0, False, 0, "", 0)


class TracedPolicy(HoldPolicy):
    """Notes the threads that call it, and waits while a test makes it hang."""

    def __init__(self, path: str | Path) -> None:
        self.threads = {threading.current_thread().name}
        self.closed = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked = threading.Event()
        self.batches: list[int] = []
        self.refuses = self.mixes_up = False
        super().__init__(path)

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        self.threads.add(threading.current_thread().name)
        self.batches.append(len(batch))
        self.asked.set()
        assert self.may_answer.wait(DEADLINE_S)
        if self.refuses:
            raise PolicyError("no chunk today")
        rows = super().predict(batch)
        return rows[::-1] if self.mixes_up else rows

    def close(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.closed.set()


class ServingRig:
    """Serves a traced policy, and collects its chunks."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self.policies: list[TracedPolicy] = []
        self.spoil: Callable[[TracedPolicy], None] = lambda _: None
        self.registry = SessionRegistry("i1")
        self.chunks: list[Chunk] = []
        self.answered = threading.Event()
        monkeypatch.setattr(serving, "load_on_first_device", self._load)

    def _load(self, model: Any) -> PlacedPolicy:
        policy = TracedPolicy(model.path)
        self.spoil(policy)
        self.policies.append(policy)
        return PlacedPolicy(policy, "cpu")

    def open(self, **changes: Any) -> tuple[Serving, TracedPolicy]:
        """Load the policy. changes: keys of the manifest."""
        path = write_manifest(
            self._folder, policy={"image_features": {}}, **{"capture_dir": "captures", **changes}
        )
        made = Serving(load_manifest(path, {}), self.registry, self._send, lambda _: None, self._fail)
        return made, self.policies[-1]

    def open_session(self, made: Serving, session_id: str) -> Session:
        session = Session(session_id, OFFER, made.policy.make_processors())
        self.registry.add(session)
        return session

    def ask(self, made: Serving) -> None:
        """Send one request as a robot."""
        made.enqueue(self.open_session(made, "s1"), request_of("s1"))

    def _send(self, _: Session, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.answered.set()

    @staticmethod
    def _fail(error: Exception) -> None:
        raise AssertionError("the inference thread failed") from error


@pytest.fixture
def serving_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServingRig:
    return ServingRig(tmp_path, monkeypatch)


def request_of(session_id: str) -> bytes:
    request = replace(REQUEST, session_id=session_id)
    return bytes(serialize_message(observation_to_message(request, [0.5, 0.25], (), Time())))


def note_thread(names: list[str], work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `work`, noting the thread of each call."""

    def noted(argument: Any) -> Any:
        names.append(threading.current_thread().name)
        return work(argument)

    return noted


def names_of_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_one_thread_loads_calls_and_frees_the_policy(serving_rig: ServingRig) -> None:
    """The handles of a device's libraries, and torch's number of threads, belong to one thread."""
    made, policy = serving_rig.open()
    serving_rig.ask(made)
    assert serving_rig.answered.wait(DEADLINE_S)
    assert serving_rig.chunks[0].message == ""
    assert made.close()
    assert policy.closed.is_set()
    assert policy.threads == {"inference"}


def test_requests_are_prepared_and_answered_beside_the_thread_of_the_policy(serving_rig: ServingRig) -> None:
    """The first one by the policy's thread, which would only wait; the next while it predicts."""
    made, policy = serving_rig.open(max_sessions=2)
    threads: dict[str, list[str]] = {"s1": [], "s2": []}
    policy.asked.clear()
    policy.may_answer.clear()
    for name, names in threads.items():
        session = serving_rig.open_session(made, name)
        noted = partial(note_thread, names)
        session.processors.pre = noted(session.processors.pre)  # type: ignore[method-assign]
        session.processors.post = noted(session.processors.post)  # type: ignore[method-assign]
        made.enqueue(session, request_of(name))
        assert policy.asked.wait(DEADLINE_S)
    wait_until(lambda: len(threads["s2"]) == 1, "prepared while the policy computes", DEADLINE_S)
    assert not made.idle
    policy.may_answer.set()
    wait_until(lambda: made.idle and len(serving_rig.chunks) == 2, "both answered", DEADLINE_S)
    assert made.close()
    assert [name.rpartition("_")[0] for name in threads["s2"]] == ["prepare", "finish"]
    assert not [name for name in names_of_threads() if name.startswith(("prepare", "finish"))]


def test_the_policy_is_freed_after_the_processors_have_ended(
    serving_rig: ServingRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may use its device."""
    monkeypatch.setattr(serving, "POOL_TIMEOUT_S", DEADLINE_S)  # it waits no longer for them
    made, policy = serving_rig.open(max_sessions=2)
    policy.asked.clear()
    policy.may_answer.clear()
    serving_rig.ask(made)
    assert policy.asked.wait(DEADLINE_S)
    preparing, may_end = threading.Event(), threading.Event()
    session = serving_rig.open_session(made, "s2")
    healthy = session.processors.pre

    def slow(observation: PolicyObservation) -> Any:
        preparing.set()
        assert may_end.wait(DEADLINE_S)
        return healthy(observation)

    session.processors.pre = slow  # type: ignore[method-assign]
    made.enqueue(session, request_of("s2"))
    assert preparing.wait(DEADLINE_S)
    closing = threading.Thread(target=made.close)
    closing.start()
    policy.may_answer.set()
    wait_until(lambda: serving_rig.chunks, "the first one answered", DEADLINE_S)
    # Next the policy's thread ends those of the processors, and then it frees the policy.
    wait_until(lambda: "finish_0" not in names_of_threads(), "the end of those that finish", DEADLINE_S)
    assert not policy.closed.is_set()
    may_end.set()
    closing.join(DEADLINE_S)
    assert policy.closed.is_set()


def test_a_policy_that_fails_its_warm_up_is_freed_and_leaves_no_thread(serving_rig: ServingRig) -> None:
    serving_rig.spoil = lambda policy: setattr(policy, "refuses", True)
    with pytest.raises(PolicyError, match="no chunk today"):
        serving_rig.open()
    assert serving_rig.policies[0].closed.is_set()
    assert not {"inference", "captures"} & names_of_threads()


def test_a_policy_that_hung_is_freed_when_its_inference_ends(
    serving_rig: ServingRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "JOIN_TIMEOUT_S", 0.1)
    made, policy = serving_rig.open()
    policy.asked.clear()
    policy.may_answer.clear()
    serving_rig.ask(made)
    assert policy.asked.wait(DEADLINE_S)
    assert not made.close()
    assert not policy.closed.is_set()
    policy.may_answer.set()
    assert policy.closed.wait(DEADLINE_S)


def test_batches_are_warmed_up_and_compared_with_single_requests(serving_rig: ServingRig) -> None:
    made, policy = serving_rig.open(scheduler="micro_batch", max_batch=4, max_sessions=9)
    made.close()
    assert set(policy.batches) == {1, 4}
    made, policy = serving_rig.open(scheduler="round_robin", max_batch=4, max_sessions=9)
    made.close()
    assert set(policy.batches) == {1}
    serving_rig.spoil = lambda policy: setattr(policy, "mixes_up", True)
    with pytest.raises(PolicyError, match="scheduler: found 'micro_batch', but hold answers differently"):
        serving_rig.open(scheduler="micro_batch", max_batch=4, max_sessions=9)


SPEC = PolicySpec(
    name="p",
    revision="1",
    fingerprint="f",
    state_names=("a", "b", "c"),
    action_names=JOINTS,
    image_shapes={"rgb": (48, 64, 3), "depth": (32, 24, 1)},
    chunk_size=20,
    trained_fps=30.0,
)


@pytest.mark.parametrize("supports_rtc", [True, False])
def test_the_warm_up_serves_what_a_robot_would_send(supports_rtc: bool) -> None:
    """Decoding is part of a request's time, and a prefix makes the policy run its slower guidance."""
    spec = replace(SPEC, continuation=Continuation.GUIDANCE if supports_rtc else Continuation.NONE)
    manifest = Manifest(model=ModelSource(backend="hold", path="x"), default_task="wave")
    decoder = RequestDecoder(manifest, spec)
    (data, *_), offer = sample_batch(spec, "wave")
    _, message = decoder.request(data)
    observation = decoder.observation(message, offer)
    assert {name: image.shape for name, image in observation.images.items()} == {
        "rgb": (48, 64, 3),
        "depth": (32, 24),
    }
    assert (observation.state.shape, observation.task) == ((3,), "wave")
    assert judge(offer, spec, TERMS).accepted
    if supports_rtc:
        assert observation.prefix_model is not None
        assert observation.prefix_model.shape == (20, 2)
    else:
        assert observation.prefix_model is None
    assert observation.past == ()


def test_the_sample_request_has_images_of_its_own_for_each_step_that_the_policy_sees() -> None:
    spec = replace(SPEC, observation_steps=3)
    manifest = Manifest(model=ModelSource(backend="hold", path="x"), default_task="wave")
    decoder = RequestDecoder(manifest, spec)
    (data, *_), offer = sample_batch(spec, "wave")
    observation = decoder.observation(decoder.request(data)[1], offer)
    assert observation.states.shape == (3, 3)
    for feature in spec.image_shapes:
        assert len({id(image) for image in observation.image_steps(feature)}) == 3
    assert judge(offer, spec, TERMS).accepted


def test_closing_ends_before_the_executor_counts_as_stuck() -> None:
    """Otherwise the probes would have the process killed while it closes."""
    longest_s = serving.JOIN_TIMEOUT_S + serving.SEND_TIMEOUT_S + captures.CLOSE_TIMEOUT_S
    assert longest_s < EXECUTOR_DEADLINE_S
