# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot without the package: the answers that the back end's are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.rtc import RTCConfig, reanchor_relative_rtc_prefix
from lerobot.policies.utils import prepare_observation_for_inference
from lerobot.processor import NormalizerProcessorStep, RelativeActionsProcessorStep

from remote_inference.base.policy import Float32Array, PastStep, Policy, PolicyObservation, Processors
from support.device import DEVICE
from support.lerobot.tiny_policies import CAMERA, CHUNK, JOINTS, Built, give_weights

# Rows and columns of the noise that each kind takes.
NOISE = {"diffusion": (16, 3), "pi0": (CHUNK, 8), "pi05": (CHUNK, 8), "smolvla": (CHUNK, 8)}


class Direct:
    """A checkpoint as LeRobot's own scripts would run it."""

    def __init__(self, built: Built, execution_horizon: int = 10) -> None:
        config = PreTrainedConfig.from_pretrained(built.folder)
        overrides: dict[str, Any] = {}
        if folder := built.options.get("language_model"):
            overrides = {"tokenizer_processor": {"tokenizer_name": folder}}
            if built.kind == "smolvla":
                config.vlm_model_name = str(give_weights(Path(folder))) if config.load_vlm_weights else folder
        if hasattr(config, "rtc_config"):
            config.rtc_config = RTCConfig(execution_horizon=execution_horizon)
        self.config = config
        self.network = get_policy_class(config.type).from_pretrained(built.folder, config=config, strict=True)
        self._pre, self._post = make_pre_post_processors(
            config, pretrained_path=str(built.folder), preprocessor_overrides=overrides
        )

    def chunk(self, observation: PolicyObservation, **arguments: Any) -> Float32Array:
        """Return the robot-space chunk `[rows, columns]` for an observation of the training's size."""
        ticks = [_prepare(tick, observation.task) for tick in (*observation.past, observation)]
        batch = ticks[-1]
        if self.config.type == "diffusion":
            for key in ("observation.state", CAMERA):
                batch[key] = torch.stack([tick[key] for tick in ticks], dim=1)
        return self._predict(self._preprocess(batch), observation.seed, **arguments)

    def roll_out(self, frames: Sequence[PolicyObservation]) -> Float32Array:
        """Return the robot-space actions `[frames, columns]` of an episode, as LeRobot's own loop does.

        The noise of a chunk is that of its first frame's seed.
        """
        self.network.reset()
        actions = []
        for frame in frames:
            batch = self._preprocess(_prepare(frame, frame.task))
            action = self.network.select_action(batch, noise=noise(frame.seed, NOISE[self.config.type]))
            actions.append(self._post(action)[0].cpu().numpy())
        return np.stack(actions)

    def answer(self, asked: PolicyObservation) -> Float32Array:
        """Return the robot-space chunk for a request, with its prefix and the noise of its seed."""
        if self.config.type == "diffusion":
            rows = self.config.n_action_steps  # after so many actions LeRobot looks at its frames again
            (before,) = asked.past or (asked,)
            earlier = replace(asked, state=before.state, images=before.images)
            return self.roll_out([earlier] * rows + [asked] * rows)[rows:]
        batch = self._preprocess(_prepare(asked, asked.task))
        arguments: dict[str, Any] = {}
        if self.config.type in NOISE:
            arguments["noise"] = noise(asked.seed, NOISE[self.config.type])
        if asked.prefix_model is not None and hasattr(self.config, "rtc_config"):
            arguments["prev_chunk_left_over"] = self._read_prefix(asked)
            arguments["inference_delay"] = asked.executed_steps
        return self._predict(batch, asked.seed, **arguments)

    def _preprocess(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in self._pre(batch).items() if value is not None}

    @torch.no_grad()
    def _predict(self, batch: dict[str, Any], seed: int, **arguments: Any) -> Float32Array:
        torch.manual_seed(seed)  # for a policy that takes no noise
        chunk = self.network.predict_action_chunk(batch, **arguments)
        return self._post(chunk.float())[0].cpu().numpy()  # LeRobot would round in its processor, too

    def _read_prefix(self, asked: PolicyObservation) -> torch.Tensor:
        """Return the prefix in model space. Relative actions refer to the state preprocessed last."""
        steps = {type(step): step for step in self._pre.steps}
        relative = steps.get(RelativeActionsProcessorStep)
        if relative is None or not relative.enabled:
            return torch.from_numpy(np.array(asked.prefix_model)).to(DEVICE)
        return reanchor_relative_rtc_prefix(
            torch.from_numpy(np.array(asked.prefix_robot)).to(DEVICE),
            relative.get_cached_state(),
            relative,
            steps[NormalizerProcessorStep],
            DEVICE,
        )


def _prepare(tick: PastStep | PolicyObservation, task: str) -> dict[str, Any]:
    arrays = {"observation.state": np.array(tick.state), CAMERA: np.array(tick.images[CAMERA])}
    return {**prepare_observation_for_inference(arrays, torch.device(DEVICE), task), "task": [task]}


def noise(seed: int, shape: tuple[int, int]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))[None].to(DEVICE)


def observe(
    seed: int, size: tuple[int, int] = (48, 64), task: str = "pick up", **changes: Any
) -> PolicyObservation:
    """Return an observation that no other seed has."""
    random = np.random.default_rng(seed)
    return PolicyObservation(
        state=random.normal(size=len(JOINTS)).astype(np.float32),
        images={CAMERA: random.integers(0, 255, (*size, 3), np.uint8)},
        task=task,
        seed=seed,
        **changes,
    )


def ask(policy: Policy, processors: Processors, observation: PolicyObservation) -> Float32Array:
    """Return the robot-space chunk for one observation, served alone."""
    (chunk,) = policy.predict([processors.pre(observation)])
    return processors.post(chunk)
