# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Collects data, trains the belt arm's policies, measures them and writes weights with model cards.

PYTHONPATH=examples python -m belt_arm.train_demo --episodes 500 --steps 2000 --out DIR
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from belt_arm import collect, expert
from belt_arm.labelled_episode import (
    CHUNK_SIZE,
    DELAYS_PER_FRAME,
    MAX_DELAY_TICKS,
    POLICY_IMAGE_HEIGHT,
    POLICY_IMAGE_WIDTH,
    DelayedDataset,
    Label,
)
from belt_arm.learner import see
from belt_arm.model_card import measure, model_card
from belt_arm.train import (
    TrainingConfig,
    train,
    train_flow,
    train_prefix,
    train_prefix_flow,
)
from remote_inference.learn.environments.belt_arm.scene import CONTROL_HZ, IMAGE_FEATURES, JOINT_NAMES
from remote_inference.server.policies.networks.chunk_network import ChunkNetwork, ObservationNetwork
from remote_inference.server.policies.networks.torch_chunk import (
    ChunkPolicyConfig,
    FlowConfig,
    PrefixFlowConfig,
    PrefixRegressionConfig,
    RegressionConfig,
    TorchChunkPolicy,
    save_policy,
)

GUIDANCE_STEPS, LATENCY_STEPS = 5000, 6000  # of heads that are trained on finished encoders
BEGINNER_STEPS = 3000  # with more of them the arm is late, but not lost, at 600 ms
HEAD_BATCH_SIZE = 256
ROWS: Mapping[str, Any] = {
    "chunk_size": CHUNK_SIZE,
    "max_delay_steps": MAX_DELAY_TICKS,
}
ENCODERS = "those of `belt_arm_plain`, not trained further"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="train_demo", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument(
        "--episodes", type=int, default=500, help="expert episodes without latency (default 500)"
    )
    parser.add_argument(
        "--latency-episodes", type=int, default=300, help="expert episodes with latency (default 300)"
    )
    parser.add_argument("--steps", type=int, default=TrainingConfig.steps, help="steps of the regression")
    parser.add_argument("--seed", type=int, default=TrainingConfig.seed, help="seed of all trainings")
    parser.add_argument(
        "--encoders",
        type=Path,
        help="folder of a policy: train only the policies that get the delay, with its encoders",
    )
    parser.add_argument("--out", type=Path, default=Path("runs/models"), help="folder of the policies")
    options = parser.parse_args(arguments)
    trainer = Trainer(options.episodes, options.steps, options.seed, options.out)
    encoders: Path | None = options.encoders
    teacher = trainer.train_plain() if encoders is None else TorchChunkPolicy(encoders).network
    trainer.train_with_latency(teacher, options.latency_episodes)
    trainer.train_beginner(teacher, options.latency_episodes)


@dataclass(frozen=True)
class Trainer:
    """Trains policies from one seed and writes them into `out`."""

    episodes: int
    steps: int  # of the regression that trains the encoders
    seed: int
    out: Path

    def train_plain(self) -> ChunkNetwork:
        """Train `belt_arm_plain`, then `belt_arm_guidance`; return the network of the former."""
        started_s = time.monotonic()
        dataset = collect.collect(self.episodes, _log)
        facts = {
            "Episodes": f"{dataset.episodes}; the disturbed expert lifted the cube in {dataset.successes}",
            "Frames": f"{len(dataset.states)}",
            "Episode seeds": _seeds(collect.FIRST_TRAINING_SEED, dataset.episodes),
            "Collection time": _since(started_s),
        }
        config = RegressionConfig(
            **self._identity("belt_arm_plain", self.episodes, self.steps), chunk_size=collect.CHUNK_SIZE
        )
        begun_s = time.monotonic()
        training = TrainingConfig(steps=self.steps, seed=self.seed)
        network = train(dataset, config, training, _log)
        self._write(config, network, facts | training_facts(network, config, training, begun_s))

        flow_config = FlowConfig(
            **self._identity("belt_arm_guidance", self.episodes, GUIDANCE_STEPS),
            chunk_size=collect.CHUNK_SIZE,
        )
        begun_s = time.monotonic()
        training = TrainingConfig(steps=GUIDANCE_STEPS, batch_size=HEAD_BATCH_SIZE, seed=self.seed)
        flow = train_flow(dataset, flow_config, network, training, _log)
        facts |= training_facts(flow, flow_config, training, begun_s)
        facts |= {
            "Encoders": ENCODERS,
            "Flow": flow_text(flow_config.denoising_steps),
            "Guidance": f"execution horizon {flow_config.execution_horizon} actions, "
            f"weight at most {flow_config.max_guidance_weight:g}",
        }
        self._write(flow_config, flow, facts)
        return network

    def train_with_latency(self, teacher: ObservationNetwork, episodes: int) -> None:
        """Train `belt_arm` and `belt_arm_flow` with the encoders of `teacher`."""
        dataset, facts = self._collect_delayed(teacher, episodes, expert.plan_after)
        config = PrefixRegressionConfig(**self._identity("belt_arm", episodes, LATENCY_STEPS), **ROWS)
        self._train_prefix(dataset, config, LATENCY_STEPS, teacher, facts)

        flow_config = PrefixFlowConfig(**self._identity("belt_arm_flow", episodes, LATENCY_STEPS), **ROWS)
        training = TrainingConfig(steps=LATENCY_STEPS, batch_size=HEAD_BATCH_SIZE, seed=self.seed)
        begun_s = time.monotonic()
        flow = train_prefix_flow(dataset, flow_config, teacher, training, _log)
        facts |= training_facts(flow, flow_config, training, begun_s)
        facts |= {"Encoders": ENCODERS, "Flow": flow_text(flow_config.denoising_steps)}
        self._write(flow_config, flow, facts)

    def train_beginner(self, teacher: ObservationNetwork, episodes: int) -> None:
        """Train `belt_arm_beginner`: the network of `belt_arm`, with labels as if no time passed."""
        dataset, facts = self._collect_delayed(teacher, episodes, collect.plan_of_present)
        facts |= {"Labels": "the expert's plans for the present, as if answers took no time"}
        identity = self._identity("belt_arm_beginner", episodes, BEGINNER_STEPS)
        config = PrefixRegressionConfig(**identity, **ROWS)
        self._train_prefix(dataset, config, BEGINNER_STEPS, teacher, facts)

    def _collect_delayed(
        self, teacher: ObservationNetwork, episodes: int, label: Label
    ) -> tuple[DelayedDataset, dict[str, str]]:
        """Return what the encoders of `teacher` see of the rollouts, and facts for the model card."""
        started_s = time.monotonic()
        dataset = collect.collect_delayed(
            episodes, lambda images, states: see(teacher, images, states), _log, label=label
        )
        return dataset, {
            "Episodes": f"{dataset.episodes} at 0 to 1000 ms; "
            f"the disturbed expert lifted the cube in {dataset.successes}",
            "Frames": f"{len(dataset.states)}, each labelled for {DELAYS_PER_FRAME} delays "
            f"of 0 to {MAX_DELAY_TICKS} ticks",
            "Episode seeds": _seeds(collect.FIRST_DELAYED_SEED, dataset.episodes),
            "Collection time": _since(started_s),
        }

    def _train_prefix(
        self,
        dataset: DelayedDataset,
        config: PrefixRegressionConfig,
        steps: int,
        teacher: ObservationNetwork,
        facts: dict[str, str],
    ) -> None:
        training = TrainingConfig(steps=steps, batch_size=HEAD_BATCH_SIZE, seed=self.seed)
        begun_s = time.monotonic()
        network = train_prefix(dataset, config, teacher, training, _log)
        facts = facts | training_facts(network, config, training, begun_s) | {"Encoders": ENCODERS}
        self._write(config, network, facts)

    def _identity(self, name: str, episodes: int, steps: int) -> dict[str, Any]:
        """Return the keys of `policy.json` besides architecture and chunk size."""
        return {
            "name": name,
            "revision": f"{episodes}-episodes-{steps}-steps-seed-{self.seed}",
            "state_names": JOINT_NAMES,
            "action_names": JOINT_NAMES,
            "image_features": dict.fromkeys(
                IMAGE_FEATURES.values(), (POLICY_IMAGE_HEIGHT, POLICY_IMAGE_WIDTH, 3)
            ),
            "trained_fps": CONTROL_HZ,
            "units": {name: "m" if name == "gripper" else "rad" for name in JOINT_NAMES},
        }

    def _write(self, config: ChunkPolicyConfig, network: ObservationNetwork, facts: dict[str, str]) -> None:
        """Write a trained policy; measure it and write its model card."""
        folder = self.out / config.name
        save_policy(folder, config, network)
        policy = TorchChunkPolicy(folder)
        results = measure(policy, _log)
        (folder / "README.md").write_text(model_card(policy, facts, results), encoding="utf-8")
        _log(f"wrote {folder}")


def training_facts(
    network: nn.Module, config: ChunkPolicyConfig, training: TrainingConfig, begun_s: float
) -> dict[str, str]:
    return {
        "Training": f"{training.steps} steps of {training.batch_size} frames, seed {training.seed}, AdamW",
        "Network": f"{sum(weights.numel() for weights in network.parameters())} parameters, "
        f"chunk of {config.chunk_size} actions at {CONTROL_HZ:g} Hz",
        "Training time": f"{_since(begun_s)} on one CPU thread",
        "Made with": f"torch {torch.__version__}, {platform.machine()}, MUJOCO_GL={os.environ['MUJOCO_GL']}",
    }


def flow_text(denoising_steps: int) -> str:
    return f"{denoising_steps} Euler steps, from noise that depends on the observation alone"


def _seeds(first: int, episodes: int) -> str:
    return f"{first} to {first + episodes - 1}"


def _since(begun_s: float) -> str:
    return f"{time.monotonic() - begun_s:.0f} s"


def _log(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
