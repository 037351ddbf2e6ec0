# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes a chunk policy as an ONNX file, and compares what the file answers with what torch answers."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

from remote_inference.base.policy import Continuation, PolicyError, PolicyObservation, PolicySpec
from remote_inference.server.policies.networks.chunk_network import ObservationNetwork
from remote_inference.server.policies.networks.rtc_network import ActionPrefix, FlowNetwork, PrefixNetwork
from remote_inference.server.policies.networks.torch_chunk import TorchChunkPolicy
from remote_inference.server.policies.onnx.file import (
    ACTIONS,
    DELAY,
    DELAY_INPUTS,
    EXECUTED,
    METADATA_KEY,
    MODEL_FILE,
    NOISE,
    PREFIX,
    STATE,
    OnnxDescription,
)
from remote_inference.server.policies.onnx.policy import OnnxPolicy
from remote_inference.server.policies.trained_policy import TrainedPolicy

TOLERANCE = 1e-4  # of normalised actions
_COMPARED = 8  # requests


class _Graph(nn.Module):
    """The graph of a network, from the tensors named `inputs` and the images to normalised actions.

    That of a flow network has its sampling loop. Guidance is left out: it needs gradients.
    """

    def __init__(self, network: ObservationNetwork) -> None:
        super().__init__()
        self.network = network
        delay_inputs = DELAY_INPUTS if isinstance(network, PrefixNetwork) else ()
        self.inputs = (*((NOISE,) if network.samples else ()), *delay_inputs, STATE)

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        network, given = self.network, dict(zip(self.inputs, tensors, strict=False))
        images, state = tensors[len(self.inputs) :], given[STATE]
        actions: torch.Tensor
        if isinstance(network, PrefixNetwork):
            prefix = ActionPrefix(*(given[name] for name in DELAY_INPUTS))
            actions = network.continue_prefix(images, state, prefix, given.get(NOISE, state.new_zeros(0)))
        elif isinstance(network, FlowNetwork):
            actions = network.sample(network.observe(images, state), given[NOISE])
        else:
            actions = network(images, state)
        return actions


@dataclass(frozen=True)
class Export:
    """What was written, and how far its answers are from torch's, in normalised actions."""

    path: Path
    spec: PolicySpec
    largest_difference: float
    left_out: Continuation  # how the exported policy does not continue prefixes, although the source does


def export_policy(source: Path, folder: Path) -> Export:
    """Write the chunk policy at `source`, a folder or a weights file, to `model.onnx` in `folder`.

    A file of that name is replaced, once the new one is proven. Raises PolicyError or DocumentError when the
    policy cannot be loaded or exported, and when the file answers otherwise than the policy.
    """
    policy = TorchChunkPolicy(source)
    model = _convert(policy)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".export_") as scratch:
        candidate = Path(scratch) / MODEL_FILE
        candidate.write_bytes(model.SerializeToString(deterministic=True))
        exported = OnnxPolicy(candidate)
        difference = _compare(policy, exported)
        if not difference <= TOLERANCE:
            found = f"{source}: the exported policy's actions differ by {difference:.3g} from the policy's"
            raise PolicyError(f"{found}, expected at most {TOLERANCE:g}: nothing was written")
        os.replace(candidate, folder / MODEL_FILE)
    continuation = policy.spec.continuation
    left_out = Continuation.NONE if exported.spec.continuation is continuation else continuation
    return Export(folder / MODEL_FILE, exported.spec, difference, left_out)


def _convert(policy: TorchChunkPolicy) -> onnx.ModelProto:
    config, network = policy.config, policy.network
    size = 2  # torch takes the dimension of a batch of 1 for a fixed one
    state = torch.zeros(size, len(config.state_names))
    noise = torch.zeros(size, config.chunk_size, len(config.action_names))
    images = [torch.zeros(size, 3, *shape[:2], dtype=torch.uint8) for shape in config.image_features.values()]
    tensors = {STATE: state, NOISE: noise}
    if isinstance(network, PrefixNetwork):
        tensors[PREFIX] = torch.zeros(size, network.max_delay_steps, noise.shape[2])
        tensors |= {name: torch.zeros(size, dtype=torch.int64) for name in (EXECUTED, DELAY)}
    graph = _Graph(network).eval()
    arguments = (*(tensors[name] for name in graph.inputs), *images)
    batch = {0: torch.export.Dim("batch")}
    with _quiet():
        program = torch.onnx.export(
            graph,
            arguments,
            input_names=[*graph.inputs, *config.image_features],
            output_names=[ACTIONS],
            dynamic_shapes=(tuple(batch for _ in arguments),),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    _remove_source_notes(model)
    description = OnnxDescription(
        format=1,
        **{key: getattr(config, key) for key in TrainedPolicy.model_fields},
        action_mean=tuple(network.action_mean.tolist()),
        action_std=tuple(network.action_std.tolist()),
    )
    onnx.helper.set_model_props(model, {METADATA_KEY: description.model_dump_json()})
    return model


def _remove_source_notes(model: onnx.ModelProto) -> None:
    """Remove the notes on where in the source a node comes from: paths of the machine that exports."""
    del model.metadata_props[:]
    for item in (*model.graph.node, *model.graph.value_info, *model.graph.initializer, model.graph):
        del item.metadata_props[:]
        item.ClearField("doc_string")


@contextmanager
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _compare(policy: TorchChunkPolicy, exported: OnnxPolicy) -> float:
    """Return the largest difference of normalised actions over some requests, in one batch and alone."""
    spec, rng = policy.spec, np.random.default_rng(0)
    mean, std = (tensor.numpy() for tensor in (policy.network.state_mean, policy.network.state_std))
    continues = exported.spec.continuation is Continuation.TRAINED
    observations = [
        PolicyObservation(
            state=(mean + std * rng.standard_normal(mean.shape)).astype(np.float32),
            images={name: rng.integers(0, 256, shape, np.uint8) for name, shape in spec.image_shapes.items()},
            task="",
            prefix_model=rng.standard_normal((2 * seed, spec.action_dim), np.float32) if continues else None,
            inference_delay_steps=3 * seed,
            seed=seed,
        )
        for seed in range(_COMPARED)
    ]
    pre = exported.make_processors().pre
    inputs = [pre(observation) for observation in observations]
    expected = np.stack(policy.predict(inputs))
    together = np.stack(exported.predict(inputs))
    alone = np.stack([exported.predict([one])[0] for one in inputs])
    return float(max(np.abs(together - expected).max(), np.abs(alone - expected).max()))
