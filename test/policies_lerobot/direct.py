# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot without the package: the answers that the back end's are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.rtc import RTCConfig
from lerobot.policies.utils import prepare_observation_for_inference
from tiny_policies import CAMERA, JOINTS, Built

from remote_inference.core.policy import Float32Array, Policy, PolicyObservation, Processors


class Direct:
    """A checkpoint as LeRobot's own scripts would run it."""

    def __init__(self, built: Built) -> None:
        config = PreTrainedConfig.from_pretrained(built.folder)
        overrides: dict[str, Any] = {}
        if folder := built.options.get("language_model"):
            overrides = {"tokenizer_processor": {"tokenizer_name": folder}}
            if built.kind == "smolvla":
                config.vlm_model_name, config.load_vlm_weights = folder, False
        if hasattr(config, "rtc_config"):
            config.rtc_config = RTCConfig()
        self.config = config
        self.network = get_policy_class(config.type).from_pretrained(built.folder, config=config, strict=True)
        self._pre, self._post = make_pre_post_processors(
            config, pretrained_path=str(built.folder), preprocessor_overrides=overrides
        )

    def chunk(self, observation: PolicyObservation, **arguments: Any) -> Float32Array:
        """Return the robot-space chunk `[rows, columns]` for an observation of the training's size."""
        ticks = []
        for tick in (*observation.past, observation):
            arrays = {"observation.state": np.array(tick.state), CAMERA: np.array(tick.images[CAMERA])}
            ticks.append(prepare_observation_for_inference(arrays, torch.device("cpu"), observation.task))
        batch = ticks[-1]
        if self.config.type == "diffusion":
            for key in ("observation.state", CAMERA):
                batch[key] = torch.stack([tick[key] for tick in ticks], dim=1)
        batch["task"] = [observation.task]
        torch.manual_seed(observation.seed)  # for a policy that takes no noise
        with torch.no_grad():
            rows = self.network.predict_action_chunk(
                {key: value for key, value in self._pre(batch).items() if value is not None}, **arguments
            )
        return self._post(rows)[0].numpy()


def noise(seed: int, shape: tuple[int, int]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))[None]


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
