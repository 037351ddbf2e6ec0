# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A loaded LeRobot policy: batches, seeds and real-time chunking around its one call."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from remote_inference.core.device_loss import naming_loss
from remote_inference.core.policy import (
    Float32Array,
    PastStep,
    PolicyError,
    PolicyObservation,
    PolicySpec,
)
from remote_inference.policies.lerobot.processors import LeRobotInput, LeRobotProcessors, PairMaker
from remote_inference.policies.lerobot.rtc import install as install_rtc

MAX_BATCH = 32


class LeRobotPolicy:
    """Serves a network of LeRobot's.

    spec: all but the number of rows of a chunk, and of inputs in a batch, which a trial shows. noise_shape:
    of the noise `[rows, columns]` that the network takes, or None. compiled: modules or methods of the
    network, by their path, that torch compiles. Raises PolicyError when the network does not answer with
    chunks.
    """

    def __init__(
        self,
        network: Any,
        spec: PolicySpec,
        pairs: PairMaker,
        noise_shape: tuple[int, int] | None,
        compiled: Sequence[str] = (),
    ) -> None:
        self.spec = spec
        self._network = network
        self._pairs = pairs
        self._device = pairs.device
        self._noise_shape = noise_shape
        self._rtc = install_rtc(network) if spec.supports_rtc else None
        self._repeats = True  # whether equal inputs with equal noise get equal chunks
        for path in compiled:
            _compile(network, path)
        self._try()
        if compiled:
            self._warm_up()

    def make_processors(self) -> LeRobotProcessors:
        return self._pairs.make_processors(self.spec.chunk_size if self.spec.supports_rtc else 0)

    def predict(self, batch: Sequence[LeRobotInput]) -> list[Float32Array]:
        """Return one chunk `[chunk_size, action_dim]` per input, as the network gives it.

        Inputs with different prefixes and delays share a call. A network that draws random numbers of its own
        is asked input by input.
        """
        if not 0 < len(batch) <= self.spec.max_batch:
            raise PolicyError(f"batch: expected 1 to {self.spec.max_batch} inputs, found {len(batch)}")
        calls = [batch] if self._repeats else [[sample] for sample in batch]
        with naming_loss():
            return [chunk for samples in calls for chunk in self._answer(samples, samples[0].seed)]

    def weights(self) -> Mapping[str, torch.Tensor]:
        tensors: Mapping[str, torch.Tensor] = self._network.state_dict()
        return tensors

    def check_weights(self) -> None:
        """Do nothing: the processors' statistics are not among the weights."""

    def reset(self) -> None:
        self._network.reset()

    def close(self) -> None:
        """Free the network's memory, on a GPU also the memory that torch caches."""
        free(self._network, self._device)

    @torch.no_grad()
    def _answer(self, samples: Sequence[LeRobotInput], torch_seed: int) -> list[Float32Array]:
        """Return the chunks of samples, in one call of the network.

        torch_seed: of what the network draws besides the samples' noise.
        """
        arguments: dict[str, Any] = {}
        if self._noise_shape is not None:
            noise = [_draw(self._noise_shape, sample.seed) for sample in samples]
            arguments["noise"] = torch.stack(noise).to(self._device)
        if self._rtc is not None and any(sample.prefix is not None for sample in samples):
            arguments |= self._rtc.guide(samples, arguments["noise"])
        with _seeded(self._device, torch_seed):
            chunks = self._network.predict_action_chunk(_collate(samples), **arguments)
        return list(chunks.float().cpu().numpy())

    def _try(self) -> None:
        """Find rows and repeatability of the chunks by a trial; neither is in a checkpoint."""
        name = self.spec.name
        processors = self.make_processors()
        try:
            sample = processors.pre(self._make_observation())
            first, second = (self._answer([sample], torch_seed)[0] for torch_seed in (1, 2))
            columns = {first.shape[-1], processors.post(first).shape[-1]}
        except Exception as error:  # LeRobot raises what it likes
            problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            problem = ""
        if problem:  # outside the handler: the exception would hold the network's memory
            raise PolicyError(f"{name}: cannot predict a chunk: {problem}")
        if columns != {self.spec.action_dim}:
            raise PolicyError(
                f"{name}: answers with {' and '.join(map(str, sorted(columns)))} columns, expected "
                f"{self.spec.action_dim}: {', '.join(self.spec.action_names)}"
            )
        self._repeats = bool(np.array_equal(first, second))
        self.spec = replace(
            self.spec,
            chunk_size=len(first),
            max_batch=MAX_BATCH if self._repeats else 1,
            samples=not self._repeats or self._noise_shape is not None,
        )
        self._network.reset()

    def _warm_up(self) -> None:
        """Let torch compile now for single requests and batches, with and without prefixes.

        No robot waits for it later: the server's own warm-up continues no prefix.
        """
        processors, observation = self.make_processors(), self._make_observation()
        first = processors.pre(observation)
        chunk = self.predict([first])[0]
        samples = [first]
        if self._rtc is not None:
            robot = processors.post(chunk)
            continued = replace(observation, prefix_model=chunk, prefix_robot=robot, inference_delay_steps=1)
            samples.append(processors.pre(continued))
        for sample in samples:
            for count in range(1, min(self.spec.max_batch, 2) + 1):
                self.predict([sample] * count)
        self._network.reset()

    def _make_observation(self) -> PolicyObservation:
        """Return an observation of zeros."""
        state = np.zeros(len(self.spec.state_names), np.float32)
        images = {feature: np.zeros(shape, np.uint8) for feature, shape in self.spec.image_shapes.items()}
        past = [PastStep(state, images)] * (self.spec.observation_steps - 1)
        return PolicyObservation(state, images, task="try", past=past)


def _compile(network: Any, path: str) -> None:
    """Let torch compile a module or a method of a network when it is first used."""
    owner_path, _, name = path.rpartition(".")
    owner = network.get_submodule(owner_path)
    part = getattr(owner, name)
    if isinstance(part, torch.nn.Module):
        part.compile()
    else:
        setattr(owner, name, torch.compile(part))


def free(network: Any, device: torch.device) -> None:
    """Free a network's memory, whoever still refers to the network."""
    network.to("meta")
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _collate(samples: Sequence[LeRobotInput]) -> dict[str, Any]:
    """Return the samples as one batch; a network may change it."""
    first: Mapping[str, Any] = samples[0].batch
    return {
        key: torch.cat([sample.batch[key] for sample in samples])
        if isinstance(value, torch.Tensor)
        else [text for sample in samples for text in sample.batch[key]]
        for key, value in first.items()
    }


def _draw(shape: tuple[int, int], seed: int) -> torch.Tensor:
    """Return standard normal noise, the same on every device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed % 2**63))


@contextmanager
def _seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Let torch draw from a seed within, and go on outside as if nothing had been drawn."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed % 2**63)
        yield
