# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Collects data, trains the belt arm's two policies, measures them and writes weights with model cards.

Run: python -m remote_inference.environments.belt_arm.train_demo [--episodes 500] [--steps 2000] [--out DIR]
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from remote_inference.environments.belt_arm.collect import (
    CHUNK_SIZE,
    FIRST_TRAINING_SEED,
    POLICY_IMAGE_HEIGHT,
    POLICY_IMAGE_WIDTH,
    Dataset,
    collect,
)
from remote_inference.environments.belt_arm.model_card import (
    measure,
    model_card,
)
from remote_inference.environments.belt_arm.scene import CONTROL_HZ, IMAGE_FEATURES, JOINT_NAMES
from remote_inference.environments.belt_arm.train import TrainingConfig, train, train_flow
from remote_inference.policies.chunk_config import ChunkPolicyConfig, FlowConfig, RegressionConfig
from remote_inference.policies.chunk_network import ObservationNetwork
from remote_inference.policies.torch_chunk import TorchChunkPolicy, save_policy

FLOW_STEPS = 5000
FLOW_BATCH_SIZE = 256


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="train_demo", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument(
        "--episodes", type=int, default=500, help="expert episodes to learn from (default 500)"
    )
    parser.add_argument("--steps", type=int, default=TrainingConfig.steps, help="steps of the regression")
    parser.add_argument("--seed", type=int, default=TrainingConfig.seed, help="seed of both trainings")
    parser.add_argument("--out", type=Path, default=Path("runs/models"), help="folder of the two policies")
    options = parser.parse_args(arguments)
    command = (
        f"python -m remote_inference.environments.belt_arm.train_demo --episodes {options.episodes} "
        f"--steps {options.steps} --seed {options.seed}"
    )

    started_s = time.monotonic()
    dataset = collect(options.episodes, _log)
    collected_s = time.monotonic()
    facts = collection_facts(dataset, collected_s - started_s)
    training = TrainingConfig(steps=options.steps, seed=options.seed)
    config = RegressionConfig(**_identity("belt_arm", options.episodes, training))
    network = train(dataset, config, training, _log)
    trained_s = time.monotonic()
    facts |= training_facts(network, training, trained_s - collected_s)
    folder = options.out / config.name
    write(folder, config, network, command=command, facts=facts)

    begun_s = time.monotonic()
    flow_training = TrainingConfig(steps=FLOW_STEPS, batch_size=FLOW_BATCH_SIZE, seed=options.seed)
    flow_config = FlowConfig(**_identity("belt_arm_flow", options.episodes, flow_training))
    flow_network = train_flow(dataset, flow_config, network, flow_training, _log)
    facts |= training_facts(flow_network, flow_training, time.monotonic() - begun_s)
    facts |= flow_facts(flow_config)
    folder = options.out / flow_config.name
    write(folder, flow_config, flow_network, command=command, facts=facts)


def write(
    folder: Path,
    config: ChunkPolicyConfig,
    network: ObservationNetwork,
    *,
    command: str,
    facts: dict[str, str],
) -> None:
    """Measure a trained policy, and write it with its model card."""
    save_policy(folder, config, network)
    policy = TorchChunkPolicy(folder)
    results = measure(policy, _log)
    (folder / "README.md").write_text(model_card(policy, command, facts, results), encoding="utf-8")
    _log(f"wrote {folder}")


def collection_facts(dataset: Dataset, duration_s: float) -> dict[str, str]:
    return {
        "Episodes": f"{dataset.episodes}; the disturbed expert lifted the cube in {dataset.successes}",
        "Frames": f"{len(dataset.states)}",
        "Episode seeds": f"{FIRST_TRAINING_SEED} to {FIRST_TRAINING_SEED + dataset.episodes - 1}",
        "Collection time": f"{duration_s:.0f} s",
    }


def training_facts(network: nn.Module, training: TrainingConfig, duration_s: float) -> dict[str, str]:
    return {
        "Training": f"{training.steps} steps of {training.batch_size} frames, seed {training.seed}, AdamW",
        "Network": f"{sum(weights.numel() for weights in network.parameters())} parameters, "
        f"chunk of {CHUNK_SIZE} actions at {CONTROL_HZ:g} Hz",
        "Training time": f"{duration_s:.0f} s on one CPU thread",
        "Made with": f"torch {torch.__version__}, {platform.machine()}, MUJOCO_GL={os.environ['MUJOCO_GL']}",
    }


def flow_facts(config: FlowConfig) -> dict[str, str]:
    return {
        "Encoders": "those of `belt_arm`, not trained further",
        "Flow": f"{config.denoising_steps} Euler steps, from noise that depends on the observation alone",
        "Guidance": f"execution horizon {config.execution_horizon} rows, "
        f"weight at most {config.max_guidance_weight:g}",
    }


def _identity(name: str, episodes: int, training: TrainingConfig) -> dict[str, Any]:
    """Return the keys of `policy.json` besides the architecture."""
    return {
        "name": name,
        "revision": f"{episodes}-episodes-{training.steps}-steps-seed-{training.seed}",
        "state_names": JOINT_NAMES,
        "action_names": JOINT_NAMES,
        "image_features": dict.fromkeys(
            IMAGE_FEATURES.values(), (POLICY_IMAGE_HEIGHT, POLICY_IMAGE_WIDTH, 3)
        ),
        "chunk_size": CHUNK_SIZE,
        "trained_fps": CONTROL_HZ,
    }


def _log(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
