# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot's means of chunks are those of LeRobot's own temporal ensembling."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lerobot.policies.act.modeling_act import ACTTemporalEnsembler

from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.queue.ensemble import Ensemble
from support.builders import make_source

CHUNK, JOINTS = 40, 3


@pytest.mark.parametrize("coeff", [0.01, 0.0, 0.3, -0.1])
def test_asked_in_every_tick_a_robot_executes_lerobot_s_means(coeff: float) -> None:
    rng, theirs = np.random.default_rng(0), ACTTemporalEnsembler(coeff, CHUNK)
    ours = ActionQueue(ensemble=Ensemble(coeff))
    for episode in range(2):
        theirs.reset()
        ours.clear()
        for tick in range(2 * CHUNK):
            rows = rng.uniform(-1.0, 1.0, (CHUNK, JOINTS)).astype(np.float32)
            source = make_source(tick, episode_id=episode)
            ours.merge(source, rows, rows, MergeMode.REPLACE, latency_steps=0, executed_before=ours.executed)
            found, action = ours.plan.head_point, ours.get()
            assert action is not None
            assert len(action.earlier) == min(tick, CHUNK - 1)
            (expected,) = theirs.update(torch.from_numpy(rows)[None].double()).numpy()
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6)
