# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy with a replica on each of several devices: sessions are spread, and all compute at once."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from belt_arm.evaluate import SHIPPED_PLAIN_POLICY
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.policy import (
    DeviceLostError,
    Float32Array,
    PolicyError,
    PolicyObservation,
    ServingMode,
)
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.policies import load_policy
from remote_inference.server.policies.hold import HoldPolicy, HoldProcessors
from remote_inference.server.policies.replicas import ReplicatedPolicy
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_batch
from remote_inference.server.warmup import Rehearsal, make_ready
from support.device import DEVICE

DEADLINE_S = 30.0
HOLD = """{"name": "hold", "revision": "1", "state_names": ["elbow"], "action_names": ["elbow"],
"chunk_size": 4, "trained_fps": 30.0}"""
LOST = "CUDA error: an illegal memory access was encountered"


class Replica(HoldPolicy):
    """Notes its thread; may wait for the others, fail, forget its batch size, or remember requests."""

    barrier: threading.Barrier | None = None
    error: Callable[[], Exception] | None = None
    remembers = False

    def __init__(self, folder: Path, device: str) -> None:
        super().__init__(folder)
        self.device = device
        self.threads = {threading.get_ident()}
        self.batches: list[int] = []
        self.memory: list[weakref.ref[Float32Array]] = []  # inputs, and what it has computed from them
        self.closed = False
        self.spec = replace(self.spec, max_batch=2)

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        self.threads.add(threading.get_ident())
        self.batches.append(len(batch))
        assert len(batch) <= self.spec.max_batch
        if self.barrier:
            self.barrier.wait(DEADLINE_S)
        activations = np.zeros(4, np.float32)
        self.memory += [weakref.ref(array) for array in (*batch, activations)]
        if self.error:
            raise self.error()
        memory = len(self.batches) if self.remembers else 0
        return [chunk + np.float32(memory) for chunk in super().predict(batch)]

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed = True


class Replicas:
    """The replicas of a policy, by device."""

    def __init__(self, folder: Path, devices: Sequence[str] = ("a", "b"), **spec: Any) -> None:
        (folder / "policy.json").write_text(HOLD)
        self.made: dict[str, Replica] = {}
        self._folder, self._spec = folder, spec
        self.policy = ReplicatedPolicy(self._load, devices)

    def _load(self, device: str) -> Replica:
        self.made[device] = made = Replica(self._folder, device)
        made.spec = replace(made.spec, **self._spec)
        return made


def observe(value: float) -> PolicyObservation:
    return PolicyObservation(np.array([value], np.float32), {}, "")


def ask(policy: ReplicatedPolicy, sessions: Sequence[Any]) -> list[float]:
    """Let each session ask with its number; return the first action of each answer."""
    inputs = [session.pre(observe(number)) for number, session in enumerate(sessions)]
    return [float(chunk[0, 0]) for chunk in policy.predict(inputs)]


def test_sessions_are_spread_and_each_gets_its_own_answer_in_the_order_of_the_batch(tmp_path: Path):
    replicas = Replicas(tmp_path, ["a", "b", "c"])
    sessions = [replicas.policy.make_processors() for _ in range(6)]
    assert ask(replicas.policy, sessions) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert [made.batches for made in replicas.made.values()] == [[2], [2], [2]]
    replicas.policy.close()


def test_a_session_that_has_ended_leaves_room_on_its_replica(tmp_path: Path):
    replicas = Replicas(tmp_path)
    sessions = [replicas.policy.make_processors() for _ in range(6)]
    kept = sessions[::2]  # all on one of the two
    del sessions
    kept += [replicas.policy.make_processors() for _ in range(3)]
    ask(replicas.policy, kept)
    assert Counter({device: sum(made.batches) for device, made in replicas.made.items()}) == {"a": 3, "b": 3}
    replicas.policy.close()


def test_the_replicas_compute_at_the_same_time_and_each_on_one_thread_of_its_own(tmp_path: Path):
    replicas = Replicas(tmp_path)
    barrier = threading.Barrier(2)
    for made in replicas.made.values():
        made.barrier = barrier
    ask(replicas.policy, [replicas.policy.make_processors() for _ in range(2)])
    replicas.policy.reset()
    replicas.policy.close()
    threads = [made.threads for made in replicas.made.values()]
    assert [len(found) for found in threads] == [1, 1]
    assert len(set.union(*threads) | {threading.get_ident()}) == 3


def test_a_batch_is_as_many_times_larger_as_there_are_replicas_also_when_one_gets_it_all(tmp_path: Path):
    replicas = Replicas(tmp_path)
    assert replicas.policy.spec.max_batch == 4
    sessions = [replicas.policy.make_processors() for _ in range(8)]
    assert ask(replicas.policy, sessions[::2]) == [0.0, 1.0, 2.0, 3.0]
    assert sorted(made.batches for made in replicas.made.values()) == [[], [2, 2]]
    replicas.policy.close()


def test_what_a_replica_raises_is_raised_when_all_have_answered(tmp_path: Path):
    replicas = Replicas(tmp_path)
    replicas.made["a"].error = partial(PolicyError, "a is broken")
    sessions = [replicas.policy.make_processors() for _ in range(4)]
    with pytest.raises(PolicyError, match="a is broken"):
        ask(replicas.policy, sessions)
    assert replicas.made["b"].batches == [2]
    replicas.policy.close()
    assert all(made.closed for made in replicas.made.values())


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("problem", ["", "CUDA out of memory"])
def test_a_batch_is_freed_when_it_was_answered_or_has_failed(tmp_path: Path, problem: str):
    replicas = Replicas(tmp_path)
    for made in replicas.made.values():
        made.error = partial(RuntimeError, problem) if problem else None
    found = ""
    try:
        ask(replicas.policy, [replicas.policy.make_processors() for _ in range(4)])
    except RuntimeError as error:
        found = str(error)
    assert found == problem
    assert [[one() for one in made.memory] for made in replicas.made.values()] == [[None] * 3] * 2
    replicas.policy.close()


def lose(replicas: Replicas, device: str) -> list[Any]:
    """Let a replica lose its device at a robot's request; return a session of each replica, in order."""
    sessions = [replicas.policy.make_processors() for _ in replicas.made]
    replicas.made[device].error = partial(DeviceLostError, LOST)
    with pytest.raises(DeviceLostError, match=LOST):
        ask(replicas.policy, sessions)
    return sessions


def test_a_replica_whose_device_is_lost_gets_no_new_sessions_while_another_is_there(tmp_path: Path):
    replicas = Replicas(tmp_path)
    lose(replicas, "b")
    before = list(replicas.made["b"].batches)
    assert ask(replicas.policy, [replicas.policy.make_processors() for _ in range(4)]) == [0.0, 1.0, 2.0, 3.0]
    assert replicas.made["b"].batches == before
    lose(replicas, "a")
    with pytest.raises(DeviceLostError, match=f": {LOST}"):
        ask(replicas.policy, [replicas.policy.make_processors()])
    replicas.policy.close()


def test_a_batch_with_an_input_of_a_lost_replica_fails_at_once_and_the_others_inputs_are_answered_without(
    tmp_path: Path,
):
    replicas = Replicas(tmp_path)
    sessions = lose(replicas, "b")
    before = {device: list(made.batches) for device, made in replicas.made.items()}
    for asking in (sessions, sessions[1:]):
        with pytest.raises(DeviceLostError, match=f"^b: {LOST}$"):
            ask(replicas.policy, asking)
    assert {device: made.batches for device, made in replicas.made.items()} == before
    assert ask(replicas.policy, sessions[:1]) == [0.0]
    replicas.policy.close()


def test_that_a_device_is_lost_is_raised_before_what_another_replica_raises(tmp_path: Path):
    replicas = Replicas(tmp_path)
    replicas.made["a"].error = partial(PolicyError, "a is broken")
    lose(replicas, "b")
    replicas.policy.close()


class LostProcessors(HoldProcessors):
    """Finds the device lost when it puts an observation there."""

    def pre(self, observation: PolicyObservation) -> Float32Array:
        raise RuntimeError(LOST)


def test_a_replica_whose_processors_find_the_device_lost_gets_no_new_sessions(tmp_path: Path):
    replicas = Replicas(tmp_path)
    replicas.made["a"].make_processors = lambda: LostProcessors([0], [])  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match=LOST):
        replicas.policy.make_processors().pre(observe(0.0))
    assert ask(replicas.policy, [replicas.policy.make_processors() for _ in range(2)]) == [0.0, 1.0]
    replicas.policy.close()


def test_each_replica_is_tried_once_with_the_largest_call_that_it_may_get(tmp_path: Path):
    """The warm-up's sessions are evenly spread, the robots' may all be on one replica."""
    replicas = Replicas(tmp_path, max_batch=4)
    sessions = [replicas.policy.make_processors() for _ in range(4)]
    for _ in range(2):
        assert ask(replicas.policy, sessions) == [0.0, 1.0, 2.0, 3.0]
    assert [made.batches for made in replicas.made.values()] == [[4, 2, 2]] * 2
    replicas.policy.close()


def test_when_one_replica_cannot_be_loaded_the_others_are_freed(tmp_path: Path):
    (tmp_path / "policy.json").write_text(HOLD)
    made = []

    def load(device: str) -> Replica:
        if device == "b":
            raise PolicyError("b has no memory left")
        made.append(Replica(tmp_path, device))
        return made[0]

    with pytest.raises(PolicyError, match="b has no memory left"):
        ReplicatedPolicy(load, ["a", "b"])
    assert made[0].closed


def test_a_policy_that_serves_one_robot_at_a_time_has_no_replicas(tmp_path: Path):
    with pytest.raises(PolicyError, match=r"model.replicas: found 2, expected none: hold serves one robot"):
        Replicas(tmp_path, serving_mode=ServingMode.EXCLUSIVE)


def test_a_policy_that_may_draw_from_generators_of_the_whole_process_has_no_replicas(tmp_path: Path):
    words = (
        r"model.replicas: found 2, expected none: hold samples with max_batch 1, and so may draw from "
        r"generators of random numbers that all replicas would share"
    )
    with pytest.raises(PolicyError, match=words):
        Replicas(tmp_path, samples=True, max_batch=1)
    for spec in ({"samples": False, "max_batch": 1}, {"samples": True, "max_batch": 2}):
        Replicas(tmp_path, **spec).policy.close()


def test_a_policy_that_is_found_to_remember_has_no_replicas(tmp_path: Path):
    replicas = Replicas(tmp_path)
    for made in replicas.made.values():
        made.remembers = True
    manifest = manifest_of(backend="hold", replicas=["a", "b"])
    decoder = RequestDecoder(manifest, replicas.policy.spec)
    rehearsal = Rehearsal(replicas.policy, decoder, *sample_batch(replicas.policy.spec, ""))
    clock = iter(range(1000))
    with pytest.raises(
        PolicyError, match=r"model.replicas: found a, b, expected none: hold is served to one robot"
    ):
        make_ready(replicas.policy, rehearsal, manifest, lambda: next(clock))
    replicas.policy.close()


def manifest_of(scheduler: str = "micro_batch", weights: Any = None, **model: Any) -> Manifest:
    content = {"model": {"path": "x", **model}, "scheduler": scheduler, "max_sessions": 4}
    return parse_document({**content, **({} if weights is None else {"weights": weights})}, Manifest, "m")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scheduler": "round_robin"}, "model.replicas: found .* with scheduler 'round_robin', expected one"),
        ({"weights": {}}, "model.replicas: found .* with weights, expected one of the two"),
        ({"device": "cpu"}, "replicas: found .* and device 'cpu', expected one of the two keys"),
    ],
)
def test_replicas_fit_the_rest_of_the_manifest(changes: dict[str, Any], words: str):
    with pytest.raises(DocumentError, match=words):
        manifest_of(**{"backend": "hold", "replicas": ["cpu", "cpu"], **changes})


COMPILING = """
from dataclasses import replace
import torch
from remote_inference.server.policies.hold import HoldPolicy

DTYPES = {"a": torch.float32, "b": torch.float64, "c": torch.float16}
compiled = []

def note(graph, inputs):
    (add,) = (node for node in graph.graph.nodes if node.op == "call_function")
    compiled.append((inputs[0].dtype, add.args[1]))
    return graph.forward

@torch.compile(backend=note)
def compute(states, text):
    return states + len(text)

class Compiling(HoldPolicy):
    def __init__(self, source):
        super().__init__(source.path)
        self.dtype = DTYPES[source.device]  # another one compiles anew, as another device does

    def predict(self, batch):
        # A text makes torch compile anew for each size. So does `dynamic=False`, for which each call sets
        # torch's configuration, and back: of several threads one may leave it as another has set it.
        compute(torch.zeros(1, dtype=self.dtype), "x" * len(batch))
        return super().predict(batch)
"""


def test_torch_compiles_for_each_replica_what_it_compiles_for_a_policy_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "compiling_policies.py").write_text(COMPILING)
    (tmp_path / "policy.json").write_text(HOLD)
    monkeypatch.syspath_prepend(str(tmp_path))
    model: Any = {"backend": "compiling_policies:Compiling", "path": str(tmp_path)}
    policy: Any = load_policy(ModelSource(**model, replicas=("a", "b", "c"), options={"compile": True}))
    sessions = [policy.make_processors() for _ in range(12)]
    for count in range(3, 13, 3):  # 1 to 4 for each replica
        ask(policy, sessions[:count])
    policy.close()
    made = importlib.import_module("compiling_policies")
    wanted = {(dtype, size) for dtype in made.DTYPES.values() for size in (1, 2, 3, 4)}
    assert wanted - {*made.compiled} == set(), f"in this order: {made.compiled}"


BACKWARD = """
import sys, threading
import numpy as np, torch
from remote_inference.base.policy import PolicyObservation
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies import load_policy

model = {"backend": "compiling_policies:Compiling", "path": sys.argv[1], "options": {"compile": True}}
policy = load_policy(ModelSource(**model, replicas=("a", "b")))
sessions = [policy.make_processors() for _ in range(2)]
policy.predict([one.pre(PolicyObservation(np.zeros(1, np.float32), {}, "")) for one in sessions])
policy.close()
others = [threading.Thread(target=lambda: [bytes(40) for _ in range(100)]) for _ in range(20)]
for other in others:  # in the memory of the replicas' threads
    other.start()
for other in others:
    other.join()
(2.0 * torch.ones(3, requires_grad=True)).sum().backward()
"""


def test_a_backward_pass_outlives_the_threads_that_have_compiled(tmp_path: Path):
    """With a torch that was built for a GPU, on a machine without one, it ended the process."""
    torch = importlib.import_module("torch")
    if torch.version.cuda is None or torch.cuda.is_available():
        pytest.skip("needs a torch for CUDA and no GPU; there: make test-policies ARGS='-k backward'")
    (tmp_path / "compiling_policies.py").write_text(COMPILING)
    (tmp_path / "policy.json").write_text(HOLD)
    folders = os.pathsep.join([str(tmp_path), *sys.path])
    words = [sys.executable, "-c", BACKWARD, str(tmp_path)]
    ended = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": folders}, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr


def test_a_network_on_two_devices_answers_as_one_alone():
    plain: Any = {"backend": "chunk_network", "path": str(SHIPPED_PLAIN_POLICY)}
    alone = load_policy(ModelSource(**plain, device=DEVICE))
    both = load_policy(ModelSource(**plain, replicas=(DEVICE, "cpu")))
    assert (both.spec.fingerprint, both.spec.max_batch) == (alone.spec.fingerprint, 2 * alone.spec.max_batch)
    rng = np.random.default_rng(0)
    images = {name: rng.integers(0, 256, shape, np.uint8) for name, shape in alone.spec.image_shapes.items()}
    observations = [PolicyObservation(rng.normal(size=6).astype(np.float32), images, "") for _ in range(4)]
    answers = []
    for policy in (alone, both):
        sessions = [policy.make_processors() for _ in observations]
        prepared = [session.pre(one) for session, one in zip(sessions, observations, strict=True)]
        chunks = policy.predict(prepared)
        answers.append([session.post(chunk) for session, chunk in zip(sessions, chunks, strict=True)])
        policy.close()
    np.testing.assert_allclose(*answers, atol=1e-5)
