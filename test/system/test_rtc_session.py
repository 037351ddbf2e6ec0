# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Real-time chunking between real nodes: the robot sends a prefix, and the server's chunk continues it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from remote_inference.base.admission import make_offer
from remote_inference.base.contract.contract import load_contract
from remote_inference.base.policy import PolicyObservation
from remote_inference.base.wire.qos import CHUNK_TOPIC, OBSERVATION_TOPIC
from remote_inference.msg import ActionChunk, ExecutedAction, Observation
from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.policies.networks.torch_chunk import FlowConfig, TorchChunkPolicy, save_policy
from remote_inference.server.requests.request_decoder import RequestDecoder
from support.nodes.decision_tape import DecisionTape
from support.nodes.rig import DEEP_QOS, JOINTS, POLICY, Rig, write_contract, write_manifest


def save_flow_policy(folder: Path) -> TorchChunkPolicy:
    document = {**POLICY, "architecture": "flow_network", "channels": [2, 2, 2], "execution_horizon": 15}
    config = FlowConfig.parse(json.dumps(document).encode(), folder)
    torch.manual_seed(0)
    network = config.make_network()
    with torch.no_grad():
        for layer in network.head[::2]:
            layer.weight.mul_(2.0)  # random weights as they begin ignore the prefix
    save_policy(folder, config, network)
    return TorchChunkPolicy(folder)


def predict(policy: TorchChunkPolicy, observation: PolicyObservation) -> np.ndarray:
    return policy.predict([policy.make_processors().pre(observation)])[0]


def assert_continues(prefix: np.ndarray, before: np.ndarray, newest: np.ndarray) -> None:
    """Check that a prefix is the end of the newest chunk.

    It begins with the rows executed since the capture: those before the merge are of the chunk before.
    """
    of_newest = int((prefix == newest[-len(prefix) :]).all(axis=1).argmax())
    np.testing.assert_array_equal(prefix[of_newest:], newest[-len(prefix) + of_newest :])
    windows = [before[row : row + of_newest] for row in range(len(before) - of_newest + 1)]
    assert any(np.array_equal(prefix[:of_newest], window) for window in windows)


def test_a_flow_policy_is_granted_rtc_continues_the_prefix_and_replaces_the_queue(rig: Rig, tmp_path: Path):
    policy = save_flow_policy(tmp_path / "flow")
    requests: list[Observation] = []
    chunks: list[ActionChunk] = []
    rig.subscribe(Observation, OBSERVATION_TOPIC, requests.append, DEEP_QOS)
    rig.subscribe(ActionChunk, CHUNK_TOPIC, chunks.append, DEEP_QOS)
    model = {"backend": "chunk_network", "path": "flow"}
    manifest = write_manifest(tmp_path, model=model, inject_latency_ms=150.0)
    contract = write_contract(tmp_path)
    tape = DecisionTape(rig)
    rig.start_server(manifest)
    rig.start_robot(contract, buffer_time_s=0.4)
    steps: dict[int, list[int]] = {}

    def find_continued() -> list[Observation]:
        """Return the answered requests whose prefix outlasts the delay, which a busy machine may prevent."""
        answered = {chunk.seq_id for chunk in tuple(chunks)}
        steps.clear()
        for tick in tuple(rig.executed):
            if tick.source == ExecutedAction.CHUNK:
                steps.setdefault(tick.seq_id, []).append(tick.step_index)
        seen = answered & steps.keys()  # a chunk may be lost on its way to the robot or to this test
        return [
            request
            for request in tuple(requests)
            if request.seq_id > 5
            and {request.seq_id, request.seq_id - 1, request.seq_id - 2} <= seen
            and request.prefix_length > request.inference_delay_steps
        ]

    def find_replaced() -> list[int]:
        """Return those whose successor was executed, too."""
        found = find_continued()
        answered = {chunk.seq_id for chunk in tuple(chunks)}
        return [r.seq_id for r in found if {r.seq_id, r.seq_id + 1} <= answered & steps.keys()]

    rig.wait_for(lambda: len(find_continued()) > 2 and find_replaced(), "continued prefixes")
    continued = find_continued()
    answers = {chunk.seq_id: np.array(chunk.chunk_model).reshape(-1, len(JOINTS)) for chunk in chunks}
    decoder, offer = RequestDecoder(load_manifest(manifest), policy.spec), make_offer(load_contract(contract))
    for request in continued:
        prefix = np.array(request.prefix_model, np.float32).reshape(request.prefix_length, len(JOINTS))
        assert len(prefix) > request.inference_delay_steps > 3
        assert_continues(prefix, answers[request.seq_id - 2], answers[request.seq_id - 1])
        chunk = answers[request.seq_id]
        observation = decoder.observation(request, offer)
        np.testing.assert_allclose(chunk, predict(policy, observation), atol=1e-3)
        assert np.abs(chunk - predict(policy, replace(observation, prefix_model=None))).max() > 0.01

    replaced = [r.seq_id for r in continued if {r.seq_id, r.seq_id + 1} <= answers.keys() & steps.keys()]
    assert replaced
    for seq_id in replaced:
        first, *_, last = steps[seq_id]
        assert first > 3, "the rows that passed on the way are dropped"
        assert last < policy.spec.chunk_size - 1, "the next chunk takes the place of what is queued"

    rig.group.stop()
    assert tape.check(tmp_path).compared["requests"] > 5


def test_a_cold_robot_tells_the_latency_from_its_first_request_on(rig: Rig, tmp_path: Path):
    policy = save_flow_policy(tmp_path / "flow")
    requests: list[Observation] = []
    rig.subscribe(Observation, OBSERVATION_TOPIC, requests.append, DEEP_QOS)
    model = {"backend": "chunk_network", "path": "flow"}
    rig.start_robot(write_contract(tmp_path), buffer_time_s=0.4)
    rig.wait_for(lambda: rig.node.count_publishers(OBSERVATION_TOPIC), "the topic of the first request")
    rig.start_server(write_manifest(tmp_path, model=model, inject_latency_ms=600.0))
    rig.wait_for(lambda: len(requests) >= 3, "requests")
    assert requests[0].seq_id == 1
    for request in requests:
        assert request.inference_delay_steps >= 0.6 * policy.spec.trained_fps
