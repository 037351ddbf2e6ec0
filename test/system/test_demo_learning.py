# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo that learns: what its trainer sends and leaves, and what its results say of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import torch
from PIL import Image

from belt_arm.evaluate import SHIPPED_BEGINNER
from remote_inference.base.paths import share_path
from remote_inference.learn.weights.live import LiveWeights
from remote_inference.learn.weights.shared_memory import SharedMemoryListener
from remote_inference.robot.command import CommandSource
from remote_inference.server.policies.networks.torch_chunk import TorchChunkPolicy
from remote_inference.tools.demo.results import Motion, as_lines, draw_learning, success_by_time
from remote_inference.tools.demo.run import Attempt, DemoOptions, Episode
from remote_inference.tools.demo.trainer_log import LOG_FILE, POLICY_FOLDER, read_updates
from support.waiting import wait_until

DEADLINE_S = 180.0
OPTIONS = DemoOptions(0, 600.0, "trained", 0, "belt_arm_beginner")


def start_trainer(folder: Path, policy: Path = SHIPPED_BEGINNER) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "belt_arm.trainer", "--period-s", "0.5", "--policy", str(policy)]
    words += ["--socket", str(folder / "weights.socket"), "--out", str(folder)]
    places = [str(share_path("examples")), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=variables)


def test_a_trainer_sends_what_it_has_learned_and_leaves_the_policy_that_is_served(tmp_path: Path) -> None:
    served = TorchChunkPolicy(SHIPPED_BEGINNER)
    before = {name: tensor.clone() for name, tensor in served.weights().items()}
    listener = SharedMemoryListener(tmp_path / "weights.socket")
    weights = LiveWeights(served.weights(), [listener], lambda: "", lambda _: None)
    trainer = start_trainer(tmp_path)
    try:
        wait_until(lambda: weights.apply() >= 3, "two updates", DEADLINE_S)
        trainer.send_signal(signal.SIGINT)
        # It may be waiting for an update to be served.
        wait_until(
            lambda: weights.apply() and trainer.poll() is not None, "the end of the trainer", DEADLINE_S
        )
    finally:
        trainer.kill()
        said = trainer.communicate()[1]
        weights.close()
    assert (trainer.returncode, said) == (0, "")
    updates = read_updates(tmp_path)
    assert [update.version for update in updates] == list(range(2, weights.view.version + 1))
    assert updates[-1].frames > updates[0].frames > 0
    assert all(update.size_bytes > 0 for update in updates)
    left = TorchChunkPolicy(tmp_path / POLICY_FOLDER)
    assert left.spec.revision.endswith(f"-version-{updates[-1].version}")
    for name, tensor in left.weights().items():
        assert torch.equal(tensor, served.weights()[name])
        assert torch.equal(tensor, before[name]) != name.startswith("head.")


def test_a_trainer_without_a_server_ends_with_the_reason(tmp_path: Path) -> None:
    trainer = start_trainer(tmp_path)
    said = trainer.communicate(timeout=DEADLINE_S)[1]
    assert trainer.returncode == 1
    assert "weights.socket: nobody listens" in said
    assert "Traceback" not in said


def test_a_line_that_is_being_written_is_no_update_yet(tmp_path: Path) -> None:
    line = json.dumps(dict.fromkeys(("time_s", "version", "episodes", "frames", "steps", "loss"), 1))
    whole = line[:-1] + ', "size_bytes": 5, "apply_s": 0.1}'
    (tmp_path / LOG_FILE).write_text(f"{whole}\n{whole[:30]}")
    (update,) = read_updates(tmp_path)
    assert (update.version, update.size_bytes) == (1, 5)


def test_ticks_that_were_held_in_the_middle_of_an_episode_count_and_those_around_it_do_not() -> None:
    motion = Motion()
    for source, version in (
        (CommandSource.NONE, ""),
        (CommandSource.CHUNK, "a"),
        (CommandSource.REPEAT_LAST, ""),
        (CommandSource.NONE, ""),
        (CommandSource.CHUNK, "a@2"),
        (CommandSource.CHUNK, "a@2"),
        (CommandSource.NONE, ""),
    ):
        motion.add(source, version)
    assert (motion.versions, motion.chunk_ticks, motion.held) == (["a", "a@2"], 3, 2)


def make_attempt(begin_s: float, success: bool) -> Attempt:
    return Attempt(begin_s, begin_s + 3.0, Episode(1, 1, success, 2.0 if success else None, 3.0))


def test_success_is_counted_before_and_by_the_time_since_the_trainer_was_started(tmp_path: Path) -> None:
    attempts = [
        make_attempt(-9.0, False),
        make_attempt(-3.0, True),
        make_attempt(1.0, False),
        make_attempt(30.0, True),
        make_attempt(400.0, True),
    ]
    counted = success_by_time(attempts)
    assert counted == {"before": [1, 2], "0 to 30 s": [0, 1], "30 to 60 s": [1, 1], "from 300 s on": [1, 1]}
    summary = {
        "success": counted,
        "after": {"0 ms": [9, 10]},
        "updates": [],
        "chunk_ticks": 7,
        "held_ticks": 0,
    }
    assert ("picked, before", "1 of 2 (50%)") in as_lines(summary)
    assert ("afterwards, at 0 ms", "9 of 10 (90%)") in as_lines(summary)
    draw_learning(OPTIONS, attempts, 0.0, tmp_path)
    with Image.open(tmp_path / "learning.png") as image:
        assert len(set(image.convert("L").resize((64, 64)).tobytes())) > 10
    assert [path.name for path in tmp_path.iterdir()] == ["learning.png"], "nothing half-written stays"
