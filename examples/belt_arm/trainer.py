# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The trainer of the demo that learns: a process beside the robot, which sends its weights to the server.

python -m belt_arm.trainer --policy DIR --socket PATH --out DIR [--period-s 10] [--seed 0]

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
from dataclasses import asdict
from pathlib import Path
from typing import Any

from belt_arm.learner import Learner
from remote_inference.base.errors import UserError
from remote_inference.base.stop_signals import StopFlag, common_signals, handle
from remote_inference.learn.weights import SenderConfig, WeightSender
from remote_inference.learn.weights.shared_memory import connect
from remote_inference.server.policies.networks.rtc_network import PrefixChunkNetwork
from remote_inference.server.policies.networks.torch_chunk import TorchChunkPolicy, save_policy
from remote_inference.tools.demo.trainer_log import LOG_FILE, POLICY_FOLDER, Update

PERIOD_S = 10.0
SERVER = "policy_server"

_NICENESS = 5  # the robot's control loop comes first
_FIRST_EPISODES = 4  # before the first step
_STEPS_PER_EPISODE = 25  # about as long as an episode takes
_ANSWER_S = 30.0


class Trainer:
    """Learns, and sends what it has learned every so often."""

    def __init__(self, network: PrefixChunkNetwork, socket: Path, folder: Path, seed: int) -> None:
        """Connect to the server. Raises WeightsError when it does not answer, or serves another network."""
        self._sender = WeightSender(network.state_dict, SenderConfig(answer_s=_ANSWER_S))
        self._sender.init_sender({SERVER: lambda: connect(socket, _ANSWER_S)})
        self._learner = Learner(network, seed)
        self._log = folder / LOG_FILE
        self._sent_bytes = 0

    def learn(self, until_s: float, stop: StopFlag) -> float:
        """Gather and improve in turn until an instant of the monotonic clock; return the mean loss."""
        learner, losses = self._learner, []
        learner.gather(1 if learner.episodes else _FIRST_EPISODES)
        while not stop.is_set():
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
    stop = StopFlag()
    handle(common_signals(), stop.set)
    os.nice(_NICENESS)
    try:
        _learn(options, stop)
    except UserError as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 1
    return 0


def _learn(options: argparse.Namespace, stop: StopFlag) -> None:
    policy = TorchChunkPolicy(options.policy)
    network = policy.network
    if not isinstance(network, PrefixChunkNetwork):
        raise UserError(
            f"{options.policy}: found {policy.config.architecture}, expected prefix_chunk_network"
        )
    with closing(Trainer(network, options.socket, options.out, options.seed)) as trainer:
        served: Mapping[str, Any] = {}
        version = 0
        while not stop.is_set():
            loss = trainer.learn(time.monotonic() + options.period_s, stop)
            if stop.is_set():
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
