# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The trainer of the demo that learns: a process beside the robot, which sends its weights to the server.

python -m remote_inference.demo.trainer --policy DIR --socket PATH --out DIR [--period-s 10] [--seed 0]

Ends on a signal, and then writes the policy that the server has last been sent.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from remote_inference.environments.belt_arm.learner import Learner
from remote_inference.errors import UserError
from remote_inference.policies.networks.prefix_network import PrefixChunkNetwork
from remote_inference.policies.networks.torch_chunk import TorchChunkPolicy, save_policy
from remote_inference.stop_signals import StopRequest, common_signals, handle
from remote_inference.weights import SenderConfig, WeightSender
from remote_inference.weights.transports.shared_memory import connect

LOG_FILE, POLICY_FOLDER = "trainer.jsonl", "policy"
PERIOD_S = 10.0
SERVER = "policy_server"

_NICENESS = 5  # the robot's control loop comes first
_FIRST_EPISODES = 4  # before the first step
_STEPS_PER_EPISODE = 25  # about as long as an episode takes
_ANSWER_S = 30.0


@dataclass(frozen=True)
class Update:
    """One line of `trainer.jsonl`: what the server serves since `time_s` [s, Unix], and what it has cost.

    loss: mean over the steps since the update before (L1 of normalised joint targets). size_bytes: sent for
    this update. apply_s: that no inference could run meanwhile.
    """

    time_s: float
    version: int
    episodes: int
    frames: int
    steps: int
    loss: float
    size_bytes: int
    apply_s: float


def read_updates(folder: Path) -> list[Update]:
    """Return what a trainer has logged so far; a line that is being written does not count yet."""
    path = folder / LOG_FILE
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [Update(**json.loads(line)) for line in lines if line.endswith("\n")]


class Trainer:
    """Learns, and sends what it has learned every so often."""

    def __init__(self, network: PrefixChunkNetwork, socket: Path, folder: Path, seed: int) -> None:
        """Connect to the server. Raises WeightsError when it does not answer, or serves another network."""
        self._sender = WeightSender(network.state_dict, SenderConfig(answer_s=_ANSWER_S))
        self._sender.init_sender({SERVER: lambda: connect(socket, _ANSWER_S)})
        self._learner = Learner(network, seed)
        self._log = folder / LOG_FILE
        self._sent_bytes = 0

    def learn(self, until_s: float, stop: StopRequest) -> float:
        """Gather and improve in turn until an instant of the monotonic clock; return the mean loss."""
        learner, losses = self._learner, []
        learner.gather(1 if learner.episodes else _FIRST_EPISODES)
        while not stop.is_made():
            losses.append(learner.improve(_STEPS_PER_EPISODE))
            if time.monotonic() >= until_s:
                break
            learner.gather(1)
        return sum(losses) / max(len(losses), 1)

    def send(self, loss: float) -> Update:
        """Send the weights and wait until they are served; log it. Raises UserError when they are not."""
        version = self._sender.version + 1
        self._sender.sync(version)
        status = self._sender.wait(_ANSWER_S)[SERVER]
        if not status.is_current:
            raise UserError(f"version {version} is not served: {status.text}")
        learner = self._learner
        update = Update(
            time_s=time.time(),
            version=version,
            episodes=learner.episodes,
            frames=learner.frames,
            steps=learner.steps,
            loss=loss,
            size_bytes=status.size - self._sent_bytes,
            apply_s=status.apply_s,
        )
        self._sent_bytes = status.size
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(asdict(update)) + "\n")
        return update

    def close(self) -> None:
        self._sender.close()
        self._learner.close()


def main(words: Sequence[str] | None = None) -> int:
    """Learn until a signal; return the exit code."""
    parser = argparse.ArgumentParser(prog="trainer", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--policy", type=Path, required=True, help="folder of the policy that the server has")
    parser.add_argument("--socket", type=Path, required=True, help="of the server's manifest, weights.socket")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for trainer.jsonl and the last policy"
    )
    parser.add_argument("--period-s", type=float, default=PERIOD_S, help="between two updates")
    parser.add_argument("--seed", type=int, default=0, help="of rollouts and batches")
    options = parser.parse_args(words)
    stop = StopRequest()
    handle(common_signals(), stop.make)
    os.nice(_NICENESS)
    try:
        _learn(options, stop)
    except UserError as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 1
    return 0


def _learn(options: argparse.Namespace, stop: StopRequest) -> None:
    policy = TorchChunkPolicy(options.policy)
    network = policy.network
    if not isinstance(network, PrefixChunkNetwork):
        raise UserError(
            f"{options.policy}: found {policy.config.architecture}, expected prefix_chunk_network"
        )
    with closing(Trainer(network, options.socket, options.out, options.seed)) as trainer:
        served: Mapping[str, Any] = {}
        version = 0
        while not stop.is_made():
            loss = trainer.learn(time.monotonic() + options.period_s, stop)
            if stop.is_made():
                break
            update = trainer.send(loss)
            served = {name: tensor.clone() for name, tensor in network.state_dict().items()}
            version = update.version
            print(f"version {version}: {update}", flush=True)
    if served:
        network.load_state_dict(served)
        revision = f"{policy.config.revision}-version-{version}"
        save_policy(
            options.out / POLICY_FOLDER, policy.config.model_copy(update={"revision": revision}), network
        )


if __name__ == "__main__":
    sys.exit(main())
