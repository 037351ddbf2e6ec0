# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A loaded LeRobot policy: batches, seeds and real-time chunking around its one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from lerobot.policies.rtc import RTCProcessor

from remote_inference.base.policy import Float32Array, PastStep, PolicyError, PolicyObservation, PolicySpec
from remote_inference.server.policies.file_content import one_line
from remote_inference.server.policies.lerobot.processors import (
    LeRobotInput,
    LeRobotProcessors,
    ProcessorFactory,
)
from remote_inference.server.policies.torch_device import free_network
from remote_inference.server.policies.trained_policy import require_batch
from remote_inference.server.policy_error import raise_device_loss


class BatchRTC(RTCProcessor):  # type: ignore[misc]  # LeRobot is not there where types are checked
    """LeRobot's guidance, in which each request of a batch has its own prefix and delay.

    LeRobot takes prefixes of one length and a single delay, from which it makes the weight of each action of
    a chunk. It treats all actions alike but for these weights, so a batch goes through it as one long chunk:
    the actions of all requests, one request after the other, and their weights.
    """

    def guide(self, samples: Sequence[LeRobotInput], noise: torch.Tensor) -> dict[str, Any]:
        """Return the arguments of `predict_action_chunk` with which each sample continues its prefix.

        noise: of the samples, `[batch, rows, columns]`. A sample without a prefix has weights of 0.
        """
        held = torch.zeros_like(noise)
        weights = []
        for chunk, sample in zip(held, samples, strict=True):
            rows = 0 if sample.prefix is None else len(sample.prefix)
            if sample.prefix is not None:
                chunk[:rows, : sample.prefix.shape[1]] = sample.prefix
            end = min(self.rtc_config.execution_horizon, rows)
            weights.append(super().get_prefix_weights(sample.delay_steps, end, len(chunk)))
        return {"prev_chunk_left_over": held, "inference_delay": torch.cat(weights).to(noise.device)}

    def denoise_step(
        self,
        x_t: torch.Tensor,
        *,
        prev_chunk_left_over: torch.Tensor | None,
        inference_delay: torch.Tensor | None,
        time: float,
        original_denoise_step_partial: Callable[[torch.Tensor], torch.Tensor],
        execution_horizon: int | None = None,
    ) -> torch.Tensor:
        """Return the guided velocity of a batch, shaped as `x_t` `[batch, rows, columns]`.

        prev_chunk_left_over, inference_delay: as `guide` returns them, or None for an unguided velocity.
        """
        if prev_chunk_left_over is None:
            return original_denoise_step_partial(x_t)

        def denoise(joined: torch.Tensor) -> torch.Tensor:
            return _join(original_denoise_step_partial(joined.reshape(x_t.shape)))

        guided: torch.Tensor = super().denoise_step(
            _join(x_t), _join(prev_chunk_left_over), inference_delay, time, denoise, execution_horizon
        )
        return guided.reshape(x_t.shape)

    def get_prefix_weights(self, start: torch.Tensor, end: int, total: int) -> torch.Tensor:  # noqa: ARG002
        """Return the weights `[total]` of `guide`: LeRobot hands on as `start` what it got as the delay."""
        return start


def _join(batch: torch.Tensor) -> torch.Tensor:
    """Return the chunks `[batch, rows, columns]` as one, `[1, batch * rows, columns]`."""
    return batch.flatten(0, 1)[None]


MAX_BATCH = 32


class LeRobotPolicy:
    """Serves a network of LeRobot's.

    spec: all but chunk_size and max_batch, which a trial shows. noise_shape: of the noise
    `[actions, columns]` that the network takes, or None. compiled: modules or methods of the network, by
    their path, that torch compiles. Raises PolicyError when the network does not answer with chunks.
    """

    def __init__(
        self,
        network: Any,
        spec: PolicySpec,
        pairs: ProcessorFactory,
        noise_shape: tuple[int, int] | None,
        compiled: Sequence[str] = (),
    ) -> None:
        self.spec = spec
        self._network = network
        self._pairs = pairs
        self._device = pairs.device
        self._noise_shape = noise_shape
        self._rtc: BatchRTC | None = None
        if spec.supports_rtc:
            self._rtc = BatchRTC(network.config.rtc_config)
            network.rtc_processor = network.model.rtc_processor = self._rtc
        self._repeats = True  # whether equal inputs with equal noise get equal chunks
        for path in compiled:
            _compile(network, path)
        self._try()
        if compiled:
            self._warm_up()

    def make_processors(self) -> LeRobotProcessors:
        return LeRobotProcessors(self._pairs, self.spec.chunk_size if self.spec.supports_rtc else 0)

    def predict(self, batch: Sequence[LeRobotInput]) -> list[Float32Array]:
        """Return one chunk `[chunk_size, action_dim]` per input, as the network gives it.

        Inputs with different prefixes and delays share a call. A network that draws random numbers of its own
        is asked input by input.
        """
        require_batch(batch, self.spec.max_batch)
        calls = [batch] if self._repeats else [[sample] for sample in batch]
        with raise_device_loss():
            return [chunk for samples in calls for chunk in self._answer(samples, samples[0].seed)]

    def weights(self) -> Mapping[str, torch.Tensor]:
        tensors: Mapping[str, torch.Tensor] = self._network.state_dict()
        return tensors

    def check_weights(self) -> None:
        """Do nothing: the processors' statistics are not among the weights."""

    def reset(self) -> None:
        self._network.reset()

    def close(self) -> None:
        free_network(self._network, self._device)

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
        """Find the chunk size and repeatability by a trial; neither is in a checkpoint."""
        name = self.spec.name
        processors = self.make_processors()
        problem = ""
        try:
            sample = processors.pre(self._make_observation())
            first, second = (self._answer([sample], torch_seed)[0] for torch_seed in (1, 2))
            columns = {first.shape[-1], processors.post(first).shape[-1]}
        except Exception as error:  # LeRobot raises what it likes
            problem = f"{type(error).__name__}: {one_line(error)}"
        if problem:  # outside the handler: the exception would hold the network's memory
            raise PolicyError(f"{name}: cannot predict a chunk: {problem}")
        if columns != {self.spec.action_dim}:
            found = " and ".join(map(str, sorted(columns)))
            expected = f"{self.spec.action_dim}: {', '.join(self.spec.action_names)}"
            raise PolicyError(f"{name}: answers with {found} columns, expected {expected}")
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
    """Seed torch within, and restore its generators afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed % 2**63)
        yield
