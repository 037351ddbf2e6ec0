# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One environment for HUD's agents: claims, frames, single actions or chunks, a score."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.documents.problems import finite, show_value
from remote_inference.base.policy import Float32Array
from remote_inference.learn.environment import (
    EnvError,
    Environment,
    FeatureKind,
    Step,
    action_that_holds,
    check_action,
    plain_metrics,
)
from remote_inference.learn.hud.contract import ACTION, ACTION_KEY, OBSERVATION, describe_vector
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.queue.plan import ChunkSource

Frame = Mapping[str, Any]

SHOWN = (FeatureKind.STATE, FeatureKind.RGB)  # what HUD's contract knows


@dataclass
class _Episode:
    token: str
    prompt: str
    newest: Frame  # the observation shown last, without meta
    hold: NDArray[np.float64]  # action that keeps the robot where it is
    total_reward: float = 0.0
    queue: ActionQueue = field(default_factory=ActionQueue)
    delay_ticks: int = 0  # of the newest chunk
    executed_at: list[int] = field(default_factory=lambda: [0])  # actions before each observation was shown

    @property
    def ticks(self) -> int:
        """Of the clock in real time: observation k is shown before tick k."""
        return len(self.executed_at) - 1


class HudEnvironment:
    """The only slot of a HUD bridge: free, or claimed for one episode. For one thread.

    In real time, chunks wait in the robot's own queue: a chunk's action k is for the k-th tick after its
    observation, so the actions of the ticks since then are skipped.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._wanted = [name for name, feature in environment.spec.features.items() if feature.kind in SHOWN]
        self._episode: _Episode | None = None

    @property
    def contract(self) -> dict[str, Any]:
        """HUD's description of the environment: control rate, and features by role."""
        spec = self._environment.spec
        features: dict[str, Any] = {}
        for name in self._wanted:
            feature = spec.features[name]
            if feature.kind is FeatureKind.RGB:
                image = {"type": "rgb", "dtype": "uint8", "shape": list(feature.shape)}
                features[name] = {"role": OBSERVATION, **image}
            else:
                features[name] = describe_vector(OBSERVATION, spec.state_names)
        features[ACTION_KEY] = describe_vector(ACTION, spec.actions.names)
        return {"robot_type": spec.name, "control_rate": spec.control_rate_hz, "features": features}

    # -- episodes ------------------------------------------------------------------------------------------

    def claim(self, task: str = "", seed: int = 0) -> dict[str, str]:
        """Begin an episode; return its prompt and the token by which an agent binds to it.

        task: empty for the environment's first. Raises EnvError while the slot is claimed: HUD's endpoint
        waits and asks again when the message has the words `slots are claimed`.
        """
        if self._episode is not None:
            raise EnvError("all 1 slots are claimed")
        spec = self._environment.spec
        prompt, state = task or spec.tasks[0], spec.feature_of(FeatureKind.STATE)
        shown = self._environment.reset(seed, prompt, self._wanted)
        frame = {**shown.values, "terminated": False}
        token = f"slot-0-{secrets.token_hex(4)}"
        self._episode = _Episode(token, prompt, frame, action_that_holds(spec, shown.values[state]))
        return {"prompt": prompt, "token": token}

    def bind(self, token: str | None) -> Frame:
        """Return the first frame for an agent that names an episode; None names the only one."""
        episode = self._require()
        if token is not None and token != episode.token:
            raise EnvError(f"unknown episode token: {token!r}")
        return episode.newest

    def release(self, token: str | None) -> dict[str, Any]:
        """End an episode and free the slot; return its score."""
        self.bind(token)
        episode, self._episode = self._require(), None
        metrics = plain_metrics(self._environment.metrics())
        return {
            "score": float(metrics.success),
            "success": metrics.success,
            "total_reward": float(episode.total_reward),
            "metrics": finite(metrics.values),
        }

    def close(self) -> None:
        """Free what the environment holds."""
        self._environment.close()

    # -- stepped -------------------------------------------------------------------------------------------

    def act(self, action: Any) -> Frame:
        """Apply one action `[A]`, whatever time it took; return the next frame."""
        episode = self._require()
        if episode.newest["terminated"]:
            raise EnvError("the episode has ended; ask for its result")
        return self._note(episode, self._environment.step(check_action(self._environment.spec, action)))

    # -- in real time --------------------------------------------------------------------------------------

    def queue_chunk(self, actions: Any, obs_index: int | None) -> None:
        """Replace the queued actions by a chunk `[H, A]`.

        obs_index: number of the observation that it is for; None: the newest. Raises EnvError for a chunk of
        another shape, with values not finite, or for an observation that was not shown.
        """
        episode = self._require()
        chunk = self._check_chunk(actions)
        index = episode.ticks if obs_index is None else obs_index
        if not 0 <= index <= episode.ticks:
            raise EnvError(f"obs_index: found {index}, expected 0 to {episode.ticks}, which were shown")
        episode.delay_ticks = episode.ticks - index
        source = ChunkSource(index, episode.token, index, 0, "", episode.prompt)
        episode.queue.merge(
            source,
            chunk,
            chunk,
            MergeMode.REPLACE,
            latency_steps=episode.delay_ticks,
            executed_before=episode.executed_at[index],
        )

    def tick(self) -> Frame:
        """Run one control period with the next queued action, or standing still; return the next frame."""
        episode = self._require()
        if episode.newest["terminated"]:
            return episode.newest
        queued = episode.queue.get()
        if queued is not None and self._environment.spec.actions.kind == "position":
            episode.hold = queued.robot.astype(np.float64)
        action = episode.hold if queued is None else queued.robot.astype(np.float64)
        frame = self._note(episode, self._environment.step(action))
        episode.executed_at.append(episode.queue.executed)
        return self.describe(frame)

    def describe(self, frame: Frame) -> Frame:
        """Return a frame with what an agent in real time must know: which it is, and what is queued."""
        episode = self._require()
        left = episode.queue.left_over_robot()
        actions = len(self._environment.spec.actions.names)
        meta = {
            "obs_index": episode.ticks,
            "queue_remaining": 0 if left is None else len(left),
            "delay": episode.delay_ticks,
            "unexecuted_chunk": np.zeros((0, actions), np.float32) if left is None else left,
        }
        return {**frame, "meta": meta}

    def _check_chunk(self, actions: Any) -> Float32Array:
        spec = self._environment.spec
        try:
            chunk = np.atleast_2d(np.asarray(actions, np.float32))
        except (TypeError, ValueError) as error:
            found = show_value(actions)
            raise EnvError(f"{spec.name}: actions: found {found}, expected an array of numbers") from error
        if chunk.ndim != 2 or chunk.shape[1] != len(spec.actions.names) or not len(chunk):
            expected = f"[rows, {len(spec.actions.names)}]"
            raise EnvError(f"{spec.name}: actions: found shape {list(chunk.shape)}, expected {expected}")
        if not np.isfinite(chunk).all():
            raise EnvError(f"{spec.name}: actions: found values that are not finite")
        return chunk

    def _note(self, episode: _Episode, step: Step) -> Frame:
        episode.total_reward += step.reward
        episode.newest = {**step.observation.values, "terminated": step.ended, "reward": step.reward}
        return episode.newest

    def _require(self) -> _Episode:
        if self._episode is None:
            raise EnvError("no episode is claimed; reset one on the control channel first")
        return self._episode
