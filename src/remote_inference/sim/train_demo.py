# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Collects data, trains the belt arm's policy, measures it and writes weights with their model card.

Run: python -m remote_inference.sim.train_demo [--episodes 500] [--steps 2000] [--out DIR]
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from remote_inference.policies.chunk_config import ARCHITECTURE, ChunkPolicyConfig
from remote_inference.policies.torch_chunk import TorchChunkPolicy, save_policy
from remote_inference.sim.collect import (
    CHUNK_SIZE,
    FIRST_TRAINING_SEED,
    JPEG_QUALITY,
    POLICY_IMAGE_HEIGHT,
    POLICY_IMAGE_WIDTH,
    collect,
)
from remote_inference.sim.evaluate import EPISODE_LIMIT_S, REQUEST_EVERY_TICKS, Evaluation, Strategy, evaluate
from remote_inference.sim.scene import (
    BELT_SPEED_M_S,
    CONTROL_HZ,
    IMAGE_FEATURES,
    IMAGE_HEIGHT,
    IMAGE_WIDTH,
    JOINT_NAMES,
)
from remote_inference.sim.train import TrainingConfig, train

FIRST_EVALUATION_SEED = 0
EVALUATION_EPISODES = 100


@dataclass(frozen=True)
class Condition:
    """One row of the model card's success table."""

    latency_s: float
    strategy: Strategy
    cameras_black: bool = False


CONDITIONS = (
    Condition(0.0, Strategy.TRIM),
    Condition(0.0, Strategy.TRIM, cameras_black=True),
    Condition(0.3, Strategy.TRIM),
    Condition(0.3, Strategy.NO_TRIM),
    Condition(0.3, Strategy.BLOCKING),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="train_demo", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument(
        "--episodes", type=int, default=500, help="expert episodes to learn from (default 500)"
    )
    parser.add_argument("--steps", type=int, default=TrainingConfig.steps, help="optimiser steps")
    parser.add_argument("--seed", type=int, default=TrainingConfig.seed, help="seed of the training")
    parser.add_argument("--out", type=Path, default=Path("runs/belt_arm"), help="folder to write")
    options = parser.parse_args(arguments)
    training = TrainingConfig(steps=options.steps, seed=options.seed)

    started_s = time.monotonic()
    dataset = collect(options.episodes, _log)
    collected_s = time.monotonic()
    policy_config = ChunkPolicyConfig(
        architecture=ARCHITECTURE,
        name="belt_arm",
        revision=f"{options.episodes}-episodes-{training.steps}-steps-seed-{training.seed}",
        state_names=JOINT_NAMES,
        action_names=JOINT_NAMES,
        image_features=dict.fromkeys(IMAGE_FEATURES.values(), (POLICY_IMAGE_HEIGHT, POLICY_IMAGE_WIDTH, 3)),
        chunk_size=CHUNK_SIZE,
        trained_fps=CONTROL_HZ,
    )
    network = train(dataset, policy_config, training, _log)
    trained_s = time.monotonic()
    save_policy(options.out, policy_config, network)

    seeds = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + EVALUATION_EPISODES)
    policy = TorchChunkPolicy(options.out)
    results: list[tuple[Condition, Evaluation]] = []
    for condition in CONDITIONS:
        result = evaluate(
            policy,
            seeds,
            latency_s=condition.latency_s,
            strategy=condition.strategy,
            cameras_black=condition.cameras_black,
        )
        results.append((condition, result))
        _log(f"evaluate: {_describe(condition)}: {result.successes}/{result.episodes}")

    facts = {
        "Episodes": f"{dataset.episodes}; the disturbed expert lifted the cube in {dataset.successes}",
        "Frames": f"{len(dataset.states)}",
        "Episode seeds": f"{FIRST_TRAINING_SEED} to {FIRST_TRAINING_SEED + dataset.episodes - 1}",
        "Training": f"{training.steps} steps of {training.batch_size} frames, seed {training.seed}, AdamW",
        "Network": f"{sum(weights.numel() for weights in network.parameters())} parameters, "
        f"chunk of {CHUNK_SIZE} actions at {CONTROL_HZ:g} Hz",
        "Collection time": f"{collected_s - started_s:.0f} s",
        "Training time": f"{trained_s - collected_s:.0f} s on one CPU thread",
        "Made with": f"torch {torch.__version__}, {platform.machine()}, MUJOCO_GL={os.environ['MUJOCO_GL']}",
    }
    command = (
        f"python -m remote_inference.sim.train_demo --episodes {options.episodes} --steps {training.steps}"
    )
    card = model_card(policy.spec.fingerprint, f"{command} --seed {training.seed}", facts, results)
    (options.out / "README.md").write_text(card, encoding="utf-8")
    _log(f"wrote {options.out}")


def model_card(
    fingerprint: str, command: str, facts: dict[str, str], results: Sequence[tuple[Condition, Evaluation]]
) -> str:
    """Return the text of the model card."""
    fact_rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    result_rows = "\n".join(
        f"| {_describe(condition)} | {result.successes} of {result.episodes} "
        f"| {_seconds(result.mean_time_s)} |"
        for condition, result in results
    )
    last_seed = FIRST_EVALUATION_SEED + EVALUATION_EPISODES - 1
    return f"""# belt_arm

Picks the red cube off a belt moving at {100 * BELT_SPEED_M_S:g} cm/s in the package's simulator, from two
cameras and the joint positions. Written by `train_demo` from what it measured. Apache-2.0, like the package.

    {command}

Fingerprint: `{fingerprint}`

| | |
|---|---|
{fact_rows}

Images are rendered at {IMAGE_WIDTH}x{IMAGE_HEIGHT}, compressed as JPEG (quality {JPEG_QUALITY}) and averaged
down to {POLICY_IMAGE_WIDTH}x{POLICY_IMAGE_HEIGHT}; serving takes the same path. In four episodes of five the
executed commands were disturbed while the labels stayed the expert's.

## Success

Lifted within {EPISODE_LIMIT_S:g} s at a simulated latency, seeds {FIRST_EVALUATION_SEED} to {last_seed},
none of them in the training data. A request is made every {REQUEST_EVERY_TICKS} control ticks.

| condition | lifted | mean time |
|---|---|---|
{result_rows}

## Limits

Trained for this scene, this belt speed and these camera poses. It has never seen a real robot.
"""


def _describe(condition: Condition) -> str:
    text = f"{1000 * condition.latency_s:.0f} ms, {condition.strategy.value}"
    return f"{text}, both cameras black" if condition.cameras_black else text


def _seconds(mean_time_s: float) -> str:
    return "-" if math.isnan(mean_time_s) else f"{mean_time_s:.2f} s"


def _log(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
